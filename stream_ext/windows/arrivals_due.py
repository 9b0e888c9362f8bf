"""Arrivals due: the evaluations that a push makes due at arrivals, all at once.

`Schedule.due` says them one by one, each after the one before was made. Where elements come in the order of their
times, as most do, arithmetic on the whole push says the same; else the schedule is asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_ext.windows.pushes import Merged
from stream_ext.windows.schedule import Schedule
from stream_ext.windows.scheduled_window import Mask, Times
from stream_ext.windows.timing import StreamAdvance, arrives_by_element


class ArrivalsDue(NamedTuple):
    """The evaluations: their times, and which elements have arrived by each (`Due.arrived`). `places`: for each element
    of the push the evaluation that it comes with; one more than the last if it comes with none of them."""

    times: Times
    arrived: Times
    places: Times


def arrivals_due(schedule: Schedule, moved: StreamAdvance, arrived_at: int | None) -> ArrivalsDue:
    """After `schedule.take(moved)`; the schedule goes on as if all of them were made. `arrived_at`: elements up to this
    one were evaluated before. Of a query that is evaluated at arrivals alone."""
    if not schedule.timing.has_origin or not len(moved.element_times):
        return _none(len(moved.element_times))
    if arrives_by_element(schedule.windows, moved.stream):
        return _element_by_element(schedule, moved, arrived_at or 0)
    return _time_by_time(schedule, moved, arrived_at)


class MergedDue(NamedTuple):
    """As `ArrivalsDue`, of all pushes of a snapshot: also the push of each evaluation."""

    times: Times
    pushes: Times
    arrived: Times
    places: Times


def merged_due(schedule: Schedule, merged: Merged) -> MergedDue | None:
    """What all pushes of a snapshot make due. None: that is to be found push by push, because some element is older
    than one before it."""
    times, last = merged.times, schedule.last
    if not schedule.timing.has_origin or not merged.is_in_order:
        return None
    if not len(times):
        return MergedDue(times, times, times, times)
    if last is not None and int(times[0]) < last:
        return None
    due, arrived = np.zeros(len(times), np.bool_), times.copy()
    pushes = merged.pushes
    ends = np.append((times[1:] != times[:-1]) | (pushes[1:] != pushes[:-1]), True)
    begins = np.flatnonzero(np.append(True, pushes[1:] != pushes[:-1]))
    numbers = np.arange(1, len(times) + 1) - begins[np.cumsum(np.bincount(begins, minlength=len(times))) - 1]
    for arrival, places in merged.streams:
        own, counts = times[places], any(w.stream == arrival.stream and w.count is not None for w in schedule.windows)
        due[places] = True if counts else _can_contain(schedule, arrival.stream, own, own)
        if arrives_by_element(schedule.windows, arrival.stream):
            arrived[places] = numbers[places]
        else:
            due[places] &= ends[places]
        if counts:
            schedule.arrive_in_order(arrival)
    if due.any():
        schedule.seen(int(times[due][-1]))
    found: Times = np.cumsum(due) - due
    return MergedDue(times[due], pushes[due].astype(np.int64), arrived[due], found)


def _none(elements: int) -> ArrivalsDue:
    nothing: Times = np.empty(0, np.int64)
    return ArrivalsDue(nothing, nothing, np.zeros(elements, np.int64))


def _time_by_time(schedule: Schedule, moved: StreamAdvance, arrived_at: int | None) -> ArrivalsDue:
    times = moved.element_times
    ascends = bool((times[1:] >= times[:-1]).all())
    if ascends:
        distinct = times[np.append(times[1:] != times[:-1], True)]
    else:
        distinct = np.unique(times)
    if arrived_at is not None:
        distinct = distinct[distinct > arrived_at]
    last = schedule.last
    at = distinct if last is None else np.maximum(distinct, last)
    due = _can_contain(schedule, moved.stream, distinct, at)
    # What comes to the time of the last evaluation is one evaluation.
    together = 0 if last is None else int(np.searchsorted(distinct, last, "right"))
    if together > 1:
        any_due = bool(due[:together].any())
        due[:together] = False
        due[together - 1] = any_due
    arrived, at = distinct[due], at[due]
    if len(at):
        schedule.seen(int(at[-1]))
    return ArrivalsDue(at, arrived, np.searchsorted(arrived, times).astype(np.int64))


def _element_by_element(schedule: Schedule, moved: StreamAdvance, before: int) -> ArrivalsDue:
    times, last = moved.element_times, schedule.last
    in_order = bool((times[1:] >= times[:-1]).all()) and (last is None or int(times[0]) >= last)
    if not in_order or before or schedule.timing.stepped_counts:
        return _one_by_one(schedule, moved, before)
    counts = any(window.stream == moved.stream and window.count is not None for window in schedule.windows)
    due = np.ones(len(times), np.bool_) if counts else _can_contain(schedule, moved.stream, times, times)
    schedule.arrive_in_order(moved)
    numbers = np.arange(1, len(times) + 1)
    if due.any():
        schedule.seen(int(times[due][-1]))
    return ArrivalsDue(times[due], numbers[due], (np.cumsum(due) - due).astype(np.int64))


def _one_by_one(schedule: Schedule, moved: StreamAdvance, before: int) -> ArrivalsDue:
    found = []
    for due in schedule.due(moved, before):
        assert due.arrived is not None, "it is evaluated at arrivals alone"
        found.append((due.time, due.arrived))
        schedule.seen(due.time)
    at, arrived = (np.array([each[i] for each in found], np.int64) for i in range(2))
    places = np.searchsorted(arrived, np.arange(1, len(moved.element_times) + 1)).astype(np.int64)
    return ArrivalsDue(at, arrived, places)


def _can_contain(schedule: Schedule, stream: int, times: Times, at: Times) -> Mask:
    """Which elements of these times can be in a window at these evaluations, or later."""
    found = np.zeros(len(times), np.bool_)
    for window in schedule.windows:
        if window.stream == stream and window.count is None:
            seen = window.for_arrivals()
            found |= seen.valid_until(times) >= np.maximum(at, seen.valid_from(times))
    return found
