"""Whatever dies, and whenever, and however late or often it is told: in the end the same was said, by number."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.mortal import WAYS, Way
from tests.simulation.world import CALM, UNREACHABLE, WILD, Story, Trouble, World, chained_story, held_story, story
from tests.stream_ext.sources.pretended_source import PretendedSource

LENGTH = 25


def observed(
    folder: Path, seed: int, trouble: Trouble, length: int = LENGTH, of: Callable[[int, int], Story] = story
) -> tuple[dict[str, list[object]], World]:
    folder.mkdir(parents=True)
    world = World(folder, of(seed, length), trouble, random.Random(f"trouble {seed}"))
    return world.run(), world  # type: ignore[return-value]


def compare(folder: Path, seed: int, length: int = LENGTH, of: Callable[[int, int], Story] = story) -> int:
    calm, _ = observed(folder / f"calm {seed}", seed, CALM, length, of)
    wild, world = observed(folder / f"wild {seed}", seed, WILD, length, of)
    for name, expected in calm.items():
        assert wild[name] == expected, f"seed {seed}, {name}: {world.trace[-20:]}"
    assert sum(map(len, calm.values())) > length, "little was said"
    return world.deaths


@pytest.mark.parametrize("block", range(2))
def test_a_world_in_which_everything_goes_wrong_says_what_a_calm_one_says(block: int, tmp_path: Path) -> None:
    assert sum(compare(tmp_path, seed) for seed in range(block * 4, block * 4 + 4)) > 10, "hardly anybody died"


@pytest.mark.parametrize("block", range(2))
def test_a_chain_in_a_world_in_which_everything_goes_wrong_says_what_it_says_in_a_calm_one(
    block: int, tmp_path: Path
) -> None:
    seeds = range(900 + block * 4, 904 + block * 4)
    assert sum(compare(tmp_path, seed, of=chained_story) for seed in seeds) > 10, "hardly anybody died"


@pytest.mark.parametrize("block", range(2))
def test_windows_that_hold_all_in_a_world_in_which_everything_goes_wrong(block: int, tmp_path: Path) -> None:
    seeds = range(300 + block * 4, 304 + block * 4)
    assert sum(compare(tmp_path, seed, of=held_story) for seed in seeds) > 10, "hardly anybody died"


@pytest.mark.parametrize("block", range(2))
def test_updates_of_a_source_that_is_held_are_as_updates_of_our_own_store(block: int, tmp_path: Path) -> None:
    deaths = 0
    for seed in range(700 + block * 4, 704 + block * 4):
        calm, _ = observed(tmp_path / f"calm {seed}", seed, CALM)
        (tmp_path / f"held {seed}").mkdir()
        trouble = random.Random(f"trouble {seed}")
        world = World(tmp_path / f"held {seed}", story(seed, LENGTH), WILD, trouble, source=PretendedSource())
        found = world.run()
        for name in calm.keys() - {"the store"}:  # which has nothing of the source
            assert found[name] == calm[name], f"seed {seed}, {name}: {world.trace[-20:]}"
        deaths += world.deaths
    assert deaths > 10, "hardly anybody died"


@pytest.mark.parametrize("block", range(2))
def test_a_store_that_is_not_reachable_now_and_then_changes_nothing(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.retry._PAUSE_MS", 0)
    failures = 0
    for seed in range(500 + block * 4, 504 + block * 4):
        calm, _ = observed(tmp_path / f"calm {seed}", seed, CALM)
        found, world = observed(tmp_path / f"unreachable {seed}", seed, UNREACHABLE)
        assert found == calm, f"seed {seed}: {world.trace[-20:]}"
        failures += sum(step.startswith("failed") for step in world.trace)
    assert failures > 10


def test_the_same_seed_takes_the_same_durable_steps(tmp_path: Path) -> None:
    first, one = observed(tmp_path / "first", 77, WILD)
    second, other = observed(tmp_path / "second", 77, WILD)
    assert (first, one.deaths, len(one.trace)) == (second, other.deaths, len(other.trace))
    # The late log is written beside the evaluation of the same snapshot: either may be first.
    assert [step for step in one.trace if step != "put_many"] == [step for step in other.trace if step != "put_many"]
    assert one.deaths > 3


def sweep(
    folder: Path,
    seed: int,
    way: Way,
    every: int,
    length: int,
    of: Callable[[int, int], Story] = story,
    chores: float = 0,
) -> None:
    calm, world = observed(folder / "calm", seed, Trouble(chores=chores, restarts=False), length, of)
    assert world.steps > 2 * length
    # With chores some commits are one, or two, as it happens: the last steps may not be reached.
    for step in range(1, (world.steps * 3 // 4 if chores else world.steps) + 1, every):
        found, died = observed(
            folder / f"{way} {step}", seed, Trouble(death_at=step, way=way, chores=chores), length, of
        )
        assert died.deaths == 1
        assert found == calm, f"seed {seed}, died {way} step {step}: {died.trace[max(0, step - 3) : step + 2]}"


@pytest.mark.parametrize("way", WAYS)
def test_a_death_at_any_durable_step_changes_nothing(way: Way, tmp_path: Path) -> None:
    sweep(tmp_path, 5, way, every=9, length=12)


@pytest.mark.parametrize("way", WAYS)
def test_a_death_at_any_durable_step_changes_nothing_of_what_is_saved(way: Way, tmp_path: Path) -> None:
    sweep(tmp_path, 4, way, every=11, length=14, of=held_story, chores=0.5)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_many_worlds_in_which_everything_goes_wrong(seed: int, tmp_path: Path) -> None:
    for more in range(5):
        compare(tmp_path, seed * 10 + more, length=60)
        compare(tmp_path / "chained", seed * 10 + more, length=60, of=chained_story)
        compare(tmp_path / "held", seed * 10 + more, length=60, of=held_story)


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(100, 104))
def test_a_death_at_every_durable_step_changes_nothing(seed: int, way: Way, tmp_path: Path) -> None:
    sweep(tmp_path, seed, way, every=1, length=25)
