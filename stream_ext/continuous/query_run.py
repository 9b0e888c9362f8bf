"""A query run: the network of one registered query, its schedule, and the content of its windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from hbase_store import Snapshot, Store
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.steps import Result, Steps, part_of, silent_part
from stream_ext.continuous.triggered_network import Composed, TriggeredNetwork
from stream_ext.continuous.turns import Turn
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.language.algebra.walk import has_services
from stream_ext.language.algebra.windows import Dialect
from stream_ext.network.network import registered_network
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.moment import Moment, QuadChange, seed_of
from stream_ext.network.operators.remote.service import Unanswered
from stream_ext.plan.result_columns import columns_of
from stream_ext.remote.backoff import Backoff, ServiceAnswers
from stream_ext.rows.zset import Columns, Weights, repeated
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.arrivals import Arrival, history, last_times
from stream_ext.windows.grids import Run
from stream_ext.windows.occupancy import reach
from stream_ext.windows.part import Ids, Part, WindowBounds
from stream_ext.windows.schedule import (
    Due,
    LastEvaluation,
    QueryState,
    Schedule,
    ScheduledWindow,
    Timing,
    Within,
    arrives_by_element,
)

#: The position before all pushes of a snapshot.
_NOTHING = Within(0, 0)
#: A query that has created more terms than this begins anew: most of the terms are in no row any more.
TERMS_CREATED_MAX = 50_000
#: Fewer rows are not charged before they are repeated.
_MANY_ROWS = 8192
#: The number of arrays of ids that one column needs until it is an emission.
_COPIES = 3


@dataclass(frozen=True, slots=True)
class ChangesBetween:
    """How the store changed after `low`, up to and with `high`."""

    store: Store
    low: int
    high: int

    def of(self, predicates: tuple[int, ...] | None, held: bool = False) -> list[QuadChange]:
        found = (self.store.net_changes(sn, predicates, held) for sn in range(self.low + 1, self.high + 1))
        return [change for change in found if len(change)]

    def before(self) -> Snapshot:
        return self.store.at(self.low)


def repeated_within(columns: Columns, weights: Weights, control: Control) -> Columns:
    """The rows of a bag, each as often as its weight says, within the budget. An emission contains each value several
    times: as an id, for other processes, and as a place in the list of its terms."""
    rows = int(weights.sum()) if len(weights) else 0
    if rows > _MANY_ROWS:
        control.room(rows, _COPIES * len(columns))
    return repeated(columns, weights)


def result_of(query: Query, emitted: tuple[Columns, Weights], control: Control = Control.FREE) -> Result:
    columns, weights = emitted
    if query.form is Form.ASK:  # one empty row or none; ISTREAM and DSTREAM emit only that it came, or went
        boolean = bool(len(weights))
        reports_false = query.emits is R2S.RSTREAM and query.dialect is not Dialect.CQELS
        return [], boolean, boolean or reports_false
    emits = bool(len(weights)) or query.dialect is not Dialect.CQELS  # where an empty answer is not reported
    return list(repeated_within(columns, weights, control)), None, emits


def vocabulary_of(store: Store) -> Vocabulary:
    return Vocabulary(store.ids, store.terms, version=store.terms_version, may_go=store.are_transient)


def retained(
    store: Store,
    windows: Sequence[ScheduledWindow],
    reference: int | None,
    sn: int,
    control: Control,
    before: tuple[int, int] | None = None,
) -> list[Arrival]:
    """The arrivals up to snapshot `sn` that the windows at the time `reference`, or later, can contain; in order of
    acknowledgement. `before`: the push before which the windows are needed first."""
    found: list[Arrival] = []
    control.begin(0)
    size = 0
    for stream, needed in reach(windows, reference, before).items():
        for arrival in history(store, stream, sn, needed):
            found.append(arrival)
            size += arrival.nbytes
            control.alive(size)
            control.check()
    return sorted(found, key=lambda arrival: (arrival.sn, arrival.push))


@contextmanager
def as_it_is_without_an_answer(run: object) -> Iterator[None]:
    """If a run that begins anew has no answer from a remote endpoint, it continues unchanged: its emissions count."""
    before = run.__dict__.copy()
    try:
        yield
    except Unanswered:
        run.__dict__.update(before)


class QueryRun:
    """Steps one query from snapshot to snapshot; the same pushes give the same parts, in whatever process."""

    def __init__(
        self,
        number: int,
        query: Query,
        timing: Timing,
        labels: Sequence[str],
        store: Store,
        backoff: Backoff,
        budget: Budget,
    ) -> None:
        self.number = number
        self._query = query
        self._backoff, self._control, self._state_bytes = backoff, budget.control(), budget.bytes
        self.has_services = has_services(query)
        self._timing = timing
        self._labels = tuple(labels)
        self._store = store
        width = len(columns_of(query))
        nothing = tuple(np.empty(0, np.uint64) for _ in range(width))
        self._empty_result = result_of(query, (nothing, np.empty(0, np.int64)))
        self.repeats = query.emits is R2S.RSTREAM
        self._last_result: Result = self._empty_result  # of the last evaluation
        self._vocabulary, self._created_max = vocabulary_of(store), TERMS_CREATED_MAX
        self._orders = Orders()
        # Networks at closes and at arrivals; both None: T0 is not known yet, or the windows were of the past.
        self._at_closes: TriggeredNetwork | None = None
        self._at_arrivals: TriggeredNetwork | None = None
        self._composed: Composed | None = None
        self._service_answers: ServiceAnswers | None = None
        self._last: TriggeredNetwork | None = None  # that of the last evaluation
        self.evaluated: LastEvaluation | None = None
        self._gap = False
        self._went_on_silently = False
        self._sn = 0  # the snapshot that it is stepped in, or was last
        self._going: Iterator[None] | None = None  # the evaluations that are left of the snapshot it is in
        self._steps: Steps[Part] = Steps(self, 0)
        self._behind: QueryState | None = None  # the position in that snapshot that was emitted last
        self._evaluated_state: QueryState | None = None  # the position after the last evaluation, emitted or not
        self._emitted_state: QueryState | None = None  # the position after all that is emitted by now, if known
        self._emitted: list[Part] = []  # the parts of this turn
        self._at = _NOTHING
        self._varies = is_volatile(query)

    # -- back to the last state of the query -----------------------------------------------------------------

    def resume(self, state: QueryState, sn: int) -> None:
        """Without results: rebuilds the windows of the last evaluation, repeats it, then adds what arrived up to
        `sn`."""
        self._state, self.evaluated, self._gap = state, state.evaluated, state.gap
        self._schedule = Schedule(self._timing, state, self._store.vts(sn), partial(last_times, self._store, sn))
        behind_at = sn - (self._timing.ends_at is not None)
        self._going, self._behind = None, None if state.within is None else state.behind(behind_at, state.within)
        self._at_closes = self._at_arrivals = None
        if self.timing.is_settled and not self._has_ended(state) and not self._may_begin_anywhere:
            self._build(sn, self.timing.reference(state), None)

    @property
    def _may_begin_anywhere(self) -> bool:
        """At arrivals there is no first close: how old the content may be is known when the first evaluation is due."""
        timing = self.timing
        return timing.arrivals and timing.ends_at is None and self._schedule.last is None

    def _has_ended(self, state: QueryState) -> bool:
        """Windows of the past are replayed once, in the snapshot of the registration."""
        return self._timing.ends_at is not None and state.sn > 0 and state.within is None

    def _build(self, sn: int, reference: int | None, first: Arrival | None) -> None:
        """Builds the networks, and adds the retained arrivals before `first`, which is about to arrive."""
        last = self._state.evaluated
        # Only a query that reads nothing of the store may have been evaluated before the oldest snapshot.
        then = max(last.sn, self._store.oldest()) if last else sn
        self._build_networks(then)
        # Windows of the past are evaluated within the snapshot in which they are built.
        is_past = self._timing.ends_at is not None
        within = None if is_past else self._state.within
        underway = None if within is None else (sn + 1, within.push)
        after: list[tuple[TriggeredNetwork, Arrival]] = []

        def arrive(triggered: TriggeredNetwork, arrival: Arrival, before: bool) -> None:
            if before:
                triggered.arrive(arrival)
            else:
                after.append((triggered, arrival))

        begin = (last.sn, last.push) if last is not None else None if first is None else (first.sn, first.push)
        for arrival in retained(
            self._store, self._schedule.windows, reference, sn + (within is not None), self._control, begin
        ):
            place = arrival.sn, arrival.push
            if (first is not None and place >= (first.sn, first.push)) or (underway is not None and place > underway):
                break
            # What came after the last evaluation, or after the query began, is new at the next one.
            before = is_past or (arrival.sn <= self._state.began if last is None else place <= (last.sn, last.push))
            if self._at_closes is not None:
                arrive(self._at_closes, arrival, before)
            up_to = within.arrived_at if within is not None and place == underway else None
            if self._at_arrivals is not None and (up_to is not None or place != underway):
                # In two steps: the elements of the last evaluation, then those without an evaluation.
                at = last.arrived_at if last is not None and place == (last.sn, last.push) else None
                by_element = arrives_by_element(self._schedule.windows, arrival.stream)
                if at is not None:
                    self._at_arrivals.arrive(arrival.between(None, at, by_element))
                    before = False
                arrive(self._at_arrivals, arrival.between(at, up_to, by_element), before)
        if last is not None:
            self._evaluate(self._triggered_network(last.arrived), then, last.time, last.k, repeats=True)
        else:
            for triggered in self._triggered_networks:
                triggered.settle()
        for triggered, arrival in after:
            triggered.arrive(arrival)

    def _build_networks(self, sn: int) -> None:
        schedule, at = self._schedule, self._store.at(sn)
        single = not (schedule.timing.arrivals and schedule.timing.has_beats)
        orders = self._orders = Orders(self._state.ranked)  # both networks see the same answers
        self._control.begin(0)
        make = partial(
            registered_network, self._query, self.number, snapshot=at, encode=self._store.ids, orders=orders,
            bags=not single, returns=self._query.emits_new and self._query.is_cut_by_appearance,
            check=self._control.check,
        )  # fmt: skip
        self._at_closes = TriggeredNetwork(make, schedule.windows) if schedule.timing.has_beats else None
        self._at_arrivals = TriggeredNetwork(make, schedule.for_arrivals) if schedule.timing.arrivals else None
        network, r2s = self._triggered_networks[0].network, self._query.emits
        self._composed = None if single else Composed(network.cut, r2s, network.construct_at_end, orders)
        self._service_answers = None if single else ServiceAnswers(by_several=True)
        self._last = None

    def _triggered_network(self, arrived: bool) -> TriggeredNetwork:
        triggered = self._at_arrivals if arrived else self._at_closes
        assert triggered is not None, "the query has no evaluations of this kind"
        return triggered

    @property
    def _triggered_networks(self) -> list[TriggeredNetwork]:
        return [triggered for triggered in (self._at_closes, self._at_arrivals) if triggered is not None]

    @property
    def _answer(self) -> ResultState:
        return self._triggered_networks[0].network.answer if self._composed is None else self._composed.answer

    # -- one snapshot --------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the run's queries: one."""
        return (self.number,)

    @property
    def streams(self) -> frozenset[int]:
        return self._schedule.streams()

    @property
    def timing(self) -> Timing:
        """As far as it is known now."""
        return self._schedule.timing

    def accepts(self, timing: Timing, state: QueryState) -> bool:
        """Whether a query of the same template will be evaluated at the same times as this one, and not before it."""
        return self.timing == timing and state.is_unevaluated_at(
            None if self.evaluated is None else self.evaluated.time
        )

    def start(self, sn: int, turn: Turn) -> Sequence[Part]:
        """In the snapshot of the registration: windows of the past are replayed."""
        return [] if self._timing.ends_at is None else self._begin(sn, [], turn)

    def step(self, sn: int, arrivals: Sequence[Arrival], turn: Turn) -> Sequence[Part]:
        """All evaluations that the pushes of this snapshot make due, in order, as far as the turn goes."""
        return [] if self._timing.ends_at is not None else self._begin(sn, arrivals, turn)

    @property
    def is_underway(self) -> bool:
        """Whether the last turn ended in the middle of a snapshot."""
        return self._going is not None

    def _begin(self, sn: int, arrivals: Sequence[Arrival], turn: Turn) -> Sequence[Part]:
        within = None if self._behind is None else self._behind.within
        self._sn, self._steps = sn, Steps(self, sn, 0 if within is None else within.k)
        self._arrivals, self._evaluated_state, self._emitted = arrivals, self._behind, []
        if self._varies and self._evaluated_state is None:
            self._evaluated_state = self.state_now(sn).behind(sn - 1)
        self._going = self._evaluations(sn, arrivals, self._steps, within)
        return self.go_on(turn)

    def go_on(self, turn: Turn) -> Sequence[Part]:
        """Continues the snapshot that the run is underway in."""
        assert self._going is not None, "it is underway"
        sn, steps, self._emitted = self._sn, self._steps, []
        emitted_state = self._emitted_state = self._behind or self._evaluated_state
        for _ in self._going:
            turn.spend(sum(map(len, self._last_result[0])))
            is_over = turn.is_over
            if is_over or self._varies:
                before, self._evaluated_state = self._evaluated_state, self._underway_at(sn, steps.count)
                if steps.emitted_up_to == steps.count:
                    emitted_state = self._evaluated_state
                elif before is not None and (before.within or _NOTHING).k == steps.emitted_up_to:
                    # What was evaluated by then has been emitted since.
                    emitted_state = msgspec.structs.replace(before, evaluated=self.evaluated, gap=self._gap)
                self._emitted_state = emitted_state
            # Where time alone changes nothing, the pending evaluations are few, or one run.
            if is_over and (self._varies or steps.emitted_up_to == steps.count):
                return self._cut(sn, steps.take_parts(), emitted_state)
        self._going = self._behind = None
        parts = self._emitted = steps.parts()
        if self._went_on_silently or self._timing.ends_at is not None:
            self._went_on_silently = False
            parts.append(self._silent_part(sn, steps.count))
        if self._vocabulary.created > self._created_max and self._timing.ends_at is None:
            self._begin_anew(sn)
        return parts

    def parts_before_fault(self) -> Sequence[Part]:
        """The parts of the turn that has just raised, up to the evaluation that raised."""
        return [*self._emitted, *self._steps.parts()]

    def state_without_answer(self) -> tuple[Sequence[Part], QueryState | None]:
        """The parts of a turn that has ended without an answer of a remote endpoint, and the state after them; None:
        the state is the one before the turn. Evaluations that are to be emitted together are not cut, but repeated."""
        return [*self._emitted, *self._steps.take_parts()], self._emitted_state

    def _underway_at(self, sn: int, k: int) -> QueryState:
        return self.state_now(sn).behind(sn - 1, msgspec.structs.replace(self._at, k=k))

    def _cut(self, sn: int, parts: list[Part], state: QueryState | None) -> Sequence[Part]:
        """Ends a turn: adds a part with `state`, the position after `parts`."""
        self._emitted = parts
        if state is not None and (self._behind is None or self._behind.within != state.within):
            self._behind = state = msgspec.structs.replace(state, ended=False)
            parts.append(silent_part(self.number, sn, (state.within or _NOTHING).k, state))
        if (
            state is not None
            and self._vocabulary.created > self._created_max
            and self._steps.emitted_up_to == self._steps.count
        ):
            # As `_begin_anew`, in the middle of a snapshot.
            with as_it_is_without_an_answer(self):
                self._vocabulary = vocabulary_of(self._store)
                self.resume(state, sn if self._timing.ends_at is not None else sn - 1)
                self._created_max = max(TERMS_CREATED_MAX, 2 * self._vocabulary.created)
                self._going = self._evaluations(sn, self._arrivals, self._steps, state.within)
        return parts

    def _evaluations(
        self, sn: int, arrivals: Sequence[Arrival], steps: Steps[Part], within: Within | None
    ) -> Iterator[None]:
        """All evaluations of a snapshot, with a pause after each; without those before `within`, which were made
        before."""
        self._at = within or _NOTHING
        if self._timing.ends_at is not None:
            while (time := self._schedule.next_time()) is not None:
                self._close(sn, 0, Due(time, None), steps)
                yield
        for arrival in arrivals:
            if arrival.stream in self.streams:
                yield from self._take(sn, arrival, steps, within)

    def _begin_anew(self, sn: int) -> None:
        """Begins as after a restart. This forgets terms that the query created and that are in no row any more."""
        state = self.state_now(sn)  # the order of created terms is saved by their values
        with as_it_is_without_an_answer(self):
            self._vocabulary = vocabulary_of(self._store)
            self.resume(state, sn)
            self._created_max = max(TERMS_CREATED_MAX, 2 * self._vocabulary.created)

    def _take(self, sn: int, arrival: Arrival, steps: Steps[Part], within: Within | None) -> Iterator[None]:
        was_settled = self.timing.is_settled
        self._schedule.take(arrival)
        if not self.timing.is_settled or (within is not None and arrival.push < within.push):
            return
        if not was_settled:  # this push determines where the closes begin: that must be stored
            self._went_on_silently = True
        is_there = within is not None and arrival.push == within.push
        arrived_at = within.arrived_at if within is not None and is_there else None
        self._at = Within(arrival.push, 0, arrived_at)
        due = self._schedule.due(arrival, arrived_at)
        if not self._triggered_networks:
            due = self._begun(sn, arrival, due)
        if not self._triggered_networks:
            return
        if self._at_closes is not None and not is_there:
            self._at_closes.arrive(arrival)
        # An evaluation at an arrival sees, of the elements of its push, those that have arrived by then.
        by_element = arrives_by_element(self._schedule.windows, arrival.stream)
        for each in due:
            if each.arrived is None:
                self._close(sn, arrival.push, each, steps)
            else:
                self._triggered_network(True).arrive(arrival.between(arrived_at, each.arrived, by_element))
                arrived_at = each.arrived
                self._evaluate_due(sn, arrival.push, each, steps)
            yield
        if self._at_arrivals is not None:
            self._at_arrivals.arrive(arrival.between(arrived_at, None, by_element))

    def _begun(self, sn: int, arrival: Arrival, due: Iterator[Due]) -> Iterator[Due]:
        """Builds the networks if an evaluation is due; returns what is due."""
        state = self._state
        if self._may_begin_anywhere:
            first = next(due, None)
            if first is None:
                return due
            due, state = chain((first,), due), msgspec.structs.replace(state, last=first.time)
        self._build(sn, self.timing.reference(state), arrival)
        return due

    def _close(self, sn: int, push: int, due: Due, steps: Steps[Part]) -> None:
        run = self._empty_run(sn, due)
        if run is None:
            self._evaluate_due(sn, push, due, steps)
            return
        self._schedule.done(run.last)
        if self._timing.content_only:
            self._went_on_silently = True
        else:
            steps.add_run(run, push, self._last_result if self.repeats else self._empty_result)

    def _evaluate_due(self, sn: int, push: int, due: Due, steps: Steps[Part]) -> None:
        """One evaluation; none if the query is evaluated over content only, and all windows are empty."""
        triggered, time = self._triggered_network(due.arrived is not None), due.time
        triggered.move_to(time)
        is_empty = not triggered.has_content(time)
        is_silent = self._timing.content_only and is_empty
        result = None if is_silent else self._evaluate(triggered, sn, time, steps.count)
        # Only now: if the evaluation raises, the state is the one before it.
        if due.arrived is None:
            self._schedule.done(time)
        else:
            self._at = Within(push, 0, due.arrived)
            self._schedule.seen(time)
        if result is None:
            self._went_on_silently = True
        else:
            steps.add(due, push, is_empty, result)

    def _evaluate(self, triggered: TriggeredNetwork, sn: int, time: int, k: int, repeats: bool = False) -> Result:
        if self._query.emits_new and not repeats:
            orders = self._orders.stand()
            triggered.leave_out_new(replace(self._moment(triggered, sn, time, k), without_new=True))
            self._orders.return_to(orders)
        moment = self._moment(triggered, sn, time, k)
        found, self._last = triggered.evaluate(moment), triggered
        emitted = found if self._composed is None else self._composed.emitted(moment, found)
        self._last_result = result_of(self._query, emitted, self._control)
        return self._last_result

    def _moment(self, triggered: TriggeredNetwork, sn: int, time: int, k: int) -> Moment:
        changes = None if triggered.store_sn is None else ChangesBetween(self._store, triggered.store_sn, sn)
        seed = seed_of(self.number, sn, k)
        retained_bytes = sum(each.network.retained_bytes(self._state_bytes) for each in self._triggered_networks)
        self._control.begin(retained_bytes + self._vocabulary.created_bytes)
        return Moment(
            time, self._store.at(sn), changes, now_ms=time, seed=seed, control=self._control,
            vocabulary=self._vocabulary, allowed_urls=self._backoff.allowed_urls, backoff=self._backoff,
            service_answers=self._service_answers,
        )  # fmt: skip

    def _empty_run(self, sn: int, due: Due) -> Run | None:
        """The closes from this one on that cannot change the answer: all windows are empty, and were at the last
        one."""
        triggered, time = self._triggered_network(False), due.time
        if self._timing.content_only:
            if triggered.has_content(time):
                return None
        elif (
            triggered is not self._last
            or triggered.store_sn != sn
            or not triggered.was_empty
            or triggered.has_content(time)
        ):
            return None
        elif triggered.network.may_turn() or (self.has_services and not self._answer.is_empty()):
            return None  # the answer may change although no row comes or goes
        last = triggered.next_entry() - 1 if due.limit is None else min(triggered.next_entry() - 1, due.limit)
        return None if last < time else self._schedule.run_until(last)

    # -- parts ---------------------------------------------------------------------------------------------------

    def bounds_at(self, time: int, arrived: bool) -> list[WindowBounds]:
        bounds = []
        windows = self._schedule.for_arrivals if arrived else self._schedule.windows
        triggered = self._triggered_network(arrived)
        for place, (window, label) in enumerate(zip(windows, self._labels, strict=True)):
            start, end = window.extent_at(time, triggered.oldest(place, time) if window.is_endless else None)
            bounds.append(WindowBounds(label, start, end, window.bounds.value))
        return bounds

    def part(self, evaluated: LastEvaluation, result: Result) -> Part:
        return part_of(self, evaluated, result)

    def state_after(self, evaluated: LastEvaluation) -> QueryState:
        self.evaluated = evaluated
        return self.state_now(evaluated.sn)

    def stand(self, sn: int) -> QueryState:
        """The state that was emitted last: in the middle of the snapshot underway, else the one at `sn`."""
        return self.state_now(sn) if self._behind is None else self._behind

    def state_of(self, number: int) -> QueryState:
        return self.state_now(self._sn)

    def state_now(self, sn: int) -> QueryState:
        return self._schedule.state(self.evaluated, self._orders.save(self._vocabulary), sn, self._gap)

    def _silent_part(self, sn: int, k: int) -> Part:
        return silent_part(self.number, sn, k, self.state_now(sn))

    def take_gap(self) -> bool:
        """Whether this is the first emission since a pause; call it once for each emission."""
        gap, self._gap = self._gap, False
        return gap

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        """The columns for processes that do not know the terms this run created, and these terms."""
        return self._vocabulary.portable(columns)
