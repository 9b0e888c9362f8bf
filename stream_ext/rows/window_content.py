"""Window content: the set of rows that a window holds, where rows only ever come in.

Copies of a row have validities of their own. A row is shown with the one it comes with; when that runs out and a later
copy has come meanwhile, it is shown anew, so no copy's expiry ever has to be searched for.

Most streams say something new with every element: it has a number, or a time, that none before it had. Where the
values of one column ascend from row to row, no row can be the copy of another, and there is nothing to look up. Such
rows are put aside, and only taken into the table of rows when some come of which that cannot be seen."""

from __future__ import annotations

from collections import deque

import numpy as np

from hbase_store.arrays import Ids, frozen
from stream_ext.rows.content_ring import ContentRing
from stream_ext.rows.kernels import expiry as kernels
from stream_ext.rows.zset import FOREVER, Columns, Untils, ZSet, concat, empty, latest

_NO_VALUE = np.uint64(0)  # below every bound one


class WindowContent:
    def __init__(self, width: int) -> None:
        self._width = width
        self._all = frozenset(range(width))
        self._ring = ContentRing(max(1, width))
        self._aside: deque[tuple[Columns, Untils, int]] = deque()  # with the greatest validity
        self._highest = [_NO_VALUE] * width  # of each column, of all rows that came
        self._likely = 0  # the column that ascended lately
        self._before = -(1 << 63)  # the time of the last step

    def __len__(self) -> int:
        """The number of rows that are remembered."""
        return len(self._ring) + sum(len(untils) for _, untils, _ in self._aside)

    def step(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        """The change at `time`, when these rows come in, valid until then or later."""
        back = self._ring.back(time)
        change = self._entering(columns, untils, time) if len(untils) else empty(self._width)
        self._before = time
        return change if back is None else concat([self._columns_of(back), change], self._width)

    def shown(self, time: int) -> ZSet:
        """The rows that are in the window at `time`, that of the last step, with the validity they were shown with."""
        parts = [self._columns_of(self._ring.shown(time))]
        parts += [ZSet(aside, len(untils), None, untils) for aside, untils, _ in self._aside]
        shown = concat(parts, self._width)
        return shown.take(shown.until_array() >= time)

    def _entering(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        # What stays for ever is not put aside: it would never be given up, nor what is behind it.
        last = latest(untils)
        if self._are_new(columns) and last != FOREVER:
            while self._aside and self._aside[0][2] < self._before:
                self._aside.popleft()
            self._aside.append((columns, untils, last))
            return ZSet(columns, len(untils), None, untils, frozenset((self._likely,)))
        for place, column in enumerate(columns):
            self._highest[place] = max(self._highest[place], column.max())
        self._take_in_what_is_aside(time)
        return self._looked_up(columns, untils, time)

    def _are_new(self, columns: Columns) -> bool:
        """Whether it can be seen that no two rows are equal, of these and all that came before."""
        for place in (self._likely, *range(len(columns))):
            if place < len(columns) and kernels.ascends(frozen(columns[place]), self._highest[place]):
                self._likely = place
                for other, column in enumerate(columns):
                    self._highest[other] = column[-1] if other == place else max(self._highest[other], column.max())
                return True
        return False

    # ---- rows that may have come before

    def _take_in_what_is_aside(self, time: int) -> None:
        """Their rows are shown already, until they run out."""
        aside, self._aside = self._aside, deque()
        for columns, untils, last in aside:
            if last >= self._before:
                self._ring.add(self._matrix(columns, len(untils)), untils, self._before, time)

    def _looked_up(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        places, ends, returned = self._ring.add(self._matrix(columns, len(untils)), untils, self._before, time)
        if len(places) < len(untils):
            columns = tuple(column[places] for column in columns)
        return ZSet(columns, len(places), None, ends, None if returned else self._all)

    def _matrix(self, columns: Columns, count: int) -> Ids:
        """Without columns a row has one value all the same."""
        return np.stack(columns) if columns else np.zeros((1, count), np.uint64)

    def _columns_of(self, rows: ZSet) -> ZSet:
        return rows if self._width else rows.with_columns(())
