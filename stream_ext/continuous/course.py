"""A course: what a snapshot brings to all runs of a timing class, found once: its pushes, and the closes that are due
after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.occupancy import Occupancy
from stream_ext.windows.part import WindowBounds
from stream_ext.windows.query_state import LastEvaluation
from stream_ext.windows.schedule import Due, Schedule

#: Of the windows at an evaluation: its time, and whether it is one at an arrival.
Bounds = dict[tuple[int, bool], list[WindowBounds]]

#: With more closes in a snapshot, each run is stepped by itself: its turn may end between them, and runs of closes over
#: empty windows are one step there.
_CLOSES_MAX = 16


class Close(NamedTuple):
    """A close that is due, the schedule after it (which does not change any more), whether all windows are empty at it,
    and the evaluation as those say that have made it."""

    due: Due
    schedule: Schedule
    over_nothing: bool
    evaluated: LastEvaluation


@dataclass(slots=True, eq=False)
class ClassPosition:
    """Where a timing class is: its last evaluation, and its schedule after it. Runs that sleep in it have no position
    of their own, so that a close costs the same however many they are."""

    schedule: Schedule
    evaluated: LastEvaluation | None


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """`schedule` and `occupancy` are those after the snapshot; `closes`: all, each with the push after which it is
    due."""

    sn: int
    steps: Sequence[tuple[Arrival, Sequence[Close]]]
    schedule: Schedule
    occupancy: Sequence[Occupancy]
    #: Shared by the runs whose windows have the same labels.
    bounds: dict[tuple[str, ...], Bounds] = field(default_factory=dict)
    closes: Sequence[tuple[int, Close]] = ()


def course_of(
    sn: int, arrivals: Sequence[Arrival], schedule: Schedule, occupancy: Sequence[Occupancy]
) -> Course | None:
    """`arrivals`: those of the streams of this schedule; None: more closes are due than one course has."""
    if not arrivals:
        return Course(sn, (), schedule, occupancy)
    schedule, occupancy = schedule.copy(), [each.copy(each.window) for each in occupancy]
    steps, count = list[tuple[Arrival, list[Close]]](), 0
    for arrival in arrivals:
        schedule.take(arrival)
        for each in occupancy:
            if each.window.stream == arrival.stream:
                each.arrive(arrival.element_times)
        closes, time = list[Close](), schedule.next_time()
        while time is not None:
            count += 1
            if count > _CLOSES_MAX:
                return None
            for each in occupancy:
                each.move_to(time)
            schedule.done(time)
            is_occupied = any(each.is_occupied(time) for each in occupancy)
            due, time = Due(time, None), schedule.next_time()
            is_last = time is None and arrival is arrivals[-1]  # then it does not change any more
            evaluated = LastEvaluation(sn, arrival.push, count - 1, due.time)
            closes.append(Close(due, schedule if is_last else schedule.copy(), not is_occupied, evaluated))
        steps.append((arrival, closes))
    all_closes = [(arrival.push, close) for arrival, closes in steps for close in closes]
    return Course(sn, steps, schedule, occupancy, closes=all_closes)
