"""The shards as the bell has them: who has a seat, who hands queries over, and what is done when a seat is lost.

Two locks. `_turn` puts attempts, takes and losses in one order; the merge is only called under it. `_lock` guards the
messages to the seats; nothing blocks under it, so the publishing thread may send a head at any time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from stream_ext.clock import Clock
from stream_ext.continuous.faults import QueryFault
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.placement import ShardPlan
from stream_ext.errors import DeadlineExceeded
from stream_ext.runners.quarantine import Quarantine
from stream_ext.runners.slowing import PushLag
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.deaths import Deaths
from stream_ext.runners.spark.epochs import Epochs
from stream_ext.runners.spark.seat_connection import SeatConnection, Worker
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.shard_on_spark import ShardOnSpark

#: How long a seat that ends normally may take for its last messages when its successor has connected.
LAST_WORDS_S = 0.25
#: After the loss of a seat, the next task must start within so many times the limit of a step.
_STARTS_WITHIN = 3
#: The time for that is doubled so often at most.
_LATE_STARTS_MAX = 3


class ShardsOfBell:
    def __init__(
        self,
        settings: SparkSettings,
        merge: Merge,
        clock: Clock,
        quarantine: Quarantine,
        on_up: Callable[[], None],
        on_lost: Callable[[str], None],
        on_give_up: Callable[[str], None],
        kill: Callable[[Worker], None],
        has_room: Callable[[], bool],
        push_lag: PushLag,
    ) -> None:
        self._settings, self._merge, self._clock, self._quarantine = settings, merge, clock, quarantine
        self._on_up, self._on_lost, self._on_give_up = on_up, on_lost, on_give_up
        self._kill, self._has_room, self._push_lag = kill, has_room, push_lag
        self._codec = wire.Codec(settings.shard_factory)
        self.killed = 0
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        #: A time limit has changed.
        self.limits = threading.Condition(self._lock)
        self._planning = threading.Condition(self._lock)  # the planner of micro-batches may have work
        self._followed, merge.on_plan = merge.plan.number, self.plan_changed
        self._head = self._merged = int(merge.position)
        self.shards = [ShardOnSpark(number, self._head) for number in range(merge.plan.shards)]
        self.epochs = Epochs(settings)
        self._deaths = Deaths(self._lock, merge, quarantine, on_give_up)
        self._start_by_ms: int | None = None
        self._late_starts = 0  # drivers in a row that started a task too late, and had not got all shards
        self._folder = Path()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def head(self) -> int:
        return self._head

    @property
    def start_by_ms(self) -> int | None:
        """By when a task must have started."""
        return self._start_by_ms

    @property
    def faults(self) -> dict[int, QueryFault]:
        """Queries that cannot be stepped, and why."""
        return {query: fault for shard in self.shards for query, fault in shard.faults.items()}

    def under_way_ms(self) -> int:
        """How long a seat has been stepping a snapshot, the longest; 0: none is stepping."""
        with self._lock:
            now = self._clock.now_ms()
            return max(shard.under_way_ms(now) for shard in self.shards)

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
            now = self._clock.now_ms()
            return [shard.status(self._head, now) for shard in self.shards]

    @property
    def is_plan_new(self) -> bool:
        """Whether the merge has another plan than the shards here."""
        return self._merge.plan.number != self._followed

    def plan_changed(self) -> None:
        """The merge has another plan by itself: the keeper follows. Called by any thread that has not `_lock`."""
        with self._lock:
            self.limits.notify_all()

    def follow_plan_of_merge(self) -> None:
        with self._turn:
            self._follow_plan_of_merge()

    def _follow_plan_of_merge(self) -> None:
        """If the merge has another plan, all seats are emptied, and Spark begins an epoch with that. Under `_turn`."""
        if not self.is_plan_new:
            return
        with self._lock:
            seats = [shard.seat for shard in self.shards if shard.seat is not None]
            self.epochs.next_plan = None
            for shard in self.shards:
                shard.seat = None  # so that no death is counted
        for seat in seats:
            seat.drop()
        self._follow_shards()
        if not any(shard.on_spark for shard in self.shards):
            self._on_lost("a query is not divided among the shards any more")

    def _follow(self, plan: ShardPlan) -> None:
        self._merge.follow_plan(plan)
        self._follow_shards()

    def _follow_shards(self) -> None:
        """The shards of the plan that the merge has now."""
        plan = self._merge.plan
        with self._lock:
            self._followed = plan.number
            before, now = self.shards, self._clock.now_ms()
            self.shards = [ShardOnSpark(number, int(self._merge.position)) for number in range(plan.shards)]
            for shard in self.shards:
                shard.on_spark = self._merge.is_on_spark(shard.number)
                shard.vacate(now)
                if shard.number < len(before):
                    shard.follows(before[shard.number])
            for gone in before[plan.shards :]:
                self._merge.accounts.measured({}, gone.number)

    def _follow_first_plan(self) -> None:
        """A driver's first epoch begins. If the loads were never measured on Spark, the templates are divided evenly:
        no shard has a state yet, and in what the server's process has measured, costs of a first time weigh most. Under
        `_turn`."""
        if len(self.shards) > 1 and self._merge.plan.number == 1 and not any(shard.on_spark for shard in self.shards):
            plan = self._merge.evenly()
            if plan.number != self._merge.plan.number:
                self._follow(plan)

    # ---- handing queries over: under `_turn` -----------------------------------------------------------------

    def _check_seat(self, shard: ShardOnSpark, seat: SeatConnection) -> None:
        self._follow_plan_of_merge()
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
            with self._lock:
                self._late_starts = 0
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
            self._merge.wait(sn, LAST_WORDS_S)
        return True

    def _hand_behind_over(self, shard: ShardOnSpark, seat: SeatConnection) -> None:
        states = self._merge.states_behind(seat.behind)
        with self._lock:
            seat.behind_handed_over, seat.limit = True, None
            if states:
                shard.let_catch_up(seat, self._codec.encode_states(states), self._clock.now_ms())

    # ---- ringing: under `_lock` -------------------------------------------------------------------------------

    def _ring(self) -> None:
        now, lag_ms = self._clock.now_ms(), self._push_lag.lag_ms()
        for shard in self.shards:
            shard.ring(self._head, self._merged, now, self._has_room, lag_ms)

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
            plan = self._merge.balanced()
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
            seat.close()

    def _empty(self, shard: ShardOnSpark, seat: SeatConnection) -> None:
        """Empties the seat, and counts its death if it had work, before another task may take the seat. Under
        `_turn`."""
        with self._lock:
            shard.seat, shard.ended_well = None, seat.bye
            if seat.bye:
                shard.bye_at = time.perf_counter()
            else:
                shard.lives_in = None
            if self._settings.epoch_s > 0 or not seat.bye:
                shard.vacate(self._clock.now_ms())
                self.limits.notify_all()
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
                # The driver that must start the next task may hang, too. Nobody waits for one that has no queries yet.
                soon_s = _STARTS_WITHIN * self._settings.step_timeout_s
                self._await_start(soon_s if was_ours else max(soon_s, self._settings.start_s))
        self._deaths.hold_suspects(shard)  # before the server's own process would step them
        self._merge.accounts.measured({}, shard.number)
        if number or was_ours:
            self._merge.lost(Runner.SPARK, number, shard.number)
        if was_ours:
            self._on_lost(why if len(self.shards) == 1 else f"shard {shard.number} runs inline: {why}")

    # ---- called by the keeper -----------------------------------------------------------------------------------

    def started_too_late(self) -> None:
        with self._lock:
            self._start_by_ms = None
            self._late_starts += 1
        self._on_give_up("Spark started no task in time")

    def _await_start(self, within_s: float) -> None:
        """A task must start within this time, or in twice the time after each driver in a row that was late before it
        had all shards: on a busy machine it would never start if it was always killed too early. Under `_lock`."""
        times = 1 << min(self._late_starts, _LATE_STARTS_MAX)
        self._start_by_ms = self._clock.now_ms() + int(within_s * 1000 * times)
        self.limits.notify_all()

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
                grace_ms = self.grace_ms_of(shard)
                due = shard.vacant_ms is not None and shard.vacant_ms + grace_ms <= self._clock.now_ms()
            if due:
                self._lose(shard, f"Spark started no task within {grace_ms / 1000:g} s")

    def grace_ms_of(self, shard: ShardOnSpark) -> int:
        return shard.grace_ms(int(self._settings.grace * 1000))
