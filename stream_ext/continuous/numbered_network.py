"""A numbered network: the network of a query that is evaluated at arrivals, many of them in one step.

    arrivals       a at 10, b at 10, c at 14      [RANGE 5]
    evaluations    1 at 10 (a), 2 at 10 (b), 3 at 14 (c)
    one step       a row of a and c, numbers 2 and 6: new at evaluation 3, if a is still in its window at 14

The rows of a step have hidden columns with the numbers of the evaluations that their parts came with
(`numbered_evaluations`): the greatest is the evaluation that emits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stream_ext.network.numbered_rows import NumberedRowsNetwork
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.scans.numbered_scan import CAME, GONE
from stream_ext.rows.zset import Columns, Weights, ZSet, in_order, sum_equal_rows
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.numbered_evaluations import OLD, NumberedEvaluations
from stream_ext.windows.scheduled_window import ScheduledWindow, Times

_NOTHING: Times = np.empty(0, np.int64)
#: So many evaluations are made in one step; and where rows are joined.
_TOGETHER_MAX, _JOINED_MAX = 1 << 16, 1 << 11


class Emitted(NamedTuple):
    """The rows that one of the evaluations emits, in order."""

    place: int  # of the evaluation, among those of the step
    columns: Columns
    weights: Weights


class Arrived(NamedTuple):
    """Elements, and for each the place of the evaluation of the step that it comes with."""

    arrival: Arrival
    places: Times


class NumberedNetwork:
    def __init__(self, network: NumberedRowsNetwork, windows: Sequence[ScheduledWindow]) -> None:
        self.network = network
        self.store_sn: int | None = None  # of the last evaluation
        self._windows = windows
        self._names = network.answer_variables
        self._hidden = [
            [place for place, name in enumerate(self._names) if name.startswith(kind)] for kind in (CAME, GONE)
        ]
        self._own = [place for place, name in enumerate(self._names) if not name.startswith((CAME, GONE))]
        self._number = 0  # of the last evaluation
        self._waiting: list[Arrival] = []  # what has come since the last evaluation: new at the next one
        self._emitting = 0  # the number of the evaluation whose rows are being emitted
        # Of each window that holds all: evaluations, and the least time from each of them on.
        self._least: dict[int, tuple[Times, Times]] = {
            place: (_NOTHING, _NOTHING) for place, window in enumerate(windows) if window.holds_all
        }

    def step_from(self, times: Times, start: int, most: int) -> int:
        """Where the step ends that begins with the evaluation at `start`, of `most` evaluations at most.

        In a join, a step also finds rows that are in no window together: those of a window that is shorter than the
        step. So a step of joined windows is no longer than a part of the shortest of them."""
        joined = len(self.network.scans) - 1
        if joined < 1:
            return min(len(times), start + min(most, _TOGETHER_MAX))
        counts = [window.count.most for window in self._windows if window.count is not None]
        lengths = [window.range_ms - window.until_ms for window in self._windows if not window.is_endless]
        most = min(most, _JOINED_MAX, *(max(1, count // joined) for count in counts))
        stop = min(len(times), start + most)
        if lengths:
            last = int(times[start]) + min(lengths) // joined
            stop = min(stop, int(np.searchsorted(times, last, "right")))
        return max(stop, start + 1)

    def arrive(self, arrival: Arrival) -> None:
        """Elements that no evaluation has seen: they are new at the next one."""
        if len(arrival.element_times):
            self._waiting.append(arrival)

    def settle(self) -> None:
        """What has arrived is not new any more."""
        for arrival in self._waiting:
            self._enter(arrival, np.full(len(arrival.element_times), OLD, np.int64))
        self._waiting.clear()

    def evaluate(self, moment: Moment, times: Times, arrived: Sequence[Arrived]) -> list[Emitted]:
        """Evaluations at these times, at each of which some elements come; those that emit rows, in order."""
        first = self._number + 1
        for arrival in self._waiting:
            self._enter(arrival, np.full(len(arrival.element_times), 2 * first, np.int64))
        self._waiting.clear()
        for arrival, places in arrived:
            self._enter(arrival, 2 * (first + places))
        self._number += len(times)
        self.store_sn = int(moment.snapshot.sn)
        evaluations = NumberedEvaluations(first, times)
        change = self.network.changed(replace(moment, time=int(times[0]), evaluations=evaluations))
        return list(self._emitted(change, evaluations))

    def _enter(self, arrival: Arrival, came: Times) -> None:
        self.network.arrive_with(arrival, came)
        for place in self._least:
            window = self._windows[place]
            if window.stream == arrival.stream:
                self._note_least(place, arrival.element_times, came)

    # ---- what is emitted ------------------------------------------------------------------------------------------

    def _emitted(self, change: ZSet, evaluations: NumberedEvaluations) -> Iterator[Emitted]:
        if not change.count:
            return
        change = self._new_ones(change, evaluations)
        if not change.count:
            return
        places = change.column(self._hidden[0][0])
        rows = (places, *(change.column(place) for place in self._own))
        if change.weights is None:
            columns, weights = in_order(rows, change.weight_array())
        else:
            columns, weights = sum_equal_rows(rows, change.weights)
        if not len(weights):
            return
        starts = np.flatnonzero(np.diff(columns[0], prepend=~columns[0][:1]))
        stops = [*starts[1:].tolist(), len(weights)]
        for start, stop in zip(starts.tolist(), stops, strict=True):
            own = tuple(column[start:stop] for column in columns[1:])
            yield Emitted(int(columns[0][start]), own, weights[start:stop])

    def _new_ones(self, change: ZSet, evaluations: NumberedEvaluations) -> ZSet:
        """The rows that are new at an evaluation; in place of their first hidden column the place of that."""
        number = _greatest([change.column(place).view(np.int64) for place in self._hidden[0]])
        places = evaluations.place_of(number)
        new = (places >= 0) & (number & 1 == 0)
        if change.untils is not None:
            new &= change.untils >= evaluations.times[np.maximum(places, 0)]
        for place in self._hidden[1]:
            gone = change.column(place).view(np.int64)
            new &= (gone > number) | (gone == 0)  # 0: this row has nothing of that window
        columns = list(change.stored)
        columns[self._hidden[0][0]] = places.view(np.uint64)
        return replace(change, stored=tuple(columns)).take(new)

    # ---- the windows of an emission ----------------------------------------------------------------------------

    def emitting(self, place: int, of: int) -> None:
        """Rows of this evaluation, of the `of` ones of the last step, are being emitted."""
        self._emitting = self._number - of + 1 + place

    def oldest(self, window: int, time: int) -> int | None:
        """The least time in a window at the evaluation that is being emitted, if no length of time limits the
        window."""
        if window in self._least:
            evaluations, times = self._least[window]
            place = int(np.searchsorted(evaluations, 2 * self._emitting, "right")) - 1
            return int(times[place]) if place >= 0 and times[place] <= time else None
        displacing = self.network.displacing.get(self._windows[window].name)
        return None if displacing is None else displacing.oldest_at(self._emitting)

    def _note_least(self, place: int, times: Times, came: Times) -> None:
        """Elements that are later than their evaluation make nothing older: an element of its time came with it."""
        evaluations, least = self._least[place]
        order = np.argsort(came, kind="stable")
        before = least[-1:] if len(least) else np.array([np.iinfo(np.int64).max])
        more = np.minimum.accumulate(np.concatenate([before, times[order]]))[1:]
        known = np.searchsorted(evaluations, 2 * self._number, "right")  # all but the last are of evaluations long gone
        start = max(0, int(known) - 1)
        self._least[place] = (
            np.concatenate([evaluations[start:], came[order]]), np.concatenate([least[start:], more])
        )  # fmt: skip


def _greatest(columns: Sequence[Times]) -> Times:
    found = columns[0]
    for column in columns[1:]:
        found = np.maximum(found, column)
    return found
