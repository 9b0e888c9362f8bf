"""Window content: the set of rows in a window, to which rows are only added; they leave by expiry.

Each copy of a row has a validity. The row is shown with the validity of its first copy; when this has ended and a later
copy has come meanwhile, the row is shown anew. So the expiry of a copy never has to be searched for.

In most streams every element has a value that none before it had: a number, or a time. If the values of one column
ascend from row to row, no row can be a copy of another, and nothing has to be looked up. Such rows are put aside, and
added to the table of rows only when rows come for which this is not so."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import frozen
from stream_ext.rows.content_ring import ContentRing
from stream_ext.rows.kernels import expiry as kernels
from stream_ext.rows.zset import FOREVER, Columns, Untils, ZSet, concat, empty, ending_earlier, latest, packed

#: After so many steps in which no column ascended, it is looked at only once in so many.
_PATIENCE, _SELDOM = 8, 64


class WindowContent:
    def __init__(self, width: int) -> None:
        self._width = width
        self._all = frozenset(range(width))
        self._ring = ContentRing(max(1, width))
        # With the greatest validity. Made with the first of them: an empty deque takes 760 bytes.
        self._aside: deque[tuple[Columns, Untils, int]] | None = None
        self._highest = np.zeros(width, np.uint64)  # of each column, of all rows that came: no bound value is 0
        self._likely = 0  # the column that ascended lately
        self._failed = 0  # so many steps ago
        self._before = -(1 << 63)  # the time of the last step
        #: Whether a row of which a later copy comes is shown with that one at once; so what is shown follows from what
        #: is in the window, and not from when copies came.
        self.renews = False

    def __len__(self) -> int:
        """The number of rows that are remembered."""
        return len(self._ring) + sum(len(untils) for _, untils, _ in self._aside or ())

    @property
    def shows_again(self) -> bool:
        """Whether a row may be shown anew when it runs out."""
        return self._ring.shows_again

    def step(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        """The change at `time`, when these rows come in, which are valid at `time` at least."""
        back = self._ring.back(time)
        change = self._entering(columns, untils, time) if len(untils) else empty(self._width)
        self._before = time
        renewed = self._ring.renewed(time) if self.renews else None
        if back is None and renewed is None:
            return change
        again = () if renewed is None else (renewed[0].negated(), renewed[1])
        back_again = [self._columns_of(rows) for rows in (*(() if back is None else (back,)), *again)]
        return concat([*back_again, change], self._width)

    def shown(self, time: int) -> ZSet:
        """The rows that are in the window at `time`, that of the last step, with the validity they were shown with."""
        parts = [self._columns_of(self._ring.shown(time))]
        parts += [ZSet(aside, len(untils), None, untils) for aside, untils, _ in self._aside or ()]
        shown = concat(parts, self._width)
        return shown.take(shown.until_array() >= time)

    @property
    def is_renewed(self) -> bool:
        """Whether all rows are shown with their latest copies."""
        return not self._ring.has_later_copies(self._before)

    def shorten(self, by: int) -> None:
        """The window is shorter by so much from now on. All rows are shown with their latest copies."""
        self.renews = False
        self._ring.shorten(by)
        if self._aside is not None:
            self._aside = deque((rows, ending_earlier(untils, by), last - by) for rows, untils, last in self._aside)

    def _entering(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        # Rows that are valid for ever are not put aside: they, and all behind them, would never be deleted.
        last = latest(untils)
        if self._are_new(columns) and last != FOREVER:
            while self._aside and self._aside[0][2] < self._before:
                self._aside.popleft()
            if self._aside is None:
                self._aside = deque()
            self._aside.append((columns, untils, last))
            return ZSet(columns, len(untils), None, untils, frozenset((self._likely,)))
        self._add_rows_put_aside(time)
        return self._looked_up(columns, untils, time)

    def _are_new(self, columns: Columns) -> bool:
        """Whether an ascending column proves that no two rows are equal, of these and all that came before."""
        self._failed += 1
        if self._failed > _PATIENCE and self._failed % _SELDOM:
            return False
        for place in (self._likely, *range(len(columns))):
            if place < len(columns) and kernels.ascends(frozen(columns[place]), self._highest[place]):
                self._likely, self._failed = place, 0
                for other, column in enumerate(columns):
                    self._highest[other] = column[-1] if other == place else max(self._highest[other], column.max())
                return True
        return False

    # ---- rows that may have come before

    def _add_rows_put_aside(self, time: int) -> None:
        """Adds the rows that were put aside to the table. They are shown already, until they expire."""
        aside, self._aside = self._aside, None
        for columns, untils, last in aside or ():
            if last >= self._before:
                self._ring.add(self._packed(columns, untils), self._highest, self._before, time)

    def _looked_up(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        shown, returned = self._ring.add(self._packed(columns, untils), self._highest, self._before, time)
        ends, *lines = shown
        shown_columns = tuple([line.view(np.uint64) for line in lines[: self._width]])
        return ZSet(shown_columns, len(ends), None, ends, None if returned else self._all)

    def _packed(self, columns: Columns, untils: Untils) -> npt.NDArray[np.int64]:
        """The rows as a matrix; a row without columns has one value, too."""
        if self._width:
            return packed(columns, untils, len(untils))
        rows = np.zeros((2, len(untils)), np.int64)
        rows[0] = untils
        return rows

    def _columns_of(self, rows: ZSet) -> ZSet:
        return rows if self._width else rows.with_columns(())
