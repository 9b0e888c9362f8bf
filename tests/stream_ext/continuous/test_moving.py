"""A query that is moved between two shards says what it says in one, from whichever snapshot on, and however often.

python -m tests.stream_ext.continuous.test_moving SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

import hbase_store
from hbase_store import EmissionRow, Sn, Store
from stream_ext.catalog.catalog import MovePosition
from stream_ext.clock import ManualClock
from stream_ext.continuous import course, joint_parts, run, shared_stages
from stream_ext.continuous.assignment import on_spark
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.runner_split import Homes
from stream_ext.remote.allowed_urls import AllowedUrls, places
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.continuous.test_shared_stages import Shares, alike
from tests.stream_ext.continuous.test_sharing import OF_TEMPLATES, Play
from tests.stream_ext.continuous.test_sleeping import SleepyPlay
from tests.stream_ext.continuous.test_window_lengths import longer
from tests.stream_ext.emissions.test_merge import Log
from tests.stream_ext.fake_server import Reply, fake_server
from tests.stream_ext.many import AloneShard, Registry, observed, parted, takes_inline
from tests.stream_ext.network.test_service_operator import answering, knowing
from tests.stream_ext.scene import EX, PATTERNS, Push, Scene, Window

#: How far the merge may lie behind a move.
_BEHIND_MAX = 6


class _Log(Log):
    """Of queries whose emissions are partly records of groups."""

    def commit(self, emissions: Sequence[EmissionRow], states: dict[int, bytes | None], position: Sn) -> int:
        self.rows.update({(row.query, row.number): row.body for row in emissions})
        self.at = position
        return 0


class _Pair:
    """Two shards that have all queries between them."""

    def __init__(self, store: Store) -> None:
        self.spark, self.partly_inline = Shard(store, on_spark), Shard(store, takes_inline)

    def build(self, states: Mapping[int, QueryState | None], sn: int) -> None:
        self.spark.build(states, sn)
        self.partly_inline.build(states, sn)

    def step(self, sn: int) -> list[Part]:
        return self.spark.step(sn) + self.partly_inline.step(sn)

    @property
    def faults(self) -> dict[int, str]:
        return self.spark.faults | self.partly_inline.faults


class _Moving(Play):
    def __init__(self, seed: int, store: Store) -> None:
        super().__init__(seed, store, [*OF_TEMPLATES, *PATTERNS, ("SELECT ?a ?b", "?a :k ?b", 0)], cqels=False)
        self.pair, self.moves, self.homes, self.at_home = _Pair(store), 0, Homes(), set[int]()
        self.pair.build({}, int(store.head()))
        self.alone = AloneShard(store)
        self.alone.build({}, int(store.head()))
        self.merge, self.merged_alone = self._merge(), self._merge()
        self.known: set[int] = set()
        self.history = [(int(store.head()), dict(self.states))]

    def _merge(self) -> Merge:
        log = _Log()
        log.at = int(self.store.head())
        numbers = count(1_000_000).__next__
        return Merge(log, ManualClock(), lambda: self.registry.queries, self.store.terms, numbers)

    def _change(self) -> None:
        there = sorted(self.registry.queries)
        if not there or self.chance.random() < 0.5:
            super()._change()
            return
        number = self.chance.choice(there)
        query = self.registry.queries[number]
        position, states = self.chance.choice(self.history[-_BEHIND_MAX:])
        left = MovePosition(position, states.get(number, query.state))
        self.moves += 1
        self._compare(self.registry.move(number, None if query.home else "inline", left))

    def _compare(self, sn: int) -> int:
        if self.chance.random() < 0.05:
            self._begin_one_anew()
        shared = {n for n, run in self.pair.spark.runs.of.items() if run.plan.is_shared}
        by_pair, by_one = self.pair.step(sn), self.alone.step(sn)
        in_time = [part for part in by_pair if not part.after_move]
        mine, theirs = parted(in_time, self.states), parted(by_one, self.apart)
        assert not self.pair.faults and not self.alone.faults, (self.seed, self.pair.faults, self.alone.faults)
        one, other = observed(self.store, mine), observed(self.store, theirs)
        for key in one.keys() | other.keys():
            text = self.registry.queries[key[0]].text
            assert one.get(key) == other.get(key), f"seed {self.seed}, snapshot {sn}, query {key}: {text}"
        self._check_standings(sn, by_pair, by_one)
        self.history.append((sn, dict(self.states)))
        self._check_homes(sn)
        return sum(part.query in shared for part in mine)

    def _check_standings(self, sn: int, by_pair: list[Part], by_one: list[Part]) -> None:
        """What the merge knows of queries that are told with others, whoever tells it."""
        for gone in self.known - self.registry.queries.keys():
            self.merge.dropped(gone)
            self.merged_alone.dropped(gone)
        self.known = set(self.registry.queries)
        self.chance.shuffle(by_pair)
        self.merge.take("inline", sn, by_pair)
        self.merged_alone.take("inline", sn, by_one)
        for number in self.registry.queries:
            assert self.merge.last(number) == self.merged_alone.last(number), f"seed {self.seed}, snapshot {sn}"
            assert _place(self.merge, number) == _place(self.merged_alone, number), f"seed {self.seed}, snapshot {sn}"

    def _check_homes(self, sn: int) -> None:
        """Whoever has nothing at home before and after a snapshot is not waited for."""
        before, queries = self.at_home, self.registry.queries.values()
        self.at_home = {query.number for query in queries if query.home is not None and not query.paused}
        self.homes.published(sn, bool(self.at_home))
        assert self.homes.are_two(sn) == bool(before | self.at_home)

    def _begin_one_anew(self) -> None:
        """At the snapshot that is merged, and then up to where the other is."""
        head, (position, states) = self.pair.spark.sn, self.chance.choice(self.history[-_BEHIND_MAX:])
        anew = _Pair(self.store)
        which = self.chance.choice(["spark", "partly_inline"])
        shard = getattr(anew, which)
        shard.build(states, position)
        while shard.sn < head:
            shard.step(shard.sn + 1)
        setattr(self.pair, which, shard)


class _MovingAlike(_Moving, SleepyPlay):
    """Queries of a few timing classes, of which some share stages; over windows of one length, or of several."""

    def __init__(self, seed: int, store: Store) -> None:
        super().__init__(seed, store)
        self._many, self._of_lengths = alike(self.scenes[0], self.chance), self.chance.random() < 0.5

    def _change(self) -> None:
        scenes = self.scenes
        self.scenes = [longer(scene, self.chance) if self._of_lengths else scene for scene in self._many]
        super()._change()
        self.scenes = scenes


def _place(merge: Merge, query: int) -> tuple[object, ...]:
    """Where it has come to."""
    state = merge.state(query)
    return (
        ()
        if state is None
        else (state.evaluated, state.after, state.last, state.registered, state.gap, state.t0, state.begins)
    )


def play(seed: int, folder: Path, kind: type[_Moving] = _Moving) -> tuple[int, int]:
    """How many parts from shared networks there were, and moves."""
    store = hbase_store.open(f"lmdb:{folder}")
    try:
        moving = kind(seed, store)
        return moving.run(), moving.moves
    finally:
        store.close()


@pytest.mark.parametrize("block", range(4))
def test_what_is_moved_says_what_it_says_where_it_stays(block: int, tmp_path: Path) -> None:
    moves = sum(play(seed, tmp_path / str(seed))[1] for seed in range(block * 6, block * 6 + 6))
    assert moves > 60


def play_alike(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How often stages were read by others than those who stepped them, and moves."""
    chance = random.Random(seed)
    with monkeypatch.context() as patched:
        shares = Shares(patched)
        patched.setattr(course, "_CLOSES_MAX", chance.choice((1, 2, 16)))
        patched.setattr(joint_parts, "TOGETHER_MIN", chance.choice((1, 3, 1_000)))
        patched.setattr(run, "TERMS_CREATED_MAX", chance.choice((3, 50_000)))
        patched.setattr(shared_stages, "TERMS_CREATED_MAX", chance.choice((3, 30, 50_000)))
        moves = play(seed, folder, _MovingAlike)[1]
    return shares.kinds.total(), moves


def test_what_is_moved_from_among_queries_that_share_stages_says_what_it_says_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares, moves = zip(*(play_alike(seed, tmp_path / str(seed), monkeypatch) for seed in range(6)), strict=True)
    assert sum(shares) > 20, f"stages were read {shares} times by others"
    assert sum(moves) > 20


def test_one_that_waits_for_an_answer_continues_where_it_is_moved_to(tmp_path: Path) -> None:
    """What it has missed is made up for there."""
    with (
        fake_server() as there,
        closing(hbase_store.open(f"lmdb:{tmp_path / 'store'}", clock=ManualClock(0))) as store,
    ):
        allowed_urls = AllowedUrls(service=places(there.url))
        spark, beside = Shard(store, on_spark, allowed_urls), Shard(store, takes_inline, allowed_urls)
        registry = Registry.over(
            store, Scene([Window("w1", 1, 10, 10)], "WINDOW :w1 { ?x :p ?y }", "ASK", "RSTREAM", {1: 0, 2: 0})
        )
        for shard in (spark, beside):
            shard.build({}, int(store.head()))
        emitted: list[tuple[int, int, bool]] = []
        states: dict[int, QueryState] = {}

        def step(sn: int) -> None:
            for part in [*spark.step(sn), *beside.step(sn)]:
                assert not part.is_shared, "it shares no network"
                states[part.query] = part.state
                emitted.extend([(part.time, len(part.columns[0]), part.gap)] if part.emits else [])

        def second(number: int) -> None:
            step(registry.player.play([Push(1, ((number, ((f"<{EX}{number}>", f"<{EX}p>", f"<{EX}b>"),)),))]))

        step(registry.register(
            f"PREFIX : <{EX}> SELECT ?x ?n FROM NAMED WINDOW :w1 ON <{EX}s1> [RANGE 10 STEP 10] "
            f"WHERE {{ WINDOW :w1 {{ ?x :p ?y }} SERVICE <{there.url}/x> {{ ?y :name ?n }} }}"
        ))  # fmt: skip
        (number,) = registry.queries
        second(5)
        there.replies["/x"] = Reply(500)
        second(15)
        assert "answered 500" in spark.faults[number]
        there.replies["/x"] = answering(knowing(":b :name 'bee'"))
        step(registry.move(number, "inline", MovePosition(spark.sn, states[number])))
        assert spark.faults == {} and "did not answer in snapshot" in beside.faults[number]
        second(25)
        assert beside.faults == {}
        second(35)
        assert emitted == [(10, 1, False), (20, 1, False), (30, 1, False)]


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_what_is_moved_says_what_it_says_where_it_stays_thousands_of_times(block: int, tmp_path: Path) -> None:
    for seed in range(70_000 + block * 50, 70_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_what_is_moved_from_among_queries_that_share_stages_says_what_it_says_by_itself_thousands_of_times(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(90_000 + block * 50, 90_000 + block * 50 + 50):
        play_alike(seed, tmp_path / str(seed), monkeypatch)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            shared, moves = play(int(given), Path(where) / given)
            print(f"seed {given}: {moves} moves, {shared} parts of shared networks, nothing is wrong")
