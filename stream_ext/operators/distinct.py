"""Distinct: each row once, for as long as any of its copies is valid.

Copies have validities of their own. A row is shown with the longest; when that runs out and a longer one has come
meanwhile, it is shown anew, so no copy's expiry ever has to be searched for."""

from __future__ import annotations

import numpy as np

from stream_ext import kernels
from stream_ext.operators.moment import Moment
from stream_ext.operators.row_index import buckets
from stream_ext.zset import Ids, ZSet, empty

Longs = np.typing.NDArray[np.int64]

_LEAST_CAPACITY = 1024


class Distinct:
    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables
        self._allocate(_LEAST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self.rows = np.zeros((capacity, len(self.variables)), np.uint64)
        self._heads = np.full(buckets(capacity), kernels.END, np.int32)
        self._nexts = np.full(capacity, kernels.END, np.int32)
        self.first = np.full(capacity, kernels.END, np.int32)
        self.shown = np.full(capacity, kernels.NEVER, np.int64)
        self._marks = np.zeros(capacity, np.uint8)
        self.entry_until = np.zeros(capacity, np.int64)
        self.entry_weight = np.zeros(capacity, np.int64)
        self.entry_next = np.full(capacity, kernels.END, np.int32)
        self._used = 0
        self._entries = 0

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if moment.last and not self._used:
            return self._once(change, moment.time)
        return self.add_and_show(change, moment.time)

    def _once(self, change: ZSet, time: int) -> ZSet:
        """Nothing is kept: the same network is asked again, and by several threads."""
        if change.untils is None and (change.weights is None or bool((change.weights > 0).all())):
            return first_of_each(ZSet(change.held, change.count))
        return Distinct(self.variables).add_and_show(change, time)

    def add_and_show(self, change: ZSet, time: int) -> ZSet:
        if self._entries + len(change) > len(self.entry_until):
            self._clean(time, len(change))
        self._add(rows_of(change), change.weight_array(), change.until_array())
        return self._show(time)

    def _add(self, rows: Ids, weights: Longs, untils: Longs) -> None:
        if len(rows):
            self._used, self._entries = kernels.distinct_add(
                rows, weights, untils, self.rows, self._heads, self._nexts, self.first,
                self.entry_until, self.entry_weight, self.entry_next, self.shown,
                self._used, self._entries, self._marks,
            )  # fmt: skip

    def _show(self, time: int) -> ZSet:
        if not self._used:
            return empty(len(self.variables))
        slots, untils, signs = (np.empty(2 * self._used, np.int64) for _ in range(3))
        n = kernels.distinct_show(
            time, self._used, self.first, self.entry_until, self.entry_weight, self.entry_next, self.shown,
            self._marks, slots, untils, signs,
        )  # fmt: skip
        columns = tuple(self.rows[slots[:n], i] for i in range(len(self.variables)))
        return ZSet(columns, n, signs[:n].copy(), untils[:n].copy())

    def _clean(self, time: int, coming: int) -> None:
        """Forgets the copies that have run out or were retracted, and the rows that have none left."""
        owner = self._owners()
        entry = np.arange(self._entries)
        alive = (self.entry_until[entry] >= time) & (self.entry_weight[entry] != 0)
        held = self.rows[owner[alive]], self.entry_weight[entry[alive]], self.entry_until[entry[alive]]
        was_shown = self.shown[: self._used] >= time
        shown_rows, shown_until = self.rows[: self._used][was_shown], self.shown[: self._used][was_shown]
        self._allocate(max(_LEAST_CAPACITY, (len(held[0]) + coming + len(shown_rows)) * 3 // 2))
        # Shown rows come first (with weight 0), so that their slots are known and stay shown as they were.
        self._add(shown_rows, np.zeros(len(shown_rows), np.int64), shown_until)
        self.shown[: self._used] = shown_until
        self._add(*held)

    def _owners(self) -> np.typing.NDArray[np.int64]:
        """For each entry the slot in whose list it is."""
        owner = np.zeros(self._entries, np.int64)
        slot = np.arange(self._used)
        entry = self.first[: self._used]
        while len(slot):
            owner[entry] = slot
            entry = self.entry_next[entry]
            going = entry != kernels.END
            slot, entry = slot[going], entry[going]
        return owner


def rows_of(change: ZSet) -> Ids:
    """The columns side by side, a row a solution: what the kernels read that look at whole rows."""
    if not change.columns:
        return np.empty((change.count, 0), np.uint64)
    return np.stack(change.columns, axis=1)


def first_of_each(change: ZSet) -> ZSet:
    """Each row where it comes first."""
    if change.count < 2:
        return change
    if not change.columns:
        return change.take(np.zeros(1, np.int64))
    heads = np.full(buckets(2 * change.count), kernels.END, np.int32)
    chosen = np.empty(change.count, np.int64)
    used = kernels.distinct_first(rows_of(change), heads, np.empty(change.count, np.int32), chosen)
    return change if used == change.count else change.take(chosen[:used])
