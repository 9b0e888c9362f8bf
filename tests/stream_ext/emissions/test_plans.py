"""Which templates are divided: those that are heavy and can be; not soon again if they could not be united."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.clock import ManualClock
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.placement import ShardPlan
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import LastEvaluation, QueryState
from tests.stream_ext.emissions.test_merge import QUERIES, Log, new_merge, texts_of

_EPOCH_MS = 30_000


def merge_of(clock: ManualClock, able: Callable[[QueryDefinition], bool], shards: int = 2) -> Merge:
    return new_merge(Log(), clock, plan=ShardPlan.of(shards), may_divide=able)


def after_epoch(merge: Merge, clock: ManualClock, query_ms: dict[int, float]) -> ShardPlan:
    clock.advance(_EPOCH_MS)
    merge.accounts.add(query_ms)
    return merge.balanced()


def test_what_is_more_than_the_share_of_a_shard_is_divided() -> None:
    clock = ManualClock()
    merge = merge_of(clock, lambda query: True)
    assert after_epoch(merge, clock, {1: 20_000, 2: 3_000, 3: 3_000}).divided == {1}
    assert after_epoch(merge_of(clock, lambda query: True, shards=1), clock, {1: 20_000}).divided == frozenset()
    spread = merge_of(clock, lambda query: True)
    assert after_epoch(spread, clock, {1: 9_000, 2: 9_000, 3: 9_000}).divided == frozenset(), "each fits into a shard"


def test_what_takes_little_of_a_core_is_whole_though_it_is_alone() -> None:
    clock = ManualClock()
    merge = merge_of(clock, lambda query: True)
    assert after_epoch(merge, clock, {1: 4_000}).divided == frozenset()
    assert after_epoch(merge, clock, {1: 5_000}).divided == {1}


def test_only_heavy_templates_are_looked_at_and_those_without_a_key_are_whole() -> None:
    clock, asked = ManualClock(), list[int]()

    def able(query: QueryDefinition) -> bool:
        asked.append(query.number)
        return False

    assert after_epoch(merge_of(clock, able), clock, {1: 20_000, 2: 100}).divided == frozenset()
    assert asked == [1]


def test_a_heavy_template_may_be_gone_while_a_plan_is_made() -> None:
    clock, queries = ManualClock(), [QUERIES]
    merge = Merge(
        Log(), clock, lambda: queries.pop() if len(queries) > 1 else queries[0], texts_of, count(1_000).__next__,
        plan=ShardPlan.of(2), may_divide=lambda query: True,
    )  # type: ignore[arg-type]  # fmt: skip
    clock.advance(_EPOCH_MS)
    merge.accounts.add({1: 20_000, 2: 3_000})
    queries[:] = [{number: query for number, query in QUERIES.items() if number != 1}, QUERIES]
    assert merge.balanced().divided == frozenset()


def test_a_plan_divides_evenly_and_counts_what_each_shard_has_of_it() -> None:
    plan = ShardPlan(1, (1.0, 1.0), frozenset({7}))
    measured = {7: 10.0, 8: 4.0, 9: 4.0}
    loads = plan.loads(measured)
    assert sum(loads) == 18.0 and min(loads) >= 5.0
    assert ShardPlan.of(2).balanced({7: 20.0, 8: 4.0}, divided=frozenset({7})).divided == {7}
    assert plan.without({7}) == ShardPlan(2, (1.0, 1.0))


def part(sn: int, rows: list[int], time: int | None = None) -> Part:
    time = sn * 10 if time is None else time
    state = QueryState(1, LastEvaluation(sn, 0, 0, time), sn=sn)
    found = Part.of_one(1, sn, 0, time, [], [np.array(rows, np.uint64)], None, 0, None, state, True)
    found.is_range = True
    return found


def test_what_cannot_be_united_is_whole_at_once_and_for_some_minutes() -> None:
    clock, told = ManualClock(), list[int]()
    merge = merge_of(clock, lambda query: True)
    merge.on_plan = lambda: told.append(merge.plan.number)
    merge.follow_plan(ShardPlan(2, (1.0, 1.0), frozenset({1})))
    attempts = [merge.attempt(Runner.SPARK, shard)[0] for shard in range(2)]
    for shard, attempt in enumerate(attempts):
        merge.caught_up(Runner.SPARK, attempt, 0, {}, shard)
    assert merge.owner == Runner.SPARK

    merge.take(Runner.SPARK, 1, [part(1, [5, 9])], 0)
    merge.take(Runner.SPARK, 1, [part(1, [6, 7])], 1)
    assert merge.position == 1 and merge.rows(1) == 4

    merge.take(Runner.SPARK, 2, [part(2, [5])], 0)
    merge.take(Runner.SPARK, 2, [part(2, [6], time=21)], 1)
    assert merge.position == 1 and merge.plan == ShardPlan(3, (1.0, 1.0)) and told == [3]
    assert "differ in more than their rows" in merge.why_whole(merge._queries()[1])
    merge.take(Runner.SPARK, 2, [part(2, [5])], 0)  # of the attempt before: it does not count any more
    assert merge.position == 1

    assert after_epoch(merge, clock, {1: 20_000}).divided == frozenset(), "not so soon again"
    clock.advance(300_000)
    assert merge.why_whole(merge._queries()[1]) == ""
    assert after_epoch(merge, clock, {1: 200_000}).divided == {1}


def late(merge: Merge, sn: int) -> None:
    """One shard does not get through its range of this snapshot."""
    attempts = [merge.attempt(Runner.SPARK, shard)[0] for shard in range(2)]
    for shard, attempt in enumerate(attempts):
        merge.caught_up(Runner.SPARK, attempt, merge.position, {}, shard)
    behind = part(sn, [5])
    behind.state = behind.state.behind(sn - 1)
    merge.take(Runner.SPARK, sn, [behind], 0)
    merge.take(Runner.SPARK, sn, [part(sn, [6])], 1)


def test_what_was_late_once_is_divided_again_after_half_a_minute() -> None:
    """It is no fault of its ranges: whole it would only be later."""
    clock = ManualClock()
    merge = merge_of(clock, lambda query: True)
    for seconds in (30, 60, 120):
        merge.follow_plan(ShardPlan(merge.plan.number + 1, (1.0, 1.0), frozenset({1})))
        late(merge, 1)
        assert not merge.plan.divided and "fell behind" in merge.why_whole(merge._queries()[1])
        clock.advance(seconds * 1_000 - 1)
        assert merge.why_whole(merge._queries()[1])
        clock.advance(1)
        assert not merge.why_whole(merge._queries()[1]), seconds
    assert after_epoch(merge, clock, {1: 200_000}).divided == {1}


def test_who_was_late_long_ago_is_not_held_to_it() -> None:
    clock = ManualClock()
    merge = merge_of(clock, lambda query: True)
    for _ in range(2):
        merge.follow_plan(ShardPlan(merge.plan.number + 1, (1.0, 1.0), frozenset({1})))
        late(merge, 1)
        clock.advance(29_999)
        assert merge.why_whole(merge._queries()[1])
        clock.advance(1)
        assert not merge.why_whole(merge._queries()[1])
        clock.advance(1_000_000)


def test_a_range_that_differs_is_no_lateness() -> None:
    clock = ManualClock()
    merge = merge_of(clock, lambda query: True)
    merge.follow_plan(ShardPlan(2, (1.0, 1.0), frozenset({1})))
    late(merge, 1)
    clock.advance(30_000)
    merge.follow_plan(ShardPlan(merge.plan.number + 1, (1.0, 1.0), frozenset({1})))
    for shard in range(2):
        attempt = merge.attempt(Runner.SPARK, shard)[0]
        merge.caught_up(Runner.SPARK, attempt, merge.position, {}, shard)
    merge.take(Runner.SPARK, 1, [part(1, [5])], 0)
    merge.take(Runner.SPARK, 1, [part(1, [6], time=11)], 1)
    clock.advance(299_999)
    assert merge.why_whole(merge._queries()[1])
    clock.advance(1)
    assert not merge.why_whole(merge._queries()[1])


def test_a_query_that_is_behind_is_not_divided() -> None:
    merge = merge_of(ManualClock(), lambda query: True)
    merge._progress.by_itself(1, QueryState(1).behind(0), 0)
    merge.follow_plan(ShardPlan(2, (1.0, 1.0), frozenset({1, 2})))
    assert merge.plan.divided == {2}
