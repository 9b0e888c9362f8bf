"""Many arrivals in one step emit what each of them emits in a step of its own: the same parts, bounds and numbers."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from stream_ext.continuous import run_plan
from stream_ext.continuous.catching_up.turns import UNHURRIED, TurnLimits
from stream_ext.continuous.numbered_network import NumberedNetwork
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.shard import Shard
from stream_ext.language.algebra.algebra import Register
from stream_ext.language.syntax import parse
from stream_ext.network.operators.instants import whole_answers
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.arrival_batching import why_one_by_one
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.arrival_model import Window
from tests.stream_ext.arrival_scene import PATTERNS, ArrivalScene
from tests.stream_ext.continuous.test_pieces import Pieces, compare, take
from tests.stream_ext.scene import EX, Change, Player, Push, Triple, _change

#: Those of the oracle's scenes; and more that differ in what they join, and in what is taken back.
TOGETHER = [
    *PATTERNS,
    ("SELECT ?a ?b ?c ?d", "@1{ ?a :p ?b . ?b :p ?c } @2{ ?c :p ?d }", 2),
    ("SELECT ?a ?c ?k", "@1{ ?a :p ?b } ?b :k ?k . @2{ ?c :p ?k } FILTER(?a != ?c)", 2),
    ("SELECT ?a ?b", "{ @1{ ?a :p ?b } } UNION { @2{ ?b :p ?a } }", 2),
    ("SELECT ?a ?u", "@1{ ?a :v ?v } BIND(?v + 1 AS ?u)", 1),
    ("SELECT ?a ?b ?c", "@1{ ?a :p ?b } @2{ ?a :p ?c }", 2),
    ("SELECT ?b ?c", "@1{ ?a :p ?b } @2{ ?x :p ?c }", 2),
    ("SELECT DISTINCT ?b ?k", "@1{ ?a :p ?b } OPTIONAL { ?b :k ?k }", 1),
    ("SELECT ?a", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?c } FILTER(?a != ?c) }", 2),
    ("SELECT ?a ?c ?d", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?c } } OPTIONAL { @2{ ?a :v ?d } }", 2),
    ("SELECT ?a ?c ?k", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?c } } ?a :k ?k", 2),
    ("SELECT ?a ?b ?d", "@1{ ?a :p ?b } MINUS { @2{ ?b :p ?c } } @2{ ?a :p ?d }", 2),
    ("SELECT ?a", "@1{ ?a :p ?b } FILTER EXISTS { @2{ ?b :p ?c } }", 2),
    ("SELECT ?a", "@1{ ?a :p ?b } FILTER NOT EXISTS { ?b :k ?k . @2{ ?k :p ?c } FILTER(?c != ?a) }", 2),
    ("SELECT ?a", "{ @1{ ?a :p ?b } } UNION { @2{ ?a :v ?b } } MINUS { @2{ ?a :p ?c } }", 2),
    ("SELECT (COUNT(?c) AS ?n)", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?c } }", 2),
    ("SELECT ?b (COUNT(*) AS ?n) (COUNT(?k) AS ?m)", "@1{ ?a :p ?b } OPTIONAL { ?b :k ?k } } GROUP BY ?b #", 1),
    ("SELECT ?b (COUNT(DISTINCT ?a) AS ?n) (COUNT(DISTINCT *) AS ?m)", "@1{ ?a :p ?b } } GROUP BY ?b #", 1),
    ("SELECT (SUM(?v) AS ?n) (AVG(?v) AS ?m) (COUNT(?k) AS ?l)", "@1{ ?a :v ?v } OPTIONAL { ?a :k ?k }", 1),
    ("SELECT ?a (MAX(?v) - MIN(?v) AS ?n)", "@1{ ?a :v ?v } } GROUP BY ?a HAVING(COUNT(*) > 1) #", 1),
    ("SELECT (COUNT(*) AS ?n)", "@1{ ?a :p ?b } } HAVING(COUNT(*) > 2) #", 1),
    ("SELECT ?k (COUNT(*) AS ?n)", "@1{ ?a :p ?b } ?b :k ?k . @2{ ?c :p ?k } } GROUP BY ?k #", 2),
    ("ASK", "@1{ ?a :p ?b } MINUS { @2{ ?b :p ?c } }", 2),
    ("CONSTRUCT { ?a :r _:x . _:x :s ?b }", "@1{ ?a :p ?b } OPTIONAL { ?b :k ?k }", 1),
    ("CONSTRUCT { ?b :r ?k }", "@1{ ?a :p ?b } OPTIONAL { @2{ ?b :p ?k } }", 2),
]


def is_together(select: str, pattern: str, count: int, r2s: str) -> bool:
    """Whether many evaluations of such a query are one step."""
    unit = parse(ArrivalScene("cqels", [Window(1, "NOW")] * count, select, pattern, r2s).text, "http://ex/")
    assert isinstance(unit, Register)
    return why_one_by_one(unit.query, logic_of(unit.query)) is None


def random_window(chance: random.Random, stream: int) -> Window:
    kind = chance.choice(["RANGE"] * 5 + ["NOW", "ALL", "TRIPLES", "ELEMENTS"])
    if kind != "RANGE":
        return Window(stream, kind, count=chance.choice([1, 3, 10, 60]))
    bounds = chance.choice(["(]", "(]", "[]", "[)"])
    return Window(
        stream, kind, chance.choice([5, 20, 90]), chance.choice([0, 0, 10]), chance.choice([0, 0, 4]), 0, bounds
    )


def scene_of(seed: int, patterns: Sequence[tuple[str, str, int]] = TOGETHER) -> ArrivalScene:
    chance = random.Random(f"numbered {seed}")
    select, pattern, count = chance.choice(patterns)
    windows = [random_window(chance, stream) for stream in [1, chance.choice([1, 2])][:count]]
    scene, now = ArrivalScene("cqels", windows, select, pattern, None), 0
    for _ in range(chance.randrange(3, 7)):
        if chance.random() < 0.3:
            scene.steps.append(_change(chance))
        pushes = []
        for _ in range(chance.randrange(1, 4)):
            elements, is_tidy = [], chance.random() < 0.7
            for _ in range(chance.choice([1, 5, 40])):
                now += chance.choice([0, 0, 1, 2])
                time = max(0, now - (0 if is_tidy else chance.choice([0, 0, 5, 50])))
                elements.append((time, tuple(_triple(chance) for _ in range(chance.randrange(1, 3)))))
            pushes.append(Push(chance.choice([1, 2]), tuple(elements)))
        scene.steps.append(pushes)
    return scene


def _triple(chance: random.Random) -> Triple:
    one, other = (f"<{EX}n{chance.randrange(20)}>" for _ in range(2))
    if chance.random() < 0.3:
        return one, f"<{EX}v>", f'"{chance.randrange(9)}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return one, f"<{EX}p>", other


def played(scene: ArrivalScene, folder: Path, pace: TurnLimits | None, seed: int) -> dict[int, list[Any]]:
    """`pace` None: each snapshot is stepped as a whole."""
    store, chance = hbase_store.open(f"lmdb:{folder}"), random.Random(seed)
    player = Player(store, scene)
    sn = player.register()
    pieces = Pieces(store, chance, sn - 1, pace or UNHURRIED)
    for step in [None, *scene.steps]:
        if step is not None and not isinstance(step, Change | list):
            raise TypeError(step)
        if step is not None:
            sn = player.play(step)
        pieces.step(sn)
    pieces.finish()
    store.close()
    return pieces.emitted


@pytest.mark.parametrize("block", range(6))
def test_many_in_one_step_are_what_each_is_alone(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emitted = 0
    for seed in range(block * 6, block * 6 + 6):
        scene = scene_of(seed)
        together = played(scene, tmp_path / f"{seed}", None, seed)
        cut = played(scene, tmp_path / f"cut{seed}", TurnLimits(7, None, 5, None), seed)
        with monkeypatch.context() as patched:
            patched.setattr(run_plan, "why_one_by_one", lambda query, select: "a test compares them")
            alone = played(scene, tmp_path / f"alone{seed}", None, seed)
        compare(together, alone, f"seed {seed}: {scene.text}")
        compare(cut, alone, f"seed {seed}, in pieces: {scene.text}")
        emitted += sum(map(len, alone.values()))
    assert emitted > 20


@pytest.mark.parametrize("block", range(3))
def test_whole_answers_of_many_in_one_step_are_what_each_is_alone(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under RSTREAM; in steps of many evaluations, and of few."""
    whole, rows = [each for each in TOGETHER if is_together(*each, "RSTREAM")], 0
    for seed in range(block * 4, block * 4 + 4):
        scene = scene_of(seed, whole)
        scene.r2s = "RSTREAM"
        with monkeypatch.context() as patched:
            if seed % 2:
                patched.setattr(whole_answers, "_ROWS_MAX", 200)
            together = played(scene, tmp_path / f"{seed}", None, seed)
            cut = played(scene, tmp_path / f"cut{seed}", TurnLimits(7, None, 5, None), seed)
            patched.setattr(run_plan, "why_one_by_one", lambda query, select: "a test compares them")
            alone = played(scene, tmp_path / f"alone{seed}", None, seed)
        compare(together, alone, f"seed {seed}: {scene.text}")
        compare(cut, alone, f"seed {seed}, in pieces: {scene.text}")
        rows += sum(len(each[3]) for each in together[1])
    assert len(whole) > 30 and rows > 100


def test_what_is_saved_after_a_step_is_what_is_saved_after_each_of_its_arrivals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of a query, with which another process goes on."""
    states: list[dict[int, QueryState]] = []
    for name in ("together", "alone"):
        if name == "alone":
            monkeypatch.setattr(run_plan, "why_one_by_one", lambda query, select: "a test compares them")
        scene, found = scene_of(3), dict[int, QueryState]()
        store = hbase_store.open(f"lmdb:{tmp_path / name}")
        player, shard = Player(store, scene), Shard(store)
        shard.build({}, player.register())
        for step in scene.steps:
            take(store, shard.step(player.play(step)), found, defaultdict(list))
        store.close()
        states.append(found)
    assert states[0] == states[1] != {}


def test_a_step_of_joined_windows_is_no_longer_than_the_shortest_of_them(tmp_path: Path) -> None:
    """Without a shared variable, rows that are in no window together would be joined by the million."""
    pattern = "@1{ ?a :p ?b . ?c :p ?d } @2{ ?e :p ?f }"
    for name, kinds in (("now", ("NOW", "NOW")), ("count", ("TRIPLES", "ELEMENTS"))):
        windows = [Window(1, kind, count=2) for kind in kinds]
        scene = ArrivalScene("cqels", windows, "SELECT ?a ?c ?e", pattern, None)
        elements = tuple((time, ((f"<{EX}s{time}>", f"<{EX}p>", f"<{EX}o>"),)) for time in range(400))
        scene.steps = [[Push(1, elements)]]
        said = played(scene, tmp_path / name, None, 1)
        assert len(said[1]) == 400
        assert [len(each[3]) for each in said[1][5:8]] == ([1] * 3 if name == "now" else [7] * 3)


def test_a_step_is_longer_than_its_windows_while_few_rows_are_found_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First no two elements agree, then all do."""
    steps: list[int] = []
    evaluate = NumberedNetwork.evaluate

    def noted(network: NumberedNetwork, moment: Any, times: Any, arrived: Any) -> Any:
        steps.append(len(times))
        return evaluate(network, moment, times, arrived)

    monkeypatch.setattr(NumberedNetwork, "evaluate", noted)
    windows = [Window(1, "RANGE", 10), Window(1, "RANGE", 10)]
    scene = ArrivalScene("cqels", windows, "SELECT ?a ?c", "@1{ ?a :p ?b } @2{ ?c :p ?b }", None)
    for batch in range(8):
        times = range(batch * 1500, batch * 1500 + 1500)
        keys = ["k" if batch >= 4 else f"k{time}" for time in times]
        elements = [
            (time, ((f"<{EX}s{time}>", f"<{EX}p>", f"<{EX}{key}>"),)) for time, key in zip(times, keys, strict=True)
        ]
        scene.steps.append([Push(1, tuple(elements))])
    rows = [len(each[3]) for each in played(scene, tmp_path / "store", None, 1)[1]]
    assert rows == [1] * 6000 + [1 + 2 * n for n in range(9)] + [19] * 5991
    assert 1000 < max(steps) <= 1500
    assert max(steps[-3:]) < 300


def played_long(folder: Path, snapshots: int, elements: int) -> tuple[int, list[int]]:
    """So many snapshots of so many elements; each is compared with a plain loop. How many rows were emitted, and the
    bytes that the network retained after each snapshot."""
    chance, now, rows, sizes = random.Random("long"), 0, 0, []
    windows = [Window(1, "RANGE", 50), Window(2, "TRIPLES", count=20)]
    scene = ArrivalScene("cqels", windows, "SELECT ?a ?b ?c", "@1{ ?a :p ?b } @2{ ?c :p ?b }", None)
    store = hbase_store.open(f"lmdb:{folder}")
    player, shard = Player(store, scene), Shard(store)
    shard.build({}, player.register())
    recent: deque[tuple[int, int]] = deque()  # times and keys of the first stream
    last: deque[int] = deque(maxlen=20)  # keys of the second
    for _ in range(snapshots):
        pushes, expected = [], 0
        for _ in range(elements // 100):
            stream, came = chance.choice([1, 2]), []
            for _ in range(100):
                now += chance.choice([0, 0, 0, 1])
                one, key = chance.randrange(1000), chance.randrange(200)
                came.append((now, ((f"<{EX}n{one}>", f"<{EX}p>", f"<{EX}k{key}>"),)))
            by_time: dict[int, list[int]] = defaultdict(list)
            for time, ((_, _, key_text),) in came:
                by_time[time].append(int(key_text[len(f"<{EX}k") : -1]))
            for time, keys in by_time.items():
                while recent and recent[0][0] <= time - 50:
                    recent.popleft()
                for key in keys:
                    if stream == 1:
                        recent.append((time, key))
                        expected += sum(other == key for other in last)
                    else:
                        last.append(key)
                        expected += sum(other == key for _, other in recent)
            pushes.append(Push(stream, tuple(came)))
        parts = shard.step(player.play(pushes))
        assert not shard.faults
        assert sum(len(part.columns[0]) for part in parts if part.emits) == expected
        rows += expected
        (run,) = shard.runs.all
        assert run.evaluator.numbered is not None
        sizes.append(run.evaluator.numbered.network.retained_bytes(0))
    store.close()
    return rows, sizes


def test_a_long_stream_is_joined_as_by_a_plain_loop_and_state_does_not_grow(tmp_path: Path) -> None:
    rows, sizes = played_long(tmp_path, 12, 1_000)
    assert rows > 2_000
    assert sizes[-1] < 2 * sizes[3]


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_a_million_elements_are_joined_as_by_a_plain_loop(tmp_path: Path) -> None:
    rows, sizes = played_long(tmp_path, 100, 10_000)
    assert rows > 200_000
    assert sizes[-1] < 2 * sizes[10]


@pytest.mark.parametrize("restarts", [False, True])
def test_whole_answers_over_full_windows_need_no_more_memory_after_a_restart(
    restarts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All arrivals in one step would be 600,000 rows, which the budget has no room for."""
    monkeypatch.setattr(whole_answers, "_ROWS_MAX", 20_000)
    scene = ArrivalScene("cqels", [Window(1, "RANGE", 100_000)], "SELECT ?a", "@1{ ?a :p ?b }", "RSTREAM")
    store, budget = hbase_store.open(f"lmdb:{tmp_path}"), Budget(bytes=8 << 20)
    player, shard = Player(store, scene), Shard(store, budget=budget)
    shard.build({}, player.register())
    for first in range(0, 2_000, 500):
        triples = tuple((f"<{EX}s{n}>", f"<{EX}p>", f"<{EX}o>") for n in range(first, first + 500))
        parts = shard.step(player.play([Push(1, ((first, triples),))]))
    if restarts:
        shard = Shard(store, budget=budget)
        shard.build({1: parts[-1].state}, int(store.head()))
    elements = tuple((time, ((f"<{EX}s{time}>", f"<{EX}p>", f"<{EX}o>"),)) for time in range(2_000, 2_300))
    parts = shard.step(player.play([Push(1, elements)]))
    assert shard.faults == {}
    assert sum(len(part.columns[0]) for part in parts) == sum(range(2_001, 2_301))
    store.close()
