"""The keeper: a thread that ends epochs, checks that the seats answer, and gives up waiting for a task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from stream_ext.clock import Clock
from stream_ext.runners.spark.door import Door
from stream_ext.runners.spark.seat_connection import SeatConnection
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.shard_on_spark import ShardOnSpark

if TYPE_CHECKING:
    from stream_ext.runners.spark.shards_of_bell import ShardsOfBell

#: How often the keeper checks a seat that has work for signs of life.
_LOOK_MS = 500
#: A silence of this length is reported; together with the check, within two seconds.
_SILENCE_MS = 1_250


class Keeper:
    def __init__(
        self,
        bell: ShardsOfBell,
        door: Door,
        settings: SparkSettings,
        clock: Clock,
        lock: threading.Lock,
        on_silence: Callable[[str], None],
    ) -> None:
        self._bell, self._door, self._settings = bell, door, settings
        self._clock, self._on_silence, self._lock = clock, on_silence, lock
        self._silence = ""
        self._thread = threading.Thread(target=self._keep, name="rillet-bell-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        if self._thread.is_alive():
            self._thread.join(2)

    def _keep(self) -> None:
        bell = self._bell
        while True:
            with self._lock:
                if bell.is_closed:
                    return
                now = self._clock.now_ms()
                self._door.close_late(now)
                if bell.epochs.end_ms is not None and bell.epochs.end_ms <= now:
                    bell.epochs.is_short_of_seats(False)
                    bell.end_epoch(now)
                elif self._lacks_seats(now):
                    bell.epochs.is_short_of_seats(True)
                    bell.end_epoch(now)
                silences = [(shard, self._silent_ms(shard, now)) for shard in bell.shards]
                silence = next(filter(None, (self._silence_of(shard, ms) for shard, ms in silences)), "")
                changed, self._silence = silence != self._silence, silence
                hung = [
                    (shard, shard.seat, ms)
                    for shard, ms in silences
                    if shard.seat is not None and ms >= self._limit_ms(shard, shard.seat)
                ]
                lost = [
                    shard
                    for shard in bell.shards
                    if shard.vacant_ms is not None and shard.vacant_ms + bell.grace_ms_of(shard) <= now
                ]
                late = bell.start_by_ms is not None and bell.start_by_ms <= now
                if not (lost or late or hung or changed or bell.is_plan_new):
                    self._clock.wait(bell.limits, self._next_ms(now))
                    continue
            if bell.is_plan_new:
                bell.follow_plan_of_merge()
            if changed:
                self._on_silence(silence)
            for shard, seat, silent_ms in hung:
                bell.hung(shard, seat, silent_ms)
            if late and not hung:
                bell.started_too_late()
            elif not hung:
                for shard in lost:
                    bell.lose_if_still_vacant(shard)

    def _silent_ms(self, shard: ShardOnSpark, now: int) -> int:
        return shard.vacant_for_ms(now, self._bell.head) if shard.seat is None else shard.seat.silent_ms(now)

    def _silence_of(self, shard: ShardOnSpark, silent_ms: int) -> str:
        """The text to report about a silence; empty: nothing."""
        if not shard.on_spark or silent_ms < self._silence_ms:
            return ""
        seat, whose = shard.seat, "" if len(self._bell.shards) == 1 else f" of shard {shard.number}"
        if seat is None:
            grace_s = self._bell.grace_ms_of(shard) / 1000
            return f"Spark starts no task{whose}; after {grace_s:g} s the queries run inline"
        return (
            f"the Python worker{whose} does not answer: it {seat.doing()}, and is killed after "
            f"{self._timeout_ms / 1000:g} s"
        )

    def _lacks_seats(self, now: int) -> bool:
        """Whether some seats of the epoch were taken long ago, and one was not."""
        by_ms = self._bell.epochs.seats_by_ms(len(self._bell.shards))
        return by_ms is not None and by_ms <= now

    def _limit_ms(self, shard: ShardOnSpark, seat: SeatConnection) -> int:
        """The time after which a seat counts as hung. While the inline runner has the queries, building a state may
        take long."""
        return self._timeout_ms if shard.on_spark or seat.ready else int(self._settings.start_s * 1000)

    @property
    def _silence_ms(self) -> int:
        return min(_SILENCE_MS, self._timeout_ms // 2)

    @property
    def _timeout_ms(self) -> int:
        return int(self._settings.step_timeout_s * 1000)

    def _next_ms(self, now: int) -> int | None:
        bell = self._bell
        limits = [bell.start_by_ms, self._door.next_ms(), bell.epochs.end_ms]
        limits.append(bell.epochs.seats_by_ms(len(bell.shards)))
        for shard in bell.shards:
            if shard.seat is not None:
                limits.append(now + min(_LOOK_MS, self._timeout_ms // 4))
            if shard.vacant_ms is not None:
                limits.append(shard.vacant_ms + bell.grace_ms_of(shard))
                if bell.head > shard.done:
                    limits.append(shard.vacant_ms + self._silence_ms)
        return min((limit for limit in limits if limit is not None and limit > now), default=None)
