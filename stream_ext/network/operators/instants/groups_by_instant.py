"""Groups by instant: the groups of numbered evaluations, as far as arrivals change their rows.

    rows of ?room        r1 at 2 to 6, r1 at 4 and after
    COUNT, by ?room      at 2: + (r1, 1)    at 4: - (r1, 1) + (r1, 2)

Only the instants at which something arrives are told: what time alone changes, no evaluation emits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store.arrays import Ids
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.aggregates import Aggregated
from stream_ext.network.operators.groups.sum_results import ZERO_ID
from stream_ext.network.operators.instants.counts import Changed, CountsByInstant
from stream_ext.network.operators.instants.lives import HiddenColumns
from stream_ext.network.operators.scans.numbered_scan import CAME, evaluations_of
from stream_ext.rows.key_table import Signed
from stream_ext.rows.zset import ZSet

#: The hidden column of what groups tell: the instant.
INSTANT = f"{CAME}0"


def only_count(aggregates: Sequence[Aggregated]) -> bool:
    """Whether the values of groups are sums over rows."""
    return all(each.function == "COUNT" and not each.distinct for each in aggregates)


class CountedGroups:
    """Groups of which rows are counted; without aggregates: DISTINCT."""

    def __init__(
        self, inside: tuple[str, ...], keys: tuple[str, ...], aggregates: tuple[Aggregated, ...], always: bool
    ) -> None:
        """As those of `GroupOperator`. `always`: a group without rows counts 0."""
        self.variables = (*keys, *(aggregate.variable for aggregate in aggregates), INSTANT)
        self._hidden = HiddenColumns(inside)
        self._keys = [inside.index(key) if key in inside else None for key in keys]
        names = [aggregate.argument for aggregate in aggregates]
        counted = [name for name in dict.fromkeys(names) if name is not None]
        self._arguments = [inside.index(name) if name in inside else None for name in counted]
        self._lines = [0 if name is None else 1 + counted.index(name) for name in names]
        self._always = always
        self._counts = CountsByInstant(len(keys), 1 + len(counted))

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        evaluations = evaluations_of(moment)
        self._counts.clean()
        lives = self._hidden.lives(change, evaluations)
        rows, weights = lives.rows, lives.rows.weight_array()
        slots = self._counts.slots_of(tuple(column_or_none(rows, place) for place in self._keys), rows.count)
        bound = [weights * (column_or_none(rows, place) != 0) for place in self._arguments]
        changed = self._counts.changed(lives, slots, np.array([weights, *bound]), evaluations)
        return self._change(changed.take(is_arrival(changed.instants)))

    def _change(self, changed: Changed) -> ZSet:
        before, after = changed.before[self._lines], changed.after[self._lines]
        was = (changed.before[0] > 0) | self._always
        is_there = (changed.after[0] > 0) | self._always
        differs = (was != is_there) | (before != after).any(axis=0)
        return retracted_and_added(
            self._rows(changed, before, was & differs), self._rows(changed, after, is_there & differs)
        )  # fmt: skip

    def _rows(self, changed: Changed, counts: Signed, which: np.typing.NDArray[np.bool_]) -> tuple[Ids, ...]:
        values = (line[which].view(np.uint64) + np.uint64(ZERO_ID) for line in counts)
        return (*self._counts.keys(changed.slots[which]), *values, changed.instants[which].view(np.uint64))


def column_or_none(rows: ZSet, place: int | None) -> Ids:
    """A variable that the rows do not have is unbound in all of them."""
    return np.zeros(rows.count, np.uint64) if place is None else rows.column(place)


def is_arrival(instants: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.bool_]:
    found: np.typing.NDArray[np.bool_] = instants & 1 == 0
    return found


def retracted_and_added(removed: tuple[Ids, ...], added: tuple[Ids, ...]) -> ZSet:
    """Rows that go, and rows that come."""
    weights = np.repeat(np.array([-1, 1], np.int64), [len(removed[-1]), len(added[-1])])
    return ZSet(tuple(map(np.concatenate, zip(removed, added, strict=True))), len(weights), weights)
