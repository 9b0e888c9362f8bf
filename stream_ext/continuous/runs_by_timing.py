"""Runs by timing: which runs of a shard are in which timing class, who joins one, who falls asleep, and who wakes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from stream_ext.continuous.run import Run
from stream_ext.continuous.shared_stages import SharedStages
from stream_ext.continuous.timing_class import (
    ArrivalsByStream,
    TimingClass,
    Wakers,
    place_of,
    timing_without_lengths,
    timing_without_names,
)
from stream_ext.windows.part import Part
from stream_ext.windows.pushes import PushesOfSnapshot
from stream_ext.windows.timing import Timing

#: Rows times columns of the longest answer that is emitted again without a step.
_CELLS_MAX = 1 << 16


Classes = dict[TimingClass, None]


class RunsByTiming:
    """There may be thousands of classes: a snapshot looks at those whose streams it moves, and no others."""

    def __init__(self) -> None:
        self._of: dict[Run, TimingClass] = {}
        self._by_stream: dict[int, Classes] = {}
        self._by_timing: dict[Timing, Classes] = {}
        self._by_timing_of_any_length: dict[Timing, Classes] = {}
        self._reading_store: Classes = {}  # those of which one that sleeps does
        self._begun: Classes = {}  # those that the present snapshot concerns

    def __contains__(self, run: Run) -> bool:
        return run in self._of

    def leave(self, run: Run, is_over: bool = False) -> None:
        """Whatever is to be done with the run; `is_over`: it is not stepped any more."""
        left = self._of.pop(run)
        left.leave(run, is_over)
        if not left.reads_store:
            self._reading_store.pop(left, None)
        if left.is_empty:
            for classes, key in self._indexes(left):
                del classes[key][left]
                if not classes[key]:
                    del classes[key]

    def _indexes(self, each: TimingClass) -> Iterator[tuple[dict[Any, Classes], object]]:
        """Where the class is found, and by what."""
        yield self._by_timing, each.timing
        yield self._by_timing_of_any_length, each.timing_of_any_length
        for stream in each.streams:
            yield self._by_stream, stream

    def settle(self, runs: Sequence[Run], awake: Collection[Run], sn: int) -> list[Run]:
        """After this snapshot, in which these `runs` were stepped, of all that are awake: they join the classes of
        others, and share what they have in common; returns those of them that sleep from now on."""
        self.join(runs)
        touched = self._begun | dict.fromkeys(self._of[run] for run in runs if run in self._of)
        for shared in dict.fromkeys(each.shared for each in touched):
            shared.gather(awake)
        found = []
        for run in runs:
            timing_class = self._of.get(run)
            wakes_at = None if timing_class is None else sleeps_until(run, sn)
            if timing_class is not None and wakes_at is not None:
                timing_class.sleep(run, wakes_at)
                if timing_class.reads_store:
                    self._reading_store[timing_class] = None
                found.append(run)
        return found

    def join(self, runs: Iterable[Run]) -> None:
        """Between two snapshots: those of them that may join classes do so."""
        self._join([run for run in runs if run not in self._of and may_join(run)])

    def _join(self, runs: Iterable[Run]) -> None:
        for run in runs:
            place = place_of(run.cohorts[0])
            known = self._by_timing.get(timing_without_names(run.timing), ())
            found = next((each for each in known if each.place == place), None)
            if found is None:
                found = TimingClass(run, self._shared_with(run))
                for classes, key in self._indexes(found):
                    classes.setdefault(key, {})[found] = None
            self._of[run] = found
            found.join(run)

    def _shared_with(self, run: Run) -> SharedStages:
        """The shared stages of the classes whose evaluations are those of this run, over windows of other lengths."""
        place = place_of(run.cohorts[0])
        known = self._by_timing_of_any_length.get(timing_without_lengths(run.timing), ())
        found = next((each.shared for each in known if each.place == place), None)
        if found is None:
            return SharedStages()
        found.adopt_other_lengths()
        return found

    @property
    def reads_store(self) -> bool:
        """Whether one that sleeps does."""
        return bool(self._reading_store)

    def begin(
        self, sn: int, pushes: PushesOfSnapshot, moved: Iterable[int], store_changed: bool
    ) -> tuple[list[Run], list[Part]]:
        """The runs that sleep no longer, since this snapshot may concern them; and the parts of those that sleep on.
        `moved`: the streams that it moves."""
        woken, parts = list[Run](), list[Part]()
        self._begun = {each: None for stream in moved for each in self._by_stream.get(stream, ())}
        if store_changed:
            self._begun |= self._reading_store
        if not self._begun:
            return woken, parts
        for shared in dict.fromkeys(each.shared for each in self._begun):
            shared.hand_down()
        arrivals = list(pushes)
        wakers, by_stream = Wakers(arrivals), ArrivalsByStream(arrivals)
        for each in list(self._begun):
            course = each.course(sn, by_stream)
            if course is None:
                members = each.members()
                for run in members:
                    self.leave(run)
                woken += members
            else:
                woken += each.wake(course, wakers, store_changed)
                if not each.reads_store:
                    self._reading_store.pop(each, None)
                parts += each.begin(course)
        return woken, parts

    def in_turn(self, awake: Iterable[Run]) -> list[Run]:
        """These, in the order in which they are stepped. Who has the longest windows comes before those that have the
        rows of its operators: what does not fit into a budget over these windows is no fault of the others."""
        if not any(each.shared.are_of_lengths for each in self._begun):
            return list(awake)
        return sorted(awake, key=self._length_ms, reverse=True)

    def _length_ms(self, run: Run) -> int:
        timing_class = self._of.get(run)
        return 0 if timing_class is None else timing_class.length_ms

    def joint_parts(self) -> list[Part]:
        """The parts that members of a class have together, after the snapshot was stepped."""
        return [part for each in self._begun for part in each.joint_parts()]


def may_join(run: Run) -> bool:
    """Whether it is evaluated when its class is, and nothing else than its windows and the store matters to it."""
    if not run.plan.may_sleep or len(run.cohorts) != 1 or run.is_underway:
        return False
    cohort = run.cohorts[0]
    if cohort.behind is not None:
        return False  # it goes on in the middle of a snapshot
    if run.plan.is_shared and not (cohort.entered and run.evaluator.has_all_rows):
        return False
    if cohort.evaluated is None or cohort.schedule.upcoming() is None or not cohort.schedule.has_begun:
        return False
    triggered = run.evaluator.triggered(False)
    return not triggered.is_lost and triggered.next_change(cohort.evaluated.time) is not None


def sleeps_until(run: Run, sn: int) -> int | None:
    """The time before which nothing may change its result, after this snapshot; None: the next close may. The run is in
    a class."""
    evaluated, upcoming = run.cohorts[0].evaluated, run.cohorts[0].schedule.upcoming()
    assert evaluated is not None and upcoming is not None, "it has been evaluated, and its class goes on"
    if run.is_underway or (run.plan.reads_store and evaluated.sn != sn):
        return None  # the store may have changed since
    change = run.evaluator.triggered(False).next_change(evaluated.time)
    if change is None or change <= upcoming:
        return None
    columns, *_ = run.evaluator.unchanged_result
    # Emitting many rows takes the time, and may take more than a turn.
    return None if len(columns) and len(columns[0]) * len(columns) > _CELLS_MAX else change
