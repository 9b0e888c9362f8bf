"""What a join remembers of one side: its rows, chained by the hash of their join columns.

Rows are only ever appended; a row whose validity has run out is skipped by probes and dropped in bulk when as many rows
have come as were alive at the last clean-up, so that memory follows the windows and the cost per row stays constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stream_ext import kernels
from stream_ext.zset import Columns, Ids, Weights, ZSet, consolidate

Slots = npt.NDArray[np.int64]

_LEAST_CAPACITY = 1024


def buckets(capacity: int) -> int:
    """The least power of two that is not below `capacity`."""
    return 1 << (capacity - 1).bit_length()


def key_of(columns: Sequence[Ids], count: int) -> Ids:
    """One number a row, equal where all columns are. Of several columns it is a hash: who finds it, compares them."""
    if len(columns) == 1:
        return np.ascontiguousarray(columns[0])
    key = np.zeros(count, np.uint64)
    for column in columns:
        kernels.mix(key, column)
    return key


class RowIndex:
    def __init__(self, width: int, key: Sequence[int], capacity: int = _LEAST_CAPACITY) -> None:
        self._key = tuple(key)
        self._width = width
        capacity = max(capacity, 1)
        self._allocate(capacity)
        self._clean_at = capacity
        self._weighted = False

    def _allocate(self, capacity: int) -> None:
        size = max(2, buckets(capacity))  # a shift by all 64 bits would mean nothing
        self.columns = tuple(np.zeros(capacity, np.uint64) for _ in range(self._width))
        self.weights = np.ones(capacity, np.int64)
        self.untils = np.zeros(capacity, np.int64)
        self._keys = np.zeros(capacity, np.uint64)
        self._nexts = np.full(capacity, kernels.END, np.int32)
        self._heads = np.full(size, kernels.END, np.int32)
        self._shift = np.uint64(64 - (size - 1).bit_length())
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def insert(self, change: ZSet, time: int) -> None:
        if not len(change):
            return
        if self._used + len(change) > self._clean_at:
            self._clean(time, len(change))
        self._append(change)

    def _append(self, change: ZSet) -> None:
        start, stop = self._used, self._used + len(change)
        for place, kept in enumerate(self.columns):
            kept[start:stop] = change.column(place)
        self._weighted = self._weighted or change.weights is not None
        self.weights[start:stop] = 1 if change.weights is None else change.weights
        self.untils[start:stop] = change.until_array()
        self._keys[start:stop] = key_of([change.column(i) for i in self._key], len(change))
        kernels.index_insert(self._keys, start, stop, self._heads, self._nexts, self._shift)
        self._used = stop

    def _clean(self, time: int, coming: int) -> None:
        """Keeps what is still valid at `time`; retractions meet what they retract here."""
        held = self.held(time)
        if held.weights is not None and (held.weights < 0).any():
            held = consolidate(held)
        room = max(_LEAST_CAPACITY, (len(held) + coming) * 3 // 2)
        self._allocate(room)
        self._clean_at = room
        if len(held):
            self._append(held)

    def held(self, time: int) -> ZSet:
        """All that is remembered and valid."""
        return self.at(np.flatnonzero(self.untils[: self._used] >= time))

    def at(self, slots: Slots) -> ZSet:
        return ZSet(
            tuple(column[slots] for column in self.columns),
            len(slots),
            self.weights[slots] if self._weighted else None,
            self.untils[slots],
        )

    def probe(self, columns: Columns, count: int, time: int) -> tuple[Slots, Slots]:
        """(i, slot) for each probe row i and each remembered row that agrees with it and is valid at `time`.

        `columns` are those of the probes that stand for the index's key, in its order."""
        if not count or not self._used:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        probes = key_of(columns, count)
        room = max(1024, 2 * count)
        while True:
            left, right = np.empty(room, np.int64), np.empty(room, np.int64)
            found = kernels.index_probe(
                probes, self._keys, self._heads, self._nexts, self._shift, self.untils, time, left, right
            )
            if found <= room:
                return self._agreeing(columns, left[:found], right[:found])
            room = found

    def _agreeing(self, columns: Columns, left: Slots, right: Slots) -> tuple[Slots, Slots]:
        """Without the pairs of which only the hash is equal."""
        if len(self._key) < 2:
            return left, right
        same = np.ones(len(left), np.bool_)
        for place, column in zip(self._key, columns, strict=True):
            same &= self.columns[place][right] == column[left]
        return (left, right) if same.all() else (left[same], right[same])


def paired_weights(left: ZSet, right: ZSet) -> Weights | None:
    """Of rows that were joined one by one."""
    if left.weights is None:
        return right.weights
    return left.weights if right.weights is None else left.weights * right.weights
