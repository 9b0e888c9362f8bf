"""What a query has missed that is behind the others: where it is cut, if its windows go on with the streams.

    [RANGE 1h STEP 1s], a day behind, four stretches     =>     cut after the closes at 6, 12 and 18 h, or soon after

Which closes each push makes due is a function of the times of the elements alone, so the cuts are found without an
evaluation. As in a past (`stretches.py`), a stretch begins after a close at which a window holds something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hbase_store import Store
from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.runners.replays.stretches import ELEMENT_S, CutMarks, Cuts, close_from, within
from stream_ext.windows.arrivals import Arrival, arrivals
from stream_ext.windows.grids import RepeatedTimes
from stream_ext.windows.occupancy import Occupancy, next_entry
from stream_ext.windows.query_state import ClosePlace, LastEvaluation, QueryState
from stream_ext.windows.schedule import Schedule


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
    evaluation takes `close_s`."""
    behind_at = planned.state.behind_at
    assert behind_at is not None, "it is behind"
    course, closes = _Course(planned, store, behind_at, head), 0
    reached_s = [0.0]  # by each push that makes closes due
    for _, due in course:
        closes += due.count()
        reached_s.append(closes * close_s + course.elements * ELEMENT_S)
    marks = CutMarks.of(reached_s[-1], 0.0, lanes)
    starts = _cut(_Course(planned, store, behind_at, head), reached_s, [*reversed(marks.work_s)])
    return Cuts(reached_s[-1], starts, marks.is_all or not starts)


def _cut(course: _Course, reached_s: Sequence[float], wanted_s: list[float]) -> list[QueryState]:
    """`wanted_s`: the work up to each cut, the last one first."""
    found: list[QueryState] = []
    latest: ClosePlace | None = None
    for place, (arrival, due) in enumerate(course):
        if not wanted_s:
            break
        low_s, high_s = reached_s[place : place + 2]
        while wanted_s and wanted_s[-1] <= high_s:
            part = max(0.0, (wanted_s[-1] - low_s) / (high_s - low_s))
            close = _occupied_close(course, due.first + int((due.last - due.first) * part), due.last)
            if close is None:
                break  # the next push may bring one
            cut = ClosePlace(arrival.sn, arrival.push, close)
            if latest is None or cut > latest:  # what is occupied is known from the latest one on
                found.append(course.state_after(arrival, close))
                latest = cut
            wanted_s.pop()
    return found


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
