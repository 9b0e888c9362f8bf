"""However queries are divided among shards, and whatever dies, the merge emits what one shard makes it emit.

Shards, processes and merges are plain objects here; each seed is one story of what happens to them.

python -m tests.stream_ext.continuous.test_shards SEED"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import pytest

import hbase_store
from hbase_store import EmissionRow, Sn, Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.clock import ManualClock
from stream_ext.continuous.assignment import all_assigned, divides_none, grouped_query, may_divide
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.part_merger import InJson
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.subscriptions import Emissions
from stream_ext.network.combined_groups import GroupedQuery
from stream_ext.network.range_summation import RangeSummation
from tests.stream_ext.continuous.test_sharing import OF_TEMPLATES, Play, filled
from tests.stream_ext.emissions.test_merge import Died, Log
from tests.stream_ext.scene import PATTERNS

_AHEAD_MAX = 8


class LogOfGroups(Log):
    """Of queries whose emissions are partly records of groups."""

    def commit(self, emissions: Sequence[EmissionRow], states: dict[int, bytes | None], position: Sn) -> int:
        dies, self.dies = self.dies, None
        if dies == "before":
            raise Died
        self.rows |= {(row.query, row.number): row.body for row in emissions}
        for number, state in states.items():
            if state is None:
                self.retained.pop(number, None)
            else:
                self.retained[number] = state
        self.at = position
        if dies == "after":
            raise Died
        return 0

    def read(self, query: int, after: int, limit: int | None) -> list[EmissionRow]:
        return [EmissionRow(query, n, body) for (q, n), body in sorted(self.rows.items()) if q == query and n > after]

    def oldest(self, query: int) -> int:
        return min((number for q, number in self.rows if q == query), default=1)


@dataclass
class Process:
    """A worker of Spark: its shard outlives the task that it has."""

    shard: Shard
    plan: int = 0
    number: int = 0
    task: int = 0  # the number of its attempt; 0: it has no task


class Divided(Play):
    #: Whether queries are moved between the inline runner and Spark. Who is moved is not divided any more.
    moves = True

    def __init__(self, seed: int, store: Store, shards: int) -> None:
        super().__init__(seed, store, [*OF_TEMPLATES, *PATTERNS, ("SELECT ?a ?b", "?a :k ?b", 0)], cqels=False)
        self.numbers = count(1_000_000)
        self.one = self._merge(LogOfGroups(), ShardPlan())
        self.log = LogOfGroups()
        self.merge = self._merge(self.log, ShardPlan.of(shards))
        self.processes: list[Process] = []
        self.inline: tuple[Runner, Shard] | None = None
        self.some_inline: dict[int, bool] = {}  # whether a query was moved there, by snapshot
        self.did: Counter[str] = Counter()
        self.creating: set[int] = set()  # queries of which rows have terms that they created
        self.in_json: InJson = {}

    def _merge(self, log: LogOfGroups, plan: ShardPlan) -> Merge:
        log.at = log.at or int(self.store.head())
        return Merge(
            log, ManualClock(), lambda: self.registry.queries, self.store.terms, self.numbers.__next__, plan=plan,
            on_emissions=lambda rows, in_json: self.in_json.update(in_json),
            sum_ranges=RangeSummation(self.store.ids, self.store.terms, self._grouped),
        )  # fmt: skip

    def _grouped(self, number: int) -> GroupedQuery | None:
        return grouped_query(number, Catalog.read(self.store, int(self.store.head())))

    # ---- what is published: at once for the one shard

    def _change(self) -> None:
        registry, there, chosen = self.registry, sorted(self.registry.queries), self.chance.random()
        if self.moves and there and self.chance.random() < 0.08:
            query = registry.queries[self.chance.choice(there)]
            sn = registry.move(query.number, None if query.home else "inline", self.merge.left(query))
            self.did["moved"] += 1
        elif chosen < 0.7 or not there:
            sn = registry.register(filled(self.chance, self.chance.choice(self.scenes)).text)
        elif chosen < 0.8:
            sn = registry.drop(number := self.chance.choice(there))
            self.paused.discard(number)
            self.one.dropped(number)
            self.merge.dropped(number)
        elif self.paused and chosen < 0.92:
            number = self.chance.choice(sorted(self.paused))
            state = self.one.state(number)
            sn = registry.resume(number, None if state is None else state.t0)
            self.paused.discard(number)
        else:
            sn = registry.pause(number := self.chance.choice(there))
            self.paused.add(number)
        self._compare(sn)

    def _compare(self, sn: int) -> int:
        self.some_inline[sn] = any(query.home and query.is_evaluated for query in self.registry.queries.values())
        self.merge.publish(sn, self.some_inline[sn])
        parts = self.together.step(sn)
        self.creating.update(number for part in parts if part.created for number in part.queries.tolist())
        self.one.take(Runner.INLINE, sn, parts)
        assert not self.together.faults
        self.states = self.one.states()  # of its next restart
        for _ in range(self.chance.choice((0, 1, 3, 8))):
            self._act()
        while self.merge.position < sn - _AHEAD_MAX:
            self._act()
        return 0

    # ---- what happens to the shards

    def _act(self) -> None:
        weights = {
            "inline": 6, "step": 14, "hello": 3, "leave": 0.6, "kill": 0.25, "lose": 0.3, "plan": 0.15, "die": 0.1,
            "flush": 0.3,
        }  # fmt: skip
        (action,) = self.chance.choices(list(weights), list(weights.values()))
        self.did[action] += 1
        try:
            self._acted(action)
        except Died:
            self.merge = self._merge(self.log, self.merge.plan)
            for sn in range(self.merge.position, int(self.store.head()) + 1):
                self.merge.publish(sn, self.some_inline.get(sn, False))
            self.inline = None
            for process in self.processes:
                process.task = process.plan = 0

    def _acted(self, action: str) -> None:
        plan = self.merge.plan
        getattr(self, f"_{action}")()
        if self.merge.plan.number != plan.number and action != "plan":
            self.did["whole"] += 1  # by itself: what was divided could not be united
            self._leave()
        self.did["divided"] += bool(self.merge.plan.divided and self.merge.owner == Runner.SPARK)

    def _flush(self) -> None:
        self.merge.flush()

    def _die(self) -> None:
        """The endpoint ends at its next commit, before or after."""
        self.log.dies = self.chance.choice(["before", "after"])

    def _inline(self) -> None:
        role = self.merge.role
        if role is None:
            return
        stays = self.inline is not None and self.inline[0] == role and self.merge.is_current(role)
        if not stays or (role == Runner.INLINE and self.inline and self.inline[1].sn != self.merge.position):
            _, position, states = self.merge.attempt(role)
            is_assigned, ranges_of = (
                (all_assigned, divides_none) if role is Runner.INLINE else self.merge.inline_queries()
            )
            shard = Shard(self.store, is_assigned, ranges_of=ranges_of)
            shard.build(states, position)
            self.inline = role, shard
        assert self.inline is not None
        shard = self.inline[1]
        if shard.sn < int(self.store.head()):
            parts = shard.step(shard.sn + 1)
            assert not shard.own_faults, (self.seed, shard.faults)
            self.merge.take(role, shard.sn, parts)

    def _step(self) -> None:
        """A task steps the next snapshot; mostly it says that it has caught up."""
        tasks = [process for process in self.processes if process.task]
        if not tasks:
            return
        process = self.chance.choice(tasks)
        shard, number = process.shard, process.number
        if shard.sn < min(int(self.store.head()), self.merge.position + _AHEAD_MAX):
            parts = shard.step(shard.sn + 1)
            assert not shard.own_faults, (self.seed, shard.faults)
            # Who has a subscriber changes at any time; it is a matter of cost alone.
            subscribed = {each for each in self.registry.queries if self.chance.random() < 0.5}
            self.merge.take(Runner.SPARK, shard.sn, shard.finished(parts, subscribed), number)
        if self.chance.random() < 0.7:
            self.merge.caught_up(Runner.SPARK, process.task, shard.sn, {}, number)

    def _hello(self) -> None:
        """A process, which may be new, begins a task: it gets the shard whose state it has, else one that is free."""
        plan = self.merge.plan
        free = set(range(plan.shards)) - {process.number for process in self.processes if process.task}
        if not free:
            return
        idle = [process for process in self.processes if not process.task]
        if idle and self.chance.random() < 0.9:
            process = self.chance.choice(idle)
        else:
            process = Process(Shard(self.store))
            self.processes.append(process)
        mine = process.plan == plan.number and process.number in free
        number = process.number if mine else self.chance.choice(sorted(free))
        attempt, position, states = self.merge.attempt(Runner.SPARK, number, process.shard.sn if mine else None)
        self.did["kept"] += mine and position > self.merge.position
        if not mine or process.shard.sn > position:
            process.shard.is_assigned = partial(plan.assigns, number)
            process.shard.divided.follow(partial(plan.ranges_of, frozenset({number})))
            process.shard.build(states, position)
        process.plan, process.number, process.task = plan.number, number, attempt

    def _leave(self) -> None:
        for process in self.processes:
            process.task = 0

    def _kill(self) -> None:
        if self.processes:
            self.processes.remove(self.chance.choice(self.processes))

    def _lose(self) -> None:
        """Spark loses a shard: the others stay."""
        shard = self.chance.randrange(self.merge.plan.shards)
        for process in self.processes:
            if process.task and process.number == shard and process.plan == self.merge.plan.number:
                self.merge.lost(Runner.SPARK, process.task, shard)
                self.did["lost"] += 1
                process.task = process.plan = 0
                return

    def _plan(self) -> None:
        plan, shards = self.merge.plan, self.chance.choice([1, 2, 2, 3, 4])
        weights = tuple(self.chance.choice([0.5, 1.0, 2.0]) for _ in range(shards))
        self._leave()
        self.merge.follow_plan(ShardPlan(plan.number + 1, weights, self._to_divide() if shards > 1 else frozenset()))

    def _to_divide(self) -> frozenset[int]:
        """Half of the templates that can be divided, or all of them."""
        queries, catalog = self.registry.queries.values(), Catalog.read(self.store, self.store.head())
        able = {each.placement or each.number for each in queries if may_divide(each, catalog)}
        few = self.chance.random() < 0.5
        return frozenset(each for each in sorted(able) if not few or self.chance.random() < 0.5)

    def finish(self) -> None:
        head = int(self.store.head())
        self.log.dies = None
        for _ in range(400 + 60 * (head - self.merge.position)):
            if self.merge.position == head:
                break
            for action in ("hello", "step", "inline"):
                self._acted(action)
        assert self.merge.position == head, f"seed {self.seed}: it waits for ever"

    def compare_all(self) -> int:
        """The emissions of every query, byte for byte and number for number."""
        emitted = 0
        for number, query in self.registry.queries.items():
            found, expected = (
                [(e.number, e.json if number not in self.creating else _as_bag(e.json)) for e in emissions]
                for emissions in (self._emissions(merge).read(number, 0, None) for merge in (self.merge, self.one))
            )
            assert found == expected, f"seed {self.seed}, query {number}: {query.text}"
            assert self.merge.last(number) == self.one.last(number)
            for emission in self._emissions(self.merge).read(number, 0, None):
                if (in_json := self.in_json.get((number, emission.number))) is not None:
                    assert in_json == emission.json, f"seed {self.seed}, query {number}: {query.text}"
                    self.did["in_json"] += 1
            emitted += len(found)
        return emitted

    def _emissions(self, merge: Merge) -> Emissions:
        return Emissions(merge._log, merge.last, merge.memberships, self.registry.queries.get)  # type: ignore[arg-type]


def _as_bag(emission: bytes) -> object:
    """Rows that come together stand by the ids of their terms; terms that a query creates have others after a
    restart."""
    body = json.loads(emission)
    body.get("results", {}).get("bindings", []).sort(key=str)
    return body


def play(seed: int, folder: Path, shards: int) -> tuple[int, Counter[str]]:
    """How many emissions there were, and what happened."""
    store = hbase_store.open(f"lmdb:{folder}")
    try:
        divided = Divided(seed, store, shards)
        divided.run()
        divided.finish()
        return divided.compare_all(), divided.did
    finally:
        store.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shards", [1, 2, 4])
def test_any_number_of_shards_emits_what_one_emits(shards: int, tmp_path: Path) -> None:
    emitted, did = 0, Counter[str]()
    for seed in range(6):
        some, what = play(seed, tmp_path / str(seed), shards)
        emitted += some
        did += what
    assert emitted > 100
    assert all(did[each] for each in ("lost", "plan", "kill", "kept", "die", "in_json", "moved")), did


@pytest.mark.soak
@pytest.mark.parametrize("shards", [1, 2, 4])
@pytest.mark.parametrize("block", range(50))
def test_any_number_of_shards_emits_what_one_emits_thousands_of_times(shards: int, block: int, tmp_path: Path) -> None:
    for seed in range(90_000 + block * 20, 90_000 + block * 20 + 20):
        play(seed, tmp_path / str(seed), shards)


def test_a_template_is_in_one_shard_and_few_move_when_weights_change() -> None:
    plan, chance = ShardPlan.of(4), random.Random(1)
    measured = {chance.getrandbits(62) + 1: chance.paretovariate(1.5) for _ in range(200)}
    heavy = max(measured, key=lambda placement: measured[placement])
    measured[heavy] *= 10
    after = plan.balanced(measured)
    assert after.number == plan.number + 1
    assert max(after.loads(measured)) < 0.85 * max(plan.loads(measured))
    moved = [each for each in measured if plan.shard_of(each) != after.shard_of(each)]
    assert len(moved) < 0.5 * len(measured)
    assert after.balanced(measured) is after, "there is little to gain now"


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0), (3.0, 0.5), (1.0, 2.0, 0.25, 1.0)])
def test_loads_are_counted_where_each_template_is_evaluated(weights: tuple[float, ...]) -> None:
    chance, plan = random.Random(3), ShardPlan(1, weights)
    measured = {chance.getrandbits(chance.choice((4, 30, 63, 64))): float(chance.randrange(1, 100)) for _ in range(500)}
    expected = [0.0] * len(weights)
    for placement, load in measured.items():
        expected[plan.shard_of(placement)] += load
    assert plan.loads(measured) == expected


def test_templates_that_cost_the_same_are_divided_evenly_before_anything_is_built() -> None:
    for shards in (2, 4):
        for first in range(1, 2_000, 100):
            measured = dict.fromkeys(range(first, first + 200), 1.0)
            after = ShardPlan.of(shards).balanced(measured, is_free=True)
            assert max(after.loads(measured)) <= 1.1 * 200 / shards


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            for shards in (1, 2, 4):
                emitted, did = play(int(given), Path(where) / f"{given}-{shards}", shards)
                print(f"seed {given}, {shards} shards: {emitted} emissions, {dict(did)}")
