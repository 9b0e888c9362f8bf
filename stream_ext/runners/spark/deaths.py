"""Deaths of workers: which queries a worker was stepping, how often that happened, and which are put in quarantine.

After the first death another worker tries the same; after the second the queries that were being stepped are put in
quarantine, and the others continue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from stream_ext.emissions.merge import Merge
from stream_ext.runners.quarantine import Death, Quarantine
from stream_ext.runners.spark.seat_connection import SeatConnection
from stream_ext.runners.spark.shard_on_spark import ShardOnSpark
from stream_ext.runners.underway import Stepping

log = logging.getLogger("rillet.spark")

#: After so many deaths of a seat at the same SN Spark is stopped.
_STRIKES_MAX = 3
#: The place of a death while catching up, whatever the snapshot of the other queries, which continue after each death.
CATCHING_UP = -1


class Deaths:
    """Methods are called under the bell's `_turn`; `lock` is the bell's other lock."""

    def __init__(
        self, lock: threading.Lock, merge: Merge, quarantine: Quarantine, on_give_up: Callable[[str], None]
    ) -> None:
        self._lock, self._merge, self._quarantine, self._on_give_up = lock, merge, quarantine, on_give_up

    def died(
        self, shard: ShardOnSpark, seat: SeatConnection, why: str, stepping: Stepping | None, head: int, hung: bool
    ) -> bool:
        """A worker has ended, or was ended, with work to do. Returns whether its shard is lost now."""
        count = self.strike(shard, seat, why, CATCHING_UP if seat.died_doing(stepping) == "catch up" else seat.done)
        fields = {
            "why": why,
            "worker": seat.worker.pid,
            "shard": shard.number,
            "snapshot": seat.done + 1,
            "times": count,
        }
        log.warning("a worker of Spark was killed" if hung else "a worker of Spark died", extra={"fields": fields})
        self.note(shard, seat, stepping, count, why, head)
        if not (hung or count > 1) and not shard.on_spark:
            self.hold_suspects(shard)  # the server's own process steps them now, and may not have reached this yet
        return hung or count > 1

    def note(
        self, shard: ShardOnSpark, seat: SeatConnection, stepping: Stepping | None, count: int, why: str, head: int
    ) -> None:
        """Records a death, so that its queries are suspended before the server's own process would step them."""
        if stepping is None:
            return
        doing = seat.died_doing(stepping)
        # The trial steps up to this snapshot, so it must have been published.
        sn = stepping.sn if doing == "catch up" else min(max(stepping.sn, seat.done + 1), head)
        numbers = stepping.numbers
        with self._lock:
            before = shard.deaths.get(doing)
            if before is not None:  # another worker may have died of another query
                numbers = _united(before.numbers, numbers)
                sn, count = max(sn, before.sn), max(count, before.count)
            shard.deaths[doing] = Death(sn, numbers, count, why, self._suspects(shard, numbers))

    def _suspects(self, shard: ShardOnSpark, numbers: Sequence[int] | None) -> tuple[int, ...] | None:
        """If it is not known which queries were stepped: those of the shard; None: all."""
        several = numbers is None and self._merge.plan.shards > 1
        return tuple(self._merge.queries_of(shard.number)) if several else None

    def hold_suspects(self, shard: ShardOnSpark) -> None:
        """Puts the queries of the recorded deaths in quarantine, unless these steps are done meanwhile."""
        for death in self._taken([shard]):
            self._quarantine.hold(death)

    def hold_suspects_of_driver(self, shards: Sequence[ShardOnSpark]) -> None:
        """The same when the driver has ended: whatever workers died of before or with it is one death, and so one
        trial. Mostly no query is at fault."""
        if deaths := self._taken(shards):
            self._quarantine.hold(_one_of(deaths))

    def _taken(self, shards: Sequence[ShardOnSpark]) -> list[Death]:
        with self._lock:
            noted = [each for shard in shards for each in shard.deaths.items()]
            for shard in shards:
                shard.deaths = {}
        return [death for doing, death in noted if doing != "step" or death.sn > self._merge.position]

    def strike(self, shard: ShardOnSpark, seat: SeatConnection, why: str, place: int) -> int:
        """Counts a failed step or build, and returns the count. Spark tries again, later each time, and is stopped at
        the third failure."""
        with self._lock:
            seat.bye = True  # it is counted here, not again when the connection closes
            at, count = shard.strikes
            count = count + 1 if at == place else 1
            shard.strikes = (place, count)
        if count >= _STRIKES_MAX:
            self._on_give_up(f"{count} attempts failed at SN {seat.done + 1}: {why}")
        return count


def _one_of(deaths: Sequence[Death]) -> Death:
    numbers, suspects = deaths[0].numbers, deaths[0].suspects
    for each in deaths[1:]:
        numbers, suspects = _united(numbers, each.numbers), _united(suspects, each.suspects)
    sn, count = max(each.sn for each in deaths), min(each.count for each in deaths)
    return replace(deaths[0], sn=sn, numbers=numbers, count=count, among=suspects if numbers is None else None)


def _united(some: tuple[int, ...] | None, others: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """None: all of them."""
    return None if some is None or others is None else tuple(dict.fromkeys((*some, *others)))
