"""The bell: the endpoint's half of the long epochs.

It sends each new head to the seats, takes the parts that come back, ends each Spark epoch, and decides which parts
count: every hello is a new attempt of a shard, which closes the shard's older connection, and parts count when the
`Done` of their SN has arrived on the connection that has the seat now.

    hello: host, stamps   -->  the shard whose state is there, else one that no other worker has the state of
    the epoch's end       -->  every seat ends; if the load is uneven, at the same SN, and the next epoch has a new plan

Its two locks are those of `shards_of_bell`."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from hbase_store import place_of_files
from stream_ext.clock import Clock
from stream_ext.continuous.faults import QueryFault
from stream_ext.continuous.query_budget import USUAL, Budget
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.errors import DeadlineExceeded
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.runners.quarantine import Quarantine
from stream_ext.runners.slowing import NO_LAG, PushLag
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.deaths import CATCHING_UP
from stream_ext.runners.spark.door import Door
from stream_ext.runners.spark.epochs import Epochs
from stream_ext.runners.spark.keeper import Keeper
from stream_ext.runners.spark.seat_connection import SeatConnection, Worker, kill_worker
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.shard_on_spark import HEADS_AHEAD_MAX, ShardOnSpark
from stream_ext.runners.spark.shards_of_bell import LAST_WORDS_S, ShardsOfBell
from stream_ext.runners.spark.tls import new_identity
from stream_ext.runners.underway import StepWatch

__all__ = ["HEADS_AHEAD_MAX", "Bell", "Worker"]

#: A state that is further back than this is rebuilt: stepping through so many snapshots would take longer.
_STEPS_BACK_MAX = 256


class Bell(ShardsOfBell):
    def __init__(
        self,
        settings: SparkSettings,
        merge: Merge,
        store_url: str,
        base: str,
        clock: Clock,
        allowed_urls: AllowedUrls,
        quarantine: Quarantine,
        *,
        on_up: Callable[[], None],
        on_lost: Callable[[str], None],
        on_give_up: Callable[[str], None],
        on_silence: Callable[[str], None] = lambda _: None,
        on_step: Callable[[float], None] = lambda took_ms: None,
        kill: Callable[[Worker], None] = lambda worker: kill_worker(worker),
        on_fault: Callable[[int, str, int], None] = lambda query, why, since: None,
        has_room: Callable[[], bool] = lambda: True,
        budget: Budget = USUAL,
        subscribed: Callable[[], Collection[int]] = tuple,
        push_lag: PushLag = NO_LAG,
    ) -> None:
        """`on_up` is called when Spark has all shards, `on_lost` when it loses one. `on_silence` gets a text that says
        what does not answer, and an empty text when it answers again or has ended; `on_step` gets the duration of each
        step. `subscribed` queries have a subscriber; `subscription_changed` is called when these are others. What takes
        too much of the time while pushes wait (`push_lag`) is slowed."""
        super().__init__(settings, merge, clock, quarantine, on_up, on_lost, on_give_up, kill, has_room, push_lag)
        self._budget, self._on_fault, self._on_step = budget, on_fault, on_step
        self._subscribed = subscribed
        self._store_url, self._base, self._allowed_urls = store_url, base, allowed_urls
        self._store_place = place_of_files(store_url)
        self._service = secrets.token_hex(8)
        # An error there comes from the merge or the wire: this Spark cannot continue, and the runner gives it up.
        self._door = Door(
            clock, self._greet, self._connection_opened, lambda error: on_give_up(f"{type(error).__name__}: {error}"),
            settings.listens_on, new_identity() if settings.is_reached_from_other_machines else None,
        )  # fmt: skip
        self._keeper = Keeper(self, self._door, settings, clock, self._lock, on_silence)

    # ---- called by the runner ---------------------------------------------------------------------------------

    def start(self) -> None:
        self._door.start()
        self._keeper.start()

    def admit(self, folder: Path) -> wire.Address:
        """The address for a new driver, which has this folder. Tasks of older drivers are no longer admitted."""
        with self._lock:
            self._folder = folder
            self.epochs = Epochs(self._settings, self.epochs.count)
            for shard in self.shards:
                shard.of_new_driver()
            self._await_start(self._settings.start_s)
            return self._door.new_address()

    def head_moved(self, sn: int) -> None:
        """Called by the publishing thread: a few bytes into a socket."""
        with self._lock:
            self._head = max(self._head, sn)
            self._planning.notify_all()
            self._ring()

    def merged(self) -> None:
        """The merge has advanced by parts of the other runner; the seats may get further heads."""
        with self._lock:
            self._merged = max(self._merged, int(self._merge.position))
            self._ring()

    @property
    def refused(self) -> int:
        """How many connections that were not Spark's."""
        return self._door.refused

    def suspended_changed(self) -> None:
        """Other queries than before are in quarantine."""
        with self._lock:
            for shard in self.shards:
                if shard.seat is not None and shard.seat.ready:
                    self._send_suspended(shard.seat)

    def subscription_changed(self, query: int, has_some: bool) -> None:
        """The query has its first subscriber, or has lost its last one. If several threads call, the last one counts:
        whether the rows come as JSON is a matter of cost alone."""
        with self._lock:
            for shard in self.shards:
                if shard.seat is not None and shard.seat.ready:
                    shard.seat.send(wire.Subscribed([query] * has_some, [query] * (not has_some)))

    def cut(self, why: str) -> None:
        """Spark has ended: no connection counts any more, and the queries run inline."""
        with self._lock:
            self._start_by_ms = None
        with self._turn:
            self._door.shut()  # under `_turn`, so that no seat counts this as the death of its worker
            for shard in self.shards:
                if (seat := shard.seat) is not None and seat.ready and seat.owes and not self._closed:
                    # Its worker may have died of its step, and the driver with it: this cannot be known any more.
                    self._deaths.note(shard, seat, seat.watched.read(), 0, why, self._head)
            self._deaths.hold_suspects_of_driver(self.shards)
            for shard in self.shards:
                self._lose(shard, why, ended=True)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.limits.notify_all()
            self._planning.notify_all()
        self.cut("it was closed")
        self._door.close()
        self._keeper.join()

    # ---- connections --------------------------------------------------------------------------------------------

    def _greet(self, connection: socket.socket, first: wire.Hello | wire.Await, token: bytes) -> None:
        if isinstance(first, wire.Await):
            self._plan(connection)
        else:
            self._take_seat(connection, first, token)

    def _connection_opened(self) -> None:
        with self._lock:
            self.limits.notify_all()

    def _plan(self, connection: socket.socket) -> None:
        """Spark plans an epoch: it hears, as soon as there is work, how many seats the epoch has."""
        with self._lock:
            while not (self._closed or self._work_to_plan()):
                self._planning.wait()
            if self._closed:
                return
            for shard in self.shards:
                if shard.seat is None:
                    shard.vacate(self._clock.now_ms())
            self.limits.notify_all()
            seats = (self.epochs.next_plan or self._merge.plan).shards
        connection.sendall(wire.frame(wire.HeadMoved(self._head, seats)))

    def _work_to_plan(self) -> bool:
        always = self._settings.epoch_s > 0 or self.epochs.is_warming_up
        return always or any(not shard.on_spark or self._head > shard.done or shard.more for shard in self.shards)

    # ---- one attempt ------------------------------------------------------------------------------------------

    def _take_seat(self, connection: socket.socket, hello: wire.Hello, token: bytes) -> None:
        self._close_older_seats(hello, token)
        with self._turn:
            if not self._door.admits(token):
                return
            self._follow_plan_of_merge()
            for seat_of in self.shards:
                if seat_of.seat is not None and seat_of.seat.is_over(hello):
                    self._empty(seat_of, seat_of.seat)
            self._begin_epoch(hello)
            self.epochs.seen.add(hello.seat)
            shard, stamp = self._shard_for(hello)
            if shard is None:
                return  # an epoch that was planned with more seats than there are now
            worker, suspended = Worker.of(hello), self._quarantine.suspended
            if suspended and not shard.has_queries_already(worker):
                stamp = None  # see `_welcome`; it must begin at the position of the states, so the merge must know
            number, position, states = self._merge.attempt(Runner.SPARK, shard.number, stamp.sn if stamp else None)
            watched = StepWatch(self._folder / f"underway-{number}")
            place = hello.seat, hello.epoch
            seat = SeatConnection(connection, number, worker, watched, self._clock.now_ms(), place)
            seat.suspended = suspended
            with self._lock:
                shard.seat_at(seat, int(position), self._clock.now_ms())
                self._merged = max(self._merged, int(self._merge.position))
                self._start_by_ms = None
                self.limits.notify_all()
            welcome = self._welcome(shard, seat, stamp, int(position), states)
        try:
            connection.sendall(wire.frame(welcome))
            self._listen(shard, seat)
        finally:
            self._vacated(shard, seat)
            seat.left.set()

    def _close_older_seats(self, hello: wire.Hello, token: bytes) -> None:
        """Before a new task gets a seat: waits until the messages of the last task are merged, and a death of its
        worker is counted. The next hello may be read before the end of the dead worker's connection."""
        latest = [shard.latest for shard in self.shards]
        for older in [seat for seat in latest if seat is not None and seat.is_over(hello)]:
            if older.ended:
                older.left.wait(LAST_WORDS_S)
            with self._turn:
                if not self._door.admits(token):
                    return
                older.drop()  # what has arrived is still read
            older.left.wait(self._settings.step_timeout_s)
        for stamp in hello.stamps:
            if self._ours(stamp) and stamp.sn > self._merge.position and len(self.shards) == 1:
                with contextlib.suppress(DeadlineExceeded):
                    self._merge.wait(stamp.sn, LAST_WORDS_S)

    def _begin_epoch(self, hello: wire.Hello) -> None:
        """At the first hello of an epoch: its plan counts. Under `_turn`."""
        if not self.epochs.is_new(hello.epoch):
            return
        with self._lock:
            plan, end_sn = self.epochs.begin(hello.epoch, self._clock.now_ms())
        if self.epochs.is_first:
            self._follow_first_plan()
        elif plan is not None:
            with contextlib.suppress(DeadlineExceeded):  # then what is not merged is stepped again
                self._merge.wait(end_sn, LAST_WORDS_S)
            self._follow(plan)

    def _shard_for(self, hello: wire.Hello) -> tuple[ShardOnSpark | None, wire.Stamp | None]:
        """The shard whose state is there; else one that no other worker has the state of. Under `_turn`."""
        free = {shard.number: shard for shard in self.shards if shard.seat is None}
        for stamp in hello.stamps:
            if self._ours(stamp) and stamp.shard in free:
                return free[stamp.shard], stamp
        worker = Worker.of(hello)
        order = sorted(free.values(), key=lambda shard: (shard.lives_in not in (None, worker), shard.number))
        return (order[0] if order else None), None

    def _ours(self, stamp: wire.Stamp) -> bool:
        mine = stamp.service == self._service and stamp.store_url == self._store_url
        return mine and stamp.plan == self._merge.plan.number

    def _welcome(
        self,
        shard: ShardOnSpark,
        seat: SeatConnection,
        stamp: wire.Stamp | None,
        position: int,
        states: Mapping[int, Any],
    ) -> wire.Welcome:
        usable = stamp is not None and position - _STEPS_BACK_MAX <= stamp.sn <= position
        waits = any(state.behind_at is not None and state.unanswered for state in states.values())
        if waits and not shard.has_queries_already(seat.worker):
            # The position of a query that waits for an answer, or is in quarantine, is that of the last owner of the
            # queries. Another worker's state may be past this position, without having reported these evaluations.
            usable = False
        seat.sent_head = seat.done = stamp.sn if usable and stamp is not None else position
        return wire.Welcome(
            attempt=seat.attempt,
            service=self._service,
            store_url=self._store_url,
            base=self._base,
            allowed_urls=self._allowed_urls,
            budget=self._budget,
            factory=self._settings.shard_factory,
            position=position,
            states=None if usable else self._codec.encode_states(states),
            suspended=sorted(seat.suspended),
            underway=str(seat.watched.path),
            plan=self._merge.plan,
            shard=shard.number,
            store_place=self._store_place,
            step_limit_s=2 * self._settings.step_timeout_s,
            build_limit_s=self._settings.start_s + self._settings.step_timeout_s,
            share=self._push_lag.share,
        )

    def _listen(self, shard: ShardOnSpark, seat: SeatConnection) -> None:
        parts: list[Any] = []
        faults: list[wire.Fault] = []  # reported after the earlier parts of these queries are merged
        while not seat.bye:
            seat.is_read = True
            message = wire.receive_message(wire.from_seat, seat.connection)
            # Time that the bell itself needs is no silence of the seat: the merge may wait for the store.
            seat.is_read, seat.alive_ms = False, self._clock.now_ms()
            match message:
                case wire.Ready(sn, built):
                    self._ready(shard, seat, sn, built)
                case wire.IsStepping(sn, queries):
                    seat.steps(sn, queries)
                case wire.Rests():
                    seat.rests()
                case wire.Parts(_, body):
                    parts.extend(self._codec.parts(body))
                case wire.Done(sn, took_ms):
                    self._take(shard, seat, sn, parts, took_ms)
                    parts = []
                    if shard.on_spark:
                        self._on_step(took_ms)
                case wire.Piece(more, took_ms):
                    self._take_piece(shard, seat, parts, more, took_ms)
                    parts = []
                case wire.Loads() as loads:
                    shard.figures.report(loads, seat.alive_ms)
                    self._merge.accounts.reported(loads.query_ms, loads.state_bytes, shard.number)
                case wire.Fault(query, why, since) as fault:
                    with self._lock:
                        shard.faults = {**shard.faults, query: QueryFault(why, since)}
                    faults.append(fault)
                    continue
                case wire.Mended(query):
                    with self._lock:
                        shard.faults = {number: fault for number, fault in shard.faults.items() if number != query}
                case wire.BehindReport(queries):
                    seat.behind = queries
                case wire.Trouble(_, why):
                    self._deaths.strike(shard, seat, why, seat.done)
                    return
                case wire.Bye():
                    seat.bye = True
                case other:
                    raise wire.Garbled(f"a seat sent {type(other).__name__}")
            if isinstance(message, wire.Ready | wire.Done | wire.Piece):
                for fault in faults:
                    self._on_fault(fault.query, fault.why, fault.since)
                faults = []

    def _ready(self, shard: ShardOnSpark, seat: SeatConnection, sn: int, built: bool) -> None:
        with self._turn:
            self._caught_up(shard, seat, sn)
        with self._lock:
            now = self._clock.now_ms()
            seat.ready = True
            shard.done = sn
            self._send_suspended(seat)
            if subscribed := self._subscribed():
                seat.send(wire.Subscribed(list(subscribed), []))
            shard.figures.builds += built
            if shard.bye_at is not None and self._settings.epoch_s > 0:
                shard.figures.boundary_ms.append((time.perf_counter() - shard.bye_at) * 1000)
            shard.bye_at = None
            self._ring()
            if self._settings.epoch_s == 0 or self.epochs.is_warming_up:
                shard.end(seat, seat.sent_head, now)  # it is what this epoch is for
            elif self.epochs.is_over:
                shard.end(seat, 0, now)
            else:
                self.epochs.first_is_ready(now)
                self.limits.notify_all()

    def _take(self, shard: ShardOnSpark, seat: SeatConnection, sn: int, parts: list[Any], took_ms: float) -> None:
        now = time.perf_counter()
        with self._turn:
            self._check_seat(shard, seat)
            self._merge.take(Runner.SPARK, sn, parts, shard.number)
            self._caught_up(shard, seat, sn)
        with self._lock:
            shard.is_done(seat, sn, took_ms, now, self._clock.now_ms())
            self._ring()

    def _take_piece(
        self, shard: ShardOnSpark, seat: SeatConnection, parts: list[Any], more: bool, took_ms: float
    ) -> None:
        with self._turn:
            self._check_seat(shard, seat)
            self._merge.take_piece(Runner.SPARK, parts, shard.number)
        with self._lock:
            shard.piece_is_done(seat, more, took_ms, CATCHING_UP)
            self._planning.notify_all()
            self._ring()
