"""Numbered arrivals: the evaluations at the arrivals of one snapshot, many of them in one step.

    pushes         A: a b     B: c              of one snapshot
    evaluations    1 2        3                 what the schedule says is due
    steps          1 2 3                        as many as the turn and the lengths of joined windows allow

An element is new at the first evaluation after it has come; what comes after the last evaluation waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stream_ext.continuous.cohort import Cohort
from stream_ext.continuous.emitting import note_bounds
from stream_ext.continuous.numbered_network import Arrived, NumberedNetwork
from stream_ext.continuous.results import ManyResults
from stream_ext.continuous.steps import ManyDue
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.arrivals_due import MergedDue, arrivals_due, merged_due
from stream_ext.windows.pushes import Merged, PushesOfSnapshot
from stream_ext.windows.query_state import Within
from stream_ext.windows.schedule import Due
from stream_ext.windows.scheduled_window import Times
from stream_ext.windows.timing import arrives_by_element

if TYPE_CHECKING:
    from stream_ext.continuous.evaluations import Evaluations
    from stream_ext.continuous.run import Run

#: Pushes are gathered until they make so many evaluations due.
_WAITING_MAX = 1 << 16

_NOTHING: Times = np.empty(0, np.int64)


class _Due(NamedTuple):
    """Evaluations that are due: the time and the push of each, and which elements have arrived by it; and the elements
    that come."""

    times: Times
    pushes: Times
    arrived: Times
    coming: Sequence[Arrived]


class NumberedArrivals:
    def __init__(self, run: Run, evaluations: Evaluations, sn: int, within: Within | None) -> None:
        """`within`: the evaluations of the snapshot up to there were made before."""
        self._run, self._evaluations, self._sn, self._within = run, evaluations, sn, within
        self._waiting: list[_Due] = []  # what is due, push by push
        self._count = 0  # of these evaluations

    def of_pushes(self, pushes: PushesOfSnapshot) -> Iterator[int]:
        (cohort,), streams = self._run.cohorts, self._run.streams
        if self._within is None and self._run.evaluator.is_built:
            merged = pushes.merged(streams)
            if (due := merged_due(cohort.schedule, merged)) is not None:
                self._take_merged(merged, due)
                yield from self._all(cohort)
                return
        for arrival in pushes:
            if arrival.stream not in streams:
                continue
            self._take(arrival, cohort)
            if self._count >= _WAITING_MAX:
                yield from self._all(cohort)
        yield from self._all(cohort)

    def _take(self, arrival: Arrival, cohort: Cohort) -> None:
        """Finds what the push makes due."""
        within, evaluations = self._within, self._evaluations
        cohort.schedule.take(arrival)
        if not self._run.timing.has_origin or (within is not None and arrival.push < within.push):
            return
        evaluations.has_elements = evaluations.has_elements or len(arrival.element_times) > 0
        is_there = within is not None and arrival.push == within.push
        arrived_at = within.arrived_at if within is not None and is_there else None
        before, due = cohort.schedule.last, arrivals_due(cohort.schedule, arrival, arrived_at)
        if not self._run.evaluator.is_built:
            if not len(due.times):
                return
            after, cohort.schedule.last = cohort.schedule.last, before
            evaluations.build(self._sn, arrival, int(due.times[0]))
            cohort.schedule.last = after
        coming, places = arrival, due.places
        if arrived_at is not None:
            numbered = arrives_by_element(self._run.timing.windows, arrival.stream)
            marks = np.arange(1, len(places) + 1) if numbered else arrival.element_times
            coming, places = arrival.of_elements(marks > arrived_at), places[marks > arrived_at]
        pushes = np.full(len(due.times), arrival.push)
        arrived = Arrived(coming, places + self._count)
        self._waiting.append(_Due(due.times, pushes, due.arrived, [arrived]))
        self._count += len(due.times)

    def _take_merged(self, merged: Merged, due: MergedDue) -> None:
        self._evaluations.has_elements = self._evaluations.has_elements or len(merged.times) > 0
        coming = [Arrived(arrival, due.places[places]) for arrival, places in merged.streams]
        self._waiting.append(_Due(due.times, due.pushes, due.arrived, coming))
        self._count += len(due.times)

    def _all(self, cohort: Cohort) -> Iterator[int]:
        """Makes the evaluations that are due, with pauses."""
        if not self._waiting:
            return
        waiting = self._waiting
        times, pushes, arrived = (np.concatenate([each[i] for each in waiting]) for i in range(3))
        coming = [each for due in waiting for each in due.coming]
        triples = _triples_before(coming, len(times)) if self._network.counts_triples else None
        self._waiting, self._count, start = [], 0, 0
        while start < len(times):
            stop = self._network.step_from(times, start, self._evaluations.most, triples)
            part = slice(start, stop)
            due = ManyDue(times[part], pushes[part], arrived[part])
            self._evaluate(due, _between(coming, start, stop), cohort)
            start = stop
            yield len(due.times)
        for each in _between(coming, len(times), len(times) + 1):
            self._network.arrive(each.arrival)

    @property
    def _network(self) -> NumberedNetwork:
        """The present one: between two steps, the run may begin anew."""
        found = self._run.evaluator.numbered
        assert found is not None, "its evaluations are numbered"
        return found

    def _evaluate(self, due: ManyDue, coming: Sequence[Arrived], cohort: Cohort) -> None:
        self._evaluations.enter([cohort])
        results = self._run.evaluator.evaluate_numbered(self._sn, due.times, coming)
        if self._run.plan.is_shared:
            done = self._add_one_by_one(due, results, cohort)
        else:
            done = self._add_at_once(due, results, cohort)
        self._add_silent(due, done, len(due.times), cohort)
        time, push, arrived = (int(column[-1]) for column in due)
        cohort.schedule.last = self._evaluations.time = time
        self._evaluations.at = Within(push, 0, arrived)

    @staticmethod
    def _add_at_once(due: ManyDue, results: ManyResults, cohort: Cohort) -> int:
        """How many are done: up to the last that emits."""
        if not len(results.places):
            return 0
        last = int(results.places[-1])
        cohort.schedule.last = int(due.times[last])
        cohort.add_many(due, results)
        return last + 1

    def _add_one_by_one(self, due: ManyDue, results: ManyResults, cohort: Cohort) -> int:
        """The rows of each evaluation are parted by query."""
        note_bounds(self._run, due, results)
        done = start = 0
        for place, stop in zip(results.places.tolist(), results.stops.tolist(), strict=True):
            self._add_silent(due, done, place, cohort)
            cohort.schedule.last = int(due.times[place])
            result = [column[start:stop] for column in results.columns], None, True
            cohort.add(*_due_at(due, place), False, result)
            done, start = place + 1, stop
        return done

    def _add_silent(self, due: ManyDue, first: int, stop: int, cohort: Cohort) -> None:
        if first < stop:
            cohort.schedule.last = int(due.times[stop - 1])
            nothing = self._run.plan.empty_result
            cohort.steps.add_silent(_due_at(due, first), _due_at(due, stop - 1), stop - first, nothing)


def _triples_before(coming: Sequence[Arrived], count: int) -> Times:
    """For each of so many evaluations, and the end, how many triples come before it."""
    found = np.zeros(count + 2, np.int64)
    for arrival, places in coming:
        found[1:] += np.bincount(places[arrival.element], minlength=count + 1)
    return np.cumsum(found)[:-1]


def _due_at(due: ManyDue, place: int) -> tuple[Due, int]:
    time, push, arrived = (int(column[place]) for column in due)
    return Due(time, arrived), push


def _between(coming: Sequence[Arrived], start: int, stop: int) -> list[Arrived]:
    """The arrivals that come with the evaluations from number `start` to before number `stop`, which are one step."""
    found = []
    for arrival, places in coming:
        if not len(places):
            continue
        least, most = int(places.min()), int(places.max())
        if least >= start and most < stop:
            found.append(Arrived(arrival, places - start))
        elif least < stop and most >= start:
            inside = (places >= start) & (places < stop)
            if inside.any():
                found.append(Arrived(arrival.of_elements(inside), places[inside] - start))
    return found
