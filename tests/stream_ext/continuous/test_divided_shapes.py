"""Whatever a query looks like: if it may be divided, all shards together emit what one emits, byte for byte.

python -m tests.stream_ext.continuous.test_divided_shapes SEED SHARDS [closes | arrivals | groups | faults | ...]"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.registered import Registered
from stream_ext.catalog.registered_text import RegisteredText, query_of
from stream_ext.continuous.assignment import division_over, may_divide
from stream_ext.errors import RilletError
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.divisible import KeyDivision, division_of
from stream_ext.plan.refused_syntax.refuse import first_refusal
from tests.stream_ext.continuous.query_shapes import random_shape
from tests.stream_ext.continuous.test_divided import AllDivided, WithFaults
from tests.stream_ext.many import filled
from tests.stream_ext.scene import BASE, Change, Push, Scene, Window


class RandomShapes(AllDivided):
    """Closes of windows; now and then a stream is silent for so long that thousands of closes come at once."""

    at_arrivals = False

    def __init__(self, seed: int, store: Store, shards: int) -> None:
        self.whys = set[str]()
        super().__init__(seed, store, shards)

    def _acted(self, action: str) -> None:
        super()._acted(action)
        self.whys |= {f"{placement}: {whole.why}" for placement, whole in self.merge._whole.items()}

    def _scene(self) -> Scene:
        scene = super()._scene()
        for _ in range(2_000):
            shape = random_shape(self.chance, self.at_arrivals)
            found = replace(scene, select=shape.select, pattern=shape.pattern, windows=self._windows(shape.windows))
            found = self._with_dialect(found)
            if self._is_accepted(filled(random.Random(0), found)):
                break
        steps = [*(each for each in scene.steps if isinstance(each, Change)), *self._pushes(shape.windows)]
        return replace(found, steps=self._with_leap(steps))

    def _is_accepted(self, scene: Scene) -> bool:
        division = _division(scene)
        return division is not None and (division.variable is not None or self.chance.random() < 0.2)

    def _windows(self, count: int) -> list[Window]:
        ranges, steps = self.chance.choice([10, 20, 30]), self.chance.choice([5, 7, 10])
        return [Window(f"w{n}", n, ranges if n == 1 else 15, steps) for n in range(1, count + 1)]

    def _with_dialect(self, scene: Scene) -> Scene:
        return scene

    def _with_leap(self, steps: list[Change | list[Push]]) -> list[Change | list[Push]]:
        if self.chance.random() < 0.8:
            return steps
        return [*steps, [Push(stream, (), 9_000) for stream in (1, 2)]]

    def _to_divide(self) -> frozenset[int]:
        """All that can be divided."""
        queries, catalog = self.registry.queries.values(), Catalog.read(self.store, self.store.head())
        able = {each.placement or each.number: each for each in queries if may_divide(each, catalog)}
        for each in able.values():
            division = division_over(Registered.of(each, catalog))
            self.did["summed"] += division.is_summed
            self.did["reads_all"] += division.reads_all
            self.did["partial_groups"] += division.partial_groups
        return frozenset(able)


class RandomArrivals(RandomShapes):
    """CQELS-QL: evaluated at each arrival."""

    at_arrivals = True

    def _windows(self, count: int) -> list[Window]:
        return [self._window(n) for n in range(1, count + 1)]

    def _window(self, n: int) -> Window:
        kind = self.chance.choice(["RANGE", "RANGE", "RANGE", "TRIPLES", "ELEMENTS"])
        return Window(f"w{n}", n, self.chance.choice([10, 20, 30]), 5, kind=kind, count=self.chance.choice((2, 5, 9)))

    def _with_dialect(self, scene: Scene) -> Scene:
        r2s = self.chance.choice(["ISTREAM", "ISTREAM", "RSTREAM"])
        windows = [replace(each, count=0) if each.kind == "RANGE" else each for each in scene.windows]
        return replace(scene, cqels=True, report=(), r2s=r2s, windows=windows)

    def _with_leap(self, steps: list[Change | list[Push]]) -> list[Change | list[Push]]:
        return steps


class ShapesWithFaults(RandomShapes, WithFaults):
    pass


class ArrivalsWithFaults(RandomArrivals, WithFaults):
    pass


class RandomGroups(RandomShapes):
    """Groups that have rows of several shards."""

    def _is_accepted(self, scene: Scene) -> bool:
        division = _division(scene)
        return division is not None and division.partial_groups


class GroupsWithFaults(RandomGroups, WithFaults):
    pass


_KINDS: dict[str, type[RandomShapes]] = {
    "closes": RandomShapes, "arrivals": RandomArrivals, "groups": RandomGroups, "faults": ShapesWithFaults,
    "arrivals_faults": ArrivalsWithFaults, "groups_faults": GroupsWithFaults,
}  # fmt: skip


def _division(scene: Scene) -> KeyDivision | None:
    """None: the language does not have it."""
    try:
        query = query_of(scene.text, BASE)
    except RilletError:
        return None
    shares = RegisteredText.of(query).parametrised is not None
    if first_refusal(query) is not None:
        return None
    return division_of(query, logic_of(query), shares)


def play(seed: int, folder: Path, shards: int, kind: type[RandomShapes] = RandomShapes) -> tuple[int, Counter[str]]:
    """How many emissions there were, and what happened."""
    store: Store = hbase_store.open(f"lmdb:{folder}")
    try:
        divided = kind(seed, store, shards)
        divided.run()
        divided.finish()
        if not issubclass(kind, WithFaults):
            assert not divided.did["whole"], f"seed {seed}: {sorted(divided.whys)}"
        return divided.compare_all(), divided.did
    finally:
        store.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", [RandomShapes, RandomGroups, RandomArrivals])
@pytest.mark.parametrize("shards", [2, 4])
def test_whatever_is_divided_emits_what_one_shard_emits(shards: int, kind: type[RandomShapes], tmp_path: Path) -> None:
    emitted, did = play(shards, tmp_path, shards, kind)
    assert emitted > 50 and did["united"] > 5, (emitted, did)


@pytest.mark.soak
@pytest.mark.parametrize("kind", _KINDS.values())
@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("block", range(50))
def test_whatever_is_divided_emits_what_one_shard_emits_thousands_of_times(
    block: int, shards: int, kind: type[RandomShapes], tmp_path: Path
) -> None:
    for seed in range(20_000 + block * 20, 20_000 + block * 20 + 20):
        play(seed, tmp_path / str(seed), shards, kind)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        chosen = _KINDS[sys.argv[3]] if len(sys.argv) > 3 else RandomShapes
        for given in sys.argv[1].split(","):
            first, _, last = given.partition("-")
            for seed in range(int(first), int(last or first) + 1):
                print(seed, *play(seed, Path(where) / f"{seed}", int(sys.argv[2]), chosen), flush=True)
