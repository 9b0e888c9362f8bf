"""Graph join: solutions extended by the existing graphs, for a GRAPH without a triple pattern of its own."""

from __future__ import annotations

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdGraph, Ids
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.store_edges import StoreEdges
from stream_ext.plan.logic import Names
from stream_ext.rows.zset import ZSet, concat


class GraphJoin:
    """Joined with a relation of one column (or none: is there such a graph?), whose changes are found by comparing."""

    def __init__(self, left: tuple[str, ...], graph: IdGraph, maybe: Names) -> None:
        self._graph = graph
        names = () if graph.each is None else (graph.each,)
        self._join = JoinOperator(left, names, maybe & set(names))
        self.variables = self._join.variables

    def step(self, moment: Moment, left: ZSet) -> ZSet:
        now = self._there(moment.vocabulary.inward(self._graphs(StoreEdges(moment.snapshot, self._graph))), 1)
        if moment.changes is not None:
            before = StoreEdges(moment.changes.before(), self._graph)
            now = concat([now, self._there(moment.vocabulary.inward(self._graphs(before)), -1)], now.width)
        return self._join.step(moment, left, now)

    def _graphs(self, edges: StoreEdges) -> Ids:
        if self._graph.each is not None:
            return edges.graphs()
        return np.ones(int(edges.exists()), np.uint64)

    def _there(self, graphs: Ids, weight: int) -> ZSet:
        columns = () if self._graph.each is None else (graphs,)
        return ZSet(columns, len(graphs), None if weight == 1 else np.full(len(graphs), weight, np.int64))
