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
from stream_ext import expiry_kernels as kernels
from stream_ext.operators.expiry_wheel import ExpiryWheel
from stream_ext.operators.key_table import KeyTable
from stream_ext.zset import FOREVER, Columns, Untils, Weights, ZSet, concat, empty, latest, spread

_ONCE: Weights = np.empty(0, np.int64)
_CLEAN_LEAST = 4096
_NO_VALUE = np.uint64(0)  # below every bound one


class WindowContent:
    def __init__(self, width: int) -> None:
        self._width = width
        self._all = frozenset(range(width))
        self._table = KeyTable(max(1, width), more=2)
        self._again = ExpiryWheel(1)
        self._aside: deque[tuple[Columns, Untils, int]] = deque()  # with the greatest validity
        self._highest = [_NO_VALUE] * width  # of each column, of all rows that came
        self._likely = 0  # the column that ascended lately
        self._clean_at = _CLEAN_LEAST
        self._before = -(1 << 63)  # the time of the last step

    def __len__(self) -> int:
        """Of the rows that are remembered."""
        return self._table.used + sum(len(untils) for _, untils, _ in self._aside)

    def step(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        """The change at `time`, when these rows come in, valid until then or later."""
        back = self._shown_again(time)
        change = self._entering(columns, untils, time) if len(untils) else empty(self._width)
        self._before = time
        return change if back is None else concat([back, change], self._width)

    def shown(self, time: int) -> ZSet:
        """The rows that are in the window at `time`, that of the last step, with the validity they were shown with."""
        cells = self._table.cells[: self._table.used]
        slots = np.flatnonzero(cells[:, self._table.width + kernels.SHOWN] >= time).astype(np.int32)
        columns = tuple(self._table.ids(slots, place) for place in range(self._width))
        parts = [ZSet(columns, len(slots), None, self._table.taken(slots, self._table.width + kernels.SHOWN))]
        parts += [ZSet(aside, len(untils), None, untils) for aside, untils, _ in self._aside]
        held = concat(parts, self._width)
        return held.take(held.until_array() >= time)

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
        self._take_in_what_is_aside()
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

    def _take_in_what_is_aside(self) -> None:
        """Their rows are shown already, until they run out."""
        aside, self._aside = self._aside, deque()
        for columns, untils, last in aside:
            if last >= self._before:
                slots = self._table.number(self._matrix(columns, len(untils)))
                self._table.cells[slots, -2:] = untils[:, None]

    def _looked_up(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        count = len(untils)
        first = self._clean()
        slots = self._table.number(self._matrix(columns, count))
        places, ends, at = (np.empty(count, np.int64) for _ in range(3))
        again = np.empty(count, np.int32)
        known = frozen(slots), first, frozen(spread(untils)), time, self._table.cells, self._table.width
        shown, returned, later = kernels.content_add(*known, places, ends, again, at)
        if later:
            rows = again[:later].astype(np.uint64).reshape(1, -1)
            self._again.add(rows, _ONCE, at[:later], time)
        if shown < count:
            columns = tuple(column[places[:shown]] for column in columns)
        return ZSet(columns, shown, None, ends[:shown], None if returned else self._all)

    def _shown_again(self, time: int) -> ZSet | None:
        """Rows whose shown copy has run out, and which have a later one."""
        if not len(self._again):
            return None
        slots = self._again.due(time)[0][0].astype(np.int32)
        found = np.empty(len(slots), np.int32)
        count = kernels.content_again(frozen(slots), time, self._table.cells, self._table.width, found)
        if not count:
            return None
        back = frozen(found[:count])
        columns = tuple(self._table.ids(back, place) for place in range(self._width))
        return ZSet(columns, count, None, self._table.taken(back, self._table.width + kernels.SHOWN))

    def _clean(self) -> int:
        """Forgets the rows that have run out before the last step, once so many have come as were there at the last
        time; the first slot that is free."""
        if self._table.used > self._clean_at:
            cells = self._table.cells[: self._table.used]
            self._table.keep(cells[:, self._table.width + kernels.LATEST] >= self._before)
            self._clean_at = max(_CLEAN_LEAST, 2 * self._table.used)
            self._wait_again()
        return self._table.used

    def _wait_again(self) -> None:
        """Slots have other numbers now."""
        self._again = ExpiryWheel(1)
        shown, latest = self._table.cells[: self._table.used, self._table.width :].T
        waiting = np.flatnonzero((shown < latest) & (shown >= self._before))
        self._again.add(waiting.astype(np.uint64).reshape(1, -1), _ONCE, shown[waiting], self._before)

    def _matrix(self, columns: Columns, count: int) -> Ids:
        return np.stack(columns) if columns else np.zeros((1, count), np.uint64)
