"""SAMPLE and GROUP_CONCAT follow timestamp, then arrival, then document order, else term order: whoever evaluates.

A failing seed is played again by    python -m tests.stream_ext.continuous.test_ordered SEED"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.catalog.catalog import Catalog, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.catalog.registered_text import query_of
from stream_ext.catalog.timing import timing_of
from stream_ext.continuous.shard import Shard
from stream_ext.language.algebra.algebra import Query
from stream_ext.oneshot.evaluate import evaluate
from stream_ext.oneshot.instant import Instant
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.low_capacities import low_capacities
from tests.stream_ext.ordered import OrderedOracle, ordered_scene
from tests.stream_ext.scene import BASE, EX, Bag, Player, Scene, bag_of


@pytest.mark.parametrize("block", range(5))
def test_values_are_in_the_order_in_which_they_came(block: int, tmp_path: Path) -> None:
    evaluations = sum(play(seed, tmp_path / str(seed), False) for seed in range(block * 20, block * 20 + 20))
    assert evaluations > 50


@pytest.mark.parametrize("block", range(2))
def test_they_are_so_after_a_restart(block: int, tmp_path: Path) -> None:
    for seed in range(1000 + block * 20, 1000 + block * 20 + 20):
        play(seed, tmp_path / str(seed), True)


@pytest.mark.parametrize("block", range(2))
def test_they_are_so_where_all_that_is_remembered_is_laid_out_anew_all_the_time(block: int, tmp_path: Path) -> None:
    with low_capacities():
        for seed in range(2000 + block * 20, 2000 + block * 20 + 20):
            play(seed, tmp_path / str(seed), bool(seed % 2))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_they_are_so_in_thousands_of_scenes(block: int, tmp_path: Path) -> None:
    for seed in range(100_000 + block * 100, 100_000 + block * 100 + 100):
        play(seed, tmp_path / str(seed), bool(seed % 2))


def play(seed: int, folder: Path, restarts: bool) -> int:
    """What is said, and what is said to whoever asks once at the same evaluation; how many evaluations there were."""
    scene, question = ordered_scene(seed)
    store = hbase_store.open(f"lmdb:{folder}")
    player, oracle = Player(store, scene), OrderedOracle(scene, question)
    sn = player.register()
    shard = Shard(store)
    shard.build({}, sn)
    query = query_of(scene.text, BASE)
    state: QueryState | None = None
    evaluations = 0
    for step in scene.steps:
        sn = player.play(step)
        if restarts:
            shard = Shard(store)
            shard.build({1: state} if state else {}, sn - 1)
        expected = oracle.play(sn, step)
        parts = shard.step(sn)
        assert not shard.faults, f"seed {seed}: {scene.text} {shard.faults}"
        emitted = [part for part in parts if part.emits]
        found = [(part.sn, part.time, bag_of(store, part, query)) for part in emitted]
        assert found == expected, f"seed {seed}, snapshot {sn}: {scene.text}"
        if scene.r2s == "RSTREAM":
            for part, (_, _, whole) in zip(emitted, expected, strict=True):
                assert asked_once(store, scene, query, part) == whole, f"seed {seed}, asked once: {scene.text}"
        state = parts[-1].state if parts else state
        evaluations += len(expected)
    store.close()
    return evaluations


def asked_once(store: Store, scene: Scene, query: Query, part: Part) -> Bag | bool:
    streams = {
        n: StreamDefinition(n, f"s{n}", f"{EX}s{n}", StreamOptions(lateness_ms=lateness))
        for n, lateness in scene.lateness.items()
    }
    windows = timing_of(query, Catalog(streams, {}), part.state.t0).windows
    at = part.state.evaluated
    assert at is not None
    seen = [window.for_arrivals() for window in windows] if at.arrived else windows
    answer = evaluate(store, query, at.sn, seen, Instant(at.time, at.sn, at.push, at.arrived_at))
    columns, made = answer.vocabulary.portable(answer.columns)
    once = Part.of_one(1, at.sn, at.k, at.time, [], columns, None, 0, None, QueryState(), True, made)
    return bag_of(store, once, query)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for given in sys.argv[1:]:
            play(int(given), Path(place) / given, bool(int(given) % 2))
            print(f"seed {given}: nothing is wrong")
