"""A timing class: runs that are evaluated at the same times over windows of the same content.

One schedule and one occupancy of the windows serve all of them: what a snapshot brings is found once (`Course`), and
each run that it may concern is stepped through it.

A run of a class sleeps while nothing enters its windows that its patterns match, nothing that they matched leaves, and
the store that it reads stays as it is: then its result is empty, or under RSTREAM the one before. Its network is not
stepped. One index of what wakes whom serves all that sleep.

    a push with the triple :s :p :o   wakes the runs with a pattern `?s :p ?o`, `:s :p ?o`, `?s :p :o`, or `?s ?p ?o`
    a close                           wakes the runs from whose windows something may leave up to it
    a change of the store             wakes the runs that read it

Before anything else is done with a run, it leaves the class: from then on it has a schedule of its own again."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import count

from stream_ext.continuous.cohort import Cohort
from stream_ext.continuous.course import ClassPosition, Course, course_of
from stream_ext.continuous.joint_parts import JointParts
from stream_ext.continuous.run import Run
from stream_ext.continuous.shared_stages import SharedStages
from stream_ext.network.operators.core.pattern import UNKNOWN, O, P, S
from stream_ext.network.operators.scans.ends import NO_TIME
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.occupancy import Occupancy
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import LastEvaluation
from stream_ext.windows.timing import Timing

#: In a push of more triples it is not looked for what wakes whom.
_TRIPLES_MAX = 256

#: The stream of an element; and of one of its triples the predicate, or the predicate with the subject or the object.
Waker = tuple[int, ...]
#: In the place of a predicate: a push of so many triples; any predicate.
_MANY, _ANY = 0, -1
#: The length of a waker with a predicate alone.
_WITH_PREDICATE = 2
#: So few wakers are looked for one by one.
_FEW = 8


def timing_without_names(timing: Timing) -> Timing:
    """Equal for queries that are evaluated at the same times over the same content, whatever they name their
    windows."""
    return replace(timing, windows=tuple(replace(window, name="") for window in timing.windows))


def timing_without_lengths(timing: Timing) -> Timing:
    """Equal for those that differ in the lengths of their windows only; their evaluations are at the same times."""
    return replace(timing, windows=tuple(replace(window, name="", range_ms=0) for window in timing.windows))


class TimingClass:
    def __init__(self, first: Run, shared: SharedStages) -> None:
        """Of a run that is about to join it. `shared`: with other classes, over windows of other lengths."""
        schedule = first.cohorts[0].schedule.copy()
        self._position = ClassPosition(schedule, first.cohorts[0].evaluated)
        self._occupancy: Sequence[Occupancy] = first.evaluator.triggered(False).occupancy()
        self._awake: dict[Run, None] = {}
        self._wakers: dict[Run, Set[Waker]] = {}  # what wakes each of them
        self._asleep: dict[Run, int] = {}
        self._asleep_singly: dict[Run, None] = {}  # those of them that emit nothing together with others
        self._woken_by: dict[Waker, dict[Run, None]] = {}
        self._read_store: dict[Run, None] = {}  # of those that sleep
        self._times: list[tuple[int, int, Run]] = []  # a heap: when a run wakes at the latest
        self._turns = count()
        self.streams = schedule.streams()
        self.length_ms = max(window.range_ms for window in first.timing.windows)
        self.timing = timing_without_names(first.timing)
        self.timing_of_any_length = timing_without_lengths(first.timing)
        self.shared = shared
        self._joint: dict[tuple[object, ...], list[JointParts]] = {}
        self._before: LastEvaluation | None = None  # the evaluation before the present snapshot

    @property
    def place(self) -> tuple[object, ...]:
        """Equal for runs that may be in one class, if their timing is equal, too; () if nobody is in it."""
        return next((place_of(run.cohorts[0]) for runs in (self._awake, self._asleep) for run in runs), ())

    @property
    def is_empty(self) -> bool:
        return not self._asleep and not self._awake

    @property
    def reads_store(self) -> bool:
        """Whether one that sleeps does."""
        return bool(self._read_store)

    # ---- who is in it, and who sleeps

    def join(self, run: Run) -> None:
        self._awake[run] = None
        wakers = self._wakers[run] = _wakers_of_run(run)
        for key in wakers:
            self._woken_by.setdefault(key, {})[run] = None
        run.in_class.join(self._position.schedule, self.shared)
        if run.in_class.may_emit_together():
            alike = self._joint.setdefault((run.plan.labels, run.cohorts[0].t0, run.plan.width), [])
            joint = next((each for each in alike if each.has_room), None)
            if joint is None:
                alike.append(joint := JointParts())
            joint.join(run)
            run.in_class.joint = joint

    def leave(self, run: Run, is_over: bool = False) -> None:
        """The run goes on from where the class is, or from where its step has come to; unless it `is_over`."""
        self._wake(run)
        self.shared.give_up_lost(run)
        del self._awake[run]
        for key in self._wakers.pop(run):
            others = self._woken_by[key]
            del others[run]
            if not others:
                del self._woken_by[key]
        run.in_class.leave(self._occupancy, is_over)

    def sleep(self, run: Run, wakes_at: int) -> None:
        del self._awake[run]
        turn = self._asleep[run] = next(self._turns)
        if wakes_at < NO_TIME:
            heapq.heappush(self._times, (wakes_at, turn, run))
        if run.plan.reads_store:
            self._read_store[run] = None
        if run.in_class.joint is not None:
            run.in_class.joint.sleep(run)
        if run.in_class.joint is None:  # perhaps since just now: it left as it has many rows
            self._asleep_singly[run] = None
        else:
            run.cohorts[0].sleep_at(self._position)

    def _wake(self, run: Run) -> None:
        if run not in self._asleep:
            return
        del self._asleep[run]
        self._asleep_singly.pop(run, None)
        self._awake[run] = None
        self._read_store.pop(run, None)
        run.cohorts[0].sleep_at(None)
        run.in_class.wake()
        if run.in_class.joint is not None:
            run.in_class.joint.wake(run)
        if len(self._times) > 2 * len(self._asleep) + 64:  # most of them have woken by now
            self._times = [each for each in self._times if self._asleep.get(each[2]) == each[1]]
            heapq.heapify(self._times)

    # ---- one snapshot

    def course(self, sn: int, arrivals: ArrivalsByStream) -> Course | None:
        """What this snapshot brings; None: it is too much to be done together."""
        return course_of(sn, arrivals.of(self.streams), self._position.schedule, self._occupancy)

    def members(self) -> list[Run]:
        return [*self._awake, *self._asleep]

    def wake(self, course: Course, wakers: Wakers, store_changed: bool) -> list[Run]:
        """Wakes the runs that this snapshot may concern; returns them. `wakers`: those of its pushes."""
        woken = dict(self._read_store) if store_changed else {}
        for key in wakers.among(self._woken_by) if self._asleep else ():
            woken |= self._woken_by[key]
        closes = course.closes
        while closes and self._times and self._times[0][0] <= closes[-1][1].due.time:
            _, turn, run = heapq.heappop(self._times)
            if self._asleep.get(run) == turn:
                woken[run] = None
        found = [run for run in woken if run in self._asleep]
        for run in found:
            self._wake(run)
        return found

    def begin(self, course: Course) -> list[Part]:
        """Parts of those that sleep through this snapshot. The others have the course to be stepped through."""
        self._occupancy = course.occupancy
        for run in self._awake:
            run.in_class.course = course
        parts = list[Part]()
        if course.closes:
            self._before = self._position.evaluated
            for run in self._asleep_apart(course):
                run.cohorts[0].sleep_at(None)
                run.in_class.begin_asleep(course)
                parts += run.cohorts[0].slept(course.sn, course.closes, run.evaluator.unchanged_result)
                if run not in self._asleep_singly:
                    run.cohorts[0].sleep_at(self._position)
            self._position.evaluated = course.closes[-1][1].evaluated
        for run in self._asleep_singly:
            run.cohorts[0].schedule = course.schedule
        self._position.schedule = course.schedule
        return parts

    def _asleep_apart(self, course: Course) -> list[Run]:
        """Those that sleep and have parts of their own; of the others the results are joined from now on."""
        found = [*self._asleep_singly]
        for joint in [joint for alike in self._joint.values() for joint in alike]:
            if joint.are_many:
                joint.begin(course, self._awake)
            else:
                found += [run for run in joint.members if run in self._asleep]
        return found

    def joint_parts(self) -> Iterator[Part]:
        """Those of the snapshot that has just been stepped."""
        for alike in self._joint.values():
            for joint in alike:
                if joint.is_under_way:
                    assert self._before is not None, "its members were evaluated before they joined"
                    yield from joint.parts(self._before)


def place_of(cohort: Cohort) -> tuple[object, ...]:
    """Equal for cohorts of one timing that were evaluated last at the same push, and are evaluated next at the same."""
    return cohort.evaluated, cohort.schedule.after, cohort.schedule.last


class ArrivalsByStream:
    """Those of a snapshot. There may be hundreds of streams, and hundreds of classes that read two of them."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        """In the order of their pushes."""
        self._of: dict[int, list[Arrival]] = {}
        for arrival in arrivals:
            self._of.setdefault(arrival.stream, []).append(arrival)

    def of(self, streams: Collection[int]) -> list[Arrival]:
        """In the same order."""
        found = [arrival for stream in streams for arrival in self._of.get(stream, ())]
        return found if len(streams) == 1 else sorted(found, key=lambda arrival: arrival.push)


class Wakers:
    """Those of the pushes of a snapshot."""

    def __init__(self, arrivals: Iterable[Arrival]) -> None:
        self._triples: dict[int, list[tuple[int, int, int]]] = {}  # by stream; of a long push none
        self._found: set[Waker] = set()
        self._is_complete = False  # `_found`: of all triples
        for arrival in arrivals:
            if len(arrival.p) > _TRIPLES_MAX:
                self._found |= {(arrival.stream,), (arrival.stream, _MANY)}
            elif len(arrival.p):
                self._found.add((arrival.stream,))
                triples = zip(arrival.s.tolist(), arrival.p.tolist(), arrival.o.tolist(), strict=True)
                self._triples.setdefault(arrival.stream, []).extend(triples)

    def among(self, keys: Mapping[Waker, object]) -> Iterable[Waker]:
        """Which of these. Few are looked for one by one."""
        if self._is_complete or len(keys) > _FEW:
            return keys.keys() & self._all()
        return [key for key in keys if key in self._found or self._is_in_triples(key)]

    def _is_in_triples(self, key: Waker) -> bool:
        triples = self._triples.get(key[0], ())
        if len(key) == 1 or key[1] == _MANY:
            return False
        if len(key) == _WITH_PREDICATE:
            return any(p == key[1] for _, p, _ in triples)
        _, predicate, position, value = key
        return any(each[position] == value and predicate in (_ANY, each[P]) for each in triples)

    def _all(self) -> Set[Waker]:
        if not self._is_complete:
            self._is_complete = True
            for stream, triples in self._triples.items():
                for s, p, o in triples:
                    self._found |= {
                        (stream, p), (stream, p, S, s), (stream, p, O, o), (stream, _ANY, S, s), (stream, _ANY, O, o)
                    }  # fmt: skip
        return self._found


def _wakers_of_run(run: Run) -> set[Waker]:
    """What wakes a run: for each of its patterns a property of all triples that match, and pushes of many triples."""
    found: set[Waker] = set()
    for scan in run.evaluator.triggered(False).network.scans:
        assert isinstance(scan, WindowScan), "only runs over windows of time are in classes"
        stream, fixed = scan.window.stream, scan.pattern.fixed
        found.add((stream, _MANY))
        predicate, position = fixed.get(P, _ANY), next((each for each in (S, O) if each in fixed), None)
        if UNKNOWN in fixed.values() or (predicate == _ANY and position is None):
            found.add((stream,))
        else:
            found.add((stream, predicate) if position is None else (stream, predicate, position, fixed[position]))
    return found
