"""What a query has missed that is behind the others: where it is cut, if its windows go on with the streams.

    [RANGE 1h STEP 1s], a day behind, four stretches     =>     cut after the closes at 6, 12 and 18 h, or soon after

Which closes each push makes due is a function of the times of the elements alone, so the cuts are found without an
evaluation. As in a past (`stretches.py`), a stretch begins after a close at which a window holds something."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from hbase_store import Store, StreamPosition
from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.runners.replays.stretches import ELEMENT_S, CutMarks, Cuts, close_from, stretch_s, within
from stream_ext.windows.arrivals import Arrival, arrivals
from stream_ext.windows.grids import RepeatedTimes
from stream_ext.windows.occupancy import Occupancy, next_entry
from stream_ext.windows.query_state import LastEvaluation, QueryState
from stream_ext.windows.schedule import Schedule

#: For each task that runs at a time so many stretches are cut; the others later.
_STRETCHES_AT_ONCE = 8
#: Where a stretch may begin is known to such a part of a stretch.
_PLACES_PER_STRETCH = 16


class _Course:
    """All closes that were missed, push by push. `schedule`: before the closes of the push at hand; `elements`: so many
    have come; `occupancies`: what is in the windows, from what has come since."""

    def __init__(self, planned: PlannedQuery, store: Store, behind_at: int, head: int) -> None:
        state = planned.state
        self._store, self._first, self._head, self._begins = store, behind_at + 1, head, state.within
        self.schedule = Schedule(planned.timing, state, store.vts(behind_at))
        self.elements = 0
        self.occupancies: list[Occupancy] = []

    def __iter__(self) -> Iterator[tuple[Arrival, RepeatedTimes]]:
        schedule, begins = self.schedule, self._begins
        for sn in range(self._first, self._head + 1):
            for arrival in arrivals(self._store, sn, schedule.streams()):
                self._take(arrival)
                if sn == self._first and begins is not None and arrival.push < begins.push:
                    continue
                bound = schedule.bound() if schedule.timing.has_origin else None
                closes = None if bound is None else schedule.run_until(bound)
                if closes is not None:
                    yield arrival, closes
                    schedule.done(closes.last)
                    _move_to(self.occupancies, closes.last)

    def _take(self, arrival: Arrival) -> None:
        self.schedule.take(arrival)
        self.elements += len(arrival.element_times)
        if self.schedule.timing.has_origin:
            self.occupancies = self.occupancies or [Occupancy(window) for window in self.schedule.windows]
        for occupancy in self.occupancies:
            if arrival.reaches(occupancy.window):
                occupancy.arrive(arrival.element_times)

    def state_after(self, arrival: Arrival, close: int) -> QueryState:
        """The state of the query after a close that this push makes due, without the number of the evaluation."""
        schedule = self.schedule.copy()
        schedule.done(close)
        evaluated = LastEvaluation(arrival.sn, arrival.push, -1, close)
        return within(schedule.state(evaluated, None, arrival.sn), arrival.sn, arrival.push, 0)


def cuts(planned: PlannedQuery, store: Store, head: int, lanes: int, close_s: float) -> Cuts:
    """Where all up to snapshot `head` is cut into stretches of about the same work, for so many tasks at a time, if an
    evaluation takes `close_s`. Of very much only the beginning is cut: the rest is, while tasks evaluate that."""
    behind_at = planned.state.behind_at
    assert behind_at is not None, "it is behind"
    reread_s = _reread_s(planned, store.vts(head))
    most_s = lanes * _STRETCHES_AT_ONCE * stretch_s(reread_s)
    places, closes, expected_s = _Places(stretch_s(reread_s) / _PLACES_PER_STRETCH), 0, 0.0
    course = _Course(planned, store, behind_at, head)
    for arrival, due in course:
        before_s, count = closes * close_s + course.elements * ELEMENT_S, due.count()
        closes, expected_s = closes + count, before_s + count * close_s
        places.find(course, arrival, due, before_s, expected_s, most_s)
        if expected_s > most_s and places.states:
            starts = places.nearest(CutMarks.of(most_s, reread_s, lanes).work_s) or places.states[-1:]
            return Cuts(expected_s, starts, False)
    return Cuts(expected_s, places.nearest(CutMarks.of(expected_s, reread_s, lanes).work_s), True)


class _Places:
    """Closes at which a window holds something, about `apart_s` of work apart: the state after each, and the work up
    to it."""

    def __init__(self, apart_s: float) -> None:
        self._apart_s, self._next_s = apart_s, apart_s
        self.states: list[QueryState] = []
        self._work_s: list[float] = []

    def find(
        self, course: _Course, arrival: Arrival, due: RepeatedTimes, before_s: float, after_s: float, most_s: float
    ) -> None:
        """Among the closes that a push makes due, if the work up to these is `before_s`, and up to their end `after_s`.
        None is looked for from `most_s` on, if there are any."""
        latest, span = due.first - 1, max(1, due.last - due.first)
        while self._next_s <= after_s and (self._next_s <= most_s or not self.states):
            part = max(0.0, (self._next_s - before_s) / (after_s - before_s))
            close = _occupied_close(course, due.first + int(span * part), due.last)
            if close is None:
                return  # the next push may bring one
            at_s = before_s + (after_s - before_s) * (close - due.first) / span
            if close > latest:  # what is occupied is known from the latest one on
                latest = close
                self.states.append(course.state_after(arrival, close))
                self._work_s.append(at_s)
            self._next_s = max(self._next_s, at_s) + self._apart_s

    def nearest(self, marks_s: Sequence[float]) -> list[QueryState]:
        """The first state from each mark on, each once."""
        found = dict.fromkeys(bisect_left(self._work_s, mark_s) for mark_s in marks_s)
        return [self.states[place] for place in found if place < len(self.states)]


def _reread_s(planned: PlannedQuery, positions: Mapping[int, StreamPosition]) -> float:
    """How long a stretch is expected to read what its windows hold."""
    elements = 0.0
    for window in planned.timing.windows:
        at = positions.get(window.stream)
        if at is not None and at.first is not None and at.latest is not None:
            elements += at.elements_total * min(1.0, window.range_ms / max(1, at.latest - at.first))
    return elements * ELEMENT_S


def _occupied_close(course: _Course, time: int, last: int) -> int | None:
    """The first close from `time` to `last` at which a window holds something that has come since."""
    close = close_from(course.schedule, time)
    while close is not None and close <= last:
        _move_to(course.occupancies, close)
        if any(occupancy.is_occupied(close) for occupancy in course.occupancies):
            return close
        close = close_from(course.schedule, max(close + 1, next_entry(course.occupancies)))
    return None


def _move_to(occupancies: Sequence[Occupancy], time: int) -> None:
    for occupancy in occupancies:
        occupancy.move_to(time)
