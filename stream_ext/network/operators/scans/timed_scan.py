"""Timed scan: one triple pattern over a window, with the latest time of an element that has the triple.

A triple that comes again with a later time has that time from then on: its row with the earlier time is retracted. The
row with the later time is valid for longer, too, so its end needs no other change."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hbase_store.layout.terms import literal
from stream_ext.network.operators.core.moment import Moment as Evaluation
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.scans.window_scan import Times, WindowScan
from stream_ext.rows.zset import Columns, Ids, ZSet, concat, empty
from stream_ext.times import ZonedSeconds, datetime_text
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.scheduled_window import ScheduledWindow

Mask = npt.NDArray[np.bool_]

_DATETIME = "http://www.w3.org/2001/XMLSchema#dateTime"


class TimedScan(WindowScan):
    def __init__(self, window: ScheduledWindow, pattern: IdPattern, name: str) -> None:
        super().__init__(window, pattern)
        self._keys = pattern.variables
        self.variables = (*pattern.variables, name)
        # The latest of each triple: its bindings, and its time.
        self._columns: Columns = empty(len(self._keys)).columns
        self._times: Times = np.empty(0, np.int64)

    def step(self, moment: Evaluation) -> ZSet:
        entering = self._due(moment)
        staying = self.window.valid_until(self._times) >= moment.time
        old = (tuple(column[staying] for column in self._columns), self._times[staying])
        columns = tuple(np.concatenate([old[0][i], *(c[i] for c, *_ in entering)]) for i in range(len(self._keys)))
        times = np.concatenate([old[1], *(times for _, times, _ in entering)])
        is_old = np.arange(len(times)) < len(old[1])
        latest = _latest(columns, times, is_old)
        self._columns, self._times = tuple(column[latest] for column in columns), times[latest]
        came, gone = latest & ~is_old, is_old & ~latest
        parts = [
            self._change_of(columns, times, which, sign, moment.vocabulary) for which, sign in ((came, 1), (gone, -1))
        ]
        return concat(parts, len(self.variables))

    def _change_of(self, columns: Columns, times: Times, which: Mask, sign: int, vocabulary: Vocabulary) -> ZSet:
        count, picked = int(which.sum()), times[which]
        weights = None if sign > 0 else np.full(count, sign, np.int64)
        shown = (*(column[which] for column in columns), times_as_terms(picked, vocabulary))
        return ZSet(shown, count, weights, self.window.valid_until(picked))


def _latest(columns: Columns, times: Times, is_old: Mask) -> Mask:
    """Of the rows with equal bindings the one with the greatest time; of several the one that was there before."""
    order = np.lexsort((is_old, times, *columns[::-1]))
    last = np.ones(len(times), np.bool_)
    if len(times):
        same = np.ones(len(times) - 1, np.bool_)
        for column in columns:
            same &= column[order][1:] == column[order][:-1]
        last[:-1] = ~same
    found = np.zeros(len(times), np.bool_)
    found[order[last]] = True
    return found


def times_as_terms(times: Times, vocabulary: Vocabulary) -> Ids:
    distinct, places = np.unique(times, return_inverse=True)
    texts = [
        literal(datetime_text(ZonedSeconds(Fraction(time, 1000), 0)), datatype=_DATETIME) for time in distinct.tolist()
    ]
    return vocabulary.encode(texts)[places.reshape(-1)] if texts else np.empty(0, np.uint64)
