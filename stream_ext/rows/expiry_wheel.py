"""An expiry wheel: it returns each row once, when its validity has ended.

The cost of a step depends on the rows that are added and those that expire, not on those that stay."""

from __future__ import annotations

import numpy as np

from hbase_store.arrays import Ids, frozen
from stream_ext.rows.kernels import expiry as kernels
from stream_ext.rows.row_index import buckets, room_for
from stream_ext.rows.zset import Untils, Weights, latest, spread

_LEAST_CAPACITY = 16
#: At most; a wheel of few rows has some for each of them.
_SECTORS = 4096
_SECTORS_PER_ROW = 4

#: Rows as a matrix with a line for each column, and how often each counts (empty: once).
Expired = tuple[Ids, Weights]


class ExpiryWheel:
    def __init__(self, width: int) -> None:
        self._width = width
        self._cells = np.empty((0, kernels.VALUES + width), np.int64)  # until rows come
        self._heads = np.empty(0, np.int32)
        self._clear(0, 0)

    def _clear(self, span: int, capacity: int) -> None:
        """Forgets all rows. The next ones end within `span`, and there is room for `capacity` of them at least."""
        if capacity > len(self._cells):
            self._cells = np.empty((buckets(max(_LEAST_CAPACITY, capacity)), self._cells.shape[1]), np.int64)
            self._heads = np.empty(min(_SECTORS, _SECTORS_PER_ROW * len(self._cells)), np.int32)
        self._heads.fill(kernels.END)
        self._shift = _shift_for(span, len(self._heads))
        self._free, self._used, self._count = -1, 0, 0
        self._before = 0  # the time up to which rows were handed back

    def __len__(self) -> int:
        return self._count

    def add(self, matrix: Ids, weights: Weights, untils: Untils, time: int) -> None:
        """Adds rows that are valid at `time`, after `due(time)`; rows that are valid for ever need not be added."""
        if not len(untils):
            return
        if not self._count:
            self._clear(latest(untils) - time, len(untils))
        elif self._count + len(untils) > len(self._cells):
            self._grow(untils, time)
        self._hang(matrix, weights, untils)
        self._before = time

    def _hang(self, matrix: Ids, weights: Weights, untils: Untils) -> None:
        rows = frozen(matrix), frozen(weights), frozen(spread(untils))
        self._free, self._used = kernels.wheel_add(*rows, self._cells, self._heads, self._shift, self._free, self._used)
        self._count += len(untils)

    def due(self, time: int) -> Expired:
        """The rows whose validity ended before `time`; they are not in the wheel any more."""
        if not self._count:
            return np.empty((self._width, 0), np.uint64), np.empty(0, np.int64)
        places = np.empty(self._count, np.int64)
        found, self._free = kernels.wheel_due(
            self._before, time, self._cells, self._heads, self._shift, self._free, places
        )
        self._count -= found
        self._before = time
        return self._rows_at(places[:found])

    def _rows_at(self, places: np.typing.NDArray[np.int64]) -> Expired:
        cells = self._cells[places]
        return np.ascontiguousarray(cells[:, kernels.VALUES :].T).view(np.uint64), cells[:, kernels.WEIGHT]

    def _grow(self, coming: Untils, time: int) -> None:
        """Doubles the room, and chooses sectors that suit the validity of the rows here and of those to be added."""
        places = np.empty(self._count, np.int64)
        kernels.wheel_all(self._cells, self._heads, places)
        matrix, weights = self._rows_at(places)
        untils = self._cells[places, kernels.UNTIL]
        last = max(int(untils.max(initial=time)), int(coming.max()))
        self._clear(last - time, room_for(self._count + len(coming), 2.0))
        self._hang(matrix, weights, untils)


def _shift_for(span: int, sectors: int) -> int:
    """The number of bits by which times are shortened, so that the span is half a turn of so many sectors at most."""
    return max(0, (max(span, 0) * 2 // sectors).bit_length()) if sectors else 0
