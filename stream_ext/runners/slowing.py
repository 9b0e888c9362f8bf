"""Slowing: while pushes wait, what takes too much of the evaluation time of a shard is evaluated beside its others.

Which queries these are says `stream_ext/continuous/catching_up/fair_share.py`, and how they go on
`queries_behind.py` there. The inline runner and the seats of Spark do the same, each for its own shard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stream_ext.continuous.catching_up.fair_share import FairShare, ShareLimit
from stream_ext.continuous.run import Run
from stream_ext.continuous.shard import Shard

log = logging.getLogger("rillet.queries")


@dataclass(frozen=True, slots=True)
class PushLag:
    """For how long pushes wait now, and what one network may take of the time meanwhile."""

    lag_ms: Callable[[], int] = lambda: 0
    share: ShareLimit = ShareLimit()  # noqa: RUF009  it never changes


#: No push waits, so nothing is slowed.
NO_LAG = PushLag()


class Slowing:
    """Of one shard, as long as that is not built anew."""

    def __init__(self, shard: Shard, limit: ShareLimit) -> None:
        self._shard, self._fair = shard, FairShare(limit)

    def spent(self, query_ms: Mapping[int, float], now_ms: int) -> None:
        """CPU milliseconds by the first query of each network."""
        self._fair.spent(self._shard.runs.own_ms(query_ms), now_ms)

    def look(self, lag_ms: int, now_ms: int) -> None:
        """Between two steps; `lag_ms`: how long pushes have waited. What takes too much of the time is stepped beside
        the others from now on, and later with them again."""
        shard, fair = self._shard, self._fair
        for number, numbers in shard.all_behind.slowed.items():
            if fair.may_return(numbers, lag_ms, now_ms):
                shard.all_behind.release(number)
        runs = self._whole_runs() if lag_ms > fair.limit.wait_ms else {}
        found = fair.exceeding(lag_ms, {number: len(run.numbers) for number, run in runs.items()}, now_ms)
        if found is None:
            return
        number, part = found
        fair.forget_all_but(shard.catalog.queries)
        why = (
            f"its evaluations took {part:.0%} of the time of all queries while pushes waited for {lag_ms / 1000:g} s "
            f"(--query-share {fair.limit.share:.0%}); it is evaluated when the others are, and by turns, until pushes "
            "wait no more; a shorter window, a longer STEP or a more selective pattern makes it cheaper"
        )
        log.warning("a query was slowed", extra={"fields": {"queries": runs[number].numbers[:10], "why": why}})
        shard.all_behind.slow(runs[number], why)

    def _whole_runs(self) -> dict[int, Run]:
        """Of a divided query nothing is slowed: it would end the division, and then there is more to do."""
        return {number: run for number, run in self._shard.runs.by_first_query.items() if run.plan.keys is None}
