"""A run: registered queries that are evaluated by one network, from snapshot to snapshot.

A query alone is a run of one. Queries of one template share a run: they differ in their constants only, which are rows
of a relation that the network joins. The row of a query is added with its first evaluation, so that its first result is
complete, and removed with the query. Each row of the answer has the number of its query's row, by which the answer is
split.

Example: `?v > 5` and `?v > 9` are the template `?v > ?p` with the rows (1, 5) and (2, 9) of the relation (row, ?p).

Queries that were registered between the same two evaluations are one cohort, with one schedule; two cohorts become one
when their states are equal. A query without windows is a cohort that no schedule moves: it is evaluated when the store
has changed. The same pushes give the same parts, in whatever process, and wherever a run is cut into turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count

import msgspec

from hbase_store import Store, StreamPosition
from stream_ext.continuous.catching_up.turns import Turn
from stream_ext.continuous.class_membership import ClassMembership
from stream_ext.continuous.cohort import Cohort, CohortState, Newest
from stream_ext.continuous.course import Bounds, Course
from stream_ext.continuous.emitted_position import EmittedPosition
from stream_ext.continuous.evaluations import Evaluations
from stream_ext.continuous.evaluator import TERMS_CREATED_MAX, Evaluator
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.run_plan import Joining, Key, RunPlan
from stream_ext.continuous.start_point import StartPoint
from stream_ext.continuous.steps import AFTER_ALL
from stream_ext.network.operators.remote.service import Unanswered
from stream_ext.remote.backoff import Backoff
from stream_ext.windows.arrivals import Arrival, last_times
from stream_ext.windows.part import Ids, Part, WindowBounds
from stream_ext.windows.pushes import PushesOfSnapshot
from stream_ext.windows.query_state import QueryState, Within
from stream_ext.windows.schedule import Schedule
from stream_ext.windows.timing import Timing

#: Instead of the evaluations that are left, while the only one is made.
_UNDERWAY: Iterator[int] = iter(())


class Run:
    def __init__(self, plan: RunPlan, store: Store, backoff: Backoff, budget: Budget) -> None:
        """`budget`: the budget of one query, for all of them together."""
        self.plan = plan
        self._store, self._backoff = store, backoff
        self._control, self._state_bytes = budget.control(), budget.bytes
        self.evaluator, self._created_max = self._new_evaluator(), TERMS_CREATED_MAX
        self._row_numbers = count(1)
        self.cohorts: list[Cohort] = []
        self._cohort_of: dict[int, Cohort] = {}
        self._newest: Newest | None = None
        self._positions: tuple[int, Mapping[int, StreamPosition]] | None = None  # of the streams, at a snapshot
        self.evaluations = Evaluations(self, store, None, None)
        self._sn = 0  # the snapshot that it is stepped in, or was last
        self._going: Iterator[int] | None = None  # the evaluations that are left of that snapshot
        self._emitted: list[Part] = []  # the parts of this turn
        self._before: list[tuple[Cohort, CohortState]] = []  # where the cohorts were before this turn
        self._position = EmittedPosition() if plan.varies and not plan.is_over_store else None
        self._bounds: Bounds = {}
        self.bounds_of_arrivals: dict[tuple[int, int | None], list[WindowBounds]] = {}  # by push, and what has arrived
        self.in_class = ClassMembership(self)

    def _new_evaluator(self) -> Evaluator:
        return Evaluator(self.plan, self._store, self._backoff, self._control, self._state_bytes, lambda: self._sn)

    # -- who is in it --------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the run's queries."""
        return tuple(self._cohort_of)

    @property
    def is_empty(self) -> bool:
        return not self._cohort_of

    @property
    def key(self) -> Key | None:
        return self.plan.key

    @property
    def timing(self) -> Timing:
        """As far as it is known now."""
        return self.cohorts[0].timing

    @property
    def streams(self) -> frozenset[int]:
        return self.cohorts[0].schedule.streams()

    def accepts(self, timing: Timing, state: QueryState) -> bool:
        """Whether a query of the same template will be evaluated at the same times as these, and not before them."""
        evaluated = self.cohorts[0].evaluated
        if timing.arrivals and (self.evaluations.has_elements or self.cohorts[0].schedule.last is not None):
            return False  # its own first arrival may be evaluated at another time
        if self.plan.query.emits_new and not timing.arrivals:
            return False  # what came before its own registration is not new for it
        time = self.evaluations.time if self.plan.is_shared or evaluated is None else evaluated.time
        return self.timing == timing and state.is_unevaluated_at(time)

    def join(self, joining: Joining, sn: int) -> None:
        state, newest = joining.state, self._newest
        if newest is not None and (found := newest.cohort_for(state, sn, self.cohorts)) is not None:
            self._cohort_of[joining.number] = found.join_one_more(joining, next(self._row_numbers), newest.begins)
            return
        last = partial(last_times, self._store, sn)
        schedule = Schedule(self.plan.timing, state, self._positions_at(sn), last)
        cohort = Cohort(self, schedule, joining, next(self._row_numbers))
        if state.within is not None:
            cohort.behind = state.behind(sn - self.plan.is_over_past, state.within)
        self._newest = Newest(state, sn, cohort.likeness, cohort.schedule.begins) if state.within is None else None
        self._cohort_of[joining.number] = cohort.join_one_of(self.cohorts)

    def join_evaluated(self, joining: Sequence[Joining], sn: int) -> None:
        """Queries that were evaluated by another run, which was like this one, up to this snapshot."""
        for each in joining:
            self.join(each, sn)
        members = [self._cohort_of[each.number].members[each.number] for each in joining]
        self.evaluator.enter([(member.row, member.constants) for member in members])

    def _positions_at(self, sn: int) -> Mapping[int, StreamPosition]:
        if self._positions is None or self._positions[0] != sn:
            self._positions = sn, self._store.vts(sn)
        return self._positions[1]

    def leave(self, number: int) -> None:
        cohort = self._cohort_of.pop(number)
        member = cohort.remove(number)
        if self.plan.is_shared and cohort.entered and self.evaluator.is_built:
            self.evaluator.leave((member.row, member.constants))
        if not cohort.members:
            self.cohorts.remove(cohort)

    # -- back to the last state of the queries ---------------------------------------------------------------------

    def build(self, joining: Sequence[Joining], sn: int) -> None:
        """Without results: rebuilds the windows of the last evaluation, repeats it, then adds what arrived up to `sn`.
        Queries that were evaluated were evaluated at the same times."""
        for each in joining:
            self.join(each, sn)
        state = joining[0].state
        time = None if state.evaluated is None else state.evaluated.time
        self.evaluations = Evaluations(self, self._store, state.ranked, time)
        self.evaluations.note_elements(state.began, self._positions_at(sn))
        self._positions = None
        if not self.plan.is_over_past or state.sn <= 0 or state.within is not None:  # else it has ended
            self._build_if_known(self.evaluator, sn, state.ranked)

    def _build_if_known(self, evaluator: Evaluator, sn: int, ranked: bytes | None) -> None:
        """Builds the networks, unless it is not known yet what the first evaluation reads."""
        if self.plan.is_over_store:
            evaluator.build_over_store(StartPoint(sn, self.cohorts[0].evaluated, ranked))
        elif self.timing.has_origin and not self.may_begin_anywhere:
            evaluator.build(self.timing, self.where(sn, ranked))

    @property
    def may_begin_anywhere(self) -> bool:
        """At arrivals there is no first close: how old the content may be is known when the first evaluation is due."""
        timing = self.timing
        return timing.arrivals and not self.plan.is_over_past and self.cohorts[0].schedule.last is None

    def where(self, sn: int, ranked: bytes | None, first: Arrival | None = None, last: int | None = None) -> StartPoint:
        """`first`: the arrival that is about to come. `last`: the time of the first evaluation, which is due."""
        states, timing = [cohort.state(sn) for cohort in self.cohorts], self.timing
        if last is not None:
            states = [msgspec.structs.replace(state, last=last) for state in states]
        references = [timing.reference(state) for state in states]
        known = [reference for reference in references if reference is not None]
        entered = [cohort for cohort in self.cohorts if cohort.entered and self.plan.is_shared]
        rows = [(member.row, member.constants) for cohort in entered for member in cohort.members.values()]
        return StartPoint(
            sn, next((state.evaluated for state in states if state.evaluated is not None), None), ranked,
            min(known) if len(known) == len(references) else None, self.within, first, states[0].began, rows,
        )  # fmt: skip

    @property
    def within(self) -> Within | None:
        """In the middle of a snapshot: up to there it is evaluated, and emitted."""
        behind = self.cohorts[0].behind
        return None if behind is None else behind.within

    def _begin_anew(self, sn: int) -> None:
        """Begins as after a restart. This forgets terms that were created and that are in no row any more.

        If a remote endpoint does not answer, the run continues unchanged: its emissions count."""
        evaluator = self._new_evaluator()
        try:  # the order of created terms is saved by their values
            self._build_if_known(evaluator, sn, self.ranked())
        except Unanswered:
            return
        self._replace_evaluator(evaluator)
        self._created_max = max(TERMS_CREATED_MAX, 2 * evaluator.created)

    # -- one snapshot --------------------------------------------------------------------------------------------

    def start(self, sn: int, turn: Turn) -> Sequence[Part]:
        """In the snapshot of the registration: windows of the past are replayed, and a query without windows has its
        first answer."""
        if self.plan.is_over_past:
            return self._begin(sn, self.evaluations.past(sn), turn)
        return self._begin(sn, self.evaluations.of_store(sn, True), turn) if self.plan.is_over_store else []

    def step(self, sn: int, pushes: PushesOfSnapshot, turn: Turn) -> Sequence[Part]:
        """All evaluations that the pushes of this snapshot make due, in order, as far as the turn goes."""
        if self.plan.is_over_past:
            return []
        if self.plan.is_over_store:
            if not self._store.has_changed(sn):
                self.evaluator.skip(sn)
                return []
            return self._begin(sn, self.evaluations.of_store(sn, False), turn)
        if (course := self.in_class.course) is not None:
            assert course.sn == sn, "its class has begun this snapshot"
            if len(course.closes) == 1 and not self.plan.is_shared:
                return self._at_only_close(sn, course, turn)
            return self._begin(sn, self.evaluations.of_course(course), turn)
        return self._begin(sn, self.evaluations.of_pushes(sn, pushes), turn)

    def _at_only_close(self, sn: int, course: Course, turn: Turn) -> Sequence[Part]:
        """As `_begin`, of a query alone that is evaluated once in the snapshot, as most are: with fewer steps."""
        self._going, self._emitted, (cohort,) = _UNDERWAY, [], self.cohorts
        self.begin_asleep(sn, course.bounds.setdefault(self.plan.labels, {}))
        cohort.begin(sn)
        self._build_anew_if_needed(sn)
        self.evaluations.at_only_close(course)
        columns, *_ = self.evaluator.last_result
        turn.spend(len(columns) * len(columns[0]) if columns else 0)
        if turn.is_over and cohort.steps.is_complete:
            self._going = self.evaluations.after_course(course)
            return self._with_times(self._cut(sn))
        self.in_class.end_course(course)
        return self._with_times(self._end(sn))

    @property
    def is_underway(self) -> bool:
        """Whether the last turn ended in the middle of a snapshot."""
        return self._going is not None

    def _begin(self, sn: int, evaluations: Iterator[int], turn: Turn) -> Sequence[Part]:
        self._sn, self._going, self._emitted = sn, evaluations, []
        for cohort in self.cohorts:
            cohort.begin(sn)
        if self._position is not None:
            self._position.begin(self.cohorts[0], sn)
            self._position.begin_turn(self.cohorts[0])
        self._build_anew_if_needed(sn)
        return self.continue_step(turn)

    def _build_anew_if_needed(self, sn: int) -> None:
        """As after a restart, from the snapshot before. Our own store may have got what only a source was asked for."""
        evaluator = self.evaluator
        if not evaluator.is_built or not (evaluator.is_left_behind or not evaluator.is_planned_for(sn)):
            return
        self._build_if_known(evaluator := self._new_evaluator(), sn - 1, self.ranked())
        self._replace_evaluator(evaluator)

    def _replace_evaluator(self, evaluator: Evaluator) -> None:
        self.in_class.released()
        self.evaluator = evaluator
        self.in_class.renewed()

    def continue_step(self, turn: Turn) -> Sequence[Part]:
        """Continues the snapshot that the run is underway in."""
        return self._with_times(self._gone_on(turn))

    def _with_times(self, parts: Sequence[Part]) -> Sequence[Part]:
        """The parts say of which time the answers are that a source gave."""
        if self.plan.asks_source:
            for part in parts:
                part.source_as_of, part.none_held = self.evaluator.source_as_of, self.plan.none_held
        return parts

    def _gone_on(self, turn: Turn) -> Sequence[Part]:
        assert self._going is not None, "it is underway"
        sn, within, self._emitted, self._bounds, self.bounds_of_arrivals = self._sn, self.within, [], {}, {}
        if (course := self.in_class.course) is not None:
            self._bounds = course.bounds.setdefault(self.plan.labels, self._bounds)
        if self.plan.is_shared:
            underway = None if within is None else (sn, within)
            self._before = [(cohort, cohort.whole_state(sn - 1, underway)) for cohort in self.cohorts]
        if self._position is not None:
            self._position.begin_turn(self.cohorts[0])
        self.evaluations.most = turn.left
        for evaluated in self._going:
            columns, *_ = self.evaluator.last_result
            turn.spend(len(columns) * len(columns[0]) if columns else 0, evaluated)
            self.evaluations.most = turn.left
            if self._position is not None:
                self._position.follow(self.cohorts[0], sn, self.evaluations.at)
            # Where time alone changes nothing, the pending evaluations are few, or one run.
            if turn.is_over and (self._position is not None or all(each.steps.is_complete for each in self.cohorts)):
                return self._cut(sn)
        return self._end(sn)

    def _cut(self, sn: int) -> Sequence[Part]:
        """Ends a turn: the parts so far, and the position after them."""
        parts = self._emitted
        emitted = None if self._position is None else self._position.emitted
        self.in_class.cut()
        for cohort in self.cohorts:
            parts += cohort.cut(sn, self.evaluations.at, emitted)
        is_complete = all(cohort.steps.is_complete for cohort in self.cohorts)
        if is_complete and self.evaluator.created > self._created_max:
            self._begin_anew(sn if self.plan.is_over_past else sn - 1)
        return parts

    def _end(self, sn: int) -> Sequence[Part]:
        self._going = None
        for cohort in self.cohorts:
            cohort.evaluated_silently |= self.plan.is_over_past
        parts = self._emitted = [part for cohort in self.cohorts for part in cohort.end(sn)]
        self._gather()
        # Without windows, only terms of remote endpoints go: the others are found again in the whole store.
        may = self.plan.has_services if self.plan.is_over_store else not self.plan.is_over_past
        if may and self.evaluator.created > self._created_max:
            self._begin_anew(sn)
        return parts

    def _gather(self) -> None:
        """Merges cohorts that have become alike."""
        if len(self.cohorts) < 2:
            return
        cohorts, self.cohorts = self.cohorts, []
        for cohort in cohorts:
            found = cohort.join_one_of(self.cohorts)
            if found is not cohort:
                self._cohort_of |= dict.fromkeys(cohort.members, found)

    def begin_asleep(self, sn: int, bounds: Bounds) -> None:
        """It sleeps through the evaluations of this snapshot. `bounds`: those of all runs with its windows' labels."""
        self._sn, self._bounds = sn, bounds

    # -- positions and states ------------------------------------------------------------------------------------

    def query_state(self, sn: int) -> QueryState:
        """Of a query alone: the state that was emitted last, in the middle of the snapshot underway, else the one at
        `sn`."""
        (cohort,) = self.cohorts
        return cohort.state_of(cohort.only, sn) if cohort.behind is None else cohort.own_state(cohort.behind)

    @property
    def state_bytes(self) -> int:
        """The memory of the operators' state."""
        return sum(each.network.state_bytes for each in self.evaluator.networks)

    def state_of(self, number: int) -> QueryState:
        return self._cohort_of[number].state_of(number, self._sn)

    def state_now(self, number: int, sn: int) -> QueryState:
        return self._cohort_of[number].state_of(number, sn)

    def ranked(self) -> bytes | None:
        """The orders of first appearance."""
        return self.evaluator.ranked()

    def silent_parts(self, sn: int, behind_at: int | None) -> list[Part]:
        """Parts that store the progress of the queries. `behind_at`: the queries are behind the others, at that
        snapshot."""
        return [cohort.silent_at(sn, AFTER_ALL, behind_at) for cohort in self.cohorts]

    def joining_before(self) -> list[Joining]:
        """All queries that share the network with their states before the last turn: for another network, if this one
        has a fault. None of a query alone: it has the fault."""
        return [joining for cohort, whole in self._before for joining in cohort.joining(whole)]

    def parts_before_fault(self) -> Sequence[Part]:
        """Of a query alone: the parts of the turn that has just raised, up to the evaluation that raised."""
        if self.plan.is_shared:
            return []
        parts = (part for cohort in self.cohorts for part in cohort.steps.parts())
        return self._with_times([*self._emitted, *parts])

    def state_without_answer(self) -> tuple[Sequence[Part], QueryState | None]:
        """The parts of a turn that has ended without an answer of a remote endpoint, and the state after them; None:
        the state is the one before the turn. Evaluations that are to be emitted together are not cut, but repeated."""
        (cohort,) = self.cohorts
        state = None if self._position is None else self._position.emitted
        return self._with_times([*self._emitted, *cohort.steps.take_parts()]), state

    # -- parts ---------------------------------------------------------------------------------------------------

    def bounds_at(self, time: int, arrived: bool) -> list[WindowBounds]:
        bounds = self._bounds.get((time, arrived))
        if bounds is None or any(window.is_endless for window in self.plan.timing.windows):
            bounds = self._bounds[time, arrived] = []
            windows = self.cohorts[0].schedule.for_arrivals if arrived else self.timing.windows
            for place, (window, label) in enumerate(zip(windows, self.plan.labels, strict=True)):
                oldest = self.evaluator.oldest(arrived, place, time) if window.is_endless else None
                start, end = window.extent_at(time, oldest)
                bounds.append(WindowBounds(label, start, end, window.bounds.value))
        return bounds

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        """The columns for processes that do not know the terms this run created, and these terms."""
        return self.evaluator.portable(columns)
