"""The bell: the endpoint's half of the long epochs.

It tells the seat of each new head, takes the parts that come back, rings the end of each Spark epoch, and
decides whose parts count: every hello is a new attempt, which closes the seat's older connection, and parts
count when the `Done` of their own SN has come on the connection that holds the seat now.

Two locks. `_turn` puts attempts, takes and losses in one order; the merge is only called under it. `_lock`
guards what is told to whom; nothing blocks under it, so the publishing thread may ring at any time."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from stream_ext.clock import Clock
from stream_ext.errors import DeadlineExceeded
from stream_ext.outside import Outside
from stream_ext.runner.spark import wire
from stream_ext.runner.spark.settings import SparkSettings

RUNNER = "spark"
#: A seat is told heads at most this far beyond what is merged.
HEADS_AHEAD_MAX = 64
#: A state that lies further back than this is built anew: stepping through so much would take longer.
_STEPS_BACK_MAX = 256
#: So often may the seat die at the same SN before Spark is stopped.
_STRIKES_MAX = 3
#: How long an orderly seat may take to say its last words once its successor is there.
_LAST_WORDS_S = 0.25
_HELLO_S = 5.0


class Merge(Protocol):
    """What the bell asks of stream_ext/runner/merge.py."""

    @property
    def position(self) -> int: ...
    @property
    def owner(self) -> str: ...
    def attempt(self, runner: str) -> tuple[int, int, Mapping[int, Any]]: ...
    def take(self, runner: str, sn: Any, parts: list[Any]) -> None: ...
    def take_piece(self, runner: str, parts: list[Any]) -> None: ...
    def caught_up(self, runner: str, attempt: int, sn: Any, behind: Mapping[int, int]) -> None: ...
    def catching_up(self) -> Mapping[int, Any]: ...
    def stand_for(self, queries: Collection[int]) -> Mapping[int, Any]: ...
    def lost(self, runner: str, attempt: int) -> None: ...
    def wait(self, sn: Any, deadline_s: float) -> None: ...


class Figures(msgspec.Struct):
    """What the bell has counted, and the last few hundred times it measured."""

    epochs: int = 0
    builds: int = 0
    lost: int = 0
    refused: int = 0
    done: int = 0
    #: From ringing a head to its `Done`: the way there and back, and the step.
    round_trip_ms: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=512))
    #: From the last word of one task to the readiness of the next.
    boundary_ms: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=64))


class _Seat:
    """One attempt: a connection, and how far it has been told, and has come."""

    def __init__(self, connection: socket.socket, attempt: int) -> None:
        self.connection, self.attempt = connection, attempt
        self.ready = self.ended = self.bye = False
        self.told = self.done = 0
        self.end_ms: int | None = None
        self.rung: dict[int, float] = {}
        self.behind: dict[int, int] = {}  # its queries that have fallen behind the others
        # They go on from where they stand with the merge, once it has nothing to step; until then: heads up to this.
        self.is_settled = False
        self.limit: int | None = None
        self.more, self.goes_on = True, False
        self.left = threading.Event()

    def send(self, message: wire.FromBell) -> None:
        # A connection that is gone is noticed where it is read.
        with contextlib.suppress(OSError):
            self.connection.sendall(wire.frame(message))

    def drop(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Bell:
    def __init__(
        self,
        settings: SparkSettings,
        merge: Merge,
        store_url: str,
        base: str,
        clock: Clock,
        outside: Outside,
        *,
        on_up: Callable[[], None],
        on_lost: Callable[[str], None],
        on_give_up: Callable[[str], None],
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings, self._merge, self._clock = settings, merge, clock
        self._store_url, self._base, self._outside = store_url, base, outside
        self._on_up, self._on_lost, self._on_give_up, self._has_room = on_up, on_lost, on_give_up, has_room
        self._codec = wire.Codec(settings.shard_factory)
        self._service = secrets.token_hex(8)
        self._token = secrets.token_hex(32)
        self.figures = Figures()
        self.faults: dict[int, str] = {}

        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._keeping = threading.Condition(self._lock)  # a time limit has changed
        self._planning = threading.Condition(self._lock)  # the planner of micro-batches may have work
        self._seat: _Seat | None = None
        self._connections: set[socket.socket] = set()
        self._head = self._merged = int(merge.position)
        self._done = 0
        self._owned = False
        self._more = False  # the last seat knew of more to make up for
        self._epochs = 0  # of this driver
        self._attempt = 0
        self._vacant_ms: int | None = None
        self._start_by_ms: int | None = None
        self._bye_at: float | None = None
        self._strikes = (0, 0)  # at which SN, how many
        self._closed = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self._threads = [
            threading.Thread(target=self._accept, name="rillet-bell", daemon=True),
            threading.Thread(target=self._keep, name="rillet-bell-keeper", daemon=True),
        ]

    # ---- what the runner says ---------------------------------------------------------------------------------

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def admit(self) -> wire.Address:
        """The address for a new driver: whatever an older one has started is not listened to any more."""
        host, port = self._server.getsockname()[:2]
        with self._lock:
            self._token = secrets.token_hex(32)
            self._epochs, self._vacant_ms, self._bye_at = 0, None, None
            self._strikes = (0, 0)
            self._start_by_ms = self._clock.now_ms() + int(self._settings.start_s * 1000)
            self._keeping.notify()
            return wire.Address(host, port, self._token)

    def head_moved(self, sn: int) -> None:
        """Called by the publishing thread: a few bytes into a socket."""
        with self._lock:
            self._head = max(self._head, sn)
            self._planning.notify_all()
            self._tell()

    def merged(self) -> None:
        """The merge has come further by what others sent; the seat may be told more."""
        with self._lock:
            self._merged = max(self._merged, int(self._merge.position))
            self._tell()

    def cut(self, why: str) -> None:
        """Spark has gone: no connection counts any more, and the queries go on inline."""
        with self._lock:
            self._token = secrets.token_hex(32)
            self._start_by_ms = None
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        with self._turn:
            self._lose(why)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._keeping.notify_all()
            self._planning.notify_all()
        self.cut("it was closed")
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2)

    # ---- who comes --------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._receive, args=(connection,), name="rillet-bell-line", daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        with connection:
            with self._lock:
                if self._closed:
                    return
                self._connections.add(connection)
            try:
                self._answer(wire.tune(connection))
            except OSError:
                pass  # whoever it was has gone
            except Exception as error:  # noqa: BLE001 -- the merge or the wire failed: this Spark leads nowhere, and says so
                self._on_give_up(f"{type(error).__name__}: {error}")
            finally:
                with self._lock:
                    self._connections.discard(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_HELLO_S)
        try:
            first = wire.from_seat.decode(wire.receive(connection, wire.HELLO_BYTES_MAX))
        except msgspec.DecodeError:
            first = wire.Await("")
        connection.settimeout(None)
        if not isinstance(first, wire.Hello | wire.Await) or not self._admitted(first.token):
            with self._lock:
                self.figures.refused += 1
            return
        if isinstance(first, wire.Await):
            self._plan(connection)
        else:
            self._take_seat(connection, first)

    def _admitted(self, token: str) -> bool:
        with self._lock:
            return not self._closed and hmac.compare_digest(token.encode(), self._token.encode())

    def _plan(self, connection: socket.socket) -> None:
        with self._lock:
            while not (self._closed or self._work_to_plan()):
                self._planning.wait()
            if self._closed:
                return
            if self._seat is None:
                self._vacate()
        connection.sendall(wire.frame(wire.Moved(self._head)))

    def _work_to_plan(self) -> bool:
        if self._owned and self._more:
            return True
        cold = self._epochs <= self._settings.warmup_epochs
        return self._settings.epoch_s > 0 or cold or not self._owned or self._head > self._done

    # ---- one attempt ------------------------------------------------------------------------------------------

    def _take_seat(self, connection: socket.socket, hello: wire.Hello) -> None:
        self._settle(hello)
        with self._turn:
            if not self._admitted(hello.token):
                return
            self._lapse()
            number, position, states = self._merge.attempt(RUNNER)
            seat = _Seat(connection, number)
            self._seated(seat, int(position))
        try:
            connection.sendall(wire.frame(self._welcome(seat, hello, int(position), states)))
            self._listen(seat)
        finally:
            seat.left.set()
            self._vacated(seat)

    def _seated(self, seat: _Seat, position: int) -> None:
        with self._lock:
            self._seat, self._attempt = seat, seat.attempt
            seat.limit = position if self._owned else None
            self._merged = max(self._merged, position)
            self._epochs += 1
            self._vacant_ms = self._start_by_ms = None
            self.figures.epochs += 1
            self.faults = {}

    def _settle(self, hello: wire.Hello) -> None:
        """Before a seat is taken anew: its last task may still be heard, and what that has sent be merged."""
        with self._lock:
            older = self._seat
        if older is not None and older.ended:
            older.left.wait(_LAST_WORDS_S)
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

    def _welcome(self, seat: _Seat, hello: wire.Hello, position: int, states: Mapping[int, Any]) -> wire.Welcome:
        usable = [s.sn for s in hello.stamps if self._ours(s) and position - _STEPS_BACK_MAX <= s.sn <= position]
        if not self._owned and any(state.stands is not None and state.unanswered for state in states.values()):
            usable = []  # who waits for an answer stands where it does with the owner, or there is no hand-over
        seat.told = seat.done = usable[0] if usable else position
        return wire.Welcome(
            attempt=seat.attempt,
            service=self._service,
            store_url=self._store_url,
            base=self._base,
            outside=self._outside,
            factory=self._settings.shard_factory,
            position=position,
            states=None if usable else self._codec.encode_states(states),
        )

    def _listen(self, seat: _Seat) -> None:
        parts: list[Any] = []
        while not seat.bye:
            match wire.from_seat.decode(wire.receive(seat.connection)):
                case wire.Ready(sn, built):
                    self._ready(seat, sn, built)
                case wire.Parts(_, body):
                    parts.extend(self._codec.parts(body))
                case wire.Done(sn):
                    self._take(seat, sn, parts)
                    parts = []
                case wire.Piece(more):
                    self._take_piece(seat, parts, more)
                    parts = []
                case wire.Fault(query, why):
                    with self._lock:
                        self.faults = {**self.faults, query: why}
                case wire.Mended(query):
                    with self._lock:
                        self.faults = {number: why for number, why in self.faults.items() if number != query}
                case wire.Behind(queries):
                    seat.behind = queries
                case wire.Trouble(sn, why):
                    self._strike(seat, why)
                    return
                case wire.Bye():
                    seat.bye = True
                case other:
                    raise ConnectionError(f"a seat said {type(other).__name__}")

    def _ready(self, seat: _Seat, sn: int, built: bool) -> None:
        with self._turn:
            self._caught_up(seat, sn)
        with self._lock:
            seat.ready = True
            self._done = sn
            self.figures.builds += built
            if self._bye_at is not None and self._settings.epoch_s > 0:
                self.figures.boundary_ms.append((time.perf_counter() - self._bye_at) * 1000)
            self._bye_at = None
            self._tell()
            if self._settings.epoch_s == 0 or self._epochs <= self._settings.warmup_epochs:
                self._end(seat)
            else:
                seat.end_ms = self._clock.now_ms() + int(self._settings.epoch_s * 1000)
                self._keeping.notify()

    def _take(self, seat: _Seat, sn: int, parts: list[Any]) -> None:
        now = time.perf_counter()
        with self._turn:
            if self._seat is not seat:
                raise ConnectionError("another task has this seat")
            self._merge.take(RUNNER, sn, parts)
            self._caught_up(seat, sn)
        with self._lock:
            seat.done = self._done = sn
            seat.more = self._more = bool(seat.behind)
            self.figures.done += 1
            if (rung := seat.rung.pop(sn, None)) is not None:
                self.figures.round_trip_ms.append((now - rung) * 1000)
            self._tell()

    def _take_piece(self, seat: _Seat, parts: list[Any], more: bool) -> None:
        with self._turn:
            if self._seat is not seat:
                raise ConnectionError("another task has this seat")
            self._merge.take_piece(RUNNER, parts)
        with self._lock:
            seat.goes_on, seat.more, self._more = False, more, more
            self._planning.notify_all()
            self._tell()

    def _caught_up(self, seat: _Seat, sn: int) -> None:
        """Hands the queries over, once this driver is warm. Under `_turn`."""
        if self._seat is not seat:
            raise ConnectionError("another task has this seat")
        if not self._owned and self._epochs > self._settings.warmup_epochs and self._has_stepped_all(seat, sn):
            self._merge.caught_up(RUNNER, seat.attempt, sn, seat.behind)
            self._owned = self._merge.owner == RUNNER
            if self._owned:
                self._on_up()
            else:
                seat.limit = None
        self._merged = int(self._merge.position)
        if self._owned and not seat.is_settled and (seat.limit is None or sn >= seat.limit):
            self._settle_behind(seat)

    def _has_stepped_all(self, seat: _Seat, sn: int) -> bool:
        """Whether it stands where the merge does, where that matters: those that are behind are to go on from where
        they stand with the owner, and no step of them may be under way."""
        if not seat.behind and not self._merge.catching_up():
            return True
        with self._lock:
            seat.limit = max(seat.told, sn)
            if seat.told > sn:
                return False
        with contextlib.suppress(DeadlineExceeded):
            self._merge.wait(sn, _LAST_WORDS_S)
        return True

    def _settle_behind(self, seat: _Seat) -> None:
        states = self._merge.stand_for(seat.behind)
        with self._lock:
            seat.is_settled, seat.limit = True, None
            if states:
                seat.goes_on = True
                seat.send(wire.GoOn(self._codec.encode_states(states)))

    # ---- ringing: under `_lock` -------------------------------------------------------------------------------

    def _tell(self) -> None:
        seat = self._seat
        if seat is None or not seat.ready or seat.ended:
            return
        head = min(self._head, self._merged + HEADS_AHEAD_MAX)
        if seat.limit is not None:
            head = min(head, seat.limit)
        if head > seat.told:
            seat.told = head
            seat.rung[head] = time.perf_counter()
            seat.send(wire.Head(head))
        may_go_on = self._owned and seat.is_settled and not seat.goes_on
        if may_go_on and seat.behind and seat.more and self._has_room():
            seat.goes_on = True
            seat.send(wire.GoOn({}))

    def _end(self, seat: _Seat) -> None:
        seat.ended, seat.end_ms = True, None
        seat.send(wire.End())

    # ---- leaving ----------------------------------------------------------------------------------------------

    def _vacated(self, seat: _Seat) -> None:
        with self._lock:
            if self._seat is not seat:
                return  # another has the seat, or Spark was cut off
            self._seat = None
            if seat.bye:
                self._bye_at = time.perf_counter()
            if self._settings.epoch_s > 0 or not seat.bye:
                self._vacate()
            died = not seat.bye and (seat.told > seat.done or not seat.ready)
        if died:
            self._strike(seat, f"its Python worker died at SN {seat.done + 1}")

    def _vacate(self) -> None:
        if self._vacant_ms is None:
            self._vacant_ms = self._clock.now_ms()
            self._keeping.notify()

    def _strike(self, seat: _Seat, why: str) -> None:
        """A step or a build failed. Spark tries again, later each time, and is stopped at the third."""
        with self._lock:
            seat.bye = True  # it is counted, and not once more when the connection closes
            at, count = self._strikes
            count = count + 1 if at == seat.done else 1
            self._strikes = (seat.done, count)
        if count >= _STRIKES_MAX:
            self._on_give_up(f"{count} attempts failed at SN {seat.done + 1}: {why}")

    def _lose(self, why: str) -> None:
        """The seat is empty for good: the queries are inline again. Under `_turn`."""
        self._lapse()
        with self._lock:
            number, self._attempt = self._attempt, 0
            self._vacant_ms = None
            was_ours, self._owned = self._owned, False
            self.figures.lost += was_ours
        if number:
            self._merge.lost(RUNNER, number)
        if was_ours:
            self._on_lost(why)

    # ---- time limits ------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """The keeper's thread: ends epochs, and gives up waiting for an empty seat."""
        while True:
            with self._lock:
                if self._closed:
                    return
                now = self._clock.now_ms()
                seat = self._seat
                if seat is not None and seat.end_ms is not None and seat.end_ms <= now:
                    self._end(seat)
                lost = self._vacant_ms is not None and self._vacant_ms + self._grace_ms <= now
                late = self._start_by_ms is not None and self._start_by_ms <= now
                if late:
                    self._start_by_ms = None
                if not (lost or late):
                    self._clock.wait(self._keeping, self._next_ms())
                    continue
            if late:
                self._on_give_up(f"no task came to its seat within {self._settings.start_s:g} s")
            else:
                self._lose_if_still_vacant()

    def _lose_if_still_vacant(self) -> None:
        with self._turn:
            with self._lock:
                due = self._vacant_ms is not None and self._vacant_ms + self._grace_ms <= self._clock.now_ms()
            if due:
                self._lose(f"nobody came to its seat within {self._settings.grace_s:g} s")

    @property
    def _grace_ms(self) -> int:
        return int(self._settings.grace_s * 1000)

    def _next_ms(self) -> int | None:
        limits: Sequence[int | None] = (
            self._seat.end_ms if self._seat is not None else None,
            None if self._vacant_ms is None else self._vacant_ms + self._grace_ms,
            self._start_by_ms,
        )
        return min((limit for limit in limits if limit is not None), default=None)
