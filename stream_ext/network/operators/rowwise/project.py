"""Project: some of the columns, in order; a variable that the pattern does not have is unbound. Linear."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.rows.zset import Deferred, Ids, ZSet


class Project(Shareable):
    """`sources`: for each variable the column that it gets; None: the column of its own name."""

    is_stateless = is_monotone = rests_without_rows = True

    def __init__(
        self, source: tuple[str, ...], variables: tuple[str, ...], sources: tuple[str, ...] | None = None
    ) -> None:
        self.variables = variables
        places = {v: place for place, v in enumerate(source)}
        self._from = [places.get(v) for v in sources or variables]
        self._same = self._from == list(range(len(source)))

    @property
    def likeness(self) -> Likeness:
        return Project, self._same, *self._from

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if self._same:
            return change
        unbound = np.zeros(change.count if None in self._from else 0, np.uint64)
        columns = tuple(unbound if i is None else change.stored[i] for i in self._from)
        fresh = None if change.fresh is None else _places(change, change.fresh, columns)
        return ZSet(columns, change.count, change.weights, change.untils, fresh, change.omitted)

    def sources(self) -> Iterator[int | None]:
        """For each column the input column that it copies."""
        return iter(self._from)


def _places(change: ZSet, fresh: frozenset[int], columns: tuple[Ids | Deferred, ...]) -> frozenset[int] | None:
    """The places of these columns, or of copies of them, in the output; None: one of them is not there."""
    found = [next((to for to, column in enumerate(columns) if column is change.stored[i]), None) for i in fresh]
    places = frozenset(place for place in found if place is not None)
    return places if None not in found else None
