"""Window scan: one triple pattern over the content of one window, as changes from evaluation to evaluation.

Arrivals wait until the first evaluation whose instance contains them. A window is an RDF graph, a set: a triple that
has arrived several times counts once, for as long as its latest arrival is in the window; in CQELS-QL it is a bag of
arrivals. Leaving the window is no event: each row has, from its entry on, the time until which it is valid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import concatenate
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.scans.ends import NO_TIME, Ends, NextChanges
from stream_ext.rows.window_content import WindowContent
from stream_ext.rows.zset import FOREVER, Columns, Ids, Weights, ZSet, concat, empty, shared
from stream_ext.windows.arrivals import OfTriples
from stream_ext.windows.scheduled_window import ScheduledWindow
from stream_ext.windows.waiting_elements import ArrivedTogether, WaitingElements, rows_where

Times = npt.NDArray[np.int64]
_NO_TIMES: Times = np.empty(0, np.int64)
#: Bindings, the times of their elements, and until when they are in an instance.
Entering = tuple[Columns, Times, Times]


class WindowScan(Shareable):
    is_monotone = renews_later = True

    def __init__(self, window: ScheduledWindow, pattern: IdPattern, as_bag: bool = False) -> None:
        """`as_bag`: rows may occur several times, as in a window that is a bag; or a later operator makes a set of
        them."""
        self.window = window
        self.pattern = pattern
        self.variables = pattern.variables
        self.is_monotone = type(self) is WindowScan  # but for `NextChanges.shows_again`
        self._width = len(self.variables)
        self._content = None if as_bag else WindowContent(self._width)
        self._waiting = WaitingElements()
        self._new = WaitingElements()  # what has arrived since the last evaluation
        self._ends = Ends() if window.is_stepped and not window.by_arrival else None
        self._saved: list[tuple[Columns, Weights]] = []  # of a bag: what the next step returns, with numbers of copies

    @property
    def likeness(self) -> Likeness | None:
        if type(self) is not WindowScan:  # scans of other kinds have inputs, or what is of their query alone
            return None
        return replace(self.window, name=""), self.pattern.likeness(), self._content is None

    @property
    def names(self) -> tuple[ScheduledWindow, IdPattern]:
        return self.window, self.pattern

    def rename(self, names: tuple[ScheduledWindow, IdPattern]) -> None:
        self.window, self.pattern = names
        self.variables = self.pattern.variables

    def shown(self, time: int) -> Sequence[ZSet]:
        """What a bag has given follows from what arrived."""
        return () if self._content is None else (self._content.shown(time),)

    def renew(self, renews: bool) -> None:
        if self._content is not None:
            self.renews = self._content.renews = renews

    @property
    def is_renewed(self) -> bool:
        return self._content is None or self._content.is_renewed

    def shorten(self, by: int) -> None:
        self.window = replace(self.window, range_ms=self.window.range_ms - by)
        if self._content is not None:
            self._content.shorten(by)
        if self._ends is not None:
            self._ends.shorten(by)

    def arrive(
        self,
        s: Ids,
        p: Ids,
        o: Ids,
        g: OfTriples[np.uint64],
        times: OfTriples[np.int64],
        extra: Columns = (),
        copies: Times | None = None,
    ) -> None:
        """Triples of the window's stream, with the graph and the time of their elements, in order of arrival; `extra`:
        columns that are kept behind their bindings. `copies`: how often each of them came; then they are in the window
        at the next step, and not new at it."""
        fits, columns = self.pattern.match_in_window((s, p, o, g))
        count = np.count_nonzero(fits)
        if copies is not None:
            self._saved.append(((*columns(fits), *(column[fits] for column in extra)), copies[fits]))
        elif count == len(fits):
            if count:
                self._wait((*map(_own, columns(slice(None))), *extra), times[:])
        elif count:
            self._wait((*columns(fits), *(column[fits] for column in extra)), times[fits])

    def _wait(self, columns: Columns, times: Times) -> None:
        self._new.add(times, columns)

    def settle(self, time: int | None = None) -> None:
        """What has arrived is not new any more (`Moment.without_new`); of a window that closes, what was before the end
        of its instance at `time`."""
        if time is None or self.window.by_arrival:
            self._waiting.take(self._new)
            return
        for rows in self._new.up_to(time - self.window.lead_ms):
            self._waiting.add(rows.times, rows.columns, (rows.first, rows.last))

    def step(self, moment: Moment) -> ZSet:
        columns, untils = self._entering(moment)
        if self._content is not None:
            return self._content.step(columns, untils, moment.time)
        return self._with_saved(ZSet(columns, len(untils), None, untils), moment)

    def _with_saved(self, change: ZSet, moment: Moment) -> ZSet:
        """The change, and the saved content of the window, if it has come since the last step."""
        if not self._saved:
            return change
        saved, self._saved = self._saved, []
        inward, parts = moment.vocabulary.inward, [change]
        for columns, copies in saved:
            untils = shared(FOREVER, len(copies))
            parts.append(ZSet(tuple(map(inward, columns)), len(copies), copies, untils))
        return concat(parts, change.width)

    def _entering(self, moment: Moment) -> tuple[Columns, Times]:
        entering = self._due(moment)
        if not entering:
            return empty(self._width).columns, _NO_TIMES
        if len(entering) == 1:
            columns, _, untils = entering[0]
            return columns, untils
        untils = np.concatenate([untils for _, _, untils in entering])
        return tuple(concatenate([columns[i] for columns, _, _ in entering]) for i in range(self._width)), untils

    def _due(self, moment: Moment) -> list[Entering]:
        """As `_due_at`; terms that the query created before the stream brought them have the ids of the query."""
        inward, due = moment.vocabulary.inward, self._due_at(moment)
        return [(tuple(map(inward, columns)), times, untils) for columns, times, untils in due]

    def _due_at(self, moment: Moment) -> list[Entering]:
        """The rows that enter the instance; rows that can be in no instance any more are dropped."""
        if not moment.without_new:
            self.settle(moment.time)
        time, window = moment.time, self.window
        entering = self._waiting.up_to(time - window.lead_ms)
        if self._ends is not None:
            for rows in entering:
                self._ends.add(window.last_of(rows.first), window.last_of(rows.last))
        return [self._in_instance(rows, time) for rows in entering]

    def next_changes(self, time: int, by: int = 0) -> NextChanges:
        """After the step at `time`. They may be too early, but never too late. `by`: of a window that is shorter by so
        much."""
        if self._ends is None or (self.renews and not self.is_renewed):
            return NextChanges(time, time, time, True)
        comes = NO_TIME
        for each in (self._new, self._waiting):
            if (first := each.first()) is not None:
                comes = min(comes, first + self.window.lead_ms)
        shows_again = self._content is not None and self._content.shows_again
        return NextChanges(comes, self._ends.next(time, by), self._ends.gone(by), shows_again)

    def _in_instance(self, rows: ArrivedTogether, time: int) -> Entering:
        """The rows that the instance at `time` contains, and until when they are in one."""
        if rows.first == rows.last:  # as a push often is
            until = self.window.last_of(rows.first)
            count = len(rows.times) if until >= time else 0
            return tuple(column[:count] for column in rows.columns), rows.times[:count], shared(until, count)
        untils = self.window.valid_until(rows.times)
        inside = untils >= time
        if inside.all():
            return rows.columns, rows.times, untils
        return rows_where(rows.columns, inside), rows.times[inside], untils[inside]


def _own(column: Ids) -> Ids:
    """A copy, if the column is a small part of a larger array: waiting rows must not retain the whole array."""
    whole = column.base
    is_own = whole is None or (isinstance(whole, np.ndarray) and whole.nbytes <= 2 * column.nbytes)
    return column if is_own else column.copy()
