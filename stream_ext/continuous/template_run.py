"""A template run: registered queries that differ in their constants only, in one network over the same windows.

Its emissions are those that a `QueryRun` for each query would give. The constants are rows of a relation that the
network joins. The row of a query is added with its first evaluation, so that its first result is complete, and removed
with the query. Each row of the answer has the number of its query's row, by which the answer is split.

Example: `?v > 5` and `?v > 9` are the template `?v > ?p` with the rows (1, 5) and (2, 9) of the relation (row, ?p).

Queries that were registered between the same two evaluations are one cohort (`stream_ext.continuous.members`), with
one schedule; two cohorts become one when their states are equal. The cost of an evaluation depends on the rows of the
answer: a cohort emits it once, however many queries it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count

import numpy as np

from hbase_store import Store, StreamPosition
from stream_ext.continuous.members import Evaluation, Joining, Member, Members, Stand
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.query_run import (
    TERMS_CREATED_MAX,
    ChangesBetween,
    repeated_within,
    result_of,
    retained,
    vocabulary_of,
)
from stream_ext.continuous.steps import AFTER_ALL, one
from stream_ext.continuous.triggered_network import TriggeredNetwork
from stream_ext.continuous.turns import Turn
from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.network.network import shared_network
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.parameters import Parameters
from stream_ext.plan.result_columns import columns_of
from stream_ext.plan.templates import QueryTemplate
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.grids import Run
from stream_ext.windows.part import AnyPart, Ids, WindowBounds
from stream_ext.windows.schedule import QueryState, Schedule, Timing, Within


class TemplateRun:
    def __init__(
        self, template: QueryTemplate, query: Query, timing: Timing, labels: Sequence[str], store: Store, budget: Budget
    ) -> None:
        """`budget`: the budget of one query, for all of them together."""
        self._control, self._state_bytes = budget.control(), budget.bytes
        self._template, self._query, self._labels, self._store = template, query, tuple(labels), store
        self._timing = timing
        self._rows = count(1)
        self._cohorts: list[Members] = []
        self._cohort_of: dict[int, Members] = {}
        self._triggered: TriggeredNetwork | None = None  # None: T0 is not known yet
        self._bounds: dict[int, list[WindowBounds]] = {}
        self._sn = 0  # the snapshot that it is stepped in, or was last
        self._at: int | None = None  # the push whose evaluations are under way
        self._before: list[tuple[Members, Stand]] = []
        self._time: int | None = None  # of the last evaluation
        self._vts: tuple[int, Mapping[int, StreamPosition]] | None = None  # the vector timestamp of a snapshot
        self._width = len(columns_of(query))
        self.boolean = True if query.form is Form.ASK else None  # the result of an ASK with a row
        nothing = tuple(np.empty(0, np.uint64) for _ in range(self._width))
        self.empty_result = result_of(query, (nothing, np.empty(0, np.int64)))
        self.repeats = query.emits is R2S.RSTREAM
        self._going: Iterator[None] | None = None  # the evaluations that are left of the snapshot it is in
        self._push: int | None = None  # in the middle of a snapshot: the push up to which all are evaluated
        self._columns: Sequence[Ids] = ()  # the rows of the last evaluation, of all queries

    # -- who is in it --------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(self._cohort_of)

    @property
    def is_empty(self) -> bool:
        return not self._cohort_of

    @property
    def timing(self) -> Timing:
        """As far as it is known now."""
        return self._cohorts[0].schedule.timing

    @property
    def streams(self) -> frozenset[int]:
        return self._cohorts[0].schedule.streams()

    def accepts(self, timing: Timing, state: QueryState) -> bool:
        """As `QueryRun.accepts`."""
        return self.timing == timing and state.is_unevaluated_at(self._time)

    def build(self, joining: Sequence[Joining], sn: int) -> None:
        """Without results, as `QueryRun.resume`. Queries that were evaluated were evaluated at the same times."""
        self._vocabulary = vocabulary_of(self._store)
        self._cohorts, self._cohort_of, self._triggered, self._time = [], {}, None, None
        self._rows = count(1)
        for each in joining:
            self.join(each, sn)
        within = joining[0].state.within
        self._going, self._push = None, None if within is None else within.push
        if self.timing.is_settled:
            self._build(sn, None)

    def join(self, joining: Joining, sn: int) -> None:
        if self._vts is None or self._vts[0] != sn:
            self._vts = sn, self._store.vts(sn)
        cohort = Members(Schedule(self._timing, joining.state, self._vts[1]), joining.state.evaluated, self)
        cohort.k = 0 if joining.state.within is None else joining.state.within.k
        cohort.add(Member(joining, next(self._rows)), joining.state)
        self._cohort_of[joining.number] = cohort.join_one_of(self._cohorts)

    def leave(self, number: int) -> None:
        cohort = self._cohort_of.pop(number)
        member = cohort.remove(number)
        if cohort.entered and self._triggered is not None:
            self._relation.remove(self._rows_of([member])[0])
        if not cohort.members:
            self._cohorts.remove(cohort)

    def _rows_of(self, members: Sequence[Member]) -> list[list[int]]:
        ids = self._vocabulary.encode([text for member in members for text in member.constants])
        own = ids.reshape(len(members), -1).tolist()
        return [[member.row, *constants] for member, constants in zip(members, own, strict=True)]

    def _enter(self, cohort: Members) -> None:
        cohort.entered = True
        for row in self._rows_of(list(cohort.members.values())):
            self._relation.add(row)

    # -- back to the last state of the queries ---------------------------------------------------------------------

    def _build(self, sn: int, first: Arrival | None) -> None:
        """Builds the network, and adds the retained arrivals before `first`, which is about to arrive."""
        states = [cohort.state(sn) for cohort in self._cohorts]
        last = next((state.evaluated for state in states if state.evaluated is not None), None)
        then = max(last.sn, self._store.oldest()) if last else sn
        windows = self._cohorts[0].schedule.windows
        self._relation = Parameters(self._template.columns)
        make = partial(shared_network, self._template, self._relation, snapshot=self._store.at(then))
        self._control.begin(0)
        self._triggered = TriggeredNetwork(partial(make, encode=self._store.ids, check=self._control.check), windows)
        references = [self._timing.reference(state) for state in states]
        known = [reference for reference in references if reference is not None]
        after: list[Arrival] = []
        reference = min(known) if len(known) == len(references) else None
        underway = None if self._push is None else (sn + 1, self._push)
        for arrival in retained(self._store, windows, reference, sn + (underway is not None), self._control):
            place = arrival.sn, arrival.push
            if (first is not None and place >= (first.sn, first.push)) or (underway is not None and place > underway):
                break
            if last is None or place <= (last.sn, last.push):
                self._triggered.arrive(arrival)
            else:
                after.append(arrival)
        if last is not None:
            for cohort in self._cohorts:
                if cohort.entered:
                    self._enter(cohort)
            self._evaluate(then, last.time)
        for arrival in after:
            self._triggered.arrive(arrival)

    # -- one snapshot --------------------------------------------------------------------------------------------

    def start(self, sn: int, turn: Turn) -> list[AnyPart]:
        return []

    def step(self, sn: int, arrivals: Sequence[Arrival], turn: Turn) -> list[AnyPart]:
        """All evaluations that the pushes of this snapshot make due, in order, as far as the turn goes."""
        self._sn = sn
        self._going = self._evaluations(sn, arrivals)
        return self.go_on(turn)

    @property
    def is_underway(self) -> bool:
        """As `QueryRun.is_underway`."""
        return self._going is not None

    def go_on(self, turn: Turn) -> list[AnyPart]:
        assert self._going is not None, "it is underway"
        sn, push = self._sn, self._push
        underway = None if push is None else (sn, Within(push, 0))
        self._bounds = {}
        self._before = [(cohort, cohort.stand(sn - 1, underway)) for cohort in self._cohorts]
        for _ in self._going:
            turn.spend(sum(map(len, self._columns)))
            if turn.is_over and self._may_pause:
                assert self._at is not None
                self._push = self._at
                return [part for cohort in self._cohorts for part in cohort.pause(sn, self._at)]
        self._going = self._push = None
        parts = [part for cohort in self._cohorts for part in cohort.end(sn)]
        self._gather()
        if self._vocabulary.created > TERMS_CREATED_MAX:
            self._begin_anew(sn)
        return parts

    @property
    def _may_pause(self) -> bool:
        """Not within a run of evaluations over empty windows: it is emitted as a whole, and takes no time."""
        return not any(cohort.pending and cohort.pending[-1].over_nothing for cohort in self._cohorts)

    def state_of(self, number: int) -> QueryState:
        return self._cohort_of[number].state_of(number, self._sn)

    def silent_parts(self, sn: int, behind_at: int | None) -> list[AnyPart]:
        """Parts that store the progress of the queries; `behind_at`: they are behind the others, at that snapshot."""
        states = [(cohort, cohort.state(sn)) for cohort in self._cohorts]
        return [
            cohort.silent(sn, AFTER_ALL, state if behind_at is None else state.behind(behind_at))
            for cohort, state in states
        ]

    def _evaluations(self, sn: int, arrivals: Sequence[Arrival]) -> Iterator[None]:
        """All evaluations of a snapshot, with a pause after each; without those that were made before."""
        within = self._push
        for arrival in arrivals:
            if arrival.stream in self.streams:
                yield from self._take(sn, arrival, within)

    def _begin_anew(self, sn: int) -> None:
        self.build([joining for cohort in self._cohorts for joining in cohort.joining(cohort.stand(sn))], sn)

    def joining_before(self) -> list[Joining]:
        """All queries with their states before the last step: for another network, if this one has a fault."""
        return [joining for cohort, stand in self._before for joining in cohort.joining(stand)]

    def _take(self, sn: int, arrival: Arrival, within: int | None) -> Iterator[None]:
        for cohort in self._cohorts:
            cohort.schedule.take(arrival)
        if not self.timing.is_settled or (within is not None and arrival.push < within):
            return
        self._at = arrival.push
        if self._triggered is None:  # this push determines where the closes begin: that must be stored
            self._build(sn, arrival)
            for cohort in self._cohorts:
                cohort.went_on_silently = True
        assert self._triggered is not None
        if arrival.push != within:
            self._triggered.arrive(arrival)
        while due := [(time, cohort) for cohort in self._cohorts if (time := cohort.schedule.next_time()) is not None]:
            time = min(time for time, _ in due)
            due_cohorts = [cohort for at, cohort in due if at == time]
            if not self._pass_over(sn, arrival.push, time, due_cohorts):
                self._evaluate_due(sn, arrival.push, time, due_cohorts)
            yield

    def _pass_over(self, sn: int, push: int, time: int, due_cohorts: Sequence[Members]) -> bool:
        """Skips the closes that cannot change the answer: all windows are empty, and were at the last evaluation."""
        last = self._quiet_until(sn, time, due_cohorts)
        if last is None:
            return False
        for cohort in due_cohorts:
            run = cohort.schedule.run_until(last)
            assert run is not None, "its next evaluation lies before"
            cohort.schedule.done(run.last)
            if self._timing.content_only:
                cohort.went_on_silently = True
            else:
                cohort.pending.append(self._evaluation(cohort, run, push, is_run=True))
        return True

    def _quiet_until(self, sn: int, time: int, due_cohorts: Sequence[Members]) -> int | None:
        triggered = self._triggered
        assert triggered is not None
        if triggered.has_content(time):
            return None
        was_empty = triggered.store_sn == sn and triggered.was_empty and all(cohort.entered for cohort in due_cohorts)
        if not was_empty and not self._timing.content_only:
            return None
        # The first evaluation of a cohort that has not entered yet must not be skipped.
        firsts = [
            cohort.schedule.next_time() for cohort in self._cohorts if not cohort.entered and cohort not in due_cohorts
        ]
        last = min([triggered.next_entry(), *(first for first in firsts if first is not None)]) - 1
        return None if last < time else last

    def _evaluate_due(self, sn: int, push: int, time: int, due_cohorts: Sequence[Members]) -> None:
        """One evaluation; none if the queries are evaluated over content only, and all windows are empty."""
        triggered = self._triggered
        assert triggered is not None
        for cohort in due_cohorts:
            cohort.schedule.done(time)
        triggered.move_to(time)
        if self._timing.content_only and not triggered.has_content(time):
            for cohort in due_cohorts:
                cohort.went_on_silently = True
        else:
            assert all(cohort in due_cohorts for cohort in self._cohorts if cohort.entered), "a query is left behind"
            for cohort in due_cohorts:
                if not cohort.entered:
                    self._enter(cohort)
            self._add_evaluations(sn, push, time, due_cohorts)

    def _add_evaluations(self, sn: int, push: int, time: int, due_cohorts: Sequence[Members]) -> None:
        assert self._triggered is not None
        self._evaluate(sn, time)
        over_nothing = not self._triggered.has_content(time)
        for cohort in due_cohorts:
            cohort.pending.append(self._evaluation(cohort, one(time), push, over_nothing))

    def _evaluation(
        self, cohort: Members, run: Run, push: int, over_nothing: bool = True, is_run: bool = False
    ) -> Evaluation:
        """The last evaluation with the rows of this cohort; a run has rows only if each result is the whole answer."""
        if is_run and not self.repeats:
            return Evaluation(run, push, over_nothing=True, is_run=True)
        columns = self._columns
        whose, others = columns[0].view(np.int64), columns[len(columns) - self._width :]
        places = cohort.places(whose)
        chosen = np.flatnonzero(places >= 0)
        chosen = chosen[np.argsort(places[chosen], kind="stable")]
        own = [column[chosen] for column in others]
        return Evaluation(run, push, places[chosen].view(np.uint64), own, over_nothing, is_run)

    def _evaluate(self, sn: int, time: int) -> None:
        triggered = self._triggered
        assert triggered is not None
        changes = None if triggered.store_sn is None else ChangesBetween(self._store, triggered.store_sn, sn)
        self._control.begin(triggered.network.retained_bytes(self._state_bytes) + self._vocabulary.created_bytes)
        moment = Moment(
            time, self._store.at(sn), changes, now_ms=time, control=self._control, vocabulary=self._vocabulary
        )
        self._time = time
        self._columns = repeated_within(*triggered.evaluate(moment), self._control)

    def _gather(self) -> None:
        """Merges cohorts that have become alike."""
        if len(self._cohorts) < 2:
            return
        cohorts, self._cohorts = self._cohorts, []
        for cohort in cohorts:
            found = cohort.join_one_of(self._cohorts)
            if found is not cohort:
                self._cohort_of |= dict.fromkeys(cohort.members, found)

    # -- parts ---------------------------------------------------------------------------------------------------

    def bounds_at(self, time: int, arrived: bool = False) -> list[WindowBounds]:
        bounds = self._bounds.get(time)
        if bounds is None:
            bounds = self._bounds[time] = []
            for window, label in zip(self._cohorts[0].schedule.windows, self._labels, strict=True):
                start, end = window.extent_at(time)
                bounds.append(WindowBounds(label, start, end, window.bounds.value))
        return bounds

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        return self._vocabulary.portable(columns)
