"""Project: some of the columns, in order; a variable that the pattern does not have is unbound. Linear."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.rows.zset import Deferred, Ids, ZSet


class Project:
    """`taken` says which column each variable is, where it is not the one of its own name."""

    def __init__(
        self, source: tuple[str, ...], variables: tuple[str, ...], taken: tuple[str, ...] | None = None
    ) -> None:
        self.variables = variables
        places = {v: place for place, v in enumerate(source)}
        self._from = [places.get(v) for v in taken or variables]
        self._same = self._from == list(range(len(source)))

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if self._same:
            return change
        unbound = np.zeros(change.count if None in self._from else 0, np.uint64)
        held = tuple(unbound if i is None else change.stored[i] for i in self._from)
        fresh = None if change.fresh is None else _places(change, change.fresh, held)
        return ZSet(held, change.count, change.weights, change.untils, fresh, change.untold)

    def sources(self) -> Iterator[int | None]:
        """For each column the one that it is of those that come."""
        return iter(self._from)


def _places(change: ZSet, told_by: frozenset[int], taken: tuple[Ids | Deferred, ...]) -> frozenset[int] | None:
    """Where these columns, or copies of them, have gone to; None if one of them is nowhere."""
    found = [next((to for to, held in enumerate(taken) if held is change.stored[i]), None) for i in told_by]
    places = frozenset(place for place in found if place is not None)
    return places if None not in found else None
