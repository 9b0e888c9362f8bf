"""The inline runner: the queries in the endpoint's own process, one thread.

It answers from the first moment and whenever Spark does not; while Spark does, it has those queries that were moved to
it. While it has none it holds nothing; when it gets some it builds its shard at the merge's position and steps from
there, so it needs no hand-over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from hbase_store.errors import StoreUnavailable
from stream_ext.clock import Clock, MonotonicClock, SystemClock
from stream_ext.continuous.catching_up.turns import Share
from stream_ext.continuous.catching_up.unit_behind import NoReplays, Replays
from stream_ext.continuous.faults import QueryFault
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.runners.slowing import Slowing
from stream_ext.runners.state_sizes import StateSizes
from stream_ext.runners.step_loads import StepLoads
from stream_ext.windows.part import Part

_PAUSE_S = 0.25
#: Whose state sizes are measured here.
_HERE = -1


class InlineRunner:
    def __init__(
        self,
        merge: Merge,
        make_shard: Callable[[Runner], Shard],
        on_sent: Callable[[], None] = lambda: None,
        suspended: Callable[[], Collection[int]] = frozenset,
        on_fault: Callable[[int, str, int], None] = lambda query, why, since: None,
        clock: Clock | None = None,
        on_step: Callable[[int], None] = lambda took_ms: None,
        has_room: Callable[[], bool] = lambda: True,
        lag_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`on_sent` is called when parts were sent in addition to those of Spark, `on_step` with the duration of each
        step, `on_fault` for each new fault, with the snapshot since which the query runs, after its earlier parts are
        merged. `suspended` queries, which are in quarantine, are not stepped here; queries that are behind catch up
        while there `has_room`. While pushes wait (`lag_ms`), what takes more than its share is slowed."""
        self._suspended, self._clock, self._on_step = suspended, clock or MonotonicClock(SystemClock()), on_step
        self._stepping_since_ms: int | None = None
        self._merge, self._make_shard, self._on_sent, self._on_fault = merge, make_shard, on_sent, on_fault
        self._has_room, self._share = has_room, Share()
        self._lag_ms = lag_ms
        self._changed = threading.Condition()
        self._head = 0
        self._closed = False
        self._fault: BaseException | None = None
        self.faults: dict[int, QueryFault] = {}
        self.shard: Shard | None = None  # None: it has no queries now
        self.replays: Replays = NoReplays()  # of a long past, by other processes
        self._thread = threading.Thread(target=self._run, name="rillet-inline", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def head_moved(self, sn: int) -> None:
        with self._changed:
            self._head = max(self._head, sn)
            self._changed.notify_all()

    def owner_changed(self) -> None:
        with self._changed:
            self._changed.notify_all()

    @property
    def fault(self) -> BaseException | None:
        return self._fault

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._is_wanted():
                self._own_if_the_store_answers()
        except BaseException as error:  # noqa: BLE001 -- whoever waits for an evaluation must hear of it
            self._fault = error
            self._merge.fail(error)

    def _is_wanted(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._merge.role is not None)
            return not self._closed

    def _own_if_the_store_answers(self) -> None:
        """If it does not: again a little later, from what is merged. Only a merge that has failed ends it."""
        try:
            self._own()
        except StoreUnavailable:
            if self._merge.fault is not None:
                raise
            with self._changed:
                self._changed.wait_for(lambda: self._closed, _PAUSE_S)

    def _own(self) -> None:
        """Steps until its role is another."""
        role = self._merge.role
        if role is None:
            return
        try:
            self._own_as(role)
        finally:
            self.shard = None
            self._merge.accounts.measured({}, _HERE)

    def _own_as(self, role: Runner) -> None:
        shard = self._make_shard(role)
        shard.replays = self.replays
        try:
            self._own_with(shard, role)
        finally:
            shard.all_behind.end_replays()

    def _own_with(self, shard: Shard, role: Runner) -> None:
        _, position, states = self._merge.attempt(role)
        slowing, sizes, loads = Slowing(shard, shard.pace.share), StateSizes(), StepLoads()
        shard.suspended, shard.stepping = self._suspended(), loads.steps
        self.faults = {}
        shard.build(states, position)
        self.shard = shard
        self._report_faults(self._new_faults(shard))
        while self._has_work(role, shard):
            if shard.sn < self._head:
                sn = shard.sn + 1
                shard.suspended = self._suspended()
                parts = self._step(shard, sn)
                self._charge(loads, slowing)
                if self._closed:
                    return
                faults = self._new_faults(shard)
                self._merge.take(role, sn, parts)
                self._report_faults(faults)
                if role == Runner.PARTLY_INLINE:
                    self._on_sent()
                slowing.look(self._lag_ms(), self._clock.now_ms())
                if (state_bytes := sizes.looked(shard, self._clock.now_ms())) is not None:
                    self._merge.accounts.measured(state_bytes, _HERE)
            if self._may_catch_up(shard) and not self._closed:
                shard.suspended = self._suspended()
                parts = self._catch_up(shard)
                self._charge(loads, slowing)
                faults = self._new_faults(shard)
                self._merge.take_piece(role, parts)
                self._report_faults(faults)

    def _charge(self, loads: StepLoads, slowing: Slowing) -> None:
        loads.rests()
        spent_ms = loads.take().query_ms
        self._merge.accounts.add(spent_ms)
        slowing.spent(spent_ms, self._clock.now_ms())

    def _new_faults(self, shard: Shard) -> dict[int, QueryFault]:
        """The faults that are new since the last call."""
        before = self.faults
        self.faults = {query: QueryFault(why, shard.generation(query)) for query, why in shard.own_faults.items()}
        return {query: fault for query, fault in self.faults.items() if before.get(query) != fault}

    def _report_faults(self, faults: Mapping[int, QueryFault]) -> None:
        for query, (why, since) in faults.items():
            self._on_fault(query, why, since)

    def _step(self, shard: Shard, sn: int) -> list[Part]:
        began_ms = self._stepping_since_ms = self._clock.now_ms()
        try:
            return shard.step(sn)
        finally:
            self._stepping_since_ms = None
            took_ms = self._clock.now_ms() - began_ms
            self._share.stepped(took_ms)
            self._on_step(took_ms)

    def _may_catch_up(self, shard: Shard) -> bool:
        return shard.has_more and self._has_room() and (shard.sn >= self._head or self._share.is_due)

    def _catch_up(self, shard: Shard) -> list[Part]:
        others_wait, began_ms = shard.sn < self._head, self._clock.now_ms()
        try:
            return shard.step_one_behind()
        finally:
            if others_wait:
                self._share.stepped_behind(self._clock.now_ms() - began_ms)

    def under_way_ms(self) -> int:
        """How long it has been stepping a snapshot; 0: it is not stepping."""
        since_ms = self._stepping_since_ms
        return 0 if since_ms is None else self._clock.now_ms() - since_ms

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, so that a running evaluation does not count any more."""
        return self._closed

    def _has_work(self, role: Runner, shard: Shard) -> bool:
        """Waits for the next snapshot, unless some queries are behind. False: the merge has another position than the
        shard, because the other runner has (or had) the queries meanwhile."""

        def may_run() -> bool:
            there = role == Runner.PARTLY_INLINE or self._merge.position == shard.sn
            return not self._closed and self._merge.is_current(role) and there

        with self._changed:
            self._changed.wait_for(lambda: self._head > shard.sn or self._may_catch_up(shard) or not may_run())
            return may_run()
