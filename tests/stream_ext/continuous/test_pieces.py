"""Many closes that fall due at once are worked off in pieces; what is said is to the byte the same, wherever these are
cut, and whenever the shard is built anew between them.

python -m tests.stream_ext.continuous.test_pieces SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.shard import Shard
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.continuous.test_restarts import asked
from tests.stream_ext.continuous.test_sharing import OF_TEMPLATES, _later
from tests.stream_ext.many import Registry, filled, observed, parted
from tests.stream_ext.scene import EX, Change, Player, Push, Scene, Window, random_scene

Answered = dict[int, list[Any]]


class Pieces:
    """A shard that is stepped piece by piece, and now and then built anew from what was told last."""

    def __init__(self, store: Store, chance: random.Random, sn: int, pace: TurnLimits) -> None:
        self.store, self.chance, self.pace, self.sn = store, chance, pace, sn
        self.states: dict[int, QueryState] = {}
        self.emitted: Answered = defaultdict(list)
        self.cut = self.rebuilt = 0
        self.build()

    def build(self) -> None:
        self.shard = Shard(self.store, pace=self.pace)
        self.shard.build(self.states, self.sn)
        assert not self.shard.faults, self.shard.faults

    def step(self, sn: int) -> None:
        self.take(self.shard.step(sn))
        self.sn = sn
        while self.shard.has_more and self.chance.random() < 0.7:
            self.step_one_behind()

    def step_one_behind(self) -> None:
        self.cut += 1
        if self.chance.random() < 0.3:
            self.rebuilt += 1
            self.build()
        self.take(self.shard.step_one_behind())

    def finish(self) -> None:
        for _ in range(100_000):
            if not self.shard.has_more:
                assert not self.shard.behind
                return
            self.step_one_behind()
        raise AssertionError("it never gets through")

    def take(self, parts: Sequence[Part]) -> None:
        assert not self.shard.faults, self.shard.faults
        take(self.store, parts, self.states, self.emitted)


def take(store: Store, parts: Sequence[Part], states: dict[int, QueryState], emitted: Answered) -> None:
    for sn in sorted({part.sn for part in parts}):
        for part in parted([part for part in parts if part.sn == sn], states):
            if part.emits:
                (one,) = (each for (_, k, _), each in observed(store, [part]).items() if k >= 0)
                emitted[part.query].append((part.sn, part.k, *one))


def compare(found: Answered, expected: Answered, what: str) -> None:
    for query in expected.keys() | found.keys():
        for one, other in zip_longest(found[query], expected[query]):
            assert one == other, f"{what}\nquery {query} in pieces: {one}\nat once: {other}"


def squeezed(scene: Scene, chance: random.Random, often: float = 0.3) -> Scene:
    """With leaps of time, so that much falls due at once."""
    leaps, steps = 0, []
    for step in scene.steps:
        if not isinstance(step, Change) and chance.random() < often:
            leaps += chance.choice([40, 90, 200])
        steps.append(_later(step, leaps))
    return replace(scene, steps=steps)


def play(seed: int, folder: Path) -> int:
    """One query; how often it was cut."""
    chance = random.Random(f"pieces {seed}")
    scene = squeezed(asked(seed) if chance.random() < 0.5 else random_scene(seed), chance, often=0.6)
    if scene.windows and chance.random() < 0.15:  # what is another at each evaluation
        scene = replace(scene, select="SELECT ?a ?r", pattern="WINDOW :w1 { ?a :p ?b } BIND(RAND() AS ?r)")
    elif scene.windows and chance.random() < 0.15:  # over nothing, too
        scene = replace(
            scene,
            select="SELECT ?k ?r",
            pattern="?a :k ?k OPTIONAL { WINDOW :w1 { ?a :p ?k } } BIND(IF(RAND() < 0.1, 1, 2) AS ?r)",
        )
    if scene.merged:
        return 0
    store = hbase_store.open(f"lmdb:{folder}")
    player = Player(store, scene)
    sn = player.register()
    calm, emitted, states = Shard(store), defaultdict[int, list[Any]](list), dict[int, QueryState]()
    calm.build({}, sn - 1)
    pace = TurnLimits(chance.randrange(1, 6), None, chance.randrange(1, 6), None)
    pieces = Pieces(store, chance, sn - 1, pace)
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


def play_past(seed: int, folder: Path) -> int:
    """Queries that replay what came before them, and elements that come meanwhile."""
    chance = random.Random(f"past pieces {seed}")
    scene = squeezed(random_scene(chance.randrange(1 << 30)), chance)
    while scene.merged or not scene.windows:
        scene = squeezed(random_scene(chance.randrange(1 << 30)), chance)
    store = hbase_store.open(f"lmdb:{folder}")
    registry = Registry.over(store, scene)
    calm, emitted, states = Shard(store), defaultdict[int, list[Any]](list), dict[int, QueryState]()
    calm.build({}, sn := int(store.head()))
    pieces = Pieces(store, chance, sn, TurnLimits(chance.randrange(1, 6), None, chance.randrange(1, 6), None))
    for step in scene.steps:
        sns = [int(registry.player.play(step))]
        if chance.random() < 0.3:
            low = chance.randrange(100)
            extent = f"START {low} END {low + chance.randrange(200)} STEP {chance.choice([3, 10])}ms"
            pattern = chance.choice(["?a :p ?b", "?a :p ?b . ?b :p ?c"])
            r2s = chance.choice(["RSTREAM", "ISTREAM"])
            rest = chance.choice(
                [
                    f"FROM NAMED WINDOW :w ON STREAM :s1 [{extent}] WHERE {{ WINDOW :w {{ {pattern} }} }}",
                    f"WHERE {{ STREAM :s1 [{extent}] {{ {pattern} }} }}",
                ]
            )
            sns.append(registry.register(f"PREFIX : <{EX}> REGISTER {r2s} :q AS SELECT * {rest}"))
        for sn in sns:
            take(store, calm.step(sn), states, emitted)
            pieces.step(sn)
    pieces.finish()
    compare(pieces.emitted, emitted, f"seed {seed}")
    store.close()
    return pieces.cut


class Shared:
    """Queries of a few templates that come one after the other."""

    def __init__(self, seed: int, store: Store) -> None:
        self.chance, self.store, self.seed = random.Random(f"shared pieces {seed}"), store, seed
        scene = squeezed(random_scene(self.chance.randrange(1 << 30)), self.chance)
        while scene.merged:
            scene = squeezed(random_scene(self.chance.randrange(1 << 30)), self.chance)
        scene.select, scene.pattern, count = self.chance.choice(OF_TEMPLATES)
        scene.windows = [*scene.windows, replace(scene.windows[0], name="w2", stream=2)][:1] * 1 + (
            [replace(scene.windows[0], name="w2", stream=2)] if count == 2 else []
        )
        self.scene = scene
        self.registry = Registry.over(store, filled(self.chance, scene))
        sn = int(store.head())
        self.calm, self.emitted, self.states = Shard(store), defaultdict[int, list[Any]](list), dict[int, QueryState]()
        self.calm.build({}, sn)
        self.pieces = Pieces(
            store, self.chance, sn, TurnLimits(self.chance.randrange(1, 6), None, self.chance.randrange(1, 6), None)
        )

    def run(self) -> int:
        for step in self.scene.steps:
            for _ in range(self.chance.choice((0, 1, 2, 3))):
                self.step(self.registry.register(filled(self.chance, self.scene).text))
            self.step(int(self.registry.player.play(step)))
        self.pieces.finish()
        compare(self.pieces.emitted, self.emitted, f"seed {self.seed}: {self.scene.text}")
        return self.pieces.cut

    def step(self, sn: int) -> None:
        take(self.store, self.calm.step(sn), self.states, self.emitted)
        self.pieces.step(sn)


def play_shared(seed: int, folder: Path) -> int:
    store = hbase_store.open(f"lmdb:{folder}")
    try:
        return Shared(seed, store).run()
    finally:
        store.close()


@pytest.mark.parametrize("block", range(2))
def test_a_query_says_in_pieces_what_it_says_at_once(block: int, tmp_path: Path) -> None:
    cut = sum(play(seed, tmp_path / str(seed)) for seed in range(block * 20, block * 20 + 20))
    assert cut > 50


@pytest.mark.parametrize("block", range(2))
def test_queries_that_share_a_network_say_in_pieces_what_they_say_at_once(block: int, tmp_path: Path) -> None:
    cut = sum(play_shared(seed, tmp_path / str(seed)) for seed in range(block * 10, block * 10 + 10))
    assert cut > 200


@pytest.mark.parametrize("block", range(1))
def test_a_past_is_replayed_in_pieces_as_it_is_at_once(block: int, tmp_path: Path) -> None:
    cut = sum(play_past(seed, tmp_path / str(seed)) for seed in range(block * 10, block * 10 + 10))
    assert cut > 50


def test_closes_that_emit_nothing_bring_queries_on_that_begin_anew_again_and_again(tmp_path: Path) -> None:
    """Each turn is one close over an empty window, and most of them are followed by a restart."""
    assert play_shared(100_309, tmp_path / "store") > 100


def test_a_query_whose_twin_is_dropped_in_the_middle_of_a_snapshot_has_its_own_state(tmp_path: Path) -> None:
    """Others may go on from it, who know nothing of what it had in common with the twin."""
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        scene = Scene([Window("w1", 1, 10, 5)], "WINDOW :w1 { ?a :p % }", "SELECT ?a", "RSTREAM", {1: 0, 2: 0})
        edge = (f"<{EX}a>", f"<{EX}p>", f"<{EX}n1>")
        registry = Registry.over(store, filled(random.Random(1), scene))
        registry.player.play([Push(1, ((7, (edge,)),))])
        shard = Shard(store, pace=TurnLimits(3, None, 3, None))
        shard.build({}, int(store.head()))
        for seed in range(2):
            shard.step(registry.register(filled(random.Random(seed), scene).text))
        twin, number = sorted(registry.queries)
        sn = registry.player.play([Push(1, tuple((time, (edge,)) for time in range(8, 300, 4)))])
        states = {each: registry.queries[each].state for each in (twin, number)}
        take(store, shard.step(sn), states, defaultdict(list))
        again = Shard(store)
        again.build(states, sn)
        dropped = registry.drop(twin)
        again.step(dropped)
        again.step_one_behind()
        assert not again.faults and not again.behind, "a restart comes before the drop"
        shard.step(dropped)
        shard.step_one_behind()
        unit = shard.all_behind.unit_of(number)
        assert unit is not None and unit.own_shard is not None
        run, own = unit.own_shard.runs.of[number], registry.queries[number].state
        assert run.plan.is_shared and run.is_underway
        found = run.query_state(unit.own_shard.sn)
        assert (found.registered, found.began) == (own.registered, own.began) and own.registered == 7


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_thousands_of_queries_say_in_pieces_what_they_say_at_once(block: int, tmp_path: Path) -> None:
    for seed in range(100_000 + block * 100, 100_000 + block * 100 + 100):
        play(seed, tmp_path / str(seed))
        play_shared(seed, tmp_path / f"shared {seed}")
        play_past(seed, tmp_path / f"past {seed}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            cuts = play(int(given), Path(where) / given), play_shared(int(given), Path(where) / f"shared {given}")
            print(f"seed {given}: cut {cuts} times, nothing is wrong")
