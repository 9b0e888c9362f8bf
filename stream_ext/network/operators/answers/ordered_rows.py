"""Ordered rows: an answer that is stored in order, so that emitting all of it again needs no sorting.

Each row has the time until which it is valid, and its weight. A step sorts the new rows, which are few, finds their
places by search, and writes all rows anew in one pass that leaves out those that have run out. For a bag without
retractions the arrays themselves are returned: they are never changed, because the next step makes new ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import frozen, lexicographic
from stream_ext.rows.kernels import order as kernels
from stream_ext.rows.zset import FOREVER, Columns, Weights, ZSet, once, packed, sum_equal_rows

#: If some rows are retractions and there are more rows than this, equal rows are summed.
_SUM_LEAST = 1024
#: So few rows are brought in order by the kernel that merges them.
_FEW = 48
_ONCE: Weights = frozen(np.empty(0, np.int64))  # each row counts once
_ALL_ONCE: Weights = np.empty(0, np.int64)  # as well, of those that come
_NO_ORDER: npt.NDArray[np.int64] = np.empty(0, np.int64)


class OrderedRows:
    def __init__(self, width: int) -> None:
        self._width = width
        self._set(np.empty((1 + width, 0), np.int64), _ONCE)
        self._first_end = FOREVER  # no row runs out before
        self._retracted = False
        self._sum_at = _SUM_LEAST

    def copy(self) -> OrderedRows:
        """Another one that goes on from here by itself; arrays are replaced and never changed."""
        other = OrderedRows.__new__(OrderedRows)  # it is made with most steps: `copy` takes five times as long
        other.__dict__.update(self.__dict__)
        return other

    def __len__(self) -> int:
        return len(self._untils)

    def is_empty(self) -> bool:
        return not (int(self._weights.sum()) if len(self._weights) else len(self))

    @property
    def first_end(self) -> int:
        """No row runs out before; FOREVER: none does."""
        return self._first_end

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
        added, is_few = packed(change.columns, change.untils, change.count), change.count <= _FEW
        counts = _ALL_ONCE if change.weights is None else np.array(change.weights)
        order = _NO_ORDER if is_few or not self._width else lexicographic(change.columns)
        room = len(self) + change.count
        lines = np.empty((1 + self._width) * room, np.int64)
        weights = np.empty(room if len(counts) or len(self._weights) else 0, np.int64)
        count, self._first_end, least = kernels.merge_rows(
            self._lines, self._weights, time, added, counts, order, lines, weights
        )
        lines, weights = lines[: (1 + self._width) * count], weights[:count]
        if 2 * count < room:  # the others have run out
            lines, weights = lines.copy(), weights.copy()
        self._set(lines.reshape(1 + self._width, count), weights)
        # Without weights each row counts once: what was retracted has run out, with all that it retracted.
        self._retracted = least < 0 or (self._retracted and len(self._weights) > 0)

    def _set(self, lines: npt.NDArray[np.int64], weights: Weights) -> None:
        """The first of the lines is that of their validities. From now on nobody changes them."""
        lines.flags.writeable = weights.flags.writeable = False
        self._lines, self._weights = lines, weights
        self._untils, self._rows = lines[0], lines[1:].view(np.uint64)
        self._columns: Columns | None = None  # its lines, once they are emitted

    def _sum_equal(self) -> None:
        """Adds the weights of equal rows, so that a retraction and its row vanish. Before, a retraction may expire
        earlier than its row."""
        keyed, weights = sum_equal_rows((*self._rows, self._untils.view(np.uint64)), self._weights)
        lines = packed(keyed[:-1], keyed[-1].view(np.int64), len(weights))
        self._set(lines, weights if bool((weights != 1).any()) else _ONCE)
        self._retracted = bool((weights < 0).any())
        self._sum_at = max(_SUM_LEAST, 2 * len(self))

    # ---- emission ----------------------------------------------------------------------------------------------

    def bag(self) -> tuple[Columns, Weights]:
        """The rows in order, with their weights; equal rows may occur several times."""
        if self._retracted:
            return self.summed()
        if self._columns is None:
            self._columns = tuple(self._rows)  # the same arrays, however often they are emitted
        return self._columns, self._weights if len(self._weights) else once(len(self))

    def summed(self) -> tuple[Columns, Weights]:
        """Each row once, in order, with the sum of its weights."""
        weights = self._weights if len(self._weights) else once(len(self))
        rows, sums = np.empty_like(self._rows), np.empty(len(self), np.int64)
        count = kernels.sum_neighbours(self._rows, weights, rows, sums)
        return tuple(line[:count] for line in rows), sums[:count]
