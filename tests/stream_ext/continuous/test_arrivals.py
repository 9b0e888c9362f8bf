"""Each evaluation at an arrival gives the oracle's rows, however pushes are cut into batches, and after any restart."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from stream_ext.catalog.registered_text import query_of
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.shard import Shard
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.arrival_scene import ArrivalOracle, Observed, random_arrival_scene
from tests.stream_ext.continuous.test_oracle import Recorder
from tests.stream_ext.continuous.test_pieces import Pieces, compare, take
from tests.stream_ext.low_capacities import low_capacities
from tests.stream_ext.scene import BASE, Player, engine_emissions


@pytest.mark.parametrize("block", range(5))
def test_every_arrival_gives_the_oracles_rows(block: int, tmp_path: Path) -> None:
    observed = 0
    for seed in range(block * 30, block * 30 + 30):
        observed += len(play(seed, tmp_path / str(seed)))
    assert observed > 50


@pytest.mark.parametrize("block", range(3))
def test_a_shard_rebuilt_after_any_snapshot_continues_as_if_it_had_never_stopped(block: int, tmp_path: Path) -> None:
    for seed in range(1000 + block * 30, 1000 + block * 30 + 30):
        play(seed, tmp_path / str(seed), restarts=True)


@pytest.mark.parametrize("block", range(3))
def test_windows_hold_what_came_before_registration_and_it_is_not_new(block: int, tmp_path: Path) -> None:
    for seed in range(3000 + block * 30, 3000 + block * 30 + 30):
        play(seed, tmp_path / str(seed), restarts=bool(seed % 2), before=1 + seed % 5)


@pytest.mark.parametrize("block", range(1))
def test_it_is_so_where_all_that_is_remembered_is_laid_out_anew_all_the_time(block: int, tmp_path: Path) -> None:
    with low_capacities():
        for seed in range(2000 + block * 30, 2000 + block * 30 + 30):
            play(seed, tmp_path / str(seed), restarts=bool(seed % 2))


@pytest.mark.parametrize("block", range(2))
def test_the_cut_of_pushes_into_snapshots_changes_nothing(block: int, tmp_path: Path) -> None:
    for seed in range(4000 + block * 20, 4000 + block * 20 + 20):
        observed = play(seed, tmp_path / str(seed))
        other = play(seed, tmp_path / f"other{seed}", regrouped=True)
        assert [each[1:] for each in observed] == [each[1:] for each in other], f"seed {seed}"


@pytest.mark.parametrize("block", range(1))
def test_pieces_of_a_snapshot_say_the_same_wherever_they_are_cut_and_built_anew(block: int, tmp_path: Path) -> None:
    cut = sum(in_pieces(seed, tmp_path / str(seed)) for seed in range(6000 + block * 15, 6000 + block * 15 + 15))
    assert cut > 100


@pytest.mark.soak
@pytest.mark.parametrize("block", range(50))
def test_thousands_of_scenes_are_the_same_in_pieces(block: int, tmp_path: Path) -> None:
    for seed in range(200_000 + block * 50, 200_000 + block * 50 + 50):
        in_pieces(seed, tmp_path / str(seed))


@pytest.mark.soak
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("block", range(50))
def test_thousands_of_scenes_give_the_oracles_rows(block: int, restarts: bool, tmp_path: Path) -> None:
    for seed in range(100_000 + block * 100, 100_000 + block * 100 + 100):
        play(seed, tmp_path / str(seed), restarts, before=seed % 5)


def play(seed: int, folder: Path, restarts: bool = False, before: int = 0, regrouped: bool = False) -> list[Observed]:
    """Registered after so many of the scene's steps."""
    scene = random_arrival_scene(seed)
    if regrouped:
        scene.steps = scene.regrouped(random.Random(seed))
    first, steps = scene.steps[:before], scene.steps[before:]
    store = hbase_store.open(f"lmdb:{folder}")
    player, oracle = Player(store, scene), ArrivalOracle(scene)
    sn = player.register(first)
    oracle.register(first)
    shard = Shard(store)
    shard.build({}, sn)
    query = query_of(scene.text, BASE)
    state: QueryState | None = None
    observed: list[Observed] = []
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
        observed += expected
    store.close()
    return observed


def in_pieces(seed: int, folder: Path) -> int:
    """As at once; how often it was cut."""
    chance = random.Random(f"pieces {seed}")
    scene = random_arrival_scene(seed)
    if chance.random() < 0.2:  # what is another at each evaluation
        scene.select, scene.pattern = "SELECT ?a ?r", "@1{ ?a :p ?b } BIND(RAND() AS ?r)"
    elif chance.random() < 0.2 and scene.select.startswith("SELECT"):  # what depends on all evaluations before
        scene.pattern += " } LIMIT 2 #"
    store = hbase_store.open(f"lmdb:{folder}")
    player = Player(store, scene)
    sn = player.register()
    calm, emitted, states = Shard(store), defaultdict[int, list[Any]](list), dict[int, QueryState]()
    calm.build({}, sn - 1)
    pieces = Pieces(store, chance, sn - 1, TurnLimits(chance.randrange(1, 3), None, chance.randrange(1, 3), None))
    for step in [None, *scene.steps]:
        if step is not None:
            sn = player.play(step)
        take(store, calm.step(sn), states, emitted)
        assert not calm.faults, calm.faults
        pieces.step(sn)
    pieces.finish()
    compare(pieces.emitted, emitted, f"seed {seed}: {scene.text}")
    store.close()
    return pieces.cut
