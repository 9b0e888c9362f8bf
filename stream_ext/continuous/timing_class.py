"""A timing class: runs that are evaluated at the same times over windows of the same content, and that sleep.

A run sleeps while nothing enters its windows that its patterns match, nothing that they matched leaves, and the store
that it reads stays as it is: then its result is empty, or under RSTREAM the one before. Its network is not stepped. One
schedule, one occupancy of the windows and one index of what wakes whom serve all that sleep.

    a push with the triple :s :p :o   wakes the runs with a pattern `?s :p ?o`, `:s :p ?o`, `?s :p :o`, or `?s ?p ?o`
    a close                           wakes the runs from whose windows something may leave up to it
    a change of the store             wakes the runs that read it

A run that wakes is stepped through the whole snapshot, by a schedule of its own again."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import count

from stream_ext.continuous.cohort import Cohort
from stream_ext.continuous.run import Bounds, Run
from stream_ext.network.operators.core.pattern import UNKNOWN, O, P, S
from stream_ext.network.operators.scans.ends import NO_TIME
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.part import Part
from stream_ext.windows.schedule import Due
from stream_ext.windows.timing import Timing

#: With more closes in a snapshot, each run is stepped by itself: its turn may end between them.
_CLOSES_MAX = 16
#: In a push of more triples it is not looked for what wakes whom.
_TRIPLES_MAX = 256

#: The stream of an element; and of one of its triples the predicate, or the predicate with the subject or the object.
Waker = tuple[int, ...]
#: In the place of a predicate: a push of so many triples; any predicate.
_MANY, _ANY = 0, -1


def timing_without_names(timing: Timing) -> Timing:
    """Equal for queries that are evaluated at the same times over the same content, whatever they name their
    windows."""
    return replace(timing, windows=tuple(replace(window, name="") for window in timing.windows))


class TimingClass:
    def __init__(self, first: Run) -> None:
        """Of a run that is about to sleep."""
        self.schedule = first.cohorts[0].schedule.copy()
        self._occupancy = first.evaluator.triggered(False).occupancy()
        self._asleep: dict[Run, int] = {}
        self._woken_by: dict[Waker, dict[Run, None]] = {}
        self._read_store: dict[Run, None] = {}
        self._times: list[tuple[int, int, Run]] = []  # a heap: when a run wakes at the latest
        self._turns = count()
        self._streams = self.schedule.streams()

    @property
    def place(self) -> tuple[object, ...]:
        """Equal for runs that may sleep together, if their timing is equal, too; () while nobody sleeps."""
        return next((place_of(run.cohorts[0]) for run in self._asleep), ())

    @property
    def is_empty(self) -> bool:
        return not self._asleep

    @property
    def reads_store(self) -> bool:
        return bool(self._read_store)

    # ---- who sleeps

    def add(self, run: Run, wakes_at: int) -> None:
        turn = self._asleep[run] = next(self._turns)
        if wakes_at < NO_TIME:
            heapq.heappush(self._times, (wakes_at, turn, run))
        for key in _wakers_of_run(run):
            self._woken_by.setdefault(key, {})[run] = None
        if run.plan.reads_store:
            self._read_store[run] = None
        run.cohorts[0].sleep(self.schedule)

    def wake(self, run: Run) -> None:
        """From now on the run is stepped again, from where this class is."""
        del self._asleep[run]
        self._read_store.pop(run, None)
        for key in _wakers_of_run(run):
            others = self._woken_by[key]
            del others[run]
            if not others:
                del self._woken_by[key]
        run.wake(self._occupancy)
        if len(self._times) > 2 * len(self._asleep) + 64:  # most of them have woken by now
            self._times = [each for each in self._times if self._asleep.get(each[2]) == each[1]]
            heapq.heapify(self._times)

    # ---- one snapshot

    def woken_by(self, arrivals: Sequence[Arrival], wakers: Set[Waker], store_changed: bool) -> list[Run]:
        """The runs that this snapshot may concern. `wakers`: those of the arrivals."""
        closes = self._closes([arrival for arrival in arrivals if arrival.stream in self._streams])
        if closes is None:
            return list(self._asleep)
        woken = dict(self._read_store) if store_changed else {}
        for key in self._woken_by.keys() & wakers:
            woken |= self._woken_by[key]
        while closes and self._times and self._times[0][0] <= closes[-1]:
            _, turn, run = heapq.heappop(self._times)
            if self._asleep.get(run) == turn:
                woken[run] = None
        return list(woken)

    def _closes(self, arrivals: Sequence[Arrival]) -> list[int] | None:
        """The closes that are due after these arrivals; None: they are many."""
        if not arrivals:
            return []
        schedule, found = self.schedule.copy(), list[int]()
        for arrival in arrivals:
            schedule.take(arrival)
            for due in schedule.due(arrival):
                if len(found) == _CLOSES_MAX:
                    return None
                found.append(due.time)
                schedule.done(due.time)
        return found

    def step(self, sn: int, arrivals: Sequence[Arrival]) -> list[Part]:
        """The parts of the runs that sleep on."""
        cohorts = [(run.cohorts[0], run.evaluator.unchanged_result) for run in self._asleep]
        has_begun, bounds = False, dict[tuple[str, ...], Bounds]()
        for arrival in arrivals:
            if arrival.stream not in self._streams:
                continue
            for due, is_occupied in self._due(arrival):
                if not has_begun:
                    has_begun = True
                    for run in self._asleep:
                        run.begin_asleep(sn, bounds.setdefault(run.plan.labels, {}))
                for cohort, result in cohorts:
                    cohort.add(due, arrival.push, not is_occupied, result)
        return [part for cohort, _ in cohorts for part in cohort.end(sn)] if has_begun else []

    def _due(self, arrival: Arrival) -> Iterator[tuple[Due, bool]]:
        """The closes that are due, and whether any window has content then."""
        self.schedule.take(arrival)
        for occupancy in self._occupancy:
            if occupancy.window.stream == arrival.stream:
                occupancy.arrive(arrival.element_times)
        for due in self.schedule.due(arrival):
            for occupancy in self._occupancy:
                occupancy.move_to(due.time)
            self.schedule.done(due.time)
            yield due, any(occupancy.is_occupied(due.time) for occupancy in self._occupancy)


def place_of(cohort: Cohort) -> tuple[object, ...]:
    """Equal for cohorts of one timing that were evaluated last at the same push, and are evaluated next at the same."""
    return cohort.evaluated, cohort.schedule.after, cohort.schedule.last


def wakers_of(arrival: Arrival) -> Iterator[Waker]:
    stream = arrival.stream
    if not len(arrival.p):
        return
    yield (stream,)
    if len(arrival.p) > _TRIPLES_MAX:
        yield (stream, _MANY)
        return
    for s, p, o in zip(arrival.s.tolist(), arrival.p.tolist(), arrival.o.tolist(), strict=True):
        yield from ((stream, p), (stream, p, S, s), (stream, p, O, o), (stream, _ANY, S, s), (stream, _ANY, O, o))


def _wakers_of_run(run: Run) -> set[Waker]:
    """For each of its patterns that which is common to all triples that it matches; and pushes of many triples."""
    found: set[Waker] = set()
    for scan in run.evaluator.triggered(False).network.scans:
        assert isinstance(scan, WindowScan), "only runs over windows of time sleep"
        stream, fixed = scan.window.stream, scan.pattern.fixed
        found.add((stream, _MANY))
        predicate, position = fixed.get(P, _ANY), next((each for each in (S, O) if each in fixed), None)
        if UNKNOWN in fixed.values() or (predicate == _ANY and position is None):
            found.add((stream,))
        else:
            found.add((stream, predicate) if position is None else (stream, predicate, position, fixed[position]))
    return found
