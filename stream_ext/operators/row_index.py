"""What a join remembers of one side: its rows, chained by the hash of their join columns.

Rows are only ever appended; a row whose validity has run out is skipped by probes and dropped in bulk when as many rows
have come as were alive at the last clean-up, so that memory follows the windows and the cost per row stays constant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_ext import kernels
from stream_ext.zset import ZSet, consolidate

Slots = npt.NDArray[np.int64]

_LEAST_CAPACITY = 1024


def buckets(capacity: int) -> int:
    """The least power of two that is not below `capacity`."""
    return 1 << (capacity - 1).bit_length()


class RowIndex:
    def __init__(self, width: int, key: tuple[int, ...]) -> None:
        self._key = np.array(key, dtype=np.int64)
        self._allocate(width, _LEAST_CAPACITY)
        self._clean_at = _LEAST_CAPACITY

    def _allocate(self, width: int, capacity: int) -> None:
        self.rows = np.zeros((capacity, width), np.uint64)
        self.weights = np.zeros(capacity, np.int64)
        self.untils = np.zeros(capacity, np.int64)
        self._nexts = np.full(capacity, kernels.END, np.int32)
        self._heads = np.full(buckets(capacity), kernels.END, np.int32)
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
        self.rows[start:stop] = change.rows
        self.weights[start:stop] = change.weights
        self.untils[start:stop] = change.untils
        kernels.index_insert(self.rows, start, stop, self._key, self._heads, self._nexts)
        self._used = stop

    def _clean(self, time: int, coming: int) -> None:
        """Keeps what is still valid at `time`; retractions meet what they retract here."""
        held = ZSet(self.rows[: self._used], self.weights[: self._used], self.untils[: self._used])
        alive = held.take(held.untils >= time)
        if (alive.weights < 0).any():
            alive = consolidate(alive)
        room = max(_LEAST_CAPACITY, (len(alive) + coming) * 3 // 2)
        self._allocate(self.rows.shape[1], room)
        self._clean_at = room
        if len(alive):
            self._append(alive)

    def probe(self, probes: npt.NDArray[np.uint64], key: npt.NDArray[np.int64], time: int) -> tuple[Slots, Slots]:
        """(i, slot) for every probe row i and every remembered row that agrees with it and is valid at `time`."""
        if not len(probes) or not self._used:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        room = max(1024, 2 * len(probes))
        while True:
            left, right = np.empty(room, np.int64), np.empty(room, np.int64)
            found = kernels.index_probe(
                np.ascontiguousarray(probes),
                key,
                self.rows,
                self._key,
                self._heads,
                self._nexts,
                self.untils,
                time,
                left,
                right,
            )
            if found <= room:
                return left[:found], right[:found]
            room = found
