"""Queries of one pattern about one vertex: their answer is a few look-ups, without a step of any operator.

SELECT ?name { person:1 foaf:name ?name }        SELECT ?p ?o { person:1 ?p ?o }"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store import Snapshot
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.pattern import IdPattern, O, P, S
from stream_ext.network.operators.joins.store_edges import edges_around
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.operators.rowwise.sources import UnitRow
from stream_ext.network.wires import Stage
from stream_ext.rows.zset import Ids


def places_of_answer(
    stages: Sequence[Stage], last: int, cut: Cut, answer: ResultState, orders: Orders
) -> tuple[int, ...] | None:
    """The places of the answer's columns in those of the only pattern; None: there are more stages, or an order, or the
    pattern is another one."""
    operator = stages[last].operator
    if not isinstance(operator, StoreJoin) or not operator.is_only_its_pattern or not _is_local(operator.pattern):
        return None
    if any(not isinstance(stages[i].operator, UnitRow) for i in range(len(stages)) if i != last):
        return None
    if cut != Cut(cut.variables, cut.names) or not answer.is_unranked or orders.are_resumed:
        return None
    places = [operator.variables.index(name) for name in cut.names if name in operator.variables]
    return tuple(places) if len(places) == len(cut.names) else None


def _is_local(pattern: IdPattern) -> bool:
    """Whether it is about one vertex of the default graph: one end is given, and what is not is a variable of its
    own."""
    one_end = (S in pattern.fixed) + (O in pattern.fixed) == 1
    each_once = len(pattern.variables) == len(pattern.binding)
    return one_end and each_once and pattern.graph.one == 0 and not pattern.graph.held


def columns_of(stage: Stage, places: Sequence[int], snapshot: Snapshot) -> list[Ids]:
    """The columns of the answer at these places of those of the pattern."""
    assert isinstance(stage.operator, StoreJoin), "it is the only pattern"
    fixed = stage.operator.pattern.fixed
    inverse = O in fixed
    key = fixed[O if inverse else S]
    if P in fixed:
        found = [snapshot.values(fixed[P], key, inverse)]
    else:
        predicates, far = edges_around(snapshot, np.array([key], np.uint64), inverse)
        found = [far, predicates] if inverse else [predicates, far]
    return [found[place] for place in places]
