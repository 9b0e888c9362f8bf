"""A query run: one registered query's network, its schedule, and what is in its windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hbase_store import Snapshot, Store
from stream_ext.arrivals import Arrival, history
from stream_ext.grids import Run
from stream_ext.network import Network, registered_network
from stream_ext.operators.construct import TRIPLE
from stream_ext.operators.moment import Moment, QuadChange
from stream_ext.part import Ids, Part, WindowBounds
from stream_ext.plan.algebra import R2S, Form, Query
from stream_ext.presence import Presence, next_entry, reach
from stream_ext.schedule import Evaluated, QueryState, Schedule, Timing
from stream_ext.steps import Steps
from stream_ext.vocabulary import Vocabulary
from stream_ext.zset import Columns, Weights, repeated

#: A query that has made more terms than this begins anew: most of them stand in no row any more.
TERMS_MADE_MAX = 50_000


@dataclass(frozen=True, slots=True)
class ChangesBetween:
    """How the store changed after `low`, up to and with `high`."""

    store: Store
    low: int
    high: int

    def of(self, predicates: tuple[int, ...] | None) -> list[QuadChange]:
        return [self.store.net_changes(sn, predicates) for sn in range(self.low + 1, self.high + 1)]

    def before(self) -> Snapshot:
        return self.store.at(self.low)


#: Columns, boolean, and whether it is an emission at all.
Said = tuple[list[Ids], bool | None, bool]


def columns_of(query: Query) -> tuple[str, ...]:
    """The columns of what a registered query says."""
    if query.form is Form.CONSTRUCT:
        return TRIPLE
    return query.variables if query.form is Form.SELECT else ()


def said_of(query: Query, emitted: tuple[Columns, Weights]) -> Said:
    columns, weights = emitted
    if query.form is Form.ASK:  # one empty row or none; ISTREAM and DSTREAM say only that it came, or went
        holds = bool(len(weights))
        return [], holds, holds or query.r2s in (None, R2S.RSTREAM)
    return list(repeated(columns, weights)), None, True


def seed_of(query: int, sn: int, k: int) -> bytes:
    """Chance is a function of the evaluation: whoever makes it again finds the same."""
    return b"%d/%d/%d" % (query, sn, k)


def _vocabulary_of(store: Store) -> Vocabulary:
    return Vocabulary(store.ids, store.terms, version=store.terms_version)


class QueryRun:
    """Steps one query from snapshot to snapshot; the same pushes give the same parts, in whatever process."""

    def __init__(self, number: int, query: Query, timing: Timing, labels: Sequence[str], store: Store) -> None:
        self.number = number
        self._query = query
        self._timing = timing
        self._labels = tuple(labels)
        self._store = store
        self._presence: list[Presence] = []
        width = len(columns_of(query))
        nothing = tuple(np.empty(0, np.uint64) for _ in range(width))
        self.empty_said = said_of(query, (nothing, np.empty(0, np.int64)))
        self._store_sn: int | None = None
        self._was_empty = False  # the windows, at the last evaluation
        self._vocabulary = _vocabulary_of(store)
        self._network: Network | None = None  # None: T0 is not known yet, or the windows were of the past
        self.evaluated: Evaluated | None = None
        self._gap = False
        self._went_on_silently = False

    # -- coming back to where the query had come to --------------------------------------------------------------

    def resume(self, state: QueryState, sn: int) -> None:
        """Silently: the windows as they were at the last evaluation, that evaluation, then what arrived up to `sn`."""
        self._state, self.evaluated, self._gap = state, state.evaluated, state.gap
        self._schedule = Schedule(self._timing, state, self._store.vts(sn))
        if self._schedule.timing.is_settled and not self._has_ended(state):
            self._build(sn, None)

    def _has_ended(self, state: QueryState) -> bool:
        """Windows of the past are replayed once, in the snapshot of the registration."""
        return self._timing.ends_at is not None and state.sn > 0

    def _build(self, sn: int, first: Arrival | None) -> None:
        """The network, with what is retained for it; but not from `first` on, where this one is about to arrive."""
        state, last = self._state, self._state.evaluated
        self._presence = [Presence(window) for window in self._schedule.windows]
        # What lies before the oldest snapshot is only asked for by a query that reads nothing of the store.
        then = max(last.sn, self._store.oldest()) if last else sn
        at = self._store.at(then)
        windows = {window.name: window for window in self._schedule.windows}
        self._network = registered_network(self._query, self.number, windows, at, self._store.ids)
        after: list[Arrival] = []
        for arrival in self._retained(state, sn):
            if first is not None and (arrival.sn, arrival.push) >= (first.sn, first.push):
                break
            if last is None or (arrival.sn, arrival.push) <= (last.sn, last.push):
                self._arrive(arrival)
            else:
                after.append(arrival)
        if last is not None:
            self._evaluate(then, last.time, last.k)
            if state.ranked is not None and self._network.answer.ranking is not None:
                self._network.answer.restore(self._moment(then, last.time, last.k), state.ranked)
        for arrival in after:
            self._arrive(arrival)

    def _retained(self, state: QueryState, sn: int) -> list[Arrival]:
        """What the windows of the last evaluation, or of a later one, can hold; in order of acknowledgement."""
        reference = state.evaluated.time if state.evaluated else state.registered
        found: list[Arrival] = []
        for stream, oldest in reach(self._schedule.windows, reference).items():
            found += history(self._store, stream, sn, oldest)
        return sorted(found, key=lambda arrival: (arrival.sn, arrival.push))

    # -- one snapshot --------------------------------------------------------------------------------------------

    @property
    def streams(self) -> frozenset[int]:
        return self._schedule.streams()

    def start(self, sn: int) -> list[Part]:
        """In the snapshot of the registration: windows of the past are replayed."""
        if self._timing.ends_at is None:
            return []
        steps = Steps(self, sn)
        while (time := self._schedule.next_time()) is not None:
            self._close(sn, 0, time, steps)
        return [*steps.parts(), self._silent_part(sn, steps.count)]

    def step(self, sn: int, arrivals: Sequence[Arrival]) -> list[Part]:
        """All evaluations that the pushes of this snapshot make due, in order."""
        if self._timing.ends_at is not None:
            return []
        steps = Steps(self, sn)
        for arrival in arrivals:
            if arrival.stream in self.streams:
                self._take(sn, arrival, steps)
        parts = steps.parts()
        if self._went_on_silently:
            self._went_on_silently = False
            parts.append(self._silent_part(sn, steps.count))
        if self._vocabulary.made > TERMS_MADE_MAX:
            self._begin_anew(sn)
        return parts

    def _begin_anew(self, sn: int) -> None:
        """As after a restart. Terms that the query made, and that no row has any more, are forgotten by it."""
        self._vocabulary, self._store_sn = _vocabulary_of(self._store), None
        self.resume(self._state_now(sn), sn)

    def _take(self, sn: int, arrival: Arrival, steps: Steps) -> None:
        self._schedule.take(arrival)
        if not self._schedule.timing.is_settled:
            return
        if self._network is None:  # this push has said where the closes begin, which must not be forgotten
            self._build(sn, arrival)
            self._went_on_silently = True
        if self._timing.arrivals:
            self._take_by_time(sn, arrival, steps)
            return
        self._arrive(arrival)
        for time, _ in self._schedule.due(arrival):
            self._close(sn, arrival.push, time, steps)

    def _take_by_time(self, sn: int, arrival: Arrival, steps: Steps) -> None:
        """Elements of one time after the other: an evaluation sees those of its time and before."""
        waiting = np.unique(arrival.element_times).tolist()
        for time, arrived in self._schedule.due(arrival):
            assert arrived is not None, "closes beside arrivals are refused"
            while waiting and waiting[0] <= arrived:
                self._arrive(arrival.at_time(waiting.pop(0)))
            self._schedule.seen(time)
            self._tell(sn, arrival.push, time, steps)
        for time in waiting:
            self._arrive(arrival.at_time(time))

    def _arrive(self, arrival: Arrival) -> None:
        assert self._network is not None
        self._network.arrive(arrival)
        for presence in self._presence:
            if presence.window.stream == arrival.stream:
                presence.arrive(arrival.element_times)

    def _close(self, sn: int, push: int, time: int, steps: Steps) -> None:
        run = self._empty_run(sn, time)
        if run is None:
            self._schedule.done(time)
            self._tell(sn, push, time, steps)
            return
        self._schedule.done(run.last)
        if self._timing.content_only:
            self._went_on_silently = True
        else:
            steps.add_run(run, push)

    def _tell(self, sn: int, push: int, time: int, steps: Steps) -> None:
        """One evaluation; none where content is asked for and there is none."""
        for presence in self._presence:
            presence.move_to(time)
        if self._timing.content_only and not self._holds_anything(time):
            self._went_on_silently = True
            return
        columns, boolean, emits = said_of(self._query, self._evaluate(sn, time, steps.count))
        steps.add(time, push, self.is_quiet(time), columns, boolean, emits)

    def _evaluate(self, sn: int, time: int, k: int) -> tuple[Columns, Weights]:
        assert self._network is not None
        for presence in self._presence:
            presence.move_to(time)
        emitted = self._network.said(self._moment(sn, time, k))
        self._store_sn = sn
        self._was_empty = not self._holds_anything(time)
        return emitted

    def _moment(self, sn: int, time: int, k: int) -> Moment:
        changes = None if self._store_sn is None else ChangesBetween(self._store, self._store_sn, sn)
        seed = seed_of(self.number, sn, k)
        return Moment(time, self._store.at(sn), changes, now_ms=time, seed=seed, vocabulary=self._vocabulary)

    def _empty_run(self, sn: int, time: int) -> Run | None:
        """The evaluations from `time` on in which nothing can happen: all windows empty, the last answer too."""
        assert self._network is not None
        if self._timing.content_only:
            if self._holds_anything(time):
                return None
        elif self._store_sn != sn or not self._was_empty or not self.is_quiet(time):
            return None  # what windows held may have kept the answer empty: MINUS, NOT EXISTS
        elif self._network.may_turn():
            return None
        entry = next_entry(self._presence)
        return None if entry <= time else self._schedule.run_until(entry - 1)

    # -- what is said --------------------------------------------------------------------------------------------

    def bounds_at(self, time: int) -> list[WindowBounds]:
        told = []
        for window, label in zip(self._schedule.windows, self._labels, strict=True):
            start, end = window.extent_at(time)
            told.append(WindowBounds(label, start, end, window.bounds.value))
        return told

    def state_at(self, sn: int, push: int, k: int, time: int) -> QueryState:
        self.evaluated = Evaluated(sn, push, k, time)
        return self._state_now(sn)

    def _state_now(self, sn: int) -> QueryState:
        ranking = None if self._network is None else self._network.answer.ranking
        ranked = None if ranking is None else ranking.save(self._vocabulary)
        return self._schedule.state(self.evaluated, ranked, sn, self._gap)

    def _silent_part(self, sn: int, k: int) -> Part:
        """Says nothing, and keeps how far the query has come."""
        state, time = self._state_now(sn), self._schedule.after or 0
        return Part(self.number, sn, k, time, [], [], None, 0, None, state, False, evaluated=False)

    def tell_gap(self) -> bool:
        """Whether this is the first emission since a pause; asked once for each."""
        gap, self._gap = self._gap, False
        return gap

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        """The columns for whoever does not know this run's own terms, and these terms."""
        return self._vocabulary.portable(columns)

    def is_quiet(self, time: int) -> bool:
        """The windows at `time` and the answer were empty."""
        return self._network is not None and not self._holds_anything(time) and self._network.answer.is_empty()

    def _holds_anything(self, time: int) -> bool:
        return any(presence.holds_at(time) for presence in self._presence)
