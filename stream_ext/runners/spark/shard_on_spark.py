"""A shard as the bell knows it: who has its seat, whose its queries are, and how its steps go.

All methods are called under the bell's lock; none blocks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stream_ext.continuous.catching_up.turns import Share
from stream_ext.continuous.faults import QueryFault
from stream_ext.runners.quarantine import Death
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.seat_connection import Doing, SeatConnection, Worker

#: Heads are sent to a seat at most this far beyond the merged snapshot.
HEADS_AHEAD_MAX = 64
#: A worker reports its load only while it steps, so a report that is older says nothing of an idle one.
_LOAD_IS_OLD_MS = 5_000
#: So many starts of tasks say how long the next one may take, and no task is awaited longer than this.
_STARTS, _GRACE_MS_MAX = 8, 8_000
_OF_WORKER = ("host", "pid", "core_share", "done", "lag", "builds")


def worker_in(status: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the status of a shard says of its process; None: it has none."""
    return {name: status[name] for name in _OF_WORKER} if status["pid"] is not None else None


class ShardFigures(msgspec.Struct):
    """Counters, and the part of a core that its worker has reported last."""

    builds: int = 0
    lost: int = 0
    steps: int = 0
    core_share: float = 0.0
    reported_ms: int = 0
    #: From sending a head to its `Done`: the way there and back, and the step.
    round_trip_ms: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=512))
    #: From the last message of one task to the readiness of the next.
    boundary_ms: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=64))

    def report(self, spent: wire.Loads, now_ms: int) -> None:
        """Needs no lock: who reads it meanwhile has the old share or the new one."""
        self.reported_ms, self.core_share = now_ms, spent.busy_s / max(spent.passed_s, 1e-3)


class ShardOnSpark:
    def __init__(self, number: int, done: int) -> None:
        self.number, self.done = number, done
        self.seat: SeatConnection | None = None
        #: The seat whose death may still be counted when nobody has the seat any more.
        self.latest: SeatConnection | None = None
        self.attempt = 0
        self.on_spark = False  # its queries are Spark's; else the inline runner has them
        self.why = "Spark is starting"  # it is not on Spark
        self.more = False  # the last seat had more to catch up with
        self.share = Share()
        self.vacant_ms: int | None = None
        self._empty_ms: int | None = None  # as `vacant_ms`, and still after the shard was lost
        self.ended_well = False  # its last task: then it is measured how long the next one takes to start
        self.starts_ms: deque[int] = deque(maxlen=_STARTS)
        self.bye_at: float | None = None
        self.strikes = (0, 0)  # at which SN, how many
        #: What workers were doing when they died, and no worker has done since.
        self.deaths: dict[Doing, Death] = {}
        self.last_done_by: Worker | None = None
        self.lives_in: Worker | None = None  # the process that should have its state
        self.faults: dict[int, QueryFault] = {}
        self.figures = ShardFigures()

    # ---- its seat

    def seat_at(self, seat: SeatConnection, position: int, now_ms: int) -> None:
        self.seat, self.latest, self.attempt, self.lives_in = seat, seat, seat.attempt, seat.worker
        seat.limit = position if self.on_spark else None
        if self.ended_well and self._empty_ms is not None:
            self.starts_ms.append(now_ms - self._empty_ms)
        self.vacant_ms, self._empty_ms, self.ended_well = None, None, False
        self.faults = {}

    def vacate(self, now_ms: int) -> None:
        if self.vacant_ms is None:
            self.vacant_ms = now_ms
        if self._empty_ms is None:
            self._empty_ms = now_ms

    def of_new_driver(self) -> None:
        self.vacant_ms, self._empty_ms, self.ended_well = None, None, False
        self.bye_at, self.strikes, self.lives_in = None, (0, 0), None

    def follows(self, before: ShardOnSpark) -> None:
        """It is the same shard in another plan."""
        self.figures, self.lives_in = before.figures, before.lives_in
        self.ended_well, self.starts_ms = before.ended_well, before.starts_ms

    def grace_ms(self, least_ms: int) -> int:
        """How long its seat may be empty before its queries run inline: twice as long as the slowest of the last tasks
        took to start. On a busy machine to wait costs less than to build the state once more, or, after a death, than
        to try queries in a process of their own."""
        return max(least_ms, min(_GRACE_MS_MAX, 2 * max(self.starts_ms, default=0)))

    def vacant_for_ms(self, now_ms: int, head: int) -> int:
        """How long its seat has been empty while there was work."""
        return now_ms - self.vacant_ms if self.vacant_ms is not None and head > self.done else 0

    def under_way_ms(self, now_ms: int) -> int:
        seat = self.seat
        if seat is None or not seat.ready or seat.sent_head <= seat.done or not seat.is_read:
            return 0
        return now_ms - seat.stepping_since_ms

    # ---- ringing

    def ring(self, head: int, merged: int, now_ms: int, has_room: Callable[[], bool], lag_ms: int = 0) -> None:
        seat = self.seat
        if seat is None or not seat.ready or seat.ended:
            return
        head = min(head, merged + HEADS_AHEAD_MAX)
        if seat.limit is not None:
            head = min(head, seat.limit)
        if head > seat.sent_head:
            self.send_head(seat, head, now_ms, lag_ms)
        has_time = seat.sent_head <= seat.done or self.share.is_due
        may_go_on = self.on_spark and seat.behind_handed_over and not seat.is_catching_up and has_time
        if may_go_on and seat.behind and seat.more and has_room():
            self.let_catch_up(seat, {}, now_ms)

    def send_head(self, seat: SeatConnection, head: int, now_ms: int, lag_ms: int = 0) -> None:
        """`lag_ms`: how long pushes have waited."""
        if not seat.owes:
            seat.alive_ms = seat.stepping_since_ms = now_ms
        seat.sent_head = head
        seat.rung[head] = time.perf_counter()
        seat.send(wire.Head(head, lag_ms))

    def let_catch_up(self, seat: SeatConnection, states: Mapping[int, msgspec.Raw], now_ms: int) -> None:
        if not seat.owes:
            seat.alive_ms = now_ms
        seat.is_catching_up, seat.snapshots_waited = True, seat.sent_head > seat.done
        seat.send(wire.CatchUp(dict(states)))

    def end(self, seat: SeatConnection, sn: int, now_ms: int) -> None:
        if not seat.owes:
            seat.alive_ms = now_ms
        seat.ended = True
        seat.send(wire.End(sn))

    # ---- what its seat reports

    def is_done(self, seat: SeatConnection, sn: int, took_ms: float, now: float, now_ms: int) -> None:
        seat.done = self.done = sn
        self.share.stepped(took_ms)
        seat.stepping_since_ms = now_ms
        self.last_done_by = seat.worker
        done: tuple[Doing, ...] = ("step", "build")
        for doing in done:
            if (death := self.deaths.get(doing)) is not None and death.sn <= sn:
                del self.deaths[doing]
        seat.more = self.more = bool(seat.behind)
        self.figures.steps += 1
        if (rung := seat.rung.pop(sn, None)) is not None:
            self.figures.round_trip_ms.append((now - rung) * 1000)

    def piece_is_done(self, seat: SeatConnection, more: bool, took_ms: float, place: int) -> None:
        seat.is_catching_up, seat.more, self.more = False, more, more
        if seat.snapshots_waited:
            self.share.stepped_behind(took_ms)
        if not seat.behind:
            self.deaths.pop("catch up", None)
            if self.strikes[0] == place:
                self.strikes = (0, 0)

    def has_queries_already(self, worker: Worker) -> bool:
        """Whether this worker process has the queries now, and was the last one to step them."""
        return self.on_spark and worker == self.last_done_by

    def core_share(self, now_ms: int) -> float:
        """The part of a core that its worker uses now."""
        seat, figures = self.seat, self.figures
        steps = seat is not None and seat.sent_head > seat.done
        is_recent = self.lives_in is not None and now_ms - figures.reported_ms <= _LOAD_IS_OLD_MS
        return round(figures.core_share, 4) if steps or is_recent else 0.0

    def status(self, head: int, now_ms: int) -> dict[str, object]:
        worker = self.lives_in
        return {
            "shard": self.number,
            "runner": "spark" if self.on_spark else "inline",
            "why": "" if self.on_spark else self.why,
            "host": worker.host if worker is not None else None,
            "pid": worker.pid if worker is not None else None,
            "done": self.done,
            "lag": max(0, head - self.done),
            "steps": self.figures.steps,
            "builds": self.figures.builds,
            "lost": self.figures.lost,
            "core_share": self.core_share(now_ms),
        }
