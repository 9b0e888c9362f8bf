"""Occurrence scan: one triple pattern over a window, with the occurrence of each triple: when it came.

An occurrence is three numbers, in the order in which they count: the time of the element, its arrival (snapshot and
push), and the place of the triple in the document of that push. All are functions of the pushes, so a replay finds the
same ones. A triple that comes again has its latest occurrence from then on: the row with the earlier one is retracted.
The latest is also valid for longest, so its end needs no other change."""

from __future__ import annotations

import numpy as np

from hbase_store.arrays import concatenate
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.scans.occurrences import in_order, is_later
from stream_ext.network.operators.scans.window_scan import Times, WindowScan
from stream_ext.plan.logic import Occurrence
from stream_ext.rows.key_table import KeyTable, Signed
from stream_ext.rows.zset import Columns, Ids, Untils, ZSet, concat, empty
from stream_ext.windows.arrivals import Arrival, numbers_of
from stream_ext.windows.scheduled_window import ScheduledWindow

#: Times are ascending as ids are; none is 0, which says that there is no occurrence.
_TIME_ZERO = np.uint64(1 << 63)
_CLEAN_LEAST = 4096


def arrived(arrival: Arrival) -> Columns:
    """The arrival and the place of each of its triples."""
    return numbers_of(arrival), arrival.document_places


def occurrences(arrival: Arrival) -> Columns:
    """The occurrence of each of its triples."""
    return times_as_ids(arrival.times), *arrived(arrival)


class OccurrenceScan(WindowScan):
    def __init__(self, window: ScheduledWindow, pattern: IdPattern, occurrence: Occurrence) -> None:
        super().__init__(window, pattern, as_bag=True)
        self.variables = (*pattern.variables, *occurrence)
        # Behind the bindings of each triple stand its latest occurrence, and until when that is in the window.
        self._table = KeyTable(max(1, self._width), more=4)
        self._clean_at = _CLEAN_LEAST

    def step(self, moment: Moment) -> ZSet:
        entering = self._due_at(moment)
        if not any(len(part[1]) for part in entering):
            return empty(len(self.variables))
        times, untils = (np.concatenate([part[i] for part in entering]) for i in (1, 2))
        columns = [concatenate([part[0][i] for part in entering]) for i in range(self._width + 2)]
        bindings = tuple(map(moment.vocabulary.inward, columns[: self._width]))
        occurrences = (times_as_ids(times), columns[-2], columns[-1])
        if self.window.bag:  # each arrival is a row of its own
            return ZSet((*bindings, *occurrences), len(untils), None, untils)
        self._clean(moment.time)
        return self._change_of(bindings, occurrences, untils, moment.time)

    def _change_of(self, bindings: Columns, occurrences: Columns, untils: Untils, time: int) -> ZSet:
        keys = np.stack(bindings) if bindings else np.zeros((1, len(untils)), np.uint64)
        slots = self._table.number(keys)
        order = in_order(slots, occurrences)
        last = np.append(slots[order][1:] != slots[order][:-1], True)
        came = order[last]  # of each triple the latest
        stored = self._table.cells[slots[came], -4:]
        before = tuple(np.ascontiguousarray(stored[:, i]).view(np.uint64) for i in range(3))
        there = (before[0] != 0) & (stored[:, 3] >= time)
        later = is_later(tuple(column[came] for column in occurrences), before) | ~there
        came, gone = came[later], there & later
        self._table.cells[slots[came], -4:] = _cells(occurrences, untils, came)
        new = (*(column[came] for column in bindings), *(column[came] for column in occurrences))
        parts = [ZSet(new, len(came), None, untils[came])]
        if gone.any():
            known = came[gone[later]]
            old = (*(column[known] for column in bindings), *(column[gone] for column in before))
            parts.append(ZSet(old, len(known), np.full(len(known), -1), stored[gone, 3]))
        return concat(parts, len(self.variables))

    def _clean(self, time: int) -> None:
        """Forgets triples that have left the window, when the number of triples has doubled since the last time."""
        if self._table.used > self._clean_at:
            self._table.keep(self._table.cells[: self._table.used, -1] >= time)
            self._clean_at = max(_CLEAN_LEAST, 2 * self._table.used)


def times_as_ids(times: Times) -> Ids:
    return times.view(np.uint64) ^ _TIME_ZERO


def _cells(occurrences: Columns, untils: Untils, which: np.typing.NDArray[np.intp]) -> Signed:
    return np.stack([*(column[which].view(np.int64) for column in occurrences), untils[which]], axis=1)
