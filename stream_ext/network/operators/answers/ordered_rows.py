"""Ordered rows: an answer that is stored in order, so that emitting all of it again needs no sorting.

Each row has the time until which it is valid, and its weight. A step sorts the new rows, which are few, finds their
places by search, and writes all rows anew in one pass that leaves out those that have run out. For a bag without
retractions the arrays themselves are returned: they are never changed, because the next step makes new ones."""

from __future__ import annotations

import numpy as np

from hbase_store.arrays import Ids, frozen, lexicographic
from stream_ext.rows.kernels import order as kernels
from stream_ext.rows.zset import FOREVER, Columns, Untils, Weights, ZSet, sum_equal_rows

#: If some rows are retractions and there are more rows than this, equal rows are summed.
_SUM_LEAST = 1024
_ONCE: Weights = frozen(np.empty(0, np.int64))  # each row counts once


class OrderedRows:
    def __init__(self, width: int) -> None:
        self._width = width
        self._rows: Ids = frozen(np.empty((width, 0), np.uint64))
        self._untils: Untils = frozen(np.empty(0, np.int64))
        self._weights = _ONCE
        self._ones: Weights = _ONCE
        self._first_end = FOREVER  # no row runs out before
        self._retracted = False
        self._sum_at = _SUM_LEAST

    def __len__(self) -> int:
        return len(self._untils)

    def is_empty(self) -> bool:
        return not (int(self._weights.sum()) if len(self._weights) else len(self))

    def ended(self, time: int) -> ZSet:
        """The rows that are not valid any more at `time`, the time of the next step."""
        which = np.flatnonzero(self._untils < time) if self._first_end < time else np.empty(0, np.int64)
        weights = self._weights[which] if len(self._weights) else None
        return ZSet(tuple(line[which] for line in self._rows), len(which), weights, self._untils[which])

    def step(self, change: ZSet, time: int) -> None:
        if change.count or self._first_end < time:
            self._merge(change, time)
        if self._retracted and len(self) > self._sum_at:
            self._sum_equal()

    def _merge(self, change: ZSet, time: int) -> None:
        added, ends = self._matrix_of(change), frozen(change.until_array())
        counts = _ONCE if change.weights is None or bool((change.weights == 1).all()) else frozen(change.weights)
        order = frozen(lexicographic(tuple(added)) if self._width else np.arange(change.count))
        places = np.empty(change.count, np.int64)
        kernels.find_places(self._rows, len(self), added, order, places)
        alive, first = kernels.count_alive(self._untils, time)
        count = alive + change.count
        rows, untils = np.empty((self._width, count), np.uint64), np.empty(count, np.int64)
        weights = np.empty(count if len(counts) or len(self._weights) else 0, np.int64)
        kernels.merge_rows(
            self._rows, self._untils, self._weights, time, added, ends, counts, order, frozen(places),
            rows, untils, weights,
        )  # fmt: skip
        self._set(rows, untils, weights)
        self._first_end = min(first, int(ends.min())) if change.count else first
        self._retracted = self._retracted or (len(counts) > 0 and int(counts.min()) < 0)

    def _matrix_of(self, change: ZSet) -> Ids:
        matrix = np.empty((self._width, change.count), np.uint64)
        for place, line in enumerate(matrix):
            line[:] = change.column(place)
        return frozen(matrix)

    def _set(self, rows: Ids, untils: Untils, weights: Weights) -> None:
        self._rows, self._untils, self._weights = frozen(rows), frozen(untils), frozen(weights)

    def _sum_equal(self) -> None:
        """Adds the weights of equal rows, so that a retraction and its row vanish. Before, a retraction may expire
        earlier than its row."""
        keyed, weights = sum_equal_rows((*self._rows, self._untils.view(np.uint64)), self._weights)
        rows = np.stack(keyed[:-1]) if self._width else np.empty((0, len(weights)), np.uint64)
        self._set(rows, keyed[-1].view(np.int64), weights if bool((weights != 1).any()) else _ONCE)
        self._retracted = bool((weights < 0).any())
        self._sum_at = max(_SUM_LEAST, 2 * len(self))

    # ---- emission ----------------------------------------------------------------------------------------------

    def bag(self) -> tuple[Columns, Weights]:
        """The rows in order, with their weights; equal rows may occur several times."""
        if self._retracted:
            return self.summed()
        return tuple(self._rows), self._weights if len(self._weights) else self._each_once()

    def summed(self) -> tuple[Columns, Weights]:
        """Each row once, in order, with the sum of its weights."""
        weights = self._weights if len(self._weights) else self._each_once()
        rows, sums = np.empty_like(self._rows), np.empty(len(self), np.int64)
        count = kernels.sum_neighbours(self._rows, weights, rows, sums)
        return tuple(line[:count] for line in rows), sums[:count]

    def _each_once(self) -> Weights:
        if len(self._ones) < len(self):
            self._ones = frozen(np.ones(2 * len(self), np.int64))
        return self._ones[: len(self)]
