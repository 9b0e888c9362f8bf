"""The bell: the endpoint's half of the long epochs.

It sends each new head to the seat, takes the parts that come back, ends each Spark epoch, and decides which parts
count: every hello is a new attempt, which closes the seat's older connection, and parts count when the `Done` of their
SN has arrived on the connection that has the seat now.

Two locks. `_turn` puts attempts, takes and losses in one order; the merge is only called under it. `_lock` guards the
messages to the seat; nothing blocks under it, so the publishing thread may send a head at any time."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from stream_ext.clock import Clock
from stream_ext.continuous.faults import QueryFault
from stream_ext.continuous.query_budget import USUAL, Budget
from stream_ext.continuous.turns import Share
from stream_ext.emissions.merge import Merge, Runner
from stream_ext.errors import DeadlineExceeded
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.runners.quarantine import Death, Quarantine
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.door import Door, shut
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.underway import Stepping, StepWatch

log = logging.getLogger("rillet.spark")

#: Heads are sent to a seat at most this far beyond the merged snapshot.
HEADS_AHEAD_MAX = 64
#: A state that is further back than this is rebuilt: stepping through so many snapshots would take longer.
_STEPS_BACK_MAX = 256
#: After so many deaths of the seat at the same SN Spark is stopped.
_STRIKES_MAX = 3
#: How long a seat that ends normally may take for its last messages when its successor has connected.
_LAST_WORDS_S = 0.25
#: After the loss of a seat, the next task must start within so many times the limit of a step.
_STARTS_WITHIN = 3
#: How often the bell checks a seat that has work for signs of life.
_LOOK_MS = 500
#: A silence of this length is reported; together with the check, within two seconds.
_SILENCE_MS = 1_250
#: The place of a death while catching up, whatever the snapshot of the other queries, which continue after each death.
_CATCHING_UP = -1
#: What a seat does: step the next snapshot, build its state, or catch up with queries that are behind.
_Doing = Literal["step", "build", "catch up"]
#: The process that has the seat: its machine and process number.
Worker = tuple[str, int]


class Figures(msgspec.Struct):
    """Counters of the bell, and the last few hundred measured times."""

    epochs: int = 0
    builds: int = 0
    lost: int = 0
    killed: int = 0
    done: int = 0
    #: From sending a head to its `Done`: the way there and back, and the step.
    round_trip_ms: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=512))
    #: From the last message of one task to the readiness of the next.
    boundary_ms: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=64))


class _SeatConnection:
    """One attempt: a connection, the last head that was sent on it, and the last snapshot that is done."""

    def __init__(
        self, connection: socket.socket, attempt: int, worker: Worker, watched: StepWatch, now_ms: int
    ) -> None:
        self.connection, self.attempt, self.worker, self.watched = connection, attempt, worker, watched
        self.ready = self.ended = self.bye = False
        self.sent_head = self.done = 0
        self.end_ms: int | None = None
        self.rung: dict[int, float] = {}
        self.behind: dict[int, int] = {}  # its queries that have fallen behind the others
        # The queries that are behind continue from the merge's states, once the seat has nothing to step; until then
        # it gets
        # heads up to `limit` only.
        self.behind_handed_over = False
        self.limit: int | None = None
        self.more, self.is_catching_up = True, False
        self.others_waited = False  # when it was asked to catch up
        self.left = threading.Event()
        self.suspended: frozenset[int] = frozenset()  # queries that it leaves out
        # Since when it owes an answer, or since its last sign of life.
        self.alive_ms = self.stepping_since_ms = now_ms
        self.changes = 0  # in `watched`, then
        self.is_read = True  # False while the bell itself handles one of its messages

    @property
    def owes(self) -> bool:
        return not self.ready or self.sent_head > self.done or self.is_catching_up or self.ended

    def silent_ms(self, now_ms: int) -> int:
        """How long it has owed an answer without a sign of life."""
        if not self.owes or not self.is_read or self.changes != self.watched.changes:
            self.alive_ms, self.changes = now_ms, self.watched.changes
        return now_ms - self.alive_ms

    def doing(self) -> str:
        if not self.ready:
            return "was building its state"
        if self.sent_head > self.done:
            return f"was stepping snapshot {self.done + 1}"
        return "was catching up with queries that are behind" if self.is_catching_up else "was asked to end"

    def send(self, message: wire.FromBell) -> None:
        # A connection that is gone is noticed where it is read.
        with contextlib.suppress(OSError):
            self.connection.sendall(wire.frame(message))

    def drop(self) -> None:
        shut(self.connection)


def kill_worker(worker: Worker) -> None:
    """Kills a worker of this machine; it may have ended already."""
    host, pid = worker
    if host == socket.gethostname() and pid != os.getpid():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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
        """`on_silence` gets a text that says what does not answer, and an empty text when it answers again or has
        ended; `on_step` gets the duration of each step."""
        self._budget, self._on_fault = budget, on_fault
        self._settings, self._merge, self._clock = settings, merge, clock
        self._store_url, self._base, self._allowed_urls = store_url, base, allowed_urls
        self._on_up, self._on_lost, self._on_give_up = on_up, on_lost, on_give_up
        self._on_step, self._has_room = on_step, has_room
        self._on_silence, self._kill, self._quarantine = on_silence, kill, quarantine
        self._codec = wire.Codec(settings.shard_factory)
        self._service = secrets.token_hex(8)
        self.figures = Figures()
        self.faults: dict[int, QueryFault] = {}

        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._keeping = threading.Condition(self._lock)  # a time limit has changed
        self._planning = threading.Condition(self._lock)  # the planner of micro-batches may have work
        self._seat: _SeatConnection | None = None
        self._latest: _SeatConnection | None = (
            None  # whose death may still be counted when nobody has the seat any more
        )
        self._head = self._merged = int(merge.position)
        self._done = 0
        self._owned = False
        self._more = False  # the last seat had more to catch up with
        self._share = Share()
        self._epochs = 0  # of this driver
        self._attempt = 0
        self._vacant_ms: int | None = None
        self._start_by_ms: int | None = None
        self._bye_at: float | None = None
        self._strikes = (0, 0)  # at which SN, how many
        # What workers were doing when they died, and no worker has done since.
        self._deaths: dict[_Doing, Death] = {}
        self._worker: Worker | None = None  # whose `Done` was taken last
        self._silence = ""
        self._folder = Path()
        self._closed = False
        # An error there comes from the merge or the wire: this Spark cannot continue, and the runner gives it up.
        self._door = Door(
            clock, self._greet, self._connection_opened, lambda error: on_give_up(f"{type(error).__name__}: {error}")
        )
        self._keeper = threading.Thread(target=self._keep, name="rillet-bell-keeper", daemon=True)

    # ---- called by the runner ---------------------------------------------------------------------------------

    def start(self) -> None:
        self._door.start()
        self._keeper.start()

    def admit(self, folder: Path) -> wire.Address:
        """The address for a new driver, which has this folder. Tasks of older drivers are no longer admitted."""
        with self._lock:
            self._folder = folder
            self._epochs, self._vacant_ms, self._bye_at = 0, None, None
            self._strikes = (0, 0)
            self._start_by_ms = self._clock.now_ms() + int(self._settings.start_s * 1000)
            self._keeping.notify()
            return self._door.new_address()

    def head_moved(self, sn: int) -> None:
        """Called by the publishing thread: a few bytes into a socket."""
        with self._lock:
            self._head = max(self._head, sn)
            self._planning.notify_all()
            self._ring()

    def merged(self) -> None:
        """The merge has advanced by parts of the other runner; the seat may get further heads."""
        with self._lock:
            self._merged = max(self._merged, int(self._merge.position))
            self._ring()

    @property
    def refused(self) -> int:
        """How many connections that were not Spark's."""
        return self._door.refused

    def under_way_ms(self) -> int:
        """How long the seat has been stepping a snapshot; 0: it is not stepping."""
        with self._lock:
            seat = self._seat
            if seat is None or not seat.ready or seat.sent_head <= seat.done or not seat.is_read:
                return 0
            return self._clock.now_ms() - seat.stepping_since_ms

    def suspended_changed(self) -> None:
        """Other queries than before are in quarantine."""
        with self._lock:
            if self._seat is not None and self._seat.ready:
                self._send_suspended(self._seat)

    def cut(self, why: str) -> None:
        """Spark has ended: no connection counts any more, and the queries run inline."""
        with self._lock:
            self._start_by_ms = None
        with self._turn:
            self._door.shut()  # under `_turn`, so that no seat counts this as the death of its worker
            seat = self._seat
            if seat is not None and seat.ready and seat.owes and not self._closed:
                # Its worker may have died of its step, and the driver with it: this cannot be known any more.
                self._note_death(seat, seat.watched.read(), 0, why)
            self._lose(why, ended=True)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._keeping.notify_all()
            self._planning.notify_all()
        self.cut("it was closed")
        self._door.close()
        if self._keeper.is_alive():
            self._keeper.join(2)

    # ---- connections --------------------------------------------------------------------------------------------

    def _greet(self, connection: socket.socket, first: wire.Hello | wire.Await, token: bytes) -> None:
        if isinstance(first, wire.Await):
            self._plan(connection)
        else:
            self._take_seat(connection, first, token)

    def _connection_opened(self) -> None:
        with self._lock:
            self._keeping.notify()

    def _plan(self, connection: socket.socket) -> None:
        with self._lock:
            while not (self._closed or self._work_to_plan()):
                self._planning.wait()
            if self._closed:
                return
            if self._seat is None:
                self._vacate()
        connection.sendall(wire.frame(wire.HeadMoved(self._head)))

    def _work_to_plan(self) -> bool:
        if self._owned and self._more:
            return True
        cold = self._epochs <= self._settings.warmup_epochs
        return self._settings.epoch_s > 0 or cold or not self._owned or self._head > self._done

    # ---- one attempt ------------------------------------------------------------------------------------------

    def _take_seat(self, connection: socket.socket, hello: wire.Hello, token: bytes) -> None:
        self._close_older_seat(hello, token)
        with self._turn:
            if not self._door.admits(token):
                return
            if self._seat is not None:
                self._empty(self._seat)
            number, position, states = self._merge.attempt(Runner.SPARK)
            watched = StepWatch(self._folder / f"underway-{number}")
            seat = _SeatConnection(connection, number, (hello.host, hello.pid), watched, self._clock.now_ms())
            self._seated(seat, int(position))
            welcome = self._welcome(seat, hello, int(position), states)
        try:
            connection.sendall(wire.frame(welcome))
            self._listen(seat)
        finally:
            self._vacated(seat)
            seat.left.set()

    def _seated(self, seat: _SeatConnection, position: int) -> None:
        with self._lock:
            self._seat, self._latest, self._attempt = seat, seat, seat.attempt
            seat.limit = position if self._owned else None
            self._merged = max(self._merged, position)
            self._epochs += 1
            self._vacant_ms = self._start_by_ms = None
            self.figures.epochs += 1
            self.faults = {}
            self._keeping.notify()

    def _close_older_seat(self, hello: wire.Hello, token: bytes) -> None:
        """Before a new task gets the seat: waits until the messages of the last task are merged, and a death of its
        worker is counted. The next hello may be read before the end of the dead worker's connection."""
        older = self._latest
        if older is not None:
            if older.ended:
                older.left.wait(_LAST_WORDS_S)
            with self._turn:
                if not self._door.admits(token):
                    return
                older.drop()  # what has arrived is still read
            older.left.wait(self._settings.step_timeout_s)
        for stamp in hello.stamps:
            if self._ours(stamp) and stamp.sn > self._merge.position:
                with contextlib.suppress(DeadlineExceeded):
                    self._merge.wait(stamp.sn, _LAST_WORDS_S)

    def _lapse(self) -> None:
        with self._lock:
            older, self._seat = self._seat, None
        if older is not None:
            older.drop()

    def _ours(self, stamp: wire.Stamp) -> bool:
        return stamp.service == self._service and stamp.store_url == self._store_url

    def _welcome(
        self, seat: _SeatConnection, hello: wire.Hello, position: int, states: Mapping[int, Any]
    ) -> wire.Welcome:
        usable = [s.sn for s in hello.stamps if self._ours(s) and position - _STEPS_BACK_MAX <= s.sn <= position]
        seat.suspended = self._quarantine.suspended
        waits = any(state.behind_at is not None and state.unanswered for state in states.values())
        if (seat.suspended or waits) and not self._has_queries_already(seat):
            # The position of a query that waits for an answer, or is in quarantine, is that of the last owner of the
            # queries. Another worker's state may be past this position, without having reported these evaluations.
            usable = []
        seat.sent_head = seat.done = usable[0] if usable else position
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
        )

    def _has_queries_already(self, seat: _SeatConnection) -> bool:
        """Whether this worker process has the queries now, and was the last one to step them."""
        return self._owned and seat.worker == self._worker

    def _listen(self, seat: _SeatConnection) -> None:
        parts: list[Any] = []
        faults: list[wire.Fault] = []  # reported after the earlier parts of these queries are merged
        while not seat.bye:
            seat.is_read = True
            message = wire.receive_message(wire.from_seat, seat.connection)
            # Time that the bell itself needs is no silence of the seat: the merge may wait for the store.
            seat.is_read, seat.alive_ms = False, self._clock.now_ms()
            match message:
                case wire.Ready(sn, built):
                    self._ready(seat, sn, built)
                case wire.Parts(_, body):
                    parts.extend(self._codec.parts(body))
                case wire.Done(sn, took_ms):
                    self._take(seat, sn, parts, took_ms)
                    parts = []
                    if self._owned:
                        self._on_step(took_ms)
                case wire.Piece(more, took_ms):
                    self._take_piece(seat, parts, more, took_ms)
                    parts = []
                case wire.Fault(query, why, since) as fault:
                    with self._lock:
                        self.faults = {**self.faults, query: QueryFault(why, since)}
                    faults.append(fault)
                    continue
                case wire.Mended(query):
                    with self._lock:
                        self.faults = {number: fault for number, fault in self.faults.items() if number != query}
                case wire.BehindReport(queries):
                    seat.behind = queries
                case wire.Trouble(sn, why):
                    self._strike(seat, why, seat.done)
                    return
                case wire.Bye():
                    seat.bye = True
                case other:
                    raise wire.Garbled(f"a seat sent {type(other).__name__}")
            if isinstance(message, wire.Ready | wire.Done | wire.Piece):
                for fault in faults:
                    self._on_fault(fault.query, fault.why, fault.since)
                faults = []

    def _ready(self, seat: _SeatConnection, sn: int, built: bool) -> None:
        with self._turn:
            self._caught_up(seat, sn)
        with self._lock:
            seat.ready = True
            self._done = sn
            self._send_suspended(seat)
            self.figures.builds += built
            if self._bye_at is not None and self._settings.epoch_s > 0:
                self.figures.boundary_ms.append((time.perf_counter() - self._bye_at) * 1000)
            self._bye_at = None
            self._ring()
            if self._settings.epoch_s == 0 or self._epochs <= self._settings.warmup_epochs:
                self._end(seat, seat.sent_head)  # it is what this epoch is for
            else:
                seat.end_ms = self._clock.now_ms() + int(self._settings.epoch_s * 1000)
                self._keeping.notify()

    def _take(self, seat: _SeatConnection, sn: int, parts: list[Any], took_ms: float) -> None:
        now = time.perf_counter()
        with self._turn:
            if self._seat is not seat:
                raise ConnectionError("another task has this seat")
            self._merge.take(Runner.SPARK, sn, parts)
            self._caught_up(seat, sn)
        with self._lock:
            seat.done = self._done = sn
            self._share.stepped(took_ms)
            seat.stepping_since_ms = self._clock.now_ms()
            self._worker = seat.worker
            done: tuple[_Doing, ...] = ("step", "build")
            for doing in done:
                if (death := self._deaths.get(doing)) is not None and death.sn <= sn:
                    del self._deaths[doing]
            seat.more = self._more = bool(seat.behind)
            self.figures.done += 1
            if (rung := seat.rung.pop(sn, None)) is not None:
                self.figures.round_trip_ms.append((now - rung) * 1000)
            self._ring()

    def _take_piece(self, seat: _SeatConnection, parts: list[Any], more: bool, took_ms: float) -> None:
        with self._turn:
            if self._seat is not seat:
                raise ConnectionError("another task has this seat")
            self._merge.take_piece(Runner.SPARK, parts)
        with self._lock:
            seat.is_catching_up, seat.more, self._more = False, more, more
            if seat.others_waited:
                self._share.went_on(took_ms)
            if not seat.behind:
                self._deaths.pop("catch up", None)
                if self._strikes[0] == _CATCHING_UP:
                    self._strikes = (0, 0)
            self._planning.notify_all()
            self._ring()

    def _caught_up(self, seat: _SeatConnection, sn: int) -> None:
        """Hands the queries over, once this driver is warm. Under `_turn`."""
        if self._seat is not seat:
            raise ConnectionError("another task has this seat")
        if not self._owned and self._epochs > self._settings.warmup_epochs and self._has_stepped_all(seat, sn):
            self._merge.caught_up(Runner.SPARK, seat.attempt, sn, seat.behind)
            self._owned = self._merge.owner == Runner.SPARK
            if self._owned:
                self._on_up()
            else:
                seat.limit = None
        self._merged = int(self._merge.position)
        if self._owned and not seat.behind_handed_over and (seat.limit is None or sn >= seat.limit):
            self._hand_behind_over(seat)

    def _has_stepped_all(self, seat: _SeatConnection, sn: int) -> bool:
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

    def _hand_behind_over(self, seat: _SeatConnection) -> None:
        states = self._merge.states_behind(seat.behind)
        with self._lock:
            seat.behind_handed_over, seat.limit = True, None
            if states:
                self._let_catch_up(seat, self._codec.encode_states(states))

    # ---- ringing: under `_lock` -------------------------------------------------------------------------------

    def _ring(self) -> None:
        seat = self._seat
        if seat is None or not seat.ready or seat.ended:
            return
        head = min(self._head, self._merged + HEADS_AHEAD_MAX)
        if seat.limit is not None:
            head = min(head, seat.limit)
        if head > seat.sent_head:
            if not seat.owes:
                seat.alive_ms = seat.stepping_since_ms = self._clock.now_ms()
            seat.sent_head = head
            seat.rung[head] = time.perf_counter()
            seat.send(wire.Head(head))
        has_time = seat.sent_head <= seat.done or self._share.is_due
        may_go_on = self._owned and seat.behind_handed_over and not seat.is_catching_up and has_time
        if may_go_on and seat.behind and seat.more and self._has_room():
            self._let_catch_up(seat, {})

    def _let_catch_up(self, seat: _SeatConnection, states: dict[int, msgspec.Raw]) -> None:
        if not seat.owes:
            seat.alive_ms = self._clock.now_ms()
        seat.is_catching_up, seat.others_waited = True, seat.sent_head > seat.done
        seat.send(wire.CatchUp(states))

    def _send_suspended(self, seat: _SeatConnection) -> None:
        if seat.suspended != self._quarantine.suspended:
            seat.suspended = self._quarantine.suspended
            seat.send(wire.LeftOut(sorted(seat.suspended)))

    def _end(self, seat: _SeatConnection, sn: int = 0) -> None:
        if not seat.owes:
            seat.alive_ms = self._clock.now_ms()
        seat.ended, seat.end_ms = True, None
        seat.send(wire.End(sn))

    # ---- leaving ----------------------------------------------------------------------------------------------

    def _vacated(self, seat: _SeatConnection) -> None:
        with self._turn:
            if self._seat is seat:  # else another has the seat, or Spark was cut off
                self._empty(seat)
            seat.watched.close()

    def _empty(self, seat: _SeatConnection) -> None:
        """Empties the seat, and counts its death if it had work, before another task may take the seat. Under
        `_turn`."""
        with self._lock:
            self._seat = None
            if seat.bye:
                self._bye_at = time.perf_counter()
            if self._settings.epoch_s > 0 or not seat.bye:
                self._vacate()
            died = not seat.bye and seat.owes
        seat.drop()
        if died:
            self._died(seat, f"its Python worker died while it {seat.doing()}", seat.watched.read())

    def _vacate(self) -> None:
        if self._vacant_ms is None:
            self._vacant_ms = self._clock.now_ms()
            self._keeping.notify()

    def _died(self, seat: _SeatConnection, why: str, stepping: Stepping | None, hung: bool = False) -> None:
        """A worker has ended, or was ended, with work to do. After the first death another worker tries the same;
        after the second the queries that were being stepped are put in quarantine, and the others continue. Under
        `_turn`."""
        count = self._strike(seat, why, _CATCHING_UP if _what(seat, stepping) == "catch up" else seat.done)
        log.warning(
            "a worker of Spark was killed" if hung else "a worker of Spark died",
            extra={"fields": {"why": why, "worker": seat.worker[1], "snapshot": seat.done + 1, "times": count}},
        )
        self._note_death(seat, stepping, count, why)
        if hung or count > 1:
            self._lose(why)
        elif not self._owned:
            self._hold_suspects()  # the server's own process steps them now, and may not have reached that snapshot yet

    def _note_death(self, seat: _SeatConnection, stepping: Stepping | None, count: int, why: str) -> None:
        """Records a death, so that its queries are suspended before the server's own process would step them. Under
        `_turn`."""
        if stepping is None:
            return
        doing = _what(seat, stepping)
        # The trial steps up to this snapshot, so it must have been published.
        sn = stepping.sn if doing == "catch up" else min(max(stepping.sn, seat.done + 1), self._head)
        numbers = stepping.numbers
        with self._lock:
            before = self._deaths.get(doing)
            if before is not None:  # another worker may have died of another query
                numbers = _united(before.numbers, numbers)
                sn, count = max(sn, before.sn), max(count, before.count)
            self._deaths[doing] = Death(sn, numbers, count, why)

    def _hold_suspects(self) -> None:
        """Puts the queries of the recorded deaths in quarantine, unless these steps are done meanwhile. Under
        `_turn`."""
        with self._lock:
            deaths, self._deaths = self._deaths, {}
        for doing, death in deaths.items():
            if doing != "step" or death.sn > self._merge.position:
                self._quarantine.hold(death)

    def _strike(self, seat: _SeatConnection, why: str, place: int) -> int:
        """Counts a failed step or build, and returns the count. Spark tries again, later each time, and is stopped at
        the third failure."""
        with self._lock:
            seat.bye = True  # it is counted here, not again when the connection closes
            at, count = self._strikes
            count = count + 1 if at == place else 1
            self._strikes = (place, count)
        if count >= _STRIKES_MAX:
            self._on_give_up(f"{count} attempts failed at SN {seat.done + 1}: {why}")
        return count

    def _lose(self, why: str, ended: bool = False) -> None:
        """Spark loses the queries: they run inline again. `ended`: the whole driver has ended. Under `_turn`."""
        self._lapse()
        with self._lock:
            number, self._attempt = self._attempt, 0
            self._vacant_ms = None
            was_ours, self._owned = self._owned, False
            self.figures.lost += was_ours
            if not ended and self._start_by_ms is None:
                # The driver that must start the next task may hang, too.
                self._start_by_ms = self._clock.now_ms() + _STARTS_WITHIN * self._timeout_ms
                self._keeping.notify()
        self._hold_suspects()  # before the server's own process would step them
        if number:
            self._merge.lost(Runner.SPARK, number)
        if was_ours:
            self._on_lost(why)

    # ---- time limits ------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """The keeper's thread: ends epochs, checks that the seat answers, and gives up waiting for a task."""
        while True:
            with self._lock:
                if self._closed:
                    return
                now = self._clock.now_ms()
                self._door.close_late(now)
                seat = self._seat
                if seat is not None and seat.end_ms is not None and seat.end_ms <= now:
                    self._end(seat)
                silent_ms = self._vacant_for_ms(now) if seat is None else seat.silent_ms(now)
                silence = self._silence_of(seat, silent_ms)
                changed, self._silence = silence != self._silence, silence
                hung = seat is not None and silent_ms >= self._limit_ms(seat)
                lost = self._vacant_ms is not None and self._vacant_ms + self._grace_ms <= now
                late = self._start_by_ms is not None and self._start_by_ms <= now
                if late:
                    self._start_by_ms = None
                if not (lost or late or hung or changed):
                    self._clock.wait(self._keeping, self._next_ms(now))
                    continue
            if changed:
                self._on_silence(silence)
            if hung and seat is not None:
                self._hung(seat, silent_ms)
            elif late:
                self._on_give_up("Spark started no task in time")
            elif lost:
                self._lose_if_still_vacant()

    def _hung(self, seat: _SeatConnection, silent_ms: int) -> None:
        with self._turn:
            with self._lock:
                if self._seat is not seat:
                    return
                stepping = seat.watched.read()
                self._seat = None  # further messages of it do not count
                self.figures.killed += 1
            self._kill(seat.worker)
            seat.drop()
            why = f"its Python worker has not answered for {silent_ms / 1000:g} s: it {seat.doing()}"
            self._died(seat, why, stepping, hung=True)

    def _vacant_for_ms(self, now: int) -> int:
        """How long the seat has been empty while there was work."""
        return now - self._vacant_ms if self._vacant_ms is not None and self._head > self._done else 0

    def _silence_of(self, seat: _SeatConnection | None, silent_ms: int) -> str:
        """The text to report about a silence; empty: nothing."""
        if not self._owned or silent_ms < self._silence_ms:
            return ""
        if seat is None:
            return f"Spark starts no task; after {self._settings.grace_s:g} s the queries run inline"
        return (
            f"the Python worker does not answer: it {seat.doing()}, and is killed after {self._timeout_ms / 1000:g} s"
        )

    def _limit_ms(self, seat: _SeatConnection) -> int:
        """The time after which a seat counts as hung. While the inline runner has the queries, building a state may
        take long."""
        return self._timeout_ms if self._owned or seat.ready else int(self._settings.start_s * 1000)

    def _lose_if_still_vacant(self) -> None:
        with self._turn:
            with self._lock:
                due = self._vacant_ms is not None and self._vacant_ms + self._grace_ms <= self._clock.now_ms()
            if due:
                self._lose(f"Spark started no task within {self._settings.grace_s:g} s")

    @property
    def _grace_ms(self) -> int:
        return int(self._settings.grace_s * 1000)

    @property
    def _silence_ms(self) -> int:
        return min(_SILENCE_MS, self._timeout_ms // 2)

    @property
    def _timeout_ms(self) -> int:
        return int(self._settings.step_timeout_s * 1000)

    def _next_ms(self, now: int) -> int | None:
        seat, vacant_ms = self._seat, self._vacant_ms
        limits: list[int | None] = [self._start_by_ms, self._door.next_ms()]
        if seat is not None:
            limits += [seat.end_ms, now + min(_LOOK_MS, self._timeout_ms // 4)]
        if vacant_ms is not None:
            limits.append(vacant_ms + self._grace_ms)
            if self._head > self._done:
                limits.append(vacant_ms + self._silence_ms)
        return min((limit for limit in limits if limit is not None and limit > now), default=None)


def _united(some: tuple[int, ...] | None, others: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """None: all of them."""
    return None if some is None or others is None else tuple(dict.fromkeys((*some, *others)))


def _what(seat: _SeatConnection, stepping: Stepping | None) -> _Doing:
    """What the worker was doing when it died."""
    if not seat.ready:
        return "build"
    return "catch up" if seat.is_catching_up and stepping is not None and stepping.sn <= seat.done else "step"
