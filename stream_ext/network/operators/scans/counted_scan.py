"""Counted scan: one triple pattern over a counted window, as changes from evaluation to evaluation.

A row enters when an evaluation comes to its time, and leaves when others have displaced it, which no time tells before:
so it leaves by a retraction. What comes displaces also what the pattern does not match: `CountedWindow` counts all that
comes, once for all patterns over a window.

    [TRIPLES 2], ?x :p ?y    a :p b, c :q d, e :p f   =>   +(a b),  nothing,  +(e f) -(a b)"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.scans.timed_scan import times_as_terms
from stream_ext.plan.logic import Occurrence
from stream_ext.rows.zset import Columns, ZSet, concat, consolidate, empty
from stream_ext.windows.counted_window import CountedWindow, are_from
from stream_ext.windows.scheduled_window import ScheduledWindow, Times

#: Rows with their places: columns, times, numbers.
_Rows = tuple[Columns, Times, Times]


class CountedScan:
    """The triples of a count window that match a pattern, as a bag. `extra`: names of columns that each row has behind
    the bindings of the pattern."""

    def __init__(
        self, window: ScheduledWindow, pattern: IdPattern, counted: CountedWindow, extra: Sequence[str] = ()
    ) -> None:
        self.window, self.pattern = window, pattern
        self.variables = (*pattern.variables, *extra)
        self._counted = counted
        self.has_occurrences = bool(extra)
        self._content = self._new = self._waiting = self._nothing()

    def _nothing(self) -> _Rows:
        return tuple(np.empty(0, np.uint64) for _ in self.variables), np.empty(0, np.int64), np.empty(0, np.int64)

    def arrive(self, triples: Sequence[Ids], times: Times, numbers: Times, extra: Columns = ()) -> None:
        """Triples of the window's stream (s, p, o, g), with their places; and the columns of `extra`."""
        fits, columns = self.pattern.match_in_window(triples)
        if fits.any():
            rows = (*columns(fits), *(column[fits] for column in extra))
            self._new = _joined(self._new, (rows, times[fits], numbers[fits]))

    def settle(self, time: int | None = None) -> None:
        """As of a window scan."""
        if not len(self._new[1]):
            return
        came, self._new = self._new, self._nothing()
        if time is not None and not self.window.by_arrival:
            due = came[1] <= time - self.window.lead_ms
            came, self._new = _of(came, due), _of(came, ~due)
        self._waiting = _joined(self._waiting, came)

    def step(self, moment: Moment) -> ZSet:
        if not moment.without_new:
            self.settle(moment.time)
        first = self._counted.first_at(moment.time)
        remains = are_from(first, *self._content[1:])
        left = _of(self._content, ~remains)
        came = self._entering(moment, first)
        if len(left[1]) or len(came[1]):
            self._content = _joined(_of(self._content, remains), came)
        parts = [ZSet(came[0], len(came[1]))]
        if count := len(left[1]):
            parts.append(ZSet(left[0], count, np.full(count, -1, np.int64)))
        return concat(parts, len(self.variables))

    def _entering(self, moment: Moment, first: tuple[int, int] | None) -> _Rows:
        due = self._waiting[1] <= moment.time - self.window.lead_ms
        if not due.any():
            return self._nothing()
        came, self._waiting = _of(self._waiting, due), _of(self._waiting, ~due)
        columns, *places = _of(came, are_from(first, *came[1:]))
        # Terms that the query created before the stream brought them have the ids of the query.
        width = len(self.pattern.variables)
        return (*map(moment.vocabulary.inward, columns[:width]), *columns[width:]), places[0], places[1]


def _of(rows: _Rows, which: npt.NDArray[np.bool_]) -> _Rows:
    columns, times, numbers = rows
    return tuple(column[which] for column in columns), times[which], numbers[which]


def _joined(one: _Rows, other: _Rows) -> _Rows:
    if not len(one[1]) or not len(other[1]):
        return other if len(other[1]) else one
    columns = tuple(np.concatenate(pair) for pair in zip(one[0], other[0], strict=True))
    return columns, np.concatenate([one[1], other[1]]), np.concatenate([one[2], other[2]])


class LatestCountedScan:
    """The triples of a counted window as a set, each with its latest occurrence; or, if `time` is given, with the time
    of that as a term, under this name. All rows are stored, and looked through at each evaluation."""

    def __init__(
        self,
        window: ScheduledWindow,
        pattern: IdPattern,
        counted: CountedWindow,
        occurrence: Occurrence,
        time: str | None = None,
    ) -> None:
        self._scan = CountedScan(window, pattern, counted, occurrence)
        self._keys, self._time = len(pattern.variables), time
        self.window = window
        self.variables = self._scan.variables if time is None else (*pattern.variables, time)
        self._rows = empty(len(self._scan.variables))
        self._shown = empty(len(self.variables))

    has_occurrences = True

    def arrive(self, triples: Sequence[Ids], times: Times, numbers: Times, extra: Columns) -> None:
        self._scan.arrive(triples, times, numbers, extra)

    def settle(self, time: int | None = None) -> None:
        self._scan.settle(time)

    def step(self, moment: Moment) -> ZSet:
        change = self._scan.step(moment)
        if not change.count:
            return empty(len(self.variables))
        self._rows = consolidate(concat([self._rows, change], change.width))
        now = self._latest(moment)
        out = consolidate(concat([now, self._shown.negated()], now.width))
        self._shown = now
        return out

    def _latest(self, moment: Moment) -> ZSet:
        columns = self._rows.columns
        order = np.lexsort(columns[::-1]) if len(self._rows) else np.empty(0, np.intp)
        last = np.ones(len(order), np.bool_)
        if len(order):
            same = np.ones(len(order) - 1, np.bool_)
            for column in columns[: self._keys]:
                same &= column[order][1:] == column[order][:-1]
            last[:-1] = ~same
        picked = tuple(column[order[last]] for column in columns)
        if self._time is None:
            return ZSet(picked, int(last.sum()))
        times = (picked[self._keys] ^ np.uint64(1 << 63)).view(np.int64)
        return ZSet((*picked[: self._keys], times_as_terms(times, moment.vocabulary)), len(times))
