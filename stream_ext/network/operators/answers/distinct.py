"""Distinct: each row once, for as long as any of its copies is valid.

As long as rows only come (from windows, and from a store that only grows), this is the content of a window. All input
rows are stored, too; with the first retraction their copies are put into a table.

In the table a row is shown with the longest of its validities. When that runs out and a longer one has come meanwhile,
the row is shown anew, so the expiry of a copy is never searched for: such rows wait in a wheel, and a step reads only
rows that have changed, and rows whose time is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.rows.expiry_wheel import ExpiryWheel
from stream_ext.rows.kernels import distinct as kernels
from stream_ext.rows.row_index import buckets, room_for
from stream_ext.rows.window_content import WindowContent
from stream_ext.rows.zset import FOREVER, Ids, Weights, ZSet, concat, empty, ending_earlier

Longs = np.typing.NDArray[np.int64]

_LEAST_CAPACITY = 16
_ONCE: Weights = np.empty(0, np.int64)


class Distinct(Shareable):
    is_monotone = shows_again = True

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables
        self._growing: _GrowingRows | None = _GrowingRows(len(variables))
        self._table: _Copies | None = None

    @property
    def likeness(self) -> Likeness:
        return Distinct, len(self.variables)

    def shown(self, time: int) -> Sequence[ZSet]:
        return [held.shown_at(time) for held in (self._growing, self._table) if held is not None]

    def renew(self, renews: bool) -> None:
        self.renews = renews
        for held in (self._growing, self._table):
            if held is not None:
                held.renew(renews)

    @property
    def is_renewed(self) -> bool:
        return all(held.is_renewed for held in (self._growing, self._table) if held is not None)

    def shorten(self, by: int) -> None:
        for held in (self._growing, self._table):
            if held is not None:
                held.shorten(by)

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if moment.last and self._table is None and (self._growing is None or not self._growing.has_begun):
            return self._once(change, moment.time)
        if self._growing is not None:
            if change.weights is None or bool((change.weights > 0).all()):
                return self._growing.step(change, moment.time)
            self._table, self._growing = self._growing.with_copies(), None
        assert self._table is not None
        return self._table.add_and_show(change, moment.time)

    def _once(self, change: ZSet, time: int) -> ZSet:
        """For a one-shot query. No state is stored: the network is used again, by several threads."""
        if change.untils is None and (change.weights is None or bool((change.weights > 0).all())):
            return first_of_each(ZSet(change.stored, change.count))
        return _Copies(len(self.variables)).add_and_show(change, time)

    def __len__(self) -> int:
        """The number of stored rows and copies."""
        return len(self._table or self._growing or ())


def _ending_earlier(rows: ZSet, by: int) -> ZSet:
    return rows if rows.untils is None else replace(rows, untils=ending_earlier(rows.untils, by))


class _GrowingRows:
    """The rows of DISTINCT as long as none was retracted."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._content = WindowContent(width)
        self._recent: deque[tuple[ZSet, int]] = deque()  # with the greatest validity
        self._permanent: list[ZSet] = []  # rows of which some are valid for ever
        self._time = -(1 << 63)
        self.has_begun = False

    def __len__(self) -> int:
        return len(self._content)

    def step(self, change: ZSet, time: int) -> ZSet:
        self.has_begun = True
        if change.count:
            self._keep(change)
        while self._recent and self._recent[0][1] < time:
            self._recent.popleft()
        self._time = time
        return self._content.step(change.columns, change.until_array(), time)

    def shown_at(self, time: int) -> ZSet:
        return self._content.shown(time)

    def renew(self, renews: bool) -> None:
        self._content.renews = renews

    @property
    def is_renewed(self) -> bool:
        return self._content.is_renewed

    def shorten(self, by: int) -> None:
        self._content.shorten(by)
        self._recent = deque((_ending_earlier(rows, by), last - by) for rows, last in self._recent)
        self._permanent = [_ending_earlier(rows, by) for rows in self._permanent]

    def _keep(self, change: ZSet) -> None:
        latest = FOREVER if change.untils is None else int(change.untils.max())
        if latest == FOREVER:
            self._permanent.append(change)
        else:
            self._recent.append((change, latest))

    def with_copies(self) -> _Copies:
        """The same rows in the form that DISTINCT needs from its first retraction on: with each copy of a row."""
        table = _Copies(self._width)
        rows = concat([*self._permanent, *(change for change, _ in self._recent)], self._width)
        if rows.count:
            alive = rows.take(rows.until_array() >= self._time)
            table.take_over(alive, self._content.shown(self._time), self._time)
        table.renews, table.has_renewed = self._content.renews, self._content.renews and self._content.is_renewed
        return table


class _Copies:
    """Every row with a list of its validities."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._every_column = frozenset(range(width))
        self._before = -(1 << 63)  # the time of the last step
        self.renews = self.has_renewed = False  # all rows are shown with their latest copies since it renews
        self._allocate(_LEAST_CAPACITY)

    def __len__(self) -> int:
        return len(self.entry_until)

    def _allocate(self, capacity: int) -> None:
        self.rows = np.zeros((capacity, self._width), np.uint64)
        self._heads = np.full(buckets(capacity), kernels.END, np.int32)
        self._nexts = np.full(capacity, kernels.END, np.int32)
        self.first = np.full(capacity, kernels.END, np.int32)
        self.shown = np.full(capacity, kernels.NEVER, np.int64)
        self._marks = np.zeros(capacity, np.uint8)
        self.entry_until = np.zeros(capacity, np.int64)
        self.entry_weight = np.zeros(capacity, np.int64)
        self.entry_next = np.full(capacity, kernels.END, np.int32)
        self._touched = np.zeros(capacity, np.int64)
        self._waiting = ExpiryWheel(1)
        self._used = self._entries = self._count = 0

    def shown_at(self, time: int) -> ZSet:
        slots = np.flatnonzero(self.shown[: self._used] >= time)
        return ZSet(tuple(self.rows[slots, i] for i in range(self._width)), len(slots), None, self.shown[slots])

    def renew(self, renews: bool) -> None:
        self.has_renewed, self.renews = renews and self.is_renewed, renews

    @property
    def is_renewed(self) -> bool:
        """Whether all rows are shown with their latest copies. One that is not waits for the end of the copy that it is
        shown with."""
        return self.has_renewed or not (self._count or len(self._waiting))

    def shorten(self, by: int) -> None:
        """All copies end earlier by so much from now on. All rows are shown with their latest copies."""
        for untils in (self.shown, self.entry_until):
            untils[:] = np.where(untils == kernels.NEVER, kernels.NEVER, ending_earlier(untils, by))
        self._waiting = ExpiryWheel(1)
        self._marks[:] = 0
        self.renew(False)

    def add_and_show(self, change: ZSet, time: int) -> ZSet:
        due = self._waiting.due(time)[0][0].astype(np.int64)
        self._count = kernels.distinct_wake(due, self._marks, self._touched, self._count)
        if self._entries + len(change) > len(self.entry_until):
            self._clean(time, len(change))
        self._add(rows_of(change), change.weight_array(), change.until_array())
        shown = self._show(time)
        self._before = time
        return shown

    def _add(self, rows: Ids, weights: Longs, untils: Longs) -> None:
        if len(rows):
            self._used, self._entries, self._count = kernels.distinct_add(
                rows, weights, untils, self.rows, self._heads, self._nexts, self.first,
                self.entry_until, self.entry_weight, self.entry_next, self.shown,
                self._used, self._entries, self._marks, self._touched, self._count,
            )  # fmt: skip

    def _show(self, time: int) -> ZSet:
        count, self._count = self._count, 0
        if not count:
            return empty(self._width)
        slots, untils, signs = (np.empty(2 * count, np.int64) for _ in range(3))
        again, when = np.empty(count, np.int64), np.empty(count, np.int64)
        n, later, returned = kernels.distinct_show(
            self._before, time, self.first, self.entry_until, self.entry_weight, self.entry_next, self.shown,
            self._marks, self._touched[:count], slots, untils, signs, again, when, self.renews,
        )  # fmt: skip
        if later:
            self._waiting.add(again[:later].astype(np.uint64).reshape(1, -1), _ONCE, when[:later], time)
        columns = tuple(self.rows[slots[:n], i] for i in range(self._width))
        weights = signs[:n].copy() if n and int(signs[:n].min()) < 0 else None
        return ZSet(columns, n, weights, untils[:n].copy(), None if returned else self._every_column)

    def _clean(self, time: int, coming: int) -> None:
        """Forgets the copies that have run out or were retracted, and the rows that have none left."""
        owner = self._owners()
        entry = np.arange(self._entries)
        alive = (self.entry_until[entry] >= time) & (self.entry_weight[entry] != 0)
        copies = self.rows[owner[alive]], self.entry_weight[entry[alive]], self.entry_until[entry[alive]]
        was_shown = self.shown[: self._used] >= self._before  # by which new rows are found
        self._hold(self.rows[: self._used][was_shown], self.shown[: self._used][was_shown], copies, coming)

    def take_over(self, copies: ZSet, shown: ZSet, time: int) -> None:
        """Fills the table with the state at `time`: the copies of all rows, and the rows that are shown."""
        self._before = time
        entries = rows_of(copies), copies.weight_array(), copies.until_array()
        self._hold(rows_of(shown), shown.until_array(), entries, 0)

    def _hold(self, shown: Ids, untils: Longs, copies: tuple[Ids, Longs, Longs], coming: int) -> None:
        self._allocate(max(_LEAST_CAPACITY, room_for(len(copies[0]) + coming + len(shown))))
        # Shown rows come first (with weight 0), so that their slots are known and stay shown as they were.
        self._add(shown, np.zeros(len(shown), np.int64), untils)
        self.shown[: self._used] = untils
        self._add(*copies)

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
