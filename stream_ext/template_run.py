"""A template run: registered queries that differ in their constants only, in one network over the same windows.

What it says of each is what a `QueryRun` of its own would say. Their constants are rows of a relation that the network
joins; a query's row comes with its first evaluation, so that nothing is taken for news that it had not been told, and
goes with the query. Its rows carry that row's number, by which they are parted again.

Who was registered between the same two evaluations is in one `Cohort`, with one schedule; it joins the others when its
schedule is theirs. Where the first evaluations of a query lie, and what of them has to be stored, is its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import numpy as np

from hbase_store import Store
from stream_ext.arrivals import Arrival
from stream_ext.lens import Lens
from stream_ext.network import shared_network
from stream_ext.operators.moment import Moment
from stream_ext.operators.parameters import Parameters
from stream_ext.operators.shared_answer import SharedAnswer
from stream_ext.part import Ids, Part, WindowBounds
from stream_ext.plan.algebra import Form, Query
from stream_ext.plan.parameters import Template
from stream_ext.query_run import TERMS_MADE_MAX, ChangesBetween, Said, columns_of, retained, said_of, vocabulary_of
from stream_ext.schedule import Due, Evaluated, QueryState, Schedule, Timing
from stream_ext.steps import Steps
from stream_ext.zset import Columns, Weights, repeated


@dataclass(frozen=True, slots=True)
class Joining:
    """A query that joins: the constants that are its own, and where it has come to."""

    number: int
    constants: tuple[bytes, ...]
    state: QueryState


class Member:
    """One of the queries; what `Steps` needs to know of it."""

    def __init__(self, joining: Joining, row: int, run: TemplateRun) -> None:
        self.number, self.row, self.constants = joining.number, row, joining.constants
        self.empty_said = run.empty_said
        self.evaluated = joining.state.evaluated
        self.begins = joining.state.begins
        self._registered, self._gap, self._run = joining.state.registered, joining.state.gap, run
        self.schedule: Schedule  # its cohort's
        self.portable = run.portable

    def begun(self) -> list[int | None]:
        """Where it has begun, its own first closes; else those of its schedule."""
        if not self.begins:
            return self.schedule.begins
        pairs = zip(self.begins, self.schedule.begins, strict=True)
        return [later if own is None else own for own, later in pairs]

    def tell_gap(self) -> bool:
        gap, self._gap = self._gap, False
        return gap

    def bounds_at(self, time: int, arrived: bool) -> list[WindowBounds]:
        return self._run.bounds_at(time)

    def state_after(self, evaluated: Evaluated) -> QueryState:
        self.evaluated = evaluated
        return self.state_now(evaluated.sn)

    def state_now(self, sn: int) -> QueryState:
        at = self.schedule
        return QueryState(self._registered, self.evaluated, None, at.t0, at.after, at.last, self.begun(), sn, self._gap)

    def silent_part(self, sn: int, k: int) -> Part:
        state, time = self.state_now(sn), self.schedule.after or 0
        return Part(self.number, sn, k, time, [], [], None, 0, None, state, False, evaluated=False)


@dataclass(slots=True)
class Cohort:
    """Queries that are evaluated at the same times. `entered`: their rows are in the network."""

    schedule: Schedule
    entered: bool
    members: dict[int, Member] = field(default_factory=dict)

    def add(self, member: Member) -> None:
        member.schedule = self.schedule
        self.members[member.number] = member

    def likeness(self) -> tuple[object, ...]:
        """Equal for those that will be evaluated alike, and have the same windows still to begin."""
        begun = tuple(begin is None for begin in self.schedule.begins)
        return self.entered, self.schedule.after, self.schedule.last, begun

    def take_over(self, other: Cohort) -> None:
        for member in other.members.values():
            member.begins = member.begun()
            self.add(member)


class TemplateRun:
    def __init__(self, template: Template, query: Query, timing: Timing, labels: Sequence[str], store: Store) -> None:
        self._template, self._query, self._labels, self._store = template, query, tuple(labels), store
        self._timing = timing
        self._rows = count(1)
        self._cohorts: list[Cohort] = []
        self._lens: Lens | None = None  # None: T0 is not known yet
        self._bounds: dict[int, list[WindowBounds]] = {}
        self._steps: dict[int, Steps] = {}
        self._silent: dict[int, Member] = {}  # those who went on without saying anything
        self._time: int | None = None  # of the last evaluation
        self._width = len(columns_of(query))
        self._holds = True if query.form is Form.ASK else None
        nothing = tuple(np.empty(0, np.uint64) for _ in range(self._width))
        self.empty_said: Said = said_of(query, (nothing, np.empty(0, np.int64)))

    # -- who is in it --------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(number for cohort in self._cohorts for number in cohort.members)

    @property
    def timing(self) -> Timing:
        """As far as it is known now."""
        return self._cohorts[0].schedule.timing

    @property
    def streams(self) -> frozenset[int]:
        return self._cohorts[0].schedule.streams()

    def accepts(self, timing: Timing, state: QueryState) -> bool:
        """As `QueryRun.accepts`."""
        return self.timing == timing and state.comes_after(self._time)

    def build(self, joining: Sequence[Joining], sn: int) -> None:
        """Silently, as `QueryRun.resume`. Those that were evaluated were so at the same times."""
        self._vocabulary = vocabulary_of(self._store)
        self._cohorts, self._lens, self._time = [], None, None
        for each in joining:
            self.join(each, sn)
        if self.timing.is_settled:
            self._build(sn, None)

    def join(self, joining: Joining, sn: int) -> None:
        state = joining.state
        cohort = Cohort(Schedule(self._timing, state, self._store.vts(sn)), state.evaluated is not None)
        member = Member(joining, next(self._rows), self)
        found = next((other for other in self._cohorts if other.likeness() == cohort.likeness()), cohort)
        if found is cohort:
            self._cohorts.append(cohort)
        found.add(member)

    def leave(self, number: int) -> None:
        for cohort in self._cohorts:
            member = cohort.members.pop(number, None)
            if member is not None and cohort.entered and self._lens is not None:
                self._relation.remove(self._row_of(member))
        self._cohorts = [cohort for cohort in self._cohorts if cohort.members]

    def _row_of(self, member: Member) -> list[int]:
        return [member.row, *self._vocabulary.encode(member.constants).tolist()]

    def _enter(self, cohort: Cohort) -> None:
        cohort.entered = True
        for member in cohort.members.values():
            self._relation.add(self._row_of(member))

    # -- coming to where they have come to -----------------------------------------------------------------------

    def _build(self, sn: int, first: Arrival | None) -> None:
        """The network, with what is retained for it; but not from `first` on, where this one is about to arrive."""
        states = [member.state_now(sn) for cohort in self._cohorts for member in cohort.members.values()]
        last = next((state.evaluated for state in states if state.evaluated is not None), None)
        then = max(last.sn, self._store.oldest()) if last else sn
        windows = self._cohorts[0].schedule.windows
        self._relation = Parameters(self._template.columns)
        make = partial(shared_network, self._template, self._relation, snapshot=self._store.at(then))
        self._lens = Lens(partial(make, encode=self._store.ids), windows)
        references = [self._timing.reference(state) for state in states]
        known = [reference for reference in references if reference is not None]
        after: list[Arrival] = []
        for arrival in retained(self._store, windows, min(known) if len(known) == len(references) else None, sn):
            if first is not None and (arrival.sn, arrival.push) >= (first.sn, first.push):
                break
            if last is None or (arrival.sn, arrival.push) <= (last.sn, last.push):
                self._lens.arrive(arrival)
            else:
                after.append(arrival)
        if last is not None:
            for cohort in self._cohorts:
                if cohort.entered:
                    self._enter(cohort)
            self._evaluate(then, last.time)
        for arrival in after:
            self._lens.arrive(arrival)

    # -- one snapshot --------------------------------------------------------------------------------------------

    def start(self, sn: int) -> list[Part]:
        return []

    def step(self, sn: int, arrivals: Sequence[Arrival]) -> list[Part]:
        """All evaluations that the pushes of this snapshot make due, in order, of each query."""
        self._steps, self._silent, self._bounds = {}, {}, {}
        for arrival in arrivals:
            if arrival.stream in self.streams:
                self._take(sn, arrival)
        parts = [part for steps in self._steps.values() for part in steps.parts()]
        for number, member in self._silent.items():
            parts.append(member.silent_part(sn, self._steps[number].count if number in self._steps else 0))
        if self._vocabulary.made > TERMS_MADE_MAX:
            self._begin_anew(sn)
        return parts

    def _begin_anew(self, sn: int) -> None:
        members = [member for cohort in self._cohorts for member in cohort.members.values()]
        self.build([Joining(each.number, each.constants, each.state_now(sn)) for each in members], sn)

    def _take(self, sn: int, arrival: Arrival) -> None:
        for cohort in self._cohorts:
            cohort.schedule.take(arrival)
        if not self.timing.is_settled:
            return
        if self._lens is None:  # this push has said where the closes begin, which must not be forgotten
            self._build(sn, arrival)
            for cohort in self._cohorts:
                self._silent.update(cohort.members)
        assert self._lens is not None
        self._lens.arrive(arrival)
        while due := [(time, cohort) for cohort in self._cohorts if (time := cohort.schedule.next_time()) is not None]:
            time = min(time for time, _ in due)
            told = [cohort for at, cohort in due if at == time]
            if not self._pass_over(sn, arrival.push, time, told):
                self._tell(sn, arrival.push, time, told)

    def _pass_over(self, sn: int, push: int, time: int, told: Sequence[Cohort]) -> bool:
        """Where nothing can happen: all windows empty, and the last answers, too."""
        last = self._quiet_until(sn, time, told)
        if last is None:
            return False
        for cohort in told:
            run = cohort.schedule.run_until(last)
            assert run is not None, "its next evaluation lies before"
            cohort.schedule.done(run.last)
            if self._timing.content_only:
                self._silent.update(cohort.members)
            else:
                for member in cohort.members.values():
                    self._steps_of(member, sn).add_run(run, push)
        self._gather()
        return True

    def _quiet_until(self, sn: int, time: int, told: Sequence[Cohort]) -> int | None:
        lens = self._lens
        assert lens is not None
        if lens.holds_anything(time):
            return None
        if not self._timing.content_only:
            is_quiet = lens.store_sn == sn and lens.was_empty and lens.network.answer.is_empty()
            if not is_quiet or not all(cohort.entered for cohort in told):
                return None
        # Who has not come in yet must not be passed by.
        firsts = [cohort.schedule.next_time() for cohort in self._cohorts if not cohort.entered and cohort not in told]
        last = min([lens.next_entry(), *(first for first in firsts if first is not None)]) - 1
        return None if last < time else last

    def _tell(self, sn: int, push: int, time: int, told: Sequence[Cohort]) -> None:
        """One evaluation; none where content is asked for and there is none."""
        lens = self._lens
        assert lens is not None
        for cohort in told:
            cohort.schedule.done(time)
        lens.move_to(time)
        if self._timing.content_only and not lens.holds_anything(time):
            for cohort in told:
                self._silent.update(cohort.members)
        else:
            assert all(cohort in told for cohort in self._cohorts if cohort.entered), "a query is left behind"
            for cohort in told:
                if not cohort.entered:
                    self._enter(cohort)
            self._say(sn, push, Due(time, None), told)
        self._gather()

    def _say(self, sn: int, push: int, due: Due, told: Sequence[Cohort]) -> None:
        said = self._parted(self._evaluate(sn, due.time))
        quiet = self._are_quiet(due.time)
        for cohort in told:
            for member in cohort.members.values():
                is_quiet = quiet is not None and member.row not in quiet
                self._steps_of(member, sn).add(due, push, is_quiet, *said.get(member.row, self.empty_said))

    def _are_quiet(self, time: int) -> set[int] | None:
        """None: a window holds something. Else the rows of those whose answer is not empty all the same."""
        assert self._lens is not None
        answer = self._lens.network.answer
        if self._lens.holds_anything(time):
            return None
        assert isinstance(answer, SharedAnswer)
        return set() if answer.is_empty() else set(answer.holding().tolist())

    def _parted(self, emitted: tuple[Columns, Weights]) -> dict[int, Said]:
        """What is said of each that has a row."""
        columns = repeated(*emitted)
        if not len(columns[0]):
            return {}
        order = np.argsort(columns[0], kind="stable")
        whose, *others = (column[order] for column in (columns[0], *columns[len(columns) - self._width :]))
        rows, starts = np.unique(whose, return_index=True)
        ends = [*starts[1:].tolist(), len(whose)]
        found = {}
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends, strict=True):
            found[row] = [column[start:end] for column in others], self._holds, True
        return found

    def _evaluate(self, sn: int, time: int) -> tuple[Columns, Weights]:
        lens = self._lens
        assert lens is not None
        changes = None if lens.store_sn is None else ChangesBetween(self._store, lens.store_sn, sn)
        moment = Moment(time, self._store.at(sn), changes, now_ms=time, vocabulary=self._vocabulary)
        self._time = time
        return lens.evaluate(moment)

    def _gather(self) -> None:
        """Cohorts that have become alike are one."""
        if len(self._cohorts) < 2:
            return
        found: dict[tuple[object, ...], Cohort] = {}
        for cohort in self._cohorts:
            other = found.setdefault(cohort.likeness(), cohort)
            if other is not cohort:
                other.take_over(cohort)
        self._cohorts = list(found.values())

    def _steps_of(self, member: Member, sn: int) -> Steps:
        steps = self._steps.get(member.number)
        if steps is None:
            steps = self._steps[member.number] = Steps(member, sn)
        return steps

    # -- what is said --------------------------------------------------------------------------------------------

    def bounds_at(self, time: int) -> list[WindowBounds]:
        told = self._bounds.get(time)
        if told is None:
            told = self._bounds[time] = []
            for window, label in zip(self._cohorts[0].schedule.windows, self._labels, strict=True):
                start, end = window.extent_at(time)
                told.append(WindowBounds(label, start, end, window.bounds.value))
        return told

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        return self._vocabulary.portable(columns)
