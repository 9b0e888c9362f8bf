"""Each evaluation equals plain SPARQL over the windows and the snapshot, however pushes are cut into batches."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

import hbase_store
from endpoint.trial_hbase.server import HBase
from stream_ext.catalog.registered_text import query_of
from stream_ext.continuous.shard import Shard
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.low_capacities import low_capacities, small_plans
from tests.stream_ext.scene import BASE, Oracle, Player, Push, engine_emissions, random_scene


@pytest.mark.parametrize("block", range(5))
def test_every_evaluation_gives_the_oracles_rows(block: int, tmp_path: Path) -> None:
    evaluations = 0
    for seed in range(block * 20, block * 20 + 20):
        evaluations += play(seed, tmp_path / str(seed), restarts=False)
    assert evaluations > 50


@pytest.mark.parametrize("block", range(3))
def test_a_shard_rebuilt_after_any_snapshot_continues_as_if_it_had_never_stopped(block: int, tmp_path: Path) -> None:
    for seed in range(1000 + block * 20, 1000 + block * 20 + 20):
        play(seed, tmp_path / str(seed), restarts=True)


@pytest.mark.parametrize("block", range(3))
def test_it_is_so_where_all_that_is_remembered_is_laid_out_anew_all_the_time(block: int, tmp_path: Path) -> None:
    with low_capacities():
        for seed in range(2000 + block * 20, 2000 + block * 20 + 20):
            play(seed, tmp_path / str(seed), restarts=bool(seed % 2))


@pytest.mark.parametrize("block", range(1))
def test_it_is_so_where_queries_are_planned_as_if_they_had_thousands_of_parts(block: int, tmp_path: Path) -> None:
    with small_plans():
        for seed in range(5000 + block * 20, 5000 + block * 20 + 20):
            play(seed, tmp_path / str(seed), restarts=bool(seed % 2))


@pytest.mark.parametrize("block", range(5))
def test_windows_hold_what_came_before_registration(block: int, tmp_path: Path) -> None:
    evaluations = 0
    for seed in range(3000 + block * 15, 3000 + block * 15 + 15):
        evaluations += play(seed, tmp_path / str(seed), restarts=bool(seed % 2), before=1 + seed % 5)
    assert evaluations > 50


@pytest.mark.parametrize("block", range(5))
def test_data_that_are_partly_held_and_partly_our_own_are_one_dataset(block: int, tmp_path: Path) -> None:
    evaluations = 0
    for seed in range(7000 + block * 20, 7000 + block * 20 + 20):
        evaluations += play(seed, tmp_path / str(seed), restarts=bool(seed % 2), before=seed % 4, held=True)
    assert evaluations > 50


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_it_is_so_on_a_real_hbase(hbase_server: HBase) -> None:
    url = f"hbase://127.0.0.1:{hbase_server.thrift_port}/oracle_{uuid.uuid4().hex[:8]}"
    assert play(7003, url, restarts=True, before=2, held=True) > 40


@pytest.mark.soak
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("block", range(100))
def test_thousands_of_scenes_give_the_oracles_rows(block: int, restarts: bool, tmp_path: Path) -> None:
    for seed in range(100_000 + block * 100, 100_000 + block * 100 + 100):
        play(seed, tmp_path / str(seed), restarts, before=seed % 5)


def play(seed: int, place: Path | str, restarts: bool, before: int = 0, held: bool = False) -> int:
    """Registered after so many of the scene's steps, perhaps with its streams ahead of what comes then. `held`: the
    quads of the store are our own, held, or both."""
    scene = random_scene(seed)
    first, steps = scene.steps[:before], scene.steps[before:]
    if before and seed % 3:
        first.append([Push(stream, (), 40 * (seed % 3)) for stream in (1, 2)])
    store = hbase_store.open(place if isinstance(place, str) else f"lmdb:{place}")
    player, oracle = Player(store, scene, random.Random(seed) if held else None), Oracle(scene)
    sn = player.register(first)
    oracle.register(first)
    shard = Shard(store)
    shard.build({}, sn)
    query = query_of(scene.text, BASE)
    state: QueryState | None = None
    evaluations = 0
    for step in steps:
        sn = player.play(step)
        if restarts:
            shard = Shard(store)
            shard.build({1: state} if state else {}, sn - 1)
        expected = oracle.play(sn, step)
        parts = Recorder(shard)
        emitted = engine_emissions(store, parts, query, sn)  # type: ignore[arg-type]  # a shard that remembers its states
        state = parts.state or state
        assert emitted == expected, f"seed {seed}, snapshot {sn}: {scene.text}"
        evaluations += len(expected)
    store.close()
    return evaluations


class Recorder:
    """A shard, remembering the last state that its parts carried."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.faults = shard.faults
        self.state: QueryState | None = None

    def step(self, sn: int) -> list[object]:
        parts = self._shard.step(sn)
        if parts:
            self.state = parts[-1].state
        return list(parts)
