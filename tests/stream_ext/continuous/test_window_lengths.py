"""Queries over windows of different lengths have one operator for all, and each says what it says by itself.

python -m tests.stream_ext.continuous.test_window_lengths SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.continuous import course, joint_parts
from stream_ext.continuous.query_budget import Budget
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shared_stage import SharedStage
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.rows.zset import ZSet
from tests.stream_ext.continuous import test_shared_stages
from tests.stream_ext.continuous.test_shared_stages import Scenery, SharingPlay, _classes_of, _stages_of
from tests.stream_ext.many import ApartShard
from tests.stream_ext.scene import Scene, Window

#: Sets of rows with several copies, of which some are stored.
SETS = [
    ("SELECT ?a ?c", "{ SELECT DISTINCT ?a ?b { WINDOW :w1 { ?a :p ?b } } } WINDOW :w1 { ?b :p ?c }", 1),
    (
        "SELECT ?b (COUNT(*) AS ?n)",
        "{ SELECT DISTINCT ?b { WINDOW :w1 { ?a :p ?b } } } WINDOW :w1 { ?b :p ?c } } GROUP BY ?b #",
        1,
    ),
    ("SELECT ?b ?m", "{ SELECT DISTINCT ?b { { WINDOW :w1 { ?a :p ?b } } UNION { ?a :k ?b } } } ?b :k ?m", 1),
    ("SELECT ?b", "{ SELECT DISTINCT ?b { { WINDOW :w1 { ?a :p ?b } } UNION { ?a :k ?b } } }", 1),
    ("SELECT DISTINCT ?m", "WINDOW :w1 { ?i :p ?j } ?i :k ?m", 1),
    ("SELECT ?m ?x", "{ SELECT DISTINCT ?m { WINDOW :w1 { ?i :p ?j } ?i :k ?m } } WINDOW :w1 { ?x :p ?m }", 1),
    (
        "SELECT ?b ?c",
        "{ SELECT DISTINCT ?b { { WINDOW :w1 { ?a :p ?b } } UNION { WINDOW :w2 { ?a :p ?b } } } } "
        "WINDOW :w2 { ?b :p ?c }",
        2,
    ),
    (
        "SELECT ?b",
        "{ SELECT DISTINCT ?b { { WINDOW :w1 { ?a :p ?b } } UNION { WINDOW :w2 { ?a :p ?b } } } } FILTER(?b != :n1)",
        2,
    ),
]


def longer(scene: Scene, chance: random.Random) -> Scene:
    """Its windows are longer by some steps, or the first one only."""
    by_ms = scene.windows[0].step_ms * chance.choice((0, 1, 2, 5, 9))
    only_first = chance.random() < 0.2
    windows = [
        replace(window, range_ms=window.range_ms + by_ms * (not (only_first and number)))
        for number, window in enumerate(scene.windows)
    ]
    return replace(scene, windows=windows)


class Lengths(SharingPlay):
    """The windows of a query are all longer by some steps, or the first one only."""

    def _change(self) -> None:
        many = self._many
        self._many = [longer(scene, self.chance) for scene in many]
        super()._change()
        self._many = many


class Narrowed:
    """How often the rows of an operator over longer windows were read, and what it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kinds = Counter[str]()
        stepped = SharedStage._stepped

        def counted(stage: SharedStage, moment: Moment) -> ZSet:
            change = stepped(stage, moment)
            if stage.longer is not None:
                self.kinds[type(stage.operator).__name__] += 1
            return change

        monkeypatch.setattr(SharedStage, "_stepped", counted)


class OfLengths(Scenery):
    """Queries over one stream, each over a window of its own length."""

    def __init__(self, store: Store, sharing: ApartShard | None = None) -> None:
        super().__init__(store, 40, sharing)

    def over(self, range_ms: int, pattern: str, select: str = "SELECT *", step_ms: int = 10) -> int:
        self._windows = [Window("w1", 1, range_ms, step_ms)]
        return self.register(pattern, select)

    @property
    def registered(self) -> int:
        """The number of the last query."""
        return self._registry.used

    @property
    def stages(self) -> list[SharedStage]:
        return list(dict.fromkeys(_stages_of(self.sharing)))

    def longer(self) -> dict[str, list[int]]:
        """Of each kind of operator, by how much those are longer whose rows others have."""
        found: dict[str, list[int]] = {}
        for stage in self.stages:
            if stage.longer is not None:
                found.setdefault(type(stage.operator).__name__, []).append(stage.by_ms)
        return {kind: sorted(by) for kind, by in found.items()}

    def operators(self) -> Counter[str]:
        """Those that are shared."""
        return Counter(type(stage.operator).__name__ for stage in self.stages if stage.longer is None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    yield opened
    opened.close()


@pytest.mark.parametrize("lengths", [(40, 20, 10), (10, 20, 40), (20, 40, 10)])
def test_windows_of_several_lengths_have_one_join(lengths: tuple[int, ...], store: Store) -> None:
    """Whichever comes first; rows come and go at the times of each."""
    both = OfLengths(store)
    for number, length in enumerate(lengths):
        both.over(length, f"?a :p ?b . ?b :q ?c{number}")
    for time in range(5, 125, 10):
        both.push(time, f"a p b{time}", f"b{time - 10} q c", f"b{time - 20} q c")
    assert both.longer() == {"WindowScan": [20, 20, 30, 30], "JoinOperator": [20, 30]}
    assert both.operators() == {"WindowScan": 2, "JoinOperator": 1}
    for time in range(131, 201, 10):
        both.push(time)
    both.push(205, "a p b", "b q c")


def test_a_triple_that_comes_again_is_in_each_window_until_its_last_copy_leaves_that(store: Store) -> None:
    """The long window still shows the first copy when the short one needs the second."""
    both = OfLengths(store)
    both.over(60, "?a :p ?b")
    both.over(20, "?x :p ?y FILTER(?x != ?y)")
    both.over(30, "?x :p ?y", "SELECT (COUNT(*) AS ?n)")
    for time in (5, 15, 45):
        both.push(time, "a p b", f"a{time} p b")
    for time in range(51, 131, 10):
        both.push(time)
    assert both.longer()["WindowScan"] == [30, 40], "they have one in the end"
    for time in (135, 145, 155, 175, 195):
        both.push(time, "a p b", "c p d")
    for time in range(201, 301, 10):
        both.push(time)


def test_who_comes_later_over_a_longer_window_has_the_operators_from_then_on(store: Store) -> None:
    both = OfLengths(store)
    first = both.over(20, "?a :p ?b . ?b :q ?c")
    for time in range(5, 65, 10):
        both.push(time, f"a p b{time}", f"b{time} q c")
    assert both.operators() == {}
    both.over(50, "?x :p ?y . ?y :q ?z")
    for time in range(65, 105, 10):
        both.push(time, f"a p b{time}", f"b{time - 20} q c")
    assert both.longer() == {"WindowScan": [30, 30], "JoinOperator": [30]}
    both.drop(first)
    for time in range(105, 165, 10):
        both.push(time, f"a p b{time}", f"b{time - 20} q c")
    assert both.longer() == {}


def test_the_operators_stay_when_the_longest_window_is_dropped(store: Store) -> None:
    """Over the longest window that is left, whoever has them."""
    both = OfLengths(store)
    longest = both.over(60, "?a :p ?b . ?b :q ?c")
    second = both.over(30, "?a :p ?b . ?b :q ?c . FILTER(?a != ?c)")
    both.over(20, "?x :p ?y . ?y :q ?z")

    def push_until(first: int, last: int) -> None:
        for time in range(first, last, 10):
            both.push(time, f"a p b{time}", f"b{time - 10} q c", f"b{time - 20} q a")

    def ranges() -> set[int]:
        return {each.operator.window.range_ms for each in both.stages if isinstance(each.operator, WindowScan)}

    push_until(5, 75)
    both.drop(longest)
    push_until(75, 125)
    assert both.longer() == {"WindowScan": [10, 10], "JoinOperator": [10]}
    assert ranges() == {30}
    both.drop(second)
    push_until(125, 175)
    assert both.longer() == {}
    assert both.operators() == {"WindowScan": 2, "JoinOperator": 1}
    assert ranges() == {20}


def test_what_was_not_alike_yet_is_forgotten_with_the_queries(store: Store) -> None:
    """Triples that come again show it: operators over windows of two lengths are compared once more, later."""
    both = OfLengths(store)
    for length in (20, 40):
        both.over(length, "?a :other ?b")
    both.push(5, "a other b")
    for time in range(25, 125, 20):
        for again in (0, 10):
            both.push(time + again, f"a p{time} b", "a other b")
        for length in (20, 40):
            both.over(length, f"?a :p{time} ?b")
        both.push(time + 16, f"a p{time} b")
        for number in (both.registered - 1, both.registered):
            both.drop(number)
    (shared,) = {each.shared for each in _classes_of(both.sharing)}
    both.push(135, "a other b")
    assert len(shared._unlike) <= 1


def test_who_sleeps_wakes_when_rows_leave_its_own_window(store: Store) -> None:
    both = OfLengths(store)
    both.over(80, "?a :p ?b")
    both.over(30, "?a :p ?b BIND(1 AS ?one)")
    for time in (5, 11, 21):
        both.push(time, f"a p b{time}")
    assert both.longer() == {"WindowScan": [50]}
    counts = [[len(part.columns[0]) for part in both.push(time)] for time in range(31, 121, 10)]
    runs = both.sharing.runs
    assert counts == [[3, 3], [3, 2], [3, 1], [3, 0], [3, 0], [3, 0], [2, 0], [1, 0], [0, 0]]
    assert not list(runs.awake), "nothing is left that could leave"


@pytest.mark.parametrize(("length", "step_ms"), [(810, 10), (45, 10), (50, 20)])
def test_windows_that_are_too_long_or_end_at_other_times_have_operators_of_their_own(
    length: int, step_ms: int, store: Store
) -> None:
    both = OfLengths(store)
    both.over(100 if length > 100 else 20, "?a :p ?b . ?b :q ?c")
    both.over(length, "?x :p ?y . ?y :q ?z", step_ms=step_ms)
    for time in range(5, 125, 10):
        both.push(time, f"a p b{time}", f"b{time - 20} q c")
    assert both.longer() == {}


def test_the_budget_of_a_query_counts_the_part_of_its_own_window(store: Store) -> None:
    both = OfLengths(store)
    both.over(400, "?a :p ?b . ?b :q ?c")
    both.over(100, "?a :p ?b . ?b :q ?c . FILTER(?a != ?c)")
    for time in range(5, 905, 10):
        both.push(time, *(f"a{number} p b{time}x{number}" for number in range(20)), f"b{time}x1 q c")
    networks = [both.sharing.runs.of[number].evaluator.triggered(False).network for number in (2, 3)]
    long, short = [network.state_bytes for network in networks]
    assert 0.2 * long < short < 0.6 * long
    long, short = [network.retained_bytes(1 << 40) for network in networks]
    assert 0 < short < long


def test_what_does_not_fit_over_the_longest_window_is_no_fault_of_who_has_a_shorter_one(store: Store) -> None:
    """Though this came first: the longest one is stepped before it."""
    both = OfLengths(store, ApartShard(store, budget=Budget(bytes=1_500_000)))
    short, long = (both.over(length, "?a :p ?b . ?c :q ?b FILTER(STR(?a) = STR(?c))") for length in (20, 160))
    for time in range(5, 165, 10):
        both.push(time, *(f"a{time}x{number} {p} b" for number in range(30) for p in "pq"))
    assert list(both.sharing.faults) == [long]
    assert both.sharing.faults[long].startswith("QueryTooLarge")
    assert short in both.sharing.runs.of


def test_what_does_not_fit_over_a_window_that_is_gone_is_nobodys_fault(store: Store) -> None:
    both = OfLengths(store, ApartShard(store, budget=Budget(bytes=1_500_000)))
    long, *_ = (both.over(length, "?a :p ?b . ?c :q ?b FILTER(STR(?a) = STR(?c))") for length in (160, 50, 20))
    for time in range(5, 265, 10):
        both.push(time, *(f"a{time}x{number} {p} b" for number in range(20) for p in "pq"))
        if time == 55:
            assert both.longer()["JoinOperator"] == [110, 140]
            both.drop(long)
    assert not both.sharing.faults
    assert both.longer()["JoinOperator"] == [30]


@pytest.mark.parametrize("first", [0, 6])
def test_queries_over_windows_of_different_lengths_say_what_each_says_by_itself(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = Counter[str]()
    for seed in range(first, first + 3):
        kinds += play(seed, tmp_path / str(seed), monkeypatch)
    assert kinds.total() > 20, f"rows over longer windows were read {kinds} times"


def test_who_goes_its_own_way_leaves_the_operators_to_those_over_shorter_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(3003, tmp_path / "found by a soak", monkeypatch)


@pytest.mark.parametrize("seed", [19, 27])
def test_sets_over_windows_of_different_lengths_are_those_of_each(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_shared_stages, "PATTERNS", SETS)
    assert play(seed, tmp_path / "store", monkeypatch)["Distinct"] > 0


def test_distinct_has_the_rows_of_a_longer_window_after_a_retraction(store: Store) -> None:
    """A scan over several lengths takes back a row of which a copy comes: DISTINCT sees that before it shows each of
    its rows with the latest copy."""
    both, pattern = OfLengths(store), "{ SELECT DISTINCT ?b { ?a :p ?b } } ?b :q ?c"
    for length, times in ((60, range(5, 65, 10)), (30, range(65, 165, 10))):
        both.over(length, f"{pattern}{length}")
        for time in times:
            both.push(time, "a p b", f"a{time} p b", "b q c")
    for time in range(165, 325, 10):
        both.push(time, f"a p b{time}", f"b{time} q c")
    assert both.longer()["Distinct"] == [30]


def test_windows_that_are_merged_have_one_join(store: Store) -> None:
    """A triple is in the merge as often as it is in one of them: once."""
    both, merged = OfLengths(store), "{ SELECT DISTINCT ?a ?b { { ?a :p ?b } UNION { ?a :r ?b } } }"
    for length in (60, 20, 30):
        both.over(length, f"{merged} ?b :q ?c{length}")
    for time in range(5, 125, 10):
        both.push(time, f"a p b{time}", f"a r b{time - 10}", f"b{time - 10} q c", f"b{time - 20} q c")
    assert both.longer()["Distinct"] == both.longer()["JoinOperator"] == [30, 40]
    for time in range(131, 201, 10):
        both.push(time)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_sets_over_windows_of_different_lengths_are_those_of_each_thousands_of_times(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_shared_stages, "PATTERNS", SETS)
    for seed in range(50_000 + block * 50, 50_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed), monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_queries_over_windows_of_different_lengths_say_what_each_says_by_itself_thousands_of_times(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(50_000 + block * 50, 50_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed), monkeypatch)


def play(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    chance = random.Random(seed)
    store: Store = hbase_store.open(f"lmdb:{folder}")
    try:
        with monkeypatch.context() as patched:
            narrowed = Narrowed(patched)
            patched.setattr(course, "_CLOSES_MAX", chance.choice((2, 16)))
            patched.setattr(joint_parts, "TOGETHER_MIN", chance.choice((1, 3, 1_000)))
            Lengths(seed, store).run()
    finally:
        store.close()
    return narrowed.kinds


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            first, _, last = given.partition("-")
            for number in range(int(first), int(last or first) + 1):
                print(f"seed {number}: {play(number, Path(where) / str(number), pytest.MonkeyPatch())}", flush=True)
