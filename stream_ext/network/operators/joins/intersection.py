"""Intersection: binds a variable of several triple patterns by the pattern with the fewest values for a solution.

    ?a :k ?b . ?b :k ?c . ?c :k ?a

With ?a and ?b known, ?c follows from either of the last two patterns, and the other one says which values stay. Taken
one after the other a hub of n edges in and n out makes n * n rows, most of which the third pattern takes away again.
Here each solution follows the pattern that leads it to fewer values. So no more rows are looked at than the edges
allow cycles: of m edges m ** 1.5 for triangles, however they are spread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern, O, P, S
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.joins.store_edges import StoreEdges
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.plan.logic import Names
from stream_ext.rows.zset import ZSet, concat

Degrees = npt.NDArray[np.int64]


def leads_to(pattern: IdPattern, bound: Names) -> str | None:
    """The one new variable that a pattern leads to from a variable that is bound."""
    if P not in pattern.fixed or pattern.graph.one != 0 or len(pattern.variables) != 2:
        return None
    new = [name for name in pattern.variables if name not in bound]
    return new[0] if len(new) == 1 else None


class Intersection(Shareable):
    """`patterns` all lead from certain variables of the left side to one that is new."""

    is_monotone = True

    def __init__(self, left: tuple[str, ...], patterns: tuple[IdPattern, ...]) -> None:
        self.patterns = patterns
        self._ends = [_bound_end(pattern, left) for pattern in patterns]
        # The pattern of each first, the others after it: these only ask whether the triple is there.
        self._chains = [
            _chain(left, (first, *(other for other in patterns if other is not first))) for first in patterns
        ]
        self.variables = self._chains[0][-1].variables

    @property
    def likeness(self) -> Likeness:
        return Intersection, *(join.likeness for join in self._chains[0])

    def shorten(self, by: int) -> None:
        for join in self._chains[0]:
            join.shorten(by)

    def step(self, moment: Moment, left: ZSet) -> ZSet:
        if not moment.last:  # what is remembered of one order is nothing to another
            return _through(self._chains[0], moment, left)
        degrees = np.stack([self._degrees(i, moment, left) for i in range(len(self.patterns))])
        best = degrees.argmin(axis=0)
        best[degrees.min(axis=0) == 0] = len(self.patterns)  # there is no partner
        parts = [_through(chain, moment, left.take(best == i)) for i, chain in enumerate(self._chains)]
        return concat(parts, len(self.variables))

    def _degrees(self, i: int, moment: Moment, left: ZSet) -> Degrees:
        position, place = self._ends[i]
        keys = moment.vocabulary.outward(left.column(place))
        edges = StoreEdges(moment.snapshot, self.patterns[i].graph, moment.control)
        return edges.degrees(self.patterns[i].fixed[P], keys, position == O)


def _bound_end(pattern: IdPattern, left: tuple[str, ...]) -> tuple[int, int]:
    """Its position in the pattern, and its place among the columns."""
    position = S if pattern.binding[S] in left else O
    return position, left.index(pattern.binding[position])


def _chain(left: tuple[str, ...], patterns: tuple[IdPattern, ...]) -> list[StoreJoin]:
    joins: list[StoreJoin] = []
    for pattern in patterns:
        joins.append(StoreJoin(joins[-1].variables if joins else left, pattern))
    return joins


def _through(chain: list[StoreJoin], moment: Moment, change: ZSet) -> ZSet:
    for join in chain:
        moment.control.check()
        change = join.step(moment, change)
    return change
