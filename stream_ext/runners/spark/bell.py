"""The bell: the endpoint's half of the long epochs.

It sends each new head to the seats, takes the parts that come back, ends each Spark epoch, and decides which parts
count: every hello is a new attempt of a shard, which closes the shard's older connection, and parts count when the
`Done` of their SN has arrived on the connection that has the seat now.

    hello: host, stamps   -->  the shard whose state is there, else one that no other worker has the state of
    the epoch's end       -->  every seat ends; if the load is uneven, at the same SN, and the next epoch has a new plan

Two locks. `_turn` puts attempts, takes and losses in one order; the merge is only called under it. `_lock` guards the
messages to the seats; nothing blocks under it, so the publishing thread may send a head at any time."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stream_ext.clock import Clock
from stream_ext.continuous.faults import QueryFault
from stream_ext.continuous.query_budget import USUAL, Budget
from stream_ext.emissions.merge import Merge, Runner
from stream_ext.emissions.placement import Plan
from stream_ext.errors import DeadlineExceeded
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.runners.quarantine import Quarantine
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.deaths import CATCHING_UP, Deaths
from stream_ext.runners.spark.door import Door
from stream_ext.runners.spark.epochs import Epochs
from stream_ext.runners.spark.keeper import Keeper
from stream_ext.runners.spark.seat_connection import SeatConnection, Worker, kill_worker
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.shard_on_spark import HEADS_AHEAD_MAX, ShardOnSpark
from stream_ext.runners.underway import StepWatch

__all__ = ["HEADS_AHEAD_MAX", "Bell", "Worker"]

#: A state that is further back than this is rebuilt: stepping through so many snapshots would take longer.
_STEPS_BACK_MAX = 256
#: How long a seat that ends normally may take for its last messages when its successor has connected.
_LAST_WORDS_S = 0.25
#: After the loss of a seat, the next task must start within so many times the limit of a step.
_STARTS_WITHIN = 3


class Bell:
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
    ) -> None:
        """`on_up` is called when Spark has all shards, `on_lost` when it loses one. `on_silence` gets a text that says
        what does not answer, and an empty text when it answers again or has ended; `on_step` gets the duration of each
        step."""
        self._budget, self._on_fault = budget, on_fault
        self._settings, self._merge, self._clock = settings, merge, clock
        self._store_url, self._base, self._allowed_urls = store_url, base, allowed_urls
        self._on_up, self._on_lost, self._on_give_up = on_up, on_lost, on_give_up
        self._on_step, self._has_room = on_step, has_room
        self._kill, self._quarantine = kill, quarantine
        self._codec = wire.Codec(settings.shard_factory)
        self._service = secrets.token_hex(8)
        self.killed = 0

        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._planning = threading.Condition(self._lock)  # the planner of micro-batches may have work
        self._head = self._merged = int(merge.position)
        self.shards = [ShardOnSpark(number, self._head) for number in range(merge.plan.shards)]
        self.epochs = Epochs(settings)
        self._deaths = Deaths(self._lock, merge, quarantine, on_give_up)
        self._start_by_ms: int | None = None
        self._folder = Path()
        self._closed = False
        # An error there comes from the merge or the wire: this Spark cannot continue, and the runner gives it up.
        self._keeper = Keeper(self, settings, clock, self._lock, on_silence)
        self._door = Door(
            clock, self._greet, self._keeper.look, lambda error: on_give_up(f"{type(error).__name__}: {error}")
        )

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
                shard.vacant_ms, shard.bye_at, shard.strikes, shard.lives_in = None, None, (0, 0), None
            self._start_by_ms = self._clock.now_ms() + int(self._settings.start_s * 1000)
            self._keeper.has_new_limit()
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

    @property
    def faults(self) -> dict[int, QueryFault]:
        """Queries that cannot be stepped, and why."""
        return {query: fault for shard in self.shards for query, fault in shard.faults.items()}

    def under_way_ms(self) -> int:
        """How long a seat has been stepping a snapshot, the longest; 0: none is stepping."""
        with self._lock:
            now = self._clock.now_ms()
            return max(shard.under_way_ms(now) for shard in self.shards)

    def suspended_changed(self) -> None:
        """Other queries than before are in quarantine."""
        with self._lock:
            for shard in self.shards:
                if shard.seat is not None and shard.seat.ready:
                    self._send_suspended(shard.seat)

    @property
    def plan_number(self) -> int:
        return self._merge.plan.number

    def why_of(self, shard: int) -> str:
        """Why Spark does not have the queries of this shard; empty: it has them."""
        shards = self.shards
        return shards[shard].why if shard < len(shards) else ""

    def status(self) -> list[dict[str, object]]:
        """Of each shard."""
        with self._lock:
            return [shard.status(self._head) for shard in self.shards]

    def cut(self, why: str) -> None:
        """Spark has ended: no connection counts any more, and the queries run inline."""
        with self._lock:
            self._start_by_ms = None
        with self._turn:
            self._door.shut()  # under `_turn`, so that no seat counts this as the death of its worker
            for shard in self.shards:
                seat = shard.seat
                if seat is not None and seat.ready and seat.owes and not self._closed:
                    # Its worker may have died of its step, and the driver with it: this cannot be known any more.
                    self._deaths.note(shard, seat, seat.watched.read(), 0, why, self._head)
                self._lose(shard, why, ended=True)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._keeper.has_new_limit()
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

    def _plan(self, connection: socket.socket) -> None:
        """Spark plans an epoch: it hears, as soon as there is work, how many seats the epoch has."""
        with self._lock:
            while not (self._closed or self._work_to_plan()):
                self._planning.wait()
            if self._closed:
                return
            now = self._clock.now_ms()
            for shard in self.shards:
                if shard.seat is None:
                    shard.vacate(now)
            self._keeper.has_new_limit()
            seats = (self.epochs.next_plan or self._merge.plan).shards
        connection.sendall(wire.frame(wire.HeadMoved(self._head, seats)))

    def _work_to_plan(self) -> bool:
        if self._settings.epoch_s > 0 or self.epochs.is_warming_up:
            return True
        return any(not shard.on_spark or self._head > shard.done or shard.more for shard in self.shards)

    # ---- one attempt ------------------------------------------------------------------------------------------

    def _take_seat(self, connection: socket.socket, hello: wire.Hello, token: bytes) -> None:
        self._close_older_seats(hello, token)
        with self._turn:
            if not self._door.admits(token):
                return
            for seat_of in self.shards:
                if seat_of.seat is not None and _is_over(seat_of.seat, hello):
                    self._empty(seat_of, seat_of.seat)
            self._begin_epoch(hello)
            self.epochs.seen.add(hello.seat)
            shard, stamp = self._shard_for(hello)
            if shard is None:
                return  # an epoch that was planned with more seats than there are now
            number, position, states = self._merge.attempt(Runner.SPARK, shard.number, stamp.sn if stamp else None)
            watched = StepWatch(self._folder / f"underway-{number}")
            place = hello.seat, hello.epoch
            seat = SeatConnection(connection, number, (hello.host, hello.pid), watched, self._clock.now_ms(), place)
            with self._lock:
                shard.taken_by(seat, int(position))
                self._merged = max(self._merged, int(self._merge.position))
                self._start_by_ms = None
                self._keeper.has_new_limit()
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
        for older in [seat for seat in latest if seat is not None and _is_over(seat, hello)]:
            if older.ended:
                older.left.wait(_LAST_WORDS_S)
            with self._turn:
                if not self._door.admits(token):
                    return
                older.drop()  # what has arrived is still read
            older.left.wait(self._settings.step_timeout_s)
        for stamp in hello.stamps:
            if self._ours(stamp) and stamp.sn > self._merge.position and len(self.shards) == 1:
                with contextlib.suppress(DeadlineExceeded):
                    self._merge.wait(stamp.sn, _LAST_WORDS_S)

    def _begin_epoch(self, hello: wire.Hello) -> None:
        """At the first hello of an epoch: its plan counts. Under `_turn`."""
        if not self.epochs.is_new(hello.epoch):
            return
        with self._lock:
            plan, end_sn = self.epochs.begin(hello.epoch, self._clock.now_ms())
        if plan is not None:
            with contextlib.suppress(DeadlineExceeded):  # then what is not merged is stepped again
                self._merge.wait(end_sn, _LAST_WORDS_S)
            self._follow(plan)

    def _follow(self, plan: Plan) -> None:
        self._merge.follow(plan)
        with self._lock:
            before, now = self.shards, self._clock.now_ms()
            self.shards = [ShardOnSpark(number, int(self._merge.position)) for number in range(plan.shards)]
            for shard in self.shards:
                shard.on_spark = self._merge.is_on_spark(shard.number)
                shard.vacate(now)
                if shard.number < len(before):
                    shard.figures, shard.lives_in = before[shard.number].figures, before[shard.number].lives_in
                    shard.figures.loads = {}

    def _shard_for(self, hello: wire.Hello) -> tuple[ShardOnSpark | None, wire.Stamp | None]:
        """The shard whose state is there; else one that no other worker has the state of. Under `_turn`."""
        free = {shard.number: shard for shard in self.shards if shard.seat is None}
        for stamp in hello.stamps:
            if self._ours(stamp) and stamp.shard in free:
                return free[stamp.shard], stamp
        worker = hello.host, hello.pid
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
        seat.suspended = self._quarantine.suspended
        waits = any(state.behind_at is not None and state.unanswered for state in states.values())
        if (seat.suspended or waits) and not shard.has_queries_already(seat):
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
                case wire.Loads(loads, core_share):
                    with self._lock:
                        shard.figures.loads, shard.figures.core_share = loads, core_share
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
                self._keeper.has_new_limit()

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
            shard.takes_piece(seat, more, took_ms, CATCHING_UP)
            self._planning.notify_all()
            self._ring()

    def _check_seat(self, shard: ShardOnSpark, seat: SeatConnection) -> None:
        if shard.seat is not seat:
            raise ConnectionError("another task has this seat")

    def _caught_up(self, shard: ShardOnSpark, seat: SeatConnection, sn: int) -> None:
        """Hands the queries over, once this driver is warm. Under `_turn`."""
        self._check_seat(shard, seat)
        if not shard.on_spark and not self.epochs.is_warming_up and self._has_stepped_all(shard, seat, sn):
            self._merge.caught_up(Runner.SPARK, seat.attempt, sn, seat.behind, shard.number)
            self._look_whose_they_are()
            if not shard.on_spark:
                seat.limit = None
        self._merged = int(self._merge.position)
        if shard.on_spark and not seat.behind_handed_over and (seat.limit is None or sn >= seat.limit):
            self._hand_behind_over(shard, seat)

    def _look_whose_they_are(self) -> None:
        """After a hand-over: the other shards that were waiting may be Spark's, too."""
        changed = False
        for shard in self.shards:
            if not shard.on_spark and self._merge.is_on_spark(shard.number):
                shard.on_spark, shard.why, changed = True, "", True
                seat = shard.seat
                if seat is not None and seat.ready and (seat.limit is None or seat.done >= seat.limit):
                    self._hand_behind_over(shard, seat)
        if changed and all(shard.on_spark for shard in self.shards):
            self._on_up()

    def _has_stepped_all(self, shard: ShardOnSpark, seat: SeatConnection, sn: int) -> bool:
        """Whether the seat has stepped everything that the merge has. This matters if queries are behind: they continue
        from the owner's states, and no step of theirs may be under way."""
        if not seat.behind and not self._merge.catching_up():
            return True
        with self._lock:
            seat.limit = max(seat.sent_head, sn)
            if seat.sent_head > sn:
                return False
        with contextlib.suppress(DeadlineExceeded):
            self._merge.wait(sn, _LAST_WORDS_S)
        return True

    def _hand_behind_over(self, shard: ShardOnSpark, seat: SeatConnection) -> None:
        states = self._merge.states_behind(seat.behind)
        with self._lock:
            seat.behind_handed_over, seat.limit = True, None
            if states:
                shard.let_catch_up(seat, self._codec.encode_states(states), self._clock.now_ms())

    # ---- ringing: under `_lock` -------------------------------------------------------------------------------

    def _ring(self) -> None:
        now = self._clock.now_ms()
        for shard in self.shards:
            shard.ring(self._head, self._merged, now, self._has_room)

    def _send_suspended(self, seat: SeatConnection) -> None:
        if seat.suspended != self._quarantine.suspended:
            seat.suspended = self._quarantine.suspended
            seat.send(wire.LeftOut(sorted(seat.suspended)))

    def end_epoch(self, now: int) -> None:
        """Ends every seat; if another plan is better, at one snapshot."""
        seats = [(shard, shard.seat) for shard in self.shards if shard.seat is not None and shard.seat.ready]
        seats = [(shard, seat) for shard, seat in seats if not seat.ended]
        end_sn = 0
        if len(self.shards) > 1 and len(seats) == len(self.shards) and all(seat.limit is None for _, seat in seats):
            loads = {query: load for shard in self.shards for query, load in shard.figures.loads.items()}
            plan = self._merge.balanced(loads)
            if plan.number != self._merge.plan.number:
                end_sn = max(seat.sent_head for _, seat in seats)
                self.epochs.next_plan, self.epochs.end_sn = plan, end_sn
        self.epochs.ends()
        for shard, seat in seats:
            if end_sn > seat.sent_head:
                shard.send_head(seat, end_sn, now)
            shard.end(seat, end_sn, now)

    # ---- leaving ----------------------------------------------------------------------------------------------

    def _vacated(self, shard: ShardOnSpark, seat: SeatConnection) -> None:
        with self._turn:
            if shard.seat is seat:  # else another has the seat, or Spark was cut off
                self._empty(shard, seat)
            seat.watched.close()

    def _empty(self, shard: ShardOnSpark, seat: SeatConnection) -> None:
        """Empties the seat, and counts its death if it had work, before another task may take the seat. Under
        `_turn`."""
        with self._lock:
            shard.seat = None
            if seat.bye:
                shard.bye_at = time.perf_counter()
            else:
                shard.lives_in = None
            if self._settings.epoch_s > 0 or not seat.bye:
                shard.vacate(self._clock.now_ms())
                self._keeper.has_new_limit()
            died = not seat.bye and seat.owes
        seat.drop()
        if died:
            self._died(shard, seat, f"its Python worker died while it {seat.doing()}", hung=False)

    def _died(self, shard: ShardOnSpark, seat: SeatConnection, why: str, hung: bool) -> None:
        if self._deaths.died(shard, seat, why, seat.watched.read(), self._head, hung):
            self._lose(shard, why)

    def _lose(self, shard: ShardOnSpark, why: str, ended: bool = False) -> None:
        """Spark loses the queries of a shard: they run inline again. `ended`: the whole driver has ended. Under
        `_turn`."""
        with self._lock:
            older, shard.seat = shard.seat, None
        if older is not None:
            older.drop()
        with self._lock:
            number, shard.attempt = shard.attempt, 0
            shard.vacant_ms = None
            was_ours, shard.on_spark, shard.why = shard.on_spark, False, why
            shard.figures.lost += was_ours
            if not ended and self._start_by_ms is None:
                # The driver that must start the next task may hang, too.
                self._start_by_ms = self._clock.now_ms() + int(_STARTS_WITHIN * self._settings.step_timeout_s * 1000)
                self._keeper.has_new_limit()
        self._deaths.hold_suspects(shard)  # before the server's own process would step them
        if number or was_ours:
            self._merge.lost(Runner.SPARK, number, shard.number)
        if was_ours:
            self._on_lost(why if len(self.shards) == 1 else f"shard {shard.number} runs inline: {why}")

    # ---- called by the keeper, about time limits -----------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def head(self) -> int:
        return self._head

    def close_late_strangers(self, now: int) -> None:
        self._door.close_late(now)

    def next_stranger_ms(self) -> int | None:
        return self._door.next_ms()

    @property
    def start_by_ms(self) -> int | None:
        """By when a task must have started."""
        return self._start_by_ms

    def started_too_late(self) -> None:
        with self._lock:
            self._start_by_ms = None
        self._on_give_up("Spark started no task in time")

    def hung(self, shard: ShardOnSpark, seat: SeatConnection, silent_ms: int) -> None:
        with self._turn:
            with self._lock:
                if shard.seat is not seat:
                    return
                stepping = seat.watched.read()
                shard.seat = None  # further messages of it do not count
                shard.lives_in = None
                self.killed += 1
            self._kill(seat.worker)
            seat.drop()
            why = f"its Python worker has not answered for {silent_ms / 1000:g} s: it {seat.doing()}"
            if self._deaths.died(shard, seat, why, stepping, self._head, hung=True):
                self._lose(shard, why)

    def lose_if_still_vacant(self, shard: ShardOnSpark) -> None:
        with self._turn:
            with self._lock:
                grace_ms = int(self._settings.grace * 1000)
                due = shard.vacant_ms is not None and shard.vacant_ms + grace_ms <= self._clock.now_ms()
            if due:
                self._lose(shard, f"Spark started no task within {self._settings.grace:g} s")


def _is_over(seat: SeatConnection, hello: wire.Hello) -> bool:
    """Whether the task that had this seat has ended, because this one has begun."""
    return seat.partition == hello.seat or seat.epoch != hello.epoch
