"""A query run: one registered query's network, its schedule, and what is in its windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hbase_store import Snapshot, Store
from stream_ext.arrivals import Arrival, Times, history
from stream_ext.grids import Run
from stream_ext.network import Network, logic_of
from stream_ext.operators.moment import Moment, QuadChange
from stream_ext.part import Ids, Part, WindowBounds
from stream_ext.plan.algebra import R2S, Form, Query
from stream_ext.schedule import Evaluated, QueryState, Schedule, ScheduledWindow, Timing
from stream_ext.steps import Steps
from stream_ext.vocabulary import Vocabulary
from stream_ext.zset import Columns, Weights, repeated


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


@dataclass(slots=True)
class Presence:
    """Which times a window's elements have: is there anything in it at t, and when does the next one enter?"""

    window: ScheduledWindow
    waiting: list[Times] = field(default_factory=list)
    held_until: int | None = None

    def arrive(self, times: Times) -> None:
        if len(times):
            self.waiting.append(times)

    def move_to(self, time: int) -> None:
        still = []
        for times in self.waiting:
            due = self.window.valid_from(times) <= time
            if due.any():
                until = int(self.window.valid_until(times[due]).max())
                self.held_until = until if self.held_until is None else max(until, self.held_until)
            if not due.all():
                still.append(times[~due])
        self.waiting = still

    def next_entry(self) -> int | None:
        return min((int(self.window.valid_from(times).min()) for times in self.waiting), default=None)


def reach(windows: Sequence[ScheduledWindow], time: int | None) -> dict[int, int | None]:
    """For each stream the stream time below which nothing can be in its windows at `time` or later (None: all can)."""
    oldest: dict[int, int | None] = {}
    for window in windows:
        back = None if time is None else time - window.range_ms - window.ahead_ms
        known = oldest.get(window.stream, back)
        oldest[window.stream] = None if back is None or known is None else min(back, known)
    return oldest


class QueryRun:
    """Steps one query from snapshot to snapshot; the same pushes give the same parts, in whatever process."""

    def __init__(self, number: int, query: Query, timing: Timing, labels: Sequence[str], store: Store) -> None:
        self.number = number
        self._query = query
        self._timing, self._windows = timing, timing.windows
        self._labels = tuple(labels)
        self._store = store
        self._presence = [Presence(window) for window in timing.windows]
        width = len(query.variables) if query.form is Form.SELECT else 0
        nothing = tuple(np.empty(0, np.uint64) for _ in range(width))
        self.empty_said = self.said((nothing, np.empty(0, np.int64)))
        self._store_sn: int | None = None

    # -- coming back to where the query had come to --------------------------------------------------------------

    def resume(self, state: QueryState, sn: int) -> None:
        """Silently: the windows as they were at the last evaluation, that evaluation, then what arrived up to `sn`."""
        self._state = state
        self._schedule = Schedule(self._timing, state, self._store.vts(sn))
        last = state.evaluated
        # What lies before the oldest snapshot is only asked for by a query that reads nothing of the store.
        then = max(last.sn, self._store.oldest()) if last else sn
        at = self._store.at(then)
        windows = {window.name: window for window in self._windows}
        r2s = self._query.r2s or R2S.RSTREAM
        self._vocabulary = Vocabulary(self._store.ids, self._store.terms)
        self._network = Network(logic_of(self._query), windows, at, self._store.ids, r2s)
        after: list[Arrival] = []
        for arrival in self._retained(state, sn):
            if last is None or (arrival.sn, arrival.push) <= (last.sn, last.push):
                self._arrive(arrival)
            else:
                after.append(arrival)
        if last is not None:
            self._evaluate(then, last.time)
            if state.ranked is not None and self._network.answer.ranking is not None:
                self._network.answer.restore(self._moment(last.sn, last.time), state.ranked)
        for arrival in after:
            self._arrive(arrival)

    def _retained(self, state: QueryState, sn: int) -> list[Arrival]:
        """What the windows of the last evaluation, or of a later one, can hold; in order of acknowledgement."""
        reference = state.evaluated.time if state.evaluated else state.registered
        found: list[Arrival] = []
        for stream, oldest in reach(self._windows, reference).items():
            found += history(self._store, stream, sn, oldest)
        return sorted(found, key=lambda arrival: (arrival.sn, arrival.push))

    # -- one snapshot --------------------------------------------------------------------------------------------

    @property
    def streams(self) -> frozenset[int]:
        return self._schedule.streams()

    def step(self, sn: int, arrivals: Sequence[Arrival]) -> list[Part]:
        """All evaluations that the pushes of this snapshot make due, in order."""
        steps = Steps(self, sn)
        for arrival in arrivals:
            if arrival.stream in self.streams:
                self._arrive(arrival)
                self._schedule.take(arrival)
                self._evaluate_due(sn, arrival.push, steps)
        return steps.parts()

    def _arrive(self, arrival: Arrival) -> None:
        self._network.arrive(arrival.stream, arrival.s, arrival.p, arrival.o, arrival.times)
        for presence in self._presence:
            if presence.window.stream == arrival.stream:
                presence.arrive(arrival.element_times)

    def _evaluate_due(self, sn: int, push: int, steps: Steps) -> None:
        while (time := self._schedule.next_time()) is not None:
            run = self._empty_run(sn, time)
            if run is not None:
                self._schedule.done(run.last)
                steps.add_run(run, push)
            else:
                emitted = self._evaluate(sn, time)
                self._schedule.done(time)
                columns, boolean, emits = self.said(emitted)
                steps.add(time, push, self.is_quiet(time), columns, boolean, emits)

    def _evaluate(self, sn: int, time: int) -> tuple[Columns, Weights]:
        for presence in self._presence:
            presence.move_to(time)
        emitted = self._network.step(self._moment(sn, time))
        self._store_sn = sn
        return emitted

    def _moment(self, sn: int, time: int) -> Moment:
        changes = None if self._store_sn is None else ChangesBetween(self._store, self._store_sn, sn)
        # Chance is a function of the query and of what is evaluated, so that it comes again when that is repeated.
        seed = b"%d %d %d" % (self.number, sn, time)
        return Moment(time, self._store.at(sn), changes, now_ms=time, seed=seed, vocabulary=self._vocabulary)

    def _empty_run(self, sn: int, time: int) -> Run | None:
        """The evaluations from `time` on in which nothing can happen: all windows empty, the last answer too."""
        if self._store_sn != sn or not self.is_quiet(time):
            return None
        entries = [entry for p in self._presence if (entry := p.next_entry()) is not None]
        if entries and min(entries) <= time:
            return None
        return self._schedule.run_until(min(entries) - 1 if entries else np.iinfo(np.int64).max)

    # -- what is said --------------------------------------------------------------------------------------------

    def bounds_at(self, time: int) -> list[WindowBounds]:
        told = []
        for window, label in zip(self._windows, self._labels, strict=True):
            start, end = window.extent_at(time)
            told.append(WindowBounds(label, start, end, window.bounds.value))
        return told

    def state_at(self, sn: int, push: int, k: int, time: int) -> QueryState:
        ranking = self._network.answer.ranking
        ranked = ranking.save() if ranking is not None else None
        return self._schedule.state(Evaluated(sn, push, k, time), ranked, sn)

    def said(self, emitted: tuple[Columns, Weights]) -> tuple[list[Ids], bool | None, bool]:
        """Columns, boolean, and whether it is an emission at all."""
        columns, weights = emitted
        if self._query.form is Form.ASK:  # one empty row or none; ISTREAM says nothing but that it became true
            holds = bool(len(weights))
            return [], holds, holds or self._query.r2s is not R2S.ISTREAM
        return list(repeated(columns, weights)), None, True

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        """The columns for whoever does not know this run's own terms, and these terms."""
        return self._vocabulary.portable(columns)

    def is_quiet(self, time: int) -> bool:
        """The windows at `time` and the answer were empty."""
        holds = any(p.held_until is not None and p.held_until >= time for p in self._presence)
        return not holds and self._network.answer.is_empty()
