"""What a query has missed that is far behind, evaluated by several tasks, is what one process evaluates step by step.

python -m tests.stream_ext.runners.replays.test_missed SEED [SEED]"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.registered import Registered
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.query_budget import USUAL
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.finishing import finish
from stream_ext.runners.replays import replay, replays, stretches, task
from stream_ext.runners.replays.replays import QueryReplays
from stream_ext.runners.replays.stretches import why_other_order
from stream_ext.runners.replays.task import Missed
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from tests.parts.waiting import until
from tests.stream_ext.continuous.test_pieces import Answered, compare, squeezed
from tests.stream_ext.continuous.test_restarts import asked
from tests.stream_ext.continuous.test_sharing import _later
from tests.stream_ext.runners.replays.stories import JobsHere, play_seeds
from tests.stream_ext.scene import Player, Push, Scene, Window, each_of, random_scene


def take(store: Store, parts: Sequence[Part], states: dict[int, QueryState], emitted: Answered) -> None:
    """What the parts emit, with all texts, and the rows in order; and the states after them."""
    for part in sorted(parts, key=lambda part: (part.sn, part.k, part.evaluated)):  # as the merge takes them
        assert not part.is_shared, "there is one query"
        states[part.query] = part.state
        for each in each_of(part):
            if each.emits:
                emitted[part.query].append((each.sn, each.k, *_observed(store, each)))


def _observed(store: Store, part: Part) -> tuple[Any, ...]:
    done = part if part.terms is not None else finish(part, store.terms, {}, (), lambda _: None)
    assert done.terms is not None, "it is finished"
    texts = [None, *done.terms]
    rows = list(zip(*([texts[place] for place in column.tolist()] for column in done.columns), strict=True))
    emitted = done.time, rows, done.boolean, done.windows, done.repeated, done.first, done.gap, done.before
    return *emitted, done.state.evaluated


class ByTasks:
    """A shard whose queries fall behind at once, and are evaluated by tasks then; now and then it is built anew."""

    def __init__(self, store: Store, chance: random.Random, sn: int, jobs: JobsHere) -> None:
        self.store, self.chance, self.sn, self.rebuilt = store, chance, sn, 0
        self.pace = TurnLimits(chance.randrange(1, 6), None, chance.randrange(1, 6), None)
        self.states: dict[int, QueryState] = {}
        self.emitted: Answered = defaultdict(list)
        jobs.store = store
        self.died: list[str] = []
        self.replays = QueryReplays(
            store, jobs, USUAL, lambda: None, lambda ms: None, lambda query, why: self.died.append(why)
        )
        self.shard = Shard(store, pace=self.pace)
        self.build()

    def build(self) -> None:
        self.shard.all_behind.end_replays()
        self.shard = Shard(self.store, pace=self.pace)
        self.shard.replays = self.replays
        self.shard.build(self.states, self.sn)

    def take(self, parts: Sequence[Part]) -> None:
        assert not self.shard.faults, self.shard.faults
        take(self.store, parts, self.states, self.emitted)

    def step(self, sn: int) -> None:
        self.take(self.shard.step(sn))
        self.sn = sn
        while self.shard.has_more and self.chance.random() < 0.6:
            self.step_one_behind()

    def step_one_behind(self) -> None:
        if self.chance.random() < 0.1:
            self.rebuilt += 1
            self.build()
        self.take(self.shard.step_one_behind())

    def finish(self) -> None:
        while self.shard.behind:
            until(lambda: self.shard.has_more, "what tasks find")
            self.step_one_behind()
        assert not self.died, self.died


def play(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    chance = random.Random(f"missed {seed}")
    scene = _scene(seed, chance)
    jobs = JobsHere(chance, chance.choice([0.0, 0.0, 0.1]))
    monkeypatch.setattr(replays, "LEAST_S", 0.0)
    monkeypatch.setattr(stretches, "_STRETCH_S", chance.choice([0.0005, 0.005, 5.0]))
    monkeypatch.setattr(task, "_PIECE_EVALUATIONS", chance.choice([1, 3, 20]))
    monkeypatch.setattr(replay, "RESULT_BYTES", chance.choice([200, 2000, 1 << 20]))
    store = hbase_store.open(f"lmdb:{folder}")
    player = Player(store, scene)
    sn = player.register()
    calm, emitted, states = Shard(store), defaultdict[int, list[Any]](list), dict[int, QueryState]()
    calm.build({}, sn - 1)
    catalog = Catalog.read(store, sn)
    registered = Registered.of(catalog.queries[1], catalog)
    found = ByTasks(store, chance, sn - 1, jobs)
    try:
        for step in [None, *scene.steps]:
            if step is not None:
                sn = player.play(step)
            take(store, calm.step(sn), states, emitted)
            assert not calm.faults, calm.faults
            found.step(sn)
        found.finish()
    finally:
        found.replays.close()
        store.close()
    if _rows_are_ordered_by_computed_terms(registered):  # another process, or the next one, computes them anew
        found.emitted, emitted = _sorted(found.emitted), _sorted(emitted)
    compare(found.emitted, emitted, f"seed {seed}: {scene.text}")
    return Counter(
        scenes=1, divided=jobs.stretches > 0, stretches=jobs.stretches, failed=jobs.failed, rebuilt=found.rebuilt,
        ended_early=jobs.ended_early, emissions=sum(map(len, emitted.values())),
    )  # fmt: skip


def _rows_are_ordered_by_computed_terms(registered: Registered) -> bool:
    return why_other_order(registered.query, registered.select) is not None


def _sorted(emitted: Answered) -> Answered:
    return defaultdict(
        list,
        {query: [(*each[:3], sorted(each[3], key=str), *each[4:]) for each in all_] for query, all_ in emitted.items()},
    )


def _scene(seed: int, chance: random.Random) -> Scene:
    """More steps than usual, with leaps between them: many closes fall due in one push, and in one after the other."""
    while True:
        scene = asked(seed) if chance.random() < 0.4 else random_scene(seed)
        longer = replace(scene, steps=[*scene.steps, *_later_steps(chance)])
        found = squeezed(longer, chance, often=0.4)
        at_closes = "CONTENT_CHANGE" not in found.report and all(window.step_ms for window in found.windows)
        if found.windows and not found.cqels and (at_closes or chance.random() < 0.1):
            return found
        seed += 10_000_000


def _later_steps(chance: random.Random) -> list[Any]:
    others = random_scene(chance.randrange(1 << 30)).steps
    return [_later(step, 150) for step in others if isinstance(step, list)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("block", range(2))
def test_what_several_tasks_catch_up_with_is_what_one_process_evaluates(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = Counter[str]()
    for seed in range(block * 10, block * 10 + 10):
        with monkeypatch.context() as patched:
            did += play(seed, tmp_path / str(seed), patched)
    assert did["divided"] > 2 and did["stretches"] > 12, did


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_it_is_so_in_many_scenes(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(1000 + block * 100, 1100 + block * 100):
        with monkeypatch.context() as patched:
            play(seed, tmp_path / str(seed), patched)


def test_a_stretch_needs_no_snapshot_before_it(tmp_path: Path) -> None:
    """While tasks run, what was caught up with is deleted; every 256 snapshots the catalog is stored as a whole."""
    scene = Scene([Window("w1", 1, 10, 5)], "WINDOW :w1 { ?a :p ?b }", "SELECT ?a ?b", "RSTREAM", {1: 0, 2: 0})
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store")) as store:
        player = Player(store, scene)
        defined_at = player.register()
        for time in range(600):
            head = player.play([Push(1, (), time)])
        state = QueryState(t0=0, after=500, sn=head - 50, behind_at=head - 50)
        store.floor(head - 50)
        store.collect()
    with closing(hbase_store.open(store.url, read_only=True)) as other:
        planned = Missed(store.url, 1, defined_at, head, state).planned(other)
        assert planned.registered.query.emits.value == "RSTREAM"


if __name__ == "__main__":
    play_seeds(play)
