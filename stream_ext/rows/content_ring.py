"""Content ring: the distinct rows of a window. Each has the time until which it is shown, and that of its last copy.

New rows are written at one end. At the other end, the oldest rows are deleted once all their copies have expired. A row
of which copies keep coming stays in its place; if room is needed behind it, it moves to the new end. So the cost of a
step depends on the rows that come, and the ring is rebuilt only when it has too few cells, or far too many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, frozen
from stream_ext.rows.expiry_wheel import ExpiryWheel
from stream_ext.rows.kernels import content as kernels
from stream_ext.rows.row_index import buckets, room_for
from stream_ext.rows.zset import FOREVER, Untils, Weights, ZSet, ending_earlier

Numbers = npt.NDArray[np.int64]
#: Rows that are shown, a line for each column behind that of their validities; and whether some were shown just before.
Shown = tuple[Numbers, bool]

_ONCE: Weights = np.empty(0, np.int64)
_LEAST_CAPACITY = 16
#: Before more room is made, so many times what comes is looked through for cells to give up.
_SWEPT = 4
#: Less than this share of the ring in use is much less than there was.
_SPARSE = 16
_NUMBERS_MAX = 1 << 31


class ContentRing:
    def __init__(self, width: int) -> None:
        self._width = width
        self._allocate(_LEAST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self._cells = np.empty((capacity, kernels.VALUES + self._width), np.int64)
        self._heads = np.full(2 * capacity, kernels.END, np.int32)
        self._tail = self._number = 0
        self._again = ExpiryWheel(1)

    def __len__(self) -> int:
        """The number of rows in the ring; some may have expired."""
        return self._number - self._tail

    def add(self, rows: Numbers, highest: Ids, before: int, time: int) -> Shown:
        """Adds rows at `time`, after `back(time)`; `before` was the time of the step before. The first line of the
        `rows` is that of their validities. `highest`: the greatest value of each column, which is moved on."""
        lines, count = rows.shape
        out, again = np.empty(lines * count, np.int64), np.empty((2, count), np.int64)
        if self._is_sparse(count):
            self._make_room(count, before, time)
        while True:
            self._tail, self._number, shown, returned, later = kernels.content_add(
                rows, before, time, self._cells, self._heads, self._tail, self._number, highest, out, again
            )
            if shown >= 0:
                break
            self._make_room(count, before, time)
        if later:
            self._wait(again[0, :later], again[1, :later], time)
        cells = out[: lines * shown] if 2 * shown > count else out[: lines * shown].copy()  # without the room
        return cells.reshape(lines, shown), returned > 0

    @property
    def shows_again(self) -> bool:
        """Whether a row that is shown may have a later copy."""
        return len(self._again) > 0

    def back(self, time: int) -> ZSet | None:
        """The rows whose shown copy has expired, and which have a later one: they are shown anew."""
        if not len(self._again):
            return None
        numbers = self._again.due(time)[0][0].view(np.int64)
        found = np.empty(len(numbers), np.int64)
        count = kernels.content_again(frozen(numbers), time, self._cells, self._tail, found)
        return self._at(found[:count]) if count else None

    def renewed(self, time: int) -> tuple[ZSet, ZSet] | None:
        """The rows that have a later copy than the one that they are shown with, as they were shown, and as they are
        from now on: with their latest copy. After `back(time)`."""
        if not len(self._again):
            return None
        waiting, self._again = self._again, ExpiryWheel(1)
        numbers = self._with_later_copies(waiting.due(FOREVER)[0][0].view(np.int64), time)
        if not len(numbers):
            return None
        before, cells = self._at(numbers), numbers & (len(self._cells) - 1)
        self._cells[cells, kernels.SHOWN] = self._cells[cells, kernels.LATEST]
        return before, self._at(numbers)

    def has_later_copies(self, time: int) -> bool:
        """Whether a row that is shown at `time` has a later copy than the one that it is shown with."""
        return len(self._again) > 0 and len(self._with_later_copies(np.arange(self._tail, self._number), time)) > 0

    def _with_later_copies(self, numbers: Numbers, time: int) -> Numbers:
        """Which of these rows."""
        numbers = numbers[numbers >= self._tail]
        cells = self._cells[numbers & (len(self._cells) - 1)]
        shown, latest = cells[:, kernels.SHOWN], cells[:, kernels.LATEST]
        found: Numbers = numbers[(time <= shown) & (shown < latest)]
        return found

    def shorten(self, by: int) -> None:
        """The window is shorter by so much from now on; no row has later copies."""
        for place in (kernels.SHOWN, kernels.LATEST):
            self._cells[:, place] = ending_earlier(self._cells[:, place], by)
        self._again = ExpiryWheel(1)

    def shown(self, time: int) -> ZSet:
        """The rows that are shown at `time`, with the validity they are shown with."""
        numbers = np.arange(self._tail, self._number)
        return self._at(numbers[self._cells[numbers & (len(self._cells) - 1), kernels.SHOWN] >= time])

    def _at(self, numbers: Numbers) -> ZSet:
        matrix, ends = np.empty((self._width, len(numbers)), np.int64), np.empty(len(numbers), np.int64)
        kernels.content_take(frozen(numbers), self._cells, matrix, ends)
        return ZSet(tuple(matrix.view(np.uint64)), len(numbers), None, ends)

    def _wait(self, numbers: Numbers, ends: Untils, time: int) -> None:
        self._again.add(numbers.view(np.uint64).reshape(1, -1), _ONCE, ends, time)

    # ---- room ---------------------------------------------------------------------------------------------------

    def _make_room(self, coming: int, before: int, time: int) -> None:
        if len(self) + coming > len(self._cells):
            self._sweep(min(len(self), _SWEPT * coming), before, time)
        if self._is_sparse(coming) or len(self) + coming > len(self._cells):
            self._lay_out(coming, before, time)

    def _is_sparse(self, coming: int) -> bool:
        """Whether there is far too much room, or numbers are about to run out."""
        capacity = len(self._cells)
        is_large = capacity > _LEAST_CAPACITY and (self._number - self._tail + coming) * _SPARSE < capacity
        return is_large or self._number + 2 * capacity >= _NUMBERS_MAX

    def _sweep(self, count: int, before: int, time: int) -> None:
        again, again_at = np.empty(count, np.int64), np.empty(count, np.int64)
        self._tail, self._number, later = kernels.content_sweep(
            count, before, time, self._cells, self._heads, self._tail, self._number,
            np.empty((self._width, 1), np.int64), again, again_at,
        )  # fmt: skip
        self._wait(again[:later], again_at[:later], time)

    def _lay_out(self, coming: int, before: int, time: int) -> None:
        """Moves the rows that were still valid at `before` to a new ring."""
        numbers = np.arange(self._tail, self._number)
        cells = self._cells[numbers & (len(self._cells) - 1)]
        cells = cells[cells[:, kernels.LATEST] >= before]
        self._allocate(buckets(max(_LEAST_CAPACITY, room_for(len(cells) + coming, 2.0))))
        # Written where the ring will give them up, they get the numbers behind, and their chains.
        self._cells[: len(cells)] = cells
        self._number = len(cells)
        self._sweep(len(cells), before, time)
