"""A store run: a registered query without windows, over the store as it changes.

It is evaluated at its registration, and at each snapshot that changed the store and thereby its answer. A change of
NOW() alone is no change: the answer counts as changed if, at the very same moment, the store of the snapshot before
would have given another answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from hbase_store import Store
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.query_run import TERMS_CREATED_MAX, ChangesBetween, as_it_is_without_an_answer, result_of
from stream_ext.continuous.steps import Result
from stream_ext.continuous.turns import Turn
from stream_ext.language.algebra.algebra import R2S, Query
from stream_ext.language.algebra.volatile import is_of_time
from stream_ext.language.algebra.walk import has_services
from stream_ext.network.network import registered_network
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.moment import Moment, seed_of
from stream_ext.remote.backoff import Backoff
from stream_ext.rows.zset import Columns, Weights
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.part import Part
from stream_ext.windows.schedule import LastEvaluation, QueryState

Whole = tuple[Columns, Weights]


class StoreRun:
    """Steps one query from snapshot to snapshot; the same changes give the same parts, in whatever process."""

    def __init__(self, number: int, query: Query, store: Store, backoff: Backoff, budget: Budget) -> None:
        self._control, self._state_bytes = budget.control(), budget.bytes
        self.number = number
        self._query = query
        self._backoff = backoff
        self.has_services = has_services(query)
        self._store, self._created_max = store, TERMS_CREATED_MAX
        self._is_of_time = is_of_time(query)

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.number,)

    @property
    def streams(self) -> frozenset[int]:
        return frozenset()

    def resume(self, state: QueryState, sn: int) -> None:
        """Silently: the answer at `sn` is that of the last evaluation, or it would have been evaluated since."""
        self._state = msgspec.structs.replace(state, behind_at=None, unanswered=False)
        self._vocabulary = Vocabulary(self._store.permanent_ids, self._store.terms)
        at = self._store.at(sn)
        self._orders = Orders(state.ranked)
        self._control.begin(0)
        self._network = registered_network(
            self._query, self.number, {}, at, self._store.permanent_ids, self._orders, returns=self._is_of_time,
            check=self._control.check,
        )  # fmt: skip
        self._stepped_sn: int | None = None
        if state.evaluated is not None:
            then = self._moment(sn, None, state.evaluated)
            self._stepped_sn = sn
            self._network.emitted(then)

    def state_now(self, sn: int) -> QueryState:
        return self._state

    def stand(self, sn: int) -> QueryState:
        return self._state

    def state_of(self, number: int) -> QueryState:
        return self._state

    is_underway = False  # no snapshot has more than one evaluation

    def start(self, sn: int, turn: Turn) -> Sequence[Part]:
        """The first answer, in the snapshot of the registration."""
        return [self._part(sn, result_of(self._query, self._step(sn), self._control))]

    def parts_before_fault(self) -> Sequence[Part]:
        return []  # no snapshot has more than one evaluation

    def state_without_answer(self) -> tuple[Sequence[Part], QueryState | None]:
        return [], None

    def step(self, sn: int, arrivals: Sequence[Arrival], turn: Turn) -> Sequence[Part]:
        turn.spend()
        if not len(self._store.net_changes(sn, held=True)):
            self._stepped_sn = sn
            return []
        answer = self._network.answer
        evaluated, orders = answer.evaluated(), self._orders.stand()
        if self._is_of_time:
            self._let_time_pass(sn)
            self._orders.return_to(orders)
        before = answer.current()
        answer.compare_with(evaluated)
        emitted = self._step(sn)
        if not answer.is_unchanged_since(before):
            parts = [self._part(sn, result_of(self._query, emitted, self._control))]
            if self.has_services and self._vocabulary.created > self._created_max:
                self._begin_anew(sn)
            return parts
        answer.compare_with(evaluated)
        if self._is_of_time:
            self._orders.return_to(orders)
        ranked = self._orders.save(self._vocabulary)
        return [] if ranked == self._state.ranked else [self._silent_part(sn, ranked)]

    def _begin_anew(self, sn: int) -> None:
        """Begins as after a restart: terms from remote endpoints that the answer does not contain any more are
        forgotten."""
        with as_it_is_without_an_answer(self):
            self.resume(self._state, sn)
            self._created_max = max(TERMS_CREATED_MAX, 2 * self._vocabulary.created)

    def _step(self, sn: int) -> Whole:
        low = self._stepped_sn
        self._stepped_sn = sn
        return self._network.emitted(self._moment(sn, None if low is None else ChangesBetween(self._store, low, sn)))

    def _let_time_pass(self, sn: int) -> None:
        """Evaluates the store of the snapshot before at the moment of this snapshot: what differs then was not changed
        by the store.

        Changed answers of remote endpoints count as changes of the store; they are requested after this."""
        low = self._stepped_sn
        assert low is not None, "a query that is stepped has been answered before"
        unchanged = ChangesBetween(self._store, low, low)
        self._network.step(replace(self._moment(sn, unchanged), snapshot=self._store.at(low), requests_again=False))

    def _moment(self, sn: int, changes: ChangesBetween | None, evaluated: LastEvaluation | None = None) -> Moment:
        """The moment of a snapshot; NOW() and chance may be those of an earlier evaluation."""
        time = self._time(sn) if evaluated is None else evaluated.time
        seed = seed_of(self.number, sn if evaluated is None else evaluated.sn, 0)
        self._control.begin(self._network.retained_bytes(self._state_bytes) + self._vocabulary.created_bytes)
        return Moment(
            time, self._store.at(sn), changes, now_ms=time, seed=seed, control=self._control,
            vocabulary=self._vocabulary, allowed_urls=self._backoff.allowed_urls, backoff=self._backoff,
        )  # fmt: skip

    def _time(self, sn: int) -> int:
        return self._store.row(sn).published_ms

    def _silent_part(self, sn: int, ranked: bytes | None) -> Part:
        """The rows of the answer are unchanged, but the rows that LIMIT will show once some of them go are not."""
        self._state = msgspec.structs.replace(self._state, ranked=ranked, sn=sn)
        return Part(self.number, sn, 0, self._time(sn), [], [], None, 0, None, self._state, False, evaluated=False)

    def _part(self, sn: int, result: Result) -> Part:
        time, (columns, boolean, emits) = self._time(sn), result
        if self._query.r2s in (R2S.ISTREAM, R2S.DSTREAM) and boolean is None:
            emits = bool(columns) and bool(len(columns[0]))
        gap = emits and self._state.gap
        before = self._state.evaluated
        self._state = msgspec.structs.replace(
            self._state,
            evaluated=LastEvaluation(sn, 0, 0, time),
            ranked=self._orders.save(self._vocabulary),
            sn=sn,
            gap=self._state.gap and not gap,
        )
        columns, created = self._vocabulary.portable(columns)
        return Part(self.number, sn, 0, time, [], columns, boolean, 0, None, self._state, emits, created, gap, before)
