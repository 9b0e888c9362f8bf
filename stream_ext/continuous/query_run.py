"""A query run: one registered query's network, its schedule, and what is in its windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from hbase_store import Snapshot, Store
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.steps import Said, Steps, part_of, silent_part
from stream_ext.continuous.triggered_network import Composed, Lens
from stream_ext.continuous.turns import Turn
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.language.algebra.walk import has_services
from stream_ext.network.network import registered_network
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.moment import Moment, QuadChange, seed_of
from stream_ext.network.operators.remote.service import Unanswered
from stream_ext.plan.result_columns import columns_of
from stream_ext.remote.backoff import Backoff, ServiceAnswers
from stream_ext.rows.zset import Columns, Weights, repeated
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.arrivals import Arrival, history
from stream_ext.windows.grids import Run
from stream_ext.windows.occupancy import reach
from stream_ext.windows.part import Ids, Part, WindowBounds
from stream_ext.windows.schedule import Due, LastEvaluation, QueryState, Schedule, ScheduledWindow, Timing, Within

#: Of a snapshot.
_NOTHING = Within(0, 0)
#: A query that has made more terms than this begins anew: most of them stand in no row any more.
TERMS_MADE_MAX = 50_000
#: Fewer rows are not counted before they are repeated.
_MANY_ROWS = 8192
#: So many arrays of ids a column takes on its way into an emission.
_COPIES = 3


@dataclass(frozen=True, slots=True)
class ChangesBetween:
    """How the store changed after `low`, up to and with `high`."""

    store: Store
    low: int
    high: int

    def of(self, predicates: tuple[int, ...] | None) -> list[QuadChange]:
        found = (self.store.net_changes(sn, predicates) for sn in range(self.low + 1, self.high + 1))
        return [change for change in found if len(change)]

    def before(self) -> Snapshot:
        return self.store.at(self.low)


def repeated_within(columns: Columns, weights: Weights, control: Control) -> Columns:
    """The rows of a bag, each as often as it counts; if that is no more than the query may make. An emission has each
    value some times over: as an id, for other processes, and as a place among the terms that are stored with it."""
    rows = int(weights.sum()) if len(weights) else 0
    if rows > _MANY_ROWS:
        control.room(rows, _COPIES * len(columns))
    return repeated(columns, weights)


def said_of(query: Query, emitted: tuple[Columns, Weights], control: Control = Control.FREE) -> Said:
    columns, weights = emitted
    if query.form is Form.ASK:  # one empty row or none; ISTREAM and DSTREAM say only that it came, or went
        holds = bool(len(weights))
        return [], holds, holds or query.r2s in (None, R2S.RSTREAM)
    return list(repeated_within(columns, weights, control)), None, True


def vocabulary_of(store: Store) -> Vocabulary:
    return Vocabulary(store.ids, store.terms, version=store.terms_version, may_go=store.are_transient)


def retained(
    store: Store, windows: Sequence[ScheduledWindow], reference: int | None, sn: int, control: Control
) -> list[Arrival]:
    """What the windows at the time `reference`, or later, can hold; in order of acknowledgement."""
    found: list[Arrival] = []
    control.begin(0)
    size = 0
    for stream, oldest in reach(windows, reference).items():
        for arrival in history(store, stream, sn, oldest):
            found.append(arrival)
            size += arrival.nbytes
            control.alive(size)
            control.check()
    return sorted(found, key=lambda arrival: (arrival.sn, arrival.push))


@contextmanager
def as_it_is_without_an_answer(run: object) -> Iterator[None]:
    """Where a run that begins anew has no answer from elsewhere, it goes on as it is: what it has said stands."""
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
        self.asks_elsewhere = has_services(query)
        self._timing = timing
        self._labels = tuple(labels)
        self._store = store
        width = len(columns_of(query))
        nothing = tuple(np.empty(0, np.uint64) for _ in range(width))
        self._empty_said = said_of(query, (nothing, np.empty(0, np.int64)))
        self.repeats = (query.r2s or R2S.RSTREAM) is R2S.RSTREAM
        self._said: Said = self._empty_said  # at the last evaluation
        self._vocabulary, self._made_max = vocabulary_of(store), TERMS_MADE_MAX
        self._orders = Orders()
        # At closes, and at arrivals; none: T0 is not known yet, or the windows were of the past.
        self._at_closes: Lens | None = None
        self._at_arrivals: Lens | None = None
        self._composed: Composed | None = None
        self._service_answers: ServiceAnswers | None = None
        self._last: Lens | None = None  # that of the last evaluation
        self.evaluated: LastEvaluation | None = None
        self._gap = False
        self._went_on_silently = False
        self._sn = 0  # the snapshot that it is stepped in, or was last
        self._going: Iterator[None] | None = None  # the evaluations that are left of the snapshot it is in
        self._steps: Steps[Part] = Steps(self, 0)
        self._behind: QueryState | None = None  # where it stands in that snapshot, as it was told last
        self._made: QueryState | None = None  # the same as of the last evaluation, told or not
        self._stood: QueryState | None = None  # the same as of all that is told by now, where that is known
        self._told: list[Part] = []  # of this turn
        self._at = _NOTHING
        self._varies = is_volatile(query)

    # -- coming back to where the query had come to --------------------------------------------------------------

    def resume(self, state: QueryState, sn: int) -> None:
        """Silently: the windows as they were at the last evaluation, that evaluation, then what arrived up to `sn`."""
        self._state, self.evaluated, self._gap = state, state.evaluated, state.gap
        self._schedule = Schedule(self._timing, state, self._store.vts(sn))
        stands = sn - (self._timing.ends_at is not None)
        self._going, self._behind = None, None if state.within is None else state.behind(stands, state.within)
        self._at_closes = self._at_arrivals = None
        if self.timing.is_settled and not self._has_ended(state) and not self._may_begin_anywhere:
            self._build(sn, self.timing.reference(state), None)

    @property
    def _may_begin_anywhere(self) -> bool:
        """Arrivals wait for nothing: how old what they look at may be is known when the first is due."""
        timing = self.timing
        return timing.arrivals and timing.ends_at is None and self._schedule.last is None

    def _has_ended(self, state: QueryState) -> bool:
        """Windows of the past are replayed once, in the snapshot of the registration."""
        return self._timing.ends_at is not None and state.sn > 0 and state.within is None

    def _build(self, sn: int, reference: int | None, first: Arrival | None) -> None:
        """The network, with what is retained for it; but not from `first` on, where this one is about to arrive."""
        last = self._state.evaluated
        # What lies before the oldest snapshot is only asked for by a query that reads nothing of the store.
        then = max(last.sn, self._store.oldest()) if last else sn
        self._make_lenses(then)
        # Windows of the past are looked at within the snapshot that they are built in.
        is_past = self._timing.ends_at is not None
        within = None if is_past else self._state.within
        underway = None if within is None else (sn + 1, within.push)
        after: list[tuple[Lens, Arrival]] = []

        def arrive(lens: Lens, arrival: Arrival, before: bool) -> None:
            if before:
                lens.arrive(arrival)
            else:
                after.append((lens, arrival))

        for arrival in retained(
            self._store, self._schedule.windows, reference, sn + (within is not None), self._control
        ):
            place = arrival.sn, arrival.push
            if (first is not None and place >= (first.sn, first.push)) or (underway is not None and place > underway):
                break
            before = is_past or last is None or place <= (last.sn, last.push)
            if within is None or place != underway:
                for lens in self._lenses:
                    arrive(lens, arrival, before)
                continue
            if self._at_closes is not None:
                arrive(self._at_closes, arrival, before)
            if self._at_arrivals is not None and within.arrived_at is not None:
                # One after the other: those of the last evaluation, then those that made none.
                at = last.arrived_at if last is not None and place == (last.sn, last.push) else None
                if at is not None:
                    self._at_arrivals.arrive(arrival.between(None, at))
                    before = False
                arrive(self._at_arrivals, arrival.between(at, within.arrived_at), before)
        if last is not None:
            self._evaluate(self._lens(last.arrived), then, last.time, last.k)
        for lens, arrival in after:
            lens.arrive(arrival)

    def _make_lenses(self, sn: int) -> None:
        schedule, at = self._schedule, self._store.at(sn)
        alone = not (schedule.timing.arrivals and schedule.timing.has_beats)
        orders = self._orders = Orders(self._state.ranked)  # both networks see the same answers come and go
        self._control.begin(0)
        make = partial(
            registered_network, self._query, self.number, snapshot=at, encode=self._store.ids, orders=orders,
            bags=not alone, check=self._control.check,
        )  # fmt: skip
        self._at_closes = Lens(make, schedule.windows) if schedule.timing.has_beats else None
        self._at_arrivals = Lens(make, schedule.for_arrivals) if schedule.timing.arrivals else None
        network, r2s = self._lenses[0].network, self._query.r2s or R2S.RSTREAM
        self._composed = None if alone else Composed(network.cut, r2s, network.made_at_end, orders)
        self._service_answers = None if alone else ServiceAnswers(by_several=True)
        self._last = None

    def _lens(self, arrived: bool) -> Lens:
        lens = self._at_arrivals if arrived else self._at_closes
        assert lens is not None, "evaluated as its timing does not say"
        return lens

    @property
    def _lenses(self) -> list[Lens]:
        return [lens for lens in (self._at_closes, self._at_arrivals) if lens is not None]

    @property
    def _answer(self) -> ResultState:
        return self._lenses[0].network.answer if self._composed is None else self._composed.answer

    # -- one snapshot --------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the queries that it is a run of."""
        return (self.number,)

    @property
    def streams(self) -> frozenset[int]:
        return self._schedule.streams()

    @property
    def timing(self) -> Timing:
        """As far as it is known now."""
        return self._schedule.timing

    def accepts(self, timing: Timing, state: QueryState) -> bool:
        """Whether a query of this one's template will be evaluated when this one is, and was not evaluated before."""
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
        """Whether its turn was over before it had got through the snapshot."""
        return self._going is not None

    def _begin(self, sn: int, arrivals: Sequence[Arrival], turn: Turn) -> Sequence[Part]:
        within = None if self._behind is None else self._behind.within
        self._sn, self._steps = sn, Steps(self, sn, 0 if within is None else within.k)
        self._arrivals, self._made, self._told = arrivals, self._behind, []
        if self._varies and self._made is None:
            self._made = self.state_now(sn).behind(sn - 1)
        self._going = self._evaluations(sn, arrivals, self._steps, within)
        return self.go_on(turn)

    def go_on(self, turn: Turn) -> Sequence[Part]:
        """More of the snapshot that it is underway in."""
        assert self._going is not None, "it is underway"
        sn, steps, self._told = self._sn, self._steps, []
        stands = self._stood = self._behind or self._made
        for _ in self._going:
            turn.spend(sum(map(len, self._said[0])))
            is_over = turn.is_over
            if is_over or self._varies:
                before, self._made = self._made, self._underway_at(sn, steps.count)
                if steps.told_up_to == steps.count:
                    stands = self._made
                elif before is not None and (before.within or _NOTHING).k == steps.told_up_to:
                    # What was made by then has been told since.
                    stands = msgspec.structs.replace(before, evaluated=self.evaluated, gap=self._gap)
                self._stood = stands
            # Where time alone changes nothing, those that wait to be told together are few, or one run.
            if is_over and (self._varies or steps.told_up_to == steps.count):
                return self._cut(sn, steps.told(), stands)
        self._going = self._behind = None
        parts = self._told = steps.parts()
        if self._went_on_silently or self._timing.ends_at is not None:
            self._went_on_silently = False
            parts.append(self._silent_part(sn, steps.count))
        if self._vocabulary.created > self._made_max and self._timing.ends_at is None:
            self._begin_anew(sn)
        return parts

    def told_before_fault(self) -> Sequence[Part]:
        """What was evaluated in the turn that has just raised, before the evaluation that did."""
        return [*self._told, *self._steps.parts()]

    def stands_without_answer(self) -> tuple[Sequence[Part], QueryState | None]:
        """The same where others did not answer, and where it stands with that: what is to be told together is not cut
        for it, but made again. None: it stands where it did."""
        return [*self._told, *self._steps.told()], self._stood

    def _underway_at(self, sn: int, k: int) -> QueryState:
        return self.state_now(sn).behind(sn - 1, msgspec.structs.replace(self._at, k=k))

    def _cut(self, sn: int, parts: list[Part], stands: QueryState | None) -> Sequence[Part]:
        """Ends a turn: `stands` goes with what was told up to there."""
        self._told = parts
        if stands is not None and (self._behind is None or self._behind.within != stands.within):
            self._behind = stands = msgspec.structs.replace(stands, ended=False)
            parts.append(silent_part(self.number, sn, (stands.within or _NOTHING).k, stands))
        if (
            stands is not None
            and self._vocabulary.created > self._made_max
            and self._steps.told_up_to == self._steps.count
        ):
            # As `_begin_anew`, in the middle of a snapshot.
            with as_it_is_without_an_answer(self):
                self._vocabulary = vocabulary_of(self._store)
                self.resume(stands, sn if self._timing.ends_at is not None else sn - 1)
                self._made_max = max(TERMS_MADE_MAX, 2 * self._vocabulary.created)
                self._going = self._evaluations(sn, self._arrivals, self._steps, stands.within)
        return parts

    def _evaluations(
        self, sn: int, arrivals: Sequence[Arrival], steps: Steps[Part], within: Within | None
    ) -> Iterator[None]:
        """Pauses after each; of a snapshot that it is `within` those are left out that have been made."""
        self._at = within or _NOTHING
        if self._timing.ends_at is not None:
            while (time := self._schedule.next_time()) is not None:
                self._close(sn, 0, Due(time, None), steps)
                yield
        for arrival in arrivals:
            if arrival.stream in self.streams:
                yield from self._take(sn, arrival, steps, within)

    def _begin_anew(self, sn: int) -> None:
        """As after a restart. Terms that the query made, and that no row has any more, are forgotten by it."""
        state = self.state_now(sn)  # orders of what it made are saved by what that means
        with as_it_is_without_an_answer(self):
            self._vocabulary = vocabulary_of(self._store)
            self.resume(state, sn)
            self._made_max = max(TERMS_MADE_MAX, 2 * self._vocabulary.created)

    def _take(self, sn: int, arrival: Arrival, steps: Steps[Part], within: Within | None) -> Iterator[None]:
        was_settled = self.timing.is_settled
        self._schedule.take(arrival)
        if not self.timing.is_settled or (within is not None and arrival.push < within.push):
            return
        if not was_settled:  # this push has said where the closes begin, which must not be forgotten
            self._went_on_silently = True
        is_there = within is not None and arrival.push == within.push
        arrived_at = within.arrived_at if within is not None and is_there else None
        self._at = Within(arrival.push, 0, arrived_at)
        due = self._schedule.due(arrival, arrived_at)
        if not self._lenses:
            due = self._begun(sn, arrival, due)
        if not self._lenses:
            return
        if self._at_closes is not None and not is_there:
            self._at_closes.arrive(arrival)
        # An evaluation at an arrival sees the elements of its time and before, of those that arrive with it.
        times = [] if self._at_arrivals is None else np.unique(arrival.element_times).tolist()
        waiting = [time for time in times if arrived_at is None or time > arrived_at]
        for each in due:
            while waiting and each.arrived is not None and waiting[0] <= each.arrived:
                self._lens(True).arrive(arrival.at_time(waiting.pop(0)))
            if each.arrived is None:
                self._close(sn, arrival.push, each, steps)
            else:
                self._tell(sn, arrival.push, each, steps)
            yield
        for time in waiting:
            self._lens(True).arrive(arrival.at_time(time))

    def _begun(self, sn: int, arrival: Arrival, due: Iterator[Due]) -> Iterator[Due]:
        """What is due, with the network for it; there is none yet where nothing is."""
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
            self._tell(sn, push, due, steps)
            return
        self._schedule.done(run.last)
        if self._timing.content_only:
            self._went_on_silently = True
        else:
            steps.add_run(run, push, self._said if self.repeats else self._empty_said)

    def _tell(self, sn: int, push: int, due: Due, steps: Steps[Part]) -> None:
        """One evaluation; none where content is asked for and there is none."""
        lens, time = self._lens(due.arrived is not None), due.time
        lens.move_to(time)
        is_empty = not lens.holds_anything(time)
        is_silent = self._timing.content_only and is_empty
        said = None if is_silent else self._evaluate(lens, sn, time, steps.count)
        # Only now: where the evaluation raises, the query stands before it.
        if due.arrived is None:
            self._schedule.done(time)
        else:
            self._at = Within(push, 0, due.arrived)
            self._schedule.seen(time)
        if said is None:
            self._went_on_silently = True
        else:
            steps.add(due, push, is_empty, said)

    def _evaluate(self, lens: Lens, sn: int, time: int, k: int) -> Said:
        moment = self._moment(lens, sn, time, k)
        found, self._last = lens.evaluate(moment), lens
        emitted = found if self._composed is None else self._composed.said(moment, found)
        self._said = said_of(self._query, emitted, self._control)
        return self._said

    def _moment(self, lens: Lens, sn: int, time: int, k: int) -> Moment:
        changes = None if lens.store_sn is None else ChangesBetween(self._store, lens.store_sn, sn)
        seed = seed_of(self.number, sn, k)
        kept = sum(each.network.kept(self._state_bytes) for each in self._lenses)
        self._control.begin(kept + self._vocabulary.created_bytes)
        return Moment(
            time, self._store.at(sn), changes, now_ms=time, seed=seed, control=self._control,
            vocabulary=self._vocabulary, allowed_urls=self._backoff.allowed_urls, backoff=self._backoff,
            service_answers=self._service_answers,
        )  # fmt: skip

    def _empty_run(self, sn: int, due: Due) -> Run | None:
        """The closes from this one on in which nothing can happen: all windows are empty, and were so at the last."""
        lens, time = self._lens(False), due.time
        if self._timing.content_only:
            if lens.holds_anything(time):
                return None
        elif lens is not self._last or lens.store_sn != sn or not lens.was_empty or lens.holds_anything(time):
            return None
        elif lens.network.may_turn() or (self.asks_elsewhere and not self._answer.is_empty()):
            return None  # the answer is another though nothing comes or goes
        last = lens.next_entry() - 1 if due.limit is None else min(lens.next_entry() - 1, due.limit)
        return None if last < time else self._schedule.run_until(last)

    # -- what is said --------------------------------------------------------------------------------------------

    def bounds_at(self, time: int, arrived: bool) -> list[WindowBounds]:
        told = []
        windows = self._schedule.for_arrivals if arrived else self._schedule.windows
        for window, label in zip(windows, self._labels, strict=True):
            start, end = window.extent_at(time)
            told.append(WindowBounds(label, start, end, window.bounds.value))
        return told

    def part(self, evaluated: LastEvaluation, said: Said) -> Part:
        return part_of(self, evaluated, said)

    def state_after(self, evaluated: LastEvaluation) -> QueryState:
        self.evaluated = evaluated
        return self.state_now(evaluated.sn)

    def stand(self, sn: int) -> QueryState:
        """As it was told last: in the middle of the snapshot that it is underway in, else that at `sn`."""
        return self.state_now(sn) if self._behind is None else self._behind

    def state_of(self, number: int) -> QueryState:
        return self.state_now(self._sn)

    def state_now(self, sn: int) -> QueryState:
        return self._schedule.state(self.evaluated, self._orders.save(self._vocabulary), sn, self._gap)

    def _silent_part(self, sn: int, k: int) -> Part:
        return silent_part(self.number, sn, k, self.state_now(sn))

    def tell_gap(self) -> bool:
        """Whether this is the first emission since a pause; asked once for each."""
        gap, self._gap = self._gap, False
        return gap

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        """The columns for whoever does not know this run's own terms, and these terms."""
        return self._vocabulary.portable(columns)
