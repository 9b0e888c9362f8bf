"""Counting: the number of matches of a pattern for each solution, if the matches themselves are not needed.

    SELECT ?p (COUNT(?f) AS ?n) { ?p a :Person ; :knows ?f } GROUP BY ?p

A solution that has five matches is there five times, and a weight says so: no row is made for each."""

from __future__ import annotations

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern, Ids, O, P, S
from stream_ext.network.operators.joins.store_edges import StoreEdges
from stream_ext.rows.zset import Weights, ZSet


def can_count(pattern: IdPattern, bound: frozenset[str], unread: frozenset[str]) -> bool:
    """Whether the matches are the edges of a predicate, all of them or those of one end that is bound."""
    if P not in pattern.fixed or pattern.graph.one is None or len(pattern.variables) != len(pattern.binding):
        return False
    return all(name in bound or name in unread for name in pattern.variables)


class Counting:
    def __init__(self, left: tuple[str, ...], pattern: IdPattern) -> None:
        assert pattern.graph.one is not None
        self._predicate, self._graph = pattern.fixed[P], pattern.graph
        self._fixed = pattern.fixed
        self._at = {p: left.index(v) for p, v in pattern.binding.items() if v in left}

    def find(self, left: ZSet, moment: Moment) -> ZSet:
        times = self._times(left, moment)
        there = times > 0
        if not there.all():
            left, times = left.take(there), times[there]
        weights = times if left.weights is None else left.weights * times
        return ZSet(left.stored, left.count, weights, left.untils)

    def _times(self, left: ZSet, moment: Moment) -> Weights:
        edges = StoreEdges(moment.snapshot, self._graph, moment.control)
        for position, inverse in ((S, False), (O, True)):
            keys = self._keys(position, left, moment)
            if keys is not None:
                return edges.degrees(self._predicate, keys, inverse)
        is_twofold = len(edges.stored(self._predicate)) > 1
        count = len(edges.pairs(self._predicate)[0]) if is_twofold else edges.count(self._predicate)
        return np.full(left.count, count, np.int64)

    def _keys(self, position: int, left: ZSet, moment: Moment) -> Ids | None:
        if position in self._fixed:
            return np.full(left.count, self._fixed[position], np.uint64)
        if position in self._at:
            return moment.vocabulary.outward(left.column(self._at[position]))
        return None
