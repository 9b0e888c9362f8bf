"""The evaluations of a run: which ones a snapshot makes due, in order of time, each with a pause after it.

Each pause says how many evaluations were made since the one before.

    windows of the past      all closes, in the snapshot of the registration
    other windows            what the schedules of the cohorts say after each push
    no windows               one, if the snapshot has changed the answer

Closes that cannot change the answer are not evaluated, however many they are: a run of them is one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from hbase_store import Store, StreamPosition
from stream_ext.continuous.cohort import Cohort
from stream_ext.continuous.course import Close, Course
from stream_ext.continuous.numbered_arrivals import NumberedArrivals
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.pushes import PushesOfSnapshot
from stream_ext.windows.query_state import ClosePlace, Within
from stream_ext.windows.schedule import Due
from stream_ext.windows.timing import arrives_by_element

if TYPE_CHECKING:
    from stream_ext.continuous.run import Run

#: The position before all pushes of a snapshot.
_NOTHING = Within(0, 0)
#: An evaluation that is due, and the cohorts that it is due for.
_DueFor = tuple[Due, Sequence[Cohort]]


class Evaluations:
    def __init__(self, run: Run, store: Store, ranked: bytes | None, time: int | None) -> None:
        """`ranked`: the orders of first appearance, as they are stored; `time`: of the last evaluation."""
        self._run, self._plan, self._store = run, run.plan, store
        self._ranked, self.time = ranked, time
        self.at = _NOTHING  # the push whose evaluations are under way
        self.has_elements = False  # any element since its queries began
        self.most = 1  # so many evaluations are made before the next pause

    def note_elements(self, began: int, positions: Mapping[int, StreamPosition]) -> None:
        """The run is built where the streams have these positions; its queries began after snapshot `began`. What has
        come since then is new for them, and for no query that comes later."""
        own = (position for stream, position in positions.items() if stream in self._run.streams)
        self.has_elements = any(position.last > began for position in own)

    def past(self, sn: int) -> Iterator[int]:
        """Up to the last close that is evaluated here."""
        self.at, cohorts, until = self._run.within or _NOTHING, self._run.cohorts, self._plan.until
        while (time := cohorts[0].schedule.next_time()) is not None and (until is None or time <= until.time):
            self._close(sn, 0, Due(time, None, None if until is None else until.time), cohorts)
            yield 1

    def of_store(self, sn: int, is_first: bool) -> Iterator[int]:
        """One, if the answer has changed: so there is no pause."""
        yield from ()
        evaluator, (cohort,), time = self._run.evaluator, self._run.cohorts, self._store.row(sn).published_ms
        if is_first:
            result = evaluator.evaluate(evaluator.triggered(False), sn, time, 0)
        else:
            changed = evaluator.evaluate_changes(sn, time)
            ranked = evaluator.ranked()
            if changed is None:
                if ranked != self._ranked:
                    # The rows of the answer are unchanged, but the rows that LIMIT will show once some go are not.
                    cohort.moved_in_store(sn)
                    cohort.evaluated_silently = True
                self._ranked = ranked
                return
            result = changed
        self._ranked = evaluator.ranked()
        cohort.add(Due(time, None), 0, False, result)

    def of_pushes(self, sn: int, pushes: PushesOfSnapshot) -> Iterator[int]:
        """Without those that were made before, and up to the last close that is evaluated here."""
        within, streams, until = self._run.within, self._run.streams, self._plan.until
        self.at = within or _NOTHING
        if self._plan.one_by_one is None:
            yield from NumberedArrivals(self._run, self, sn, within).of_pushes(pushes)
            return
        for arrival in pushes:
            if until is not None and (sn, arrival.push) > (until.sn, until.push):
                return
            if arrival.stream in streams:
                yield from self._take(sn, arrival, within)

    def of_course(self, course: Course) -> Iterator[int]:
        """Those that its timing class has found."""
        for arrival, closes in course.steps:
            self._arrive(arrival)
            for close in closes:
                self._evaluate_in_class(course.sn, arrival.push, close)
                yield 1
        self._run.in_class.end_course(course)

    def at_only_close(self, course: Course) -> None:
        """As `of_course`, of one with one close, up to its end."""
        at = self.at
        for arrival, closes in course.steps:
            self._arrive(arrival)
            for close in closes:
                at = self.at
                self._evaluate_in_class(course.sn, arrival.push, close)
        self.at = at

    def after_course(self, course: Course) -> Iterator[int]:
        """What is left to do of a course after all its closes."""
        yield from ()
        self._run.in_class.end_course(course)

    def _arrive(self, arrival: Arrival) -> None:
        """Of a snapshot that its class has found: there are evaluations at closes only."""
        self.at = Within(arrival.push, 0)
        self._run.evaluator.triggered(False).arrive(arrival)

    def _evaluate_in_class(self, sn: int, push: int, close: Close) -> None:
        run, time, k = self._run, close.due.time, close.evaluated.k
        result = run.evaluator.evaluate_in_class(sn, time, k)
        self.time = time  # only now, as in `_evaluate_due`
        if run.in_class.emits_together(k, result):
            run.cohorts[0].passed_together(close)
        else:
            run.cohorts[0].schedule = close.schedule
            run.cohorts[0].add(close.due, push, close.over_nothing, result)

    def _take(self, sn: int, arrival: Arrival, within: Within | None) -> Iterator[int]:
        had_origin = self._run.timing.has_origin
        for cohort in self._run.cohorts:
            cohort.schedule.take(arrival)
        if not self._run.timing.has_origin or (within is not None and arrival.push < within.push):
            return
        if not had_origin:  # this push determines where the closes begin: that must be stored
            for cohort in self._run.cohorts:
                cohort.evaluated_silently = True
        self.has_elements = self.has_elements or len(arrival.element_times) > 0
        is_there = within is not None and arrival.push == within.push
        arrived_at = within.arrived_at if within is not None and is_there else None
        self.at = Within(arrival.push, 0, arrived_at)
        due = self._due(arrival, arrived_at)
        if not self._run.evaluator.is_built:
            due = self._begun(sn, arrival, due)
        if not self._run.evaluator.is_built:
            return
        if self._run.evaluator.at_closes is not None and not is_there:
            self._run.evaluator.at_closes.arrive(arrival)
        # An evaluation at an arrival sees, of the elements of its push, those that have arrived by then.
        by_element = arrives_by_element(self._run.timing.windows, arrival.stream)
        until = self._plan.until
        for each, cohorts in due:
            if until is not None and ClosePlace(sn, arrival.push, each.time) > until:
                return
            if each.arrived is not None:
                came = arrival.between(arrived_at, each.arrived, by_element)
                self._run.evaluator.triggered(True).arrive(came)
                arrived_at = each.arrived
            self._close(sn, arrival.push, each, cohorts)
            yield 1
        if (at_arrivals := self._run.evaluator.at_arrivals) is not None:
            at_arrivals.arrive(arrival.between(arrived_at, None, by_element))

    def _due(self, arrival: Arrival, arrived_at: int | None) -> Iterator[_DueFor]:
        """What is to be evaluated after this push, in order of time."""
        cohorts = self._run.cohorts
        if len(cohorts) == 1:
            for due in cohorts[0].schedule.due(arrival, arrived_at):
                yield due, cohorts
            return
        assert not self._run.timing.arrivals, "queries at arrivals share a network only as one cohort"
        while waiting := [(time, each) for each in cohorts if (time := each.schedule.next_time()) is not None]:
            time = min(time for time, _ in waiting)
            yield Due(time, None), [cohort for at, cohort in waiting if at == time]

    def _begun(self, sn: int, arrival: Arrival, due: Iterator[_DueFor]) -> Iterator[_DueFor]:
        """Builds the networks if it is known now what the first evaluation reads; returns what is due."""
        last: int | None = None
        if self._run.may_begin_anywhere:
            first = next(due, None)
            if first is None:
                return due
            due, last = chain((first,), due), first[0].time
        self.build(sn, arrival, last)
        return due

    def build(self, sn: int, arrival: Arrival, last: int | None) -> None:
        """Builds the networks: the push is about to come, whose first evaluation is at the time `last`."""
        self._run.evaluator.build(self._run.timing, self._run.where(sn, self._ranked, arrival, last))

    def _close(self, sn: int, push: int, due: Due, cohorts: Sequence[Cohort]) -> None:
        if due.arrived is not None or not self._pass_over(sn, push, due, cohorts):
            self._evaluate_due(sn, push, due, cohorts)

    def _pass_over(self, sn: int, push: int, due: Due, cohorts: Sequence[Cohort]) -> bool:
        """Skips the closes from this one on that cannot change the answer: all windows are empty, and were at the last
        evaluation."""
        last = self._quiet_until(sn, due, cohorts)
        if last is None:
            return False
        for cohort in cohorts:
            run = cohort.schedule.run_until(last)
            assert run is not None, "its next evaluation is before that"
            cohort.schedule.done(run.last)
            if self._plan.timing.content_only:
                cohort.evaluated_silently = True
            else:
                cohort.add_run(run, push, self._run.evaluator.last_result)
        return True

    def _quiet_until(self, sn: int, due: Due, cohorts: Sequence[Cohort]) -> int | None:
        """The time up to which nothing changes the answer; None: this close may change it."""
        evaluator = self._run.evaluator
        triggered = evaluator.triggered(False)
        if not self._plan.timing.content_only:
            if triggered is not evaluator.last or triggered.store_sn != sn or not triggered.was_empty:
                return None
            if not all(cohort.entered for cohort in cohorts):
                return None
        if triggered.has_content(due.time):
            return None
        if not self._plan.timing.content_only and (
            triggered.network.may_turn() or (self._plan.may_change_over_nothing and not evaluator.answer.is_empty())
        ):
            return None  # the answer may change although no row comes or goes
        # The first evaluation of a cohort that has not entered yet must not be skipped.
        firsts = (
            []
            if len(self._run.cohorts) == 1
            else [each.schedule.next_time() for each in self._run.cohorts if not each.entered and each not in cohorts]
        )
        last = min([triggered.next_entry(), *(first for first in firsts if first is not None)]) - 1
        last = last if due.limit is None else min(last, due.limit)
        return None if last < due.time else last

    def _evaluate_due(self, sn: int, push: int, due: Due, cohorts: Sequence[Cohort]) -> None:
        """One evaluation; none if the queries are evaluated over content only, and all windows are empty."""
        evaluator, time = self._run.evaluator, due.time
        triggered = evaluator.triggered(due.arrived is not None)
        triggered.move_to(time)
        is_empty = not triggered.has_content(time)
        is_silent = self._plan.timing.content_only and is_empty
        if not is_silent:
            self.enter(cohorts)
            result = evaluator.evaluate(triggered, sn, time, cohorts[0].steps.count)
            self.time = time
        # Only now: if the evaluation raises, the state is the one before it.
        for cohort in cohorts:
            if due.arrived is None:
                cohort.schedule.done(time)
            else:
                self.at = Within(push, 0, due.arrived)
                cohort.schedule.seen(time)
            if is_silent:
                cohort.evaluated_silently = True
            else:
                cohort.add(due, push, is_empty, result)

    def enter(self, cohorts: Sequence[Cohort]) -> None:
        """The queries that are evaluated for the first time get their rows in the network."""
        if self._plan.is_shared:
            assert all(each in cohorts for each in self._run.cohorts if each.entered), "a query is left behind"
        for cohort in cohorts:
            if not cohort.entered:
                cohort.entered = True
                if self._plan.is_shared:
                    self._run.evaluator.enter([(each.row, each.constants) for each in cohort.members.values()])
