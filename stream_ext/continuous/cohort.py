"""A cohort: queries of a run that are evaluated at the same times, and so have one schedule.

A query alone is a cohort of one. What differs for ever between the queries of a cohort (the time that was reached at
registration, the first closes, a gap) is stored here for each of them, and emitted when the query is new.

The schedule belongs to the cohort, not to a query or a network: it depends on the streams, the windows' STEP and T0,
lateness and bounds alone."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.computed_once import computed_once
from stream_ext.continuous.course import ClassPosition, Close
from stream_ext.continuous.emitting import SharedSteps, SingleQuery
from stream_ext.continuous.results import ManyResults, Result
from stream_ext.continuous.run_plan import Joining
from stream_ext.continuous.steps import ManyDue, Steps
from stream_ext.windows.grids import RepeatedTimes
from stream_ext.windows.part import NO_IDS, Ids, Part
from stream_ext.windows.query_state import LastEvaluation, QueryState, Within, own_begins
from stream_ext.windows.schedule import Due, Schedule

if TYPE_CHECKING:
    from stream_ext.continuous.run import Run
    from stream_ext.windows.timing import Timing

_NOWHERE = np.empty(0, np.int64)


class Member:
    """One query of a cohort. `begins` are its own first closes; empty: it has those of the schedule."""

    __slots__ = ("began", "begins", "constants", "number", "registered", "row")

    def __init__(self, joining: Joining, row: int) -> None:
        self.number, self.row, self.constants = joining.number, row, joining.constants
        self.registered, self.began = joining.state.registered, joining.state.began
        self.begins: Sequence[int | None] = ()


class CohortState(NamedTuple):
    """The position of a cohort: the number of its queries (a query that joins later is added at the end), the state
    that is the same for all of them, and the queries without an emission since their pause."""

    members: int
    state: QueryState
    gaps: Set[int]


class Newest(NamedTuple):
    """The query that joined last, at this snapshot: one with the same state would be a cohort with this likeness."""

    state: QueryState
    sn: int
    likeness: tuple[object, ...]
    begins: Sequence[int | None]

    def cohort_for(self, state: QueryState, sn: int, cohorts: Sequence[Cohort]) -> Cohort | None:
        """The one that this would join."""
        if state is not self.state or sn != self.sn:
            return None
        return next((cohort for cohort in cohorts if cohort.likeness == self.likeness), None)


class Cohort:
    """`entered`: its queries were evaluated; of a shared network, their rows are in it."""

    def __init__(self, run: Run, schedule: Schedule, joining: Joining, row: int) -> None:
        """A cohort of one query, whose state the schedule has."""
        state = joining.state
        self.run, self._schedule, self._evaluated = run, schedule, state.evaluated
        self._asleep_at: ClassPosition | None = None  # of its timing class, while it sleeps with others
        self.entered = state.evaluated is not None
        self.members: dict[int, Member] = {joining.number: Member(joining, row)}
        self.evaluated_silently = False
        self._own_schedule: Schedule | None = None  # while it has the schedule of a timing class
        #: In the middle of a snapshot: the position that was emitted last.
        self.behind: QueryState | None = None
        self._store_sn = state.sn  # the snapshot of its state, if it is over the store
        self._gaps = {joining.number} if state.gap else set[int]()  # queries without an emission since their pause
        self._joined = {joining.number: state}  # the states of queries that no part has contained yet
        self._single = None if run.plan.is_shared else SingleQuery(self, joining.number)
        self.steps: Steps | SharedSteps = self._steps_from(0, 0)

    # -- who is in it --------------------------------------------------------------------------------------------

    def remove(self, number: int) -> Member:
        self._joined.pop(number, None)
        self._gaps.discard(number)
        self._forget_places()
        return self.members.pop(number)

    def join_one_of(self, cohorts: list[Cohort]) -> Cohort:
        """Merges with a cohort that is alike, or is added to `cohorts`; returns the cohort that has the queries now."""
        likeness = self.likeness
        found = next((other for other in cohorts if other.likeness == likeness), None)
        if found is None:
            cohorts.append(self)
            return self
        found._take_over(self)
        return found

    def join_one_more(self, joining: Joining, row: int, begins: Sequence[int | None]) -> Cohort:
        """As if a cohort of this query alone had joined it, whose schedule has these `begins`."""
        self._take_member(Member(joining, row), begins)
        if joining.state.gap:
            self._gaps.add(joining.number)
        self._joined[joining.number] = joining.state
        self._forget_places()
        return self

    @property
    def likeness(self) -> tuple[object, ...]:
        """Equal for cohorts whose next evaluations are the same, and whose windows have begun or not in the same
        way."""
        begun = tuple(begin is None for begin in self.schedule.begins)
        after = self.schedule.after if self.schedule.timing.has_beats else None  # that of closes
        return self.entered, self.evaluated, after, self.schedule.last, begun

    def _take_over(self, other: Cohort) -> None:
        begins = other.schedule.begins
        for member in other.members.values():
            self._take_member(member, begins)
        self._gaps |= other._gaps
        self._joined |= other._joined
        self._forget_places()

    def _take_member(self, member: Member, begins: Sequence[int | None]) -> None:
        own = own_begins(member.begins, begins)
        member.begins = () if own == self.schedule.begins else own
        self.members[member.number] = member

    @computed_once
    def queries(self) -> Ids:
        """The numbers of the queries, ascending; the same array until a query joins or leaves."""
        return np.array(sorted(self.members), np.uint64)

    @computed_once
    def _place_of_row(self) -> npt.NDArray[np.int64]:
        rows = [self.members[number].row for number in self.queries.tolist()]
        places = np.full(max(rows) + 1, -1, np.int64)
        places[rows] = np.arange(len(rows))
        return places

    def _forget_places(self) -> None:
        self.__dict__.pop("queries", None)
        self.__dict__.pop("_place_of_row", None)

    def places(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The places in `queries` of the queries with these rows of the relation; -1 for a query of another cohort."""
        if not len(rows):
            return _NOWHERE
        known = self._place_of_row
        places = np.full(len(rows), -1, np.int64)
        here = rows < len(known)
        places[here] = known[rows[here]]
        return places

    @property
    def timing(self) -> Timing:
        """With the names of its own windows, which are not those of the others in its timing class."""
        return (self.schedule if self._own_schedule is None else self._own_schedule).timing

    # -- in a timing class ---------------------------------------------------------------------------------------

    @property
    def schedule(self) -> Schedule:
        return self._schedule if self._asleep_at is None else self._asleep_at.schedule

    @schedule.setter
    def schedule(self, schedule: Schedule) -> None:
        self._schedule = schedule

    @property
    def evaluated(self) -> LastEvaluation | None:
        return self._evaluated if self._asleep_at is None else self._asleep_at.evaluated

    @evaluated.setter
    def evaluated(self, evaluated: LastEvaluation | None) -> None:
        self._evaluated = evaluated

    def sleep_at(self, position: ClassPosition | None) -> None:
        """From now on it is where its class is; None: it goes on from there by itself."""
        if self._asleep_at is not None:
            self._schedule, self._evaluated = self._asleep_at.schedule, self._asleep_at.evaluated
        self._asleep_at = position

    def join_class(self, schedule: Schedule) -> None:
        """From now on it has the schedule of a timing class, which gives it another one with each evaluation."""
        self._own_schedule, self.schedule = self.schedule, schedule

    def leave_class(self) -> None:
        """From now on it has a schedule of its own again."""
        assert self._own_schedule is not None, "it is in a class"
        self._own_schedule.catch_up_with(self.schedule)
        self.schedule, self._own_schedule = self._own_schedule, None

    @property
    def t0(self) -> int | None:
        """The origin of its closes, if the first push determined it."""
        return (self.schedule if self._own_schedule is None else self._own_schedule).t0

    def state_of_all(self, close: Close) -> QueryState:
        """The state that all members of the class with this T0 have in common after a close."""
        state = close.schedule.state(close.evaluated, None, close.evaluated.sn)
        return msgspec.structs.replace(state, registered=None, t0=self.t0)

    def passed_together(self, close: Close) -> None:
        """It was evaluated at the close; the part of all says so."""
        self._schedule, self._evaluated, self._store_sn = close.schedule, close.evaluated, close.evaluated.sn
        self.steps.count += 1

    def slept(self, sn: int, closes: Sequence[tuple[int, Close]], result: Result) -> list[Part]:
        """The parts of the closes of a snapshot that it sleeps through, each with its push."""
        if self._single is not None and len(closes) == 1:  # as mostly: the one part that `Steps` would make
            ((push, close),) = closes
            self.schedule = close.schedule
            return [self._single.part(LastEvaluation(sn, push, 0, close.due.time), result)]
        self.begin(sn)
        for push, close in closes:
            self.schedule = close.schedule
            self.add(close.due, push, close.over_nothing, result)
        return self.end(sn)

    # -- the states of the queries -------------------------------------------------------------------------------

    def state(self, sn: int) -> QueryState:
        """The state that is the same for all queries."""
        return msgspec.structs.replace(self._whole_state(sn, False), registered=None)

    def _whole_state(self, sn: int, gap: bool) -> QueryState:
        if self.run.plan.is_over_store:
            sn = self._store_sn
        state = self.schedule.state(self.evaluated, self.run.ranked(), sn, gap)
        if (own := self._own_schedule) is not None:
            return msgspec.structs.replace(
                state, registered=own.registered, t0=own.t0, begins=own.begins, began=own.began
            )  # fmt: skip
        return state

    def state_of(self, number: int, sn: int) -> QueryState:
        if not self.run.plan.is_shared:
            return self._whole_state(sn, number in self._gaps)
        return _own_state(self.members[number], self.state(sn), self._gaps)

    def whole_state(self, sn: int, underway: tuple[int, Within] | None = None) -> CohortState:
        """`underway`: the cohort is in the middle of the snapshot after `sn`."""
        state = self.state(sn)
        if underway is not None:
            later, within = underway
            within = msgspec.structs.replace(within, k=self.steps.count)
            state = msgspec.structs.replace(state, sn=later).behind(sn, within)
        return CohortState(len(self.members), state, frozenset(self._gaps))

    def joining(self, whole: CohortState) -> list[Joining]:
        """The queries of that time with their states of that time, for another network."""
        members = islice(self.members.values(), whole.members)
        return [Joining(each.number, each.constants, _own_state(each, whole.state, whole.gaps)) for each in members]

    def position(self, sn: int, at: Within) -> QueryState:
        """The state in the middle of snapshot `sn`, after the evaluations of push `at`."""
        state = self.state(sn) if self.run.plan.is_shared else self.state_of(self.only, sn)
        return state.behind(sn - 1, msgspec.structs.replace(at, k=self.steps.count))

    def has_gap(self, number: int) -> bool:
        """Whether nothing of the query was emitted since a pause."""
        return number in self._gaps

    def take_gap(self, number: int) -> bool:
        """Whether this is the query's first emission since a pause; call it once for each emission."""
        if number not in self._gaps:
            return False
        self._gaps.discard(number)
        return True

    def moved_in_store(self, sn: int) -> None:
        """Its state is one of this snapshot, if it is over the store."""
        self._store_sn = sn

    # -- one snapshot --------------------------------------------------------------------------------------------

    def begin(self, sn: int) -> None:
        """`behind` says how far it has come in this snapshot."""
        within = None if self.behind is None else self.behind.within
        self.steps = self._steps_from(sn, 0 if within is None else within.k)

    def _steps_from(self, sn: int, k: int) -> Steps | SharedSteps:
        return SharedSteps(self, sn, k) if self._single is None else Steps(self._single, sn, k)

    def add(self, due: Due, push: int, over_nothing: bool, result: Result) -> None:
        """`over_nothing`: all windows are empty."""
        if over_nothing and self.run.plan.sums_only_new:
            result = self.run.evaluator.unchanged_result  # what went matters to nobody: nothing has come in any range
        self.steps.add(due, push, over_nothing, result)

    def add_many(self, due: ManyDue, results: ManyResults) -> None:
        """Of a query alone: as `Steps.add_many`."""
        assert self._single is not None, "queries that share a network are parted evaluation by evaluation"
        assert isinstance(self.steps, Steps), "it has parts of its own"
        self.steps.add_many(due, results, self._single)

    def add_run(self, run: RepeatedTimes, push: int, last_result: Result) -> None:
        """A run of evaluations over empty windows. Where each result is the whole answer, it is `last_result` again."""
        plan = self.run.plan
        self.steps.add_run(run, push, last_result if plan.repeats else plan.empty_result)

    def cut(self, sn: int, at: Within, emitted: QueryState | None) -> list[Part]:
        """Stops in the middle of a snapshot, after evaluations of push `at`; returns the parts so far, and one with the
        position after them: `emitted`, or (None) that after all evaluations."""
        found = [*self.steps.take_parts()]
        state = emitted or self.position(sn, at)
        if self.behind is None or _place(self.behind) != _place(state):
            self.behind = msgspec.structs.replace(state, ended=False)
            found.append(self.silent(sn, 0 if state.within is None else state.within.k, self.behind))
        return found

    def end(self, sn: int) -> list[Part]:
        """Ends the snapshot; returns the remaining parts."""
        self.behind = None
        found = [*self.steps.parts()]
        if self.evaluated_silently:
            self.evaluated_silently = False
            found.append(self.silent_at(sn, self.steps.count))
        return found

    def silent_at(self, sn: int, k: int, behind_at: int | None = None) -> Part:
        """A part without a result, which stores the progress of the queries. `behind_at`: they are behind the others,
        at that snapshot."""
        state = self.state(sn) if self.run.plan.is_shared else self.state_of(self.only, sn)
        return self.silent(sn, k, state if behind_at is None else state.behind(behind_at))

    @property
    def only(self) -> int:
        """The number of its only query."""
        (number,) = self.members
        return number

    def own_state(self, state: QueryState) -> QueryState:
        """That of its only query, where `state` is that of all who share the network."""
        return _own_state(self.members[self.only], state, self._gaps) if self.run.plan.is_shared else state

    def silent(self, sn: int, k: int, state: QueryState) -> Part:
        if len(self.members) == 1:
            self.emitted_singly(self.only)
            return Part.silent(self.only, sn, k, self.own_state(state))
        joined = self.newly_joined(self.queries)
        return Part(
            self.queries, sn, k, state.after or 0, [], NO_IDS, [], None, self.run.plan.reports, 0, None, state, joined,
            evaluated=False, is_shared=True,
        )  # fmt: skip

    def passed(self, evaluated: LastEvaluation) -> None:
        """Its last evaluation was this one, which emitted nothing and has no part."""
        self.evaluated = evaluated
        self.moved_in_store(evaluated.sn)

    # -- what was emitted ----------------------------------------------------------------------------------------

    def emitted_singly(self, number: int) -> None:
        self._joined.pop(number, None)

    def newly_joined(self, queries: Ids) -> dict[int, QueryState]:
        """The states of the queries that no part has contained; each is returned once."""
        if not self._joined:
            return {}
        joined, self._joined = self._joined, {}
        if len(queries) == len(self.members):
            return joined
        emitted = set(queries.tolist())
        return {number: state for number, state in joined.items() if number in emitted}

    def note_emitted(self, queries: Ids, whose: Ids) -> None:
        if self._gaps:
            emitted = queries if self.run.plan.reports else queries[np.unique(whose)]
            self._gaps.difference_update(emitted.tolist())


def _place(state: QueryState) -> tuple[object, ...]:
    """How far a cohort has come in a snapshot. Closes without an evaluation change `after` alone."""
    return state.within, state.after, state.last


def _own_state(member: Member, state: QueryState, gaps: Set[int]) -> QueryState:
    begins, gap = own_begins(member.begins, state.begins), member.number in gaps
    return msgspec.structs.replace(state, registered=member.registered, begins=begins, gap=gap, began=member.began)
