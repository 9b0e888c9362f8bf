"""Plans: which plan the merge follows, and which one would be better.

    a template is heavy, and can be divided        the next plan divides it: each shard has a range of its keys
    the parts of its ranges cannot be united       it is whole, at once, and for some minutes
    a shard was late with its range                it is whole until it has caught up, and for half a minute

The unit of load is a millisecond of CPU time, of a template."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.clock import Clock
from stream_ext.emissions.accounts import Accounts
from stream_ext.emissions.hand_over import HandOver
from stream_ext.emissions.merged_progress import Queries
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.progress import Progress
from stream_ext.emissions.range_rows import CannotUnite
from stream_ext.emissions.sent_parts import SentParts
from stream_ext.emissions.uniting import SumsRanges

log = logging.getLogger("rillet.spark")

#: A template is divided if it takes so much of a core, and more than its share of all; one that is divided stays so
#: while it takes a quarter of that.
_HEAVY_SHARE = 0.15
_STAYS = 0.25
#: A template whose ranges could not be united is whole for so long; each time that it happens again, twice as long.
_WHOLE_MS = 300_000
_DOUBLED_MAX = 6
#: One that was late: nothing is wrong with its ranges, and a long snapshot may not come again. But each change makes
#: all shards begin anew, so it is twice as long each time, too, up to the time of the others.
_LATE_MS = 30_000
_LATE_DOUBLED_MAX = 4


class _Whole(NamedTuple):
    """A template is whole up to `until_ms`. `times`: how often it was made so, and was not forgotten since."""

    until_ms: int
    times: int
    why: str
    is_late: bool

    @classmethod
    def after(cls, before: _Whole | None, now_ms: int, why: str, is_late: bool) -> _Whole:
        times = 0 if before is None else before.times
        for_ms = _LATE_MS << min(times, _LATE_DOUBLED_MAX) if is_late else _WHOLE_MS << min(times, _DOUBLED_MAX)
        if before is not None and before.is_late and not is_late:
            for_ms, times = _WHOLE_MS, 0
        return cls(now_ms + min(for_ms, _WHOLE_MS << _DOUBLED_MAX), times + 1, why, is_late)

    def is_remembered(self, now_ms: int) -> bool:
        """Whether it is still counted if it happens again."""
        return self.until_ms + (_WHOLE_MS << (1 if self.is_late else _DOUBLED_MAX)) > now_ms


_NEVER = _Whole(0, 0, "", False)


class Plans(HandOver):
    """Under the lock, except where it says so."""

    def __init__(
        self,
        position: int,
        progress: Progress,
        queries: Queries,
        plan: ShardPlan,
        clock: Clock,
        may_divide: Callable[[QueryDefinition], bool],
        sum_ranges: SumsRanges,
    ) -> None:
        """`may_divide`: whether a query can be divided. `sum_ranges`: how rows of ranges become a result."""
        super().__init__(position, progress, queries, plan, sum_ranges)
        self._clock, self._may_divide = clock, may_divide
        self.accounts = Accounts(queries)
        #: Called when there is another plan that nobody has set.
        self.on_plan: Callable[[], None] = lambda: None
        self._measured_ms = clock.now_ms()  # since when the loads are those of the next plan
        self._whole: dict[int, _Whole] = {}  # by placement number

    # ---- which plan is better: without the lock

    def balanced(self) -> ShardPlan:
        """The plan that spreads the measured load of the queries better, whoever evaluated them; the present one if
        there is little to gain."""
        now_ms = self._clock.now_ms()
        loads = self.accounts.recent(self._placements())
        passed_ms, self._measured_ms = max(1, now_ms - self._measured_ms), now_ms
        return self._plan.balanced(loads, divided=self._divided(loads, passed_ms, now_ms))

    def evenly(self) -> ShardPlan:
        """The plan that spreads the templates, each counting as much as any other."""
        return self._plan.balanced(dict.fromkeys(self._placements(), 1.0), is_free=True)

    def queries_of(self, shard: int) -> list[int]:
        """The queries that this shard evaluates."""
        plan = self._plan
        return [each.number for each in self._queries().values() if each.is_evaluated and plan.assigns(shard, each)]

    def why_whole(self, query: QueryDefinition) -> str:
        """Why a query is not divided for some time; empty: for no such reason."""
        whole = self._whole.get(query.placement or query.number, _NEVER)
        return whole.why if whole.until_ms > self._clock.now_ms() else ""

    def _placements(self) -> set[int]:
        """Of all queries that may run on Spark."""
        queries = self._queries().values()
        return {each.placement or each.number for each in queries if each.is_evaluated and each.home is None}

    def _divided(self, loads: Mapping[int, float], passed_ms: int, now_ms: int) -> frozenset[int]:
        """The templates that the next plan divides: each is more than a shard's share of all."""
        shards, plan = self._plan.shards, self._plan
        if shards < 2:
            return frozenset()
        fair, heavy_ms = sum(loads.values()) / shards, _HEAVY_SHARE * passed_ms
        found = {each for each in plan.divided if loads.get(each, 0.0) > _STAYS * heavy_ms}
        heavy = {each for each, ms in loads.items() if ms > max(fair, heavy_ms) and self._whole_until(each) <= now_ms}
        if heavy - found:
            queries = self._queries().values()
            alike = {each.placement or each.number: each for each in queries if each.is_evaluated}
            # All queries of one may be gone or paused since the loads were read.
            found |= {each for each in heavy - found if each in alike and self._may_divide(alike[each])}
        return frozenset(found)

    def _whole_until(self, placement: int) -> int:
        return self._whole.get(placement, _NEVER).until_ms

    # ---- another plan

    def _take_plan(self, plan: ShardPlan) -> bool:
        """Whether Spark has lost shards, or the inline runner begins anew. A query that is behind is not divided."""
        if behind := self._divided_behind(plan):
            plan = ShardPlan(plan.number, plan.weights, plan.divided - behind)
        had_some, had_all = self._sent.any_on_spark, self._sent.all_on_spark
        # A query that was moved to the inline runner is evaluated there from the snapshot before, as it was then: if it
        # was divided, nothing that was sent of it counts, or no plan could unite it.
        is_kept = had_all and plan.divided == self._plan.divided
        inline = self._sent.inline if is_kept else None
        self._plan, self._sent = plan, SentParts(plan.shards, had_all, self._sum_ranges)
        self._sent.inline = inline
        return had_some and not is_kept

    def _be_whole_if_behind(self) -> bool:
        """Before Spark gets queries: those that are behind are whole. Whether there is another plan."""
        placements = self._divided_behind(self._plan)
        if placements:
            self._begin_whole(placements, "the query was behind the others", is_late=True)
        return bool(placements)

    def _be_whole(self) -> bool:
        """If a divided query cannot be united: it is whole from now on. What waits is discarded, and every shard begins
        anew at `position`. Whether there is another plan."""
        error, self._sent.cannot_unite = self._sent.cannot_unite, None
        if error is not None:
            self._begin_whole(self._placements_of(error), str(error), error.is_late)
        return error is not None

    def _begin_whole(self, placements: frozenset[int], why: str, is_late: bool) -> None:
        now_ms = self._clock.now_ms()
        self._whole = {each: whole for each, whole in self._whole.items() if whole.is_remembered(now_ms)}
        for placement in placements:
            self._whole[placement] = _Whole.after(self._whole.get(placement), now_ms, why, is_late)
        log.warning("templates are not divided any more", extra={"fields": {"number": len(placements), "why": why}})
        self._take_plan(self._plan.without(placements))

    def _placements_of(self, error: CannotUnite) -> frozenset[int]:
        queries = self._queries()
        there = [queries[number] for number in error.numbers if number in queries]
        # If they were dropped meanwhile, it is not known any more what was divided.
        return frozenset(each.placement or each.number for each in there) or self._plan.divided

    def _divided_behind(self, plan: ShardPlan) -> frozenset[int]:
        """The templates of which a query is behind, of those that the plan divides."""
        if not plan.divided:
            return frozenset()
        queries, waiting = self._queries(), (number for number, _ in self._progress.waiting())
        there = [queries[number] for number in {*self._progress.catching_up(), *waiting} if number in queries]
        return frozenset(each.placement or each.number for each in there if plan.divides(each))
