"""Queries of one template say in one network what each says in its own, whenever they come, go, pause and resume.

python -m tests.stream_ext.continuous.test_sharing SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.continuous.run import Run
from stream_ext.continuous.runs import Runs
from stream_ext.continuous.shard import Shard
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.many import AloneShard, Registry, filled, observed, parted
from tests.stream_ext.scene import EX, PATTERNS, Change, Push, Scene, Window, random_scene

#: With a % for each constant that is a query's own.
OF_TEMPLATES = [
    ("SELECT ?b", "WINDOW :w1 { % :p ?b }", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :p % }", 1),
    ("SELECT DISTINCT ?c", "WINDOW :w1 { % :p ?b . ?b :p ?c }", 1),
    ("SELECT *", "WINDOW :w1 { % :p % }", 1),
    ("SELECT *", "WINDOW :w1 { ?a ?any % }", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p % } WINDOW :w2 { ?a :p ?c }", 2),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p % . ?a :p ?c }", 2),
    ("SELECT ?a ?k", "WINDOW :w1 { ?a :p % } ?a :k ?k", 1),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } ?b :k %", 1),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } GRAPH :g1 { ?b :k ?c } ?c :k %", 1),
    ("SELECT ?a ?g ?k", "WINDOW :w1 { ?a :p % } GRAPH ?g { ?a :k ?k }", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :p % . ?a :p ?b FILTER(?b != %) }", 1),
    ("SELECT ?a ?v", "WINDOW :w1 { ?a :p % . ?a :v ?v FILTER(?v > 2 || ?a = %) }", 1),
    ("SELECT ?a ?v", "WINDOW :w1 { ?a :p % } OPTIONAL { WINDOW :w2 { ?a :v ?v FILTER(?v IN (2, 3)) } }", 2),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p % } OPTIONAL { ?a :k ?b FILTER(?b != %) }", 1),
    ("SELECT ?b", "WINDOW :w1 { % :p ?b } MINUS { WINDOW :w2 { ?b :p % } }", 2),
    ("SELECT ?b", "WINDOW :w1 { % :p ?b } FILTER NOT EXISTS { ?b :k % }", 1),
    ("SELECT ?b", "WINDOW :w1 { % :p ?b } FILTER EXISTS { WINDOW :w2 { ?b :p ?c } FILTER(?c != %) }", 2),
    ("SELECT ?a ?b", "{ WINDOW :w1 { ?a :p % } } UNION { ?a :k % }", 1),
    ("SELECT ?a ?b", "{ WINDOW :w1 { ?a :p % } } UNION { % :k ?b }", 1),
    ("SELECT ?b (COUNT(?a) AS ?n)", "WINDOW :w1 { ?a :p % . ?a :p ?b } } GROUP BY ?b #", 1),
    ("SELECT (COUNT(?b) AS ?n) (MAX(?b) AS ?m)", "WINDOW :w1 { % :p ?b }", 1),
    ("SELECT (SUM(?v) AS ?n)", "WINDOW :w1 { ?a :v ?v } ?a :k %", 1),
    ("SELECT ?a (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b } ?b :k % } GROUP BY ?a HAVING(COUNT(*) > 1) #", 1),
    ("SELECT ?b ?n", "WINDOW :w1 { % :p ?b } { SELECT ?b (COUNT(*) AS ?n) { ?b :k ?k } GROUP BY ?b }", 1),
    ("SELECT ?b ?n", "WINDOW :w1 { % :p ?b } { SELECT ?b (COUNT(*) AS ?n) { ?b :k % } GROUP BY ?b }", 1),
    ("SELECT ?b ?n", "WINDOW :w1 { ?b :p % } { SELECT (COUNT(*) AS ?n) { WINDOW :w1 { ?b :p % } } }", 1),
    ("ASK", "WINDOW :w1 { ?a :p % }", 1),
    ("ASK", "WINDOW :w1 { % :p ?b } ?b :k %", 1),
    ("ASK", "WINDOW :w1 { % :p % }", 1),
    ("SELECT ?c", "% :k ?b WINDOW :w1 { ?b :p+ ?c }", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :p ?b } ?b :k* % . ?a :k %", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :p ?b . % :p ?b } ?b :k* %", 1),
    ("SELECT ?t", 'WINDOW :w1 { % :v ?v BIND(CONCAT("t", STR(?v)) AS ?t) }', 1),
    ("SELECT ?b ?e", "WINDOW :w1 { % :p ?b } BIND(EXISTS { WINDOW :w1 { ?b :p ?c } } AS ?e)", 1),
    ("SELECT ?v", "WINDOW :w1 { % :v ?v } } ORDER BY DESC(?v) LIMIT 2 #", 1),
    ("SELECT ?b", "WINDOW :w1 { % :p ?b } } ORDER BY ?b #", 1),
    ("SELECT ?b", "WINDOW :w1 { % :p ?b } } LIMIT 1 #", 1),
    ("SELECT ?a ?k", "?a :k % MINUS { WINDOW :w1 { ?a :p ?k } }", 1),
]
#: Of CQELS-QL, with many evaluations in one step.
TOGETHER = [
    *OF_TEMPLATES[:23],
    *OF_TEMPLATES[26:29],
    ("SELECT ?a ?b", "{ WINDOW :w1 { ?a :p % } } UNION { WINDOW :w2 { % :p ?b } }", 2),
]
#: What is cut by ORDER BY and LIMIT: rows that are equal in what orders them may be cut.
CUT = [
    ("SELECT ?b ?c", "WINDOW :w1 { % :p ?b } { SELECT ?c { WINDOW :w1 { ?c :p ?d } } LIMIT 1 }", 1),
    ("SELECT ?b ?c", "WINDOW :w1 { % :p ?b } { SELECT ?b ?c { WINDOW :w1 { ?b :p ?c } } OFFSET 1 LIMIT 2 }", 1),
    ("SELECT ?b ?c", "WINDOW :w1 { % :p ?b } { SELECT ?c ?d { WINDOW :w1 { ?c :p ?d } } ORDER BY ?d LIMIT 1 }", 1),
    ("SELECT ?b ?c", "WINDOW :w1 { % :p ?b } OPTIONAL { SELECT ?c { WINDOW :w1 { ?c :p % } } LIMIT 1 }", 1),
    ("SELECT ?b", "WINDOW :w1 { % :p ?b } FILTER EXISTS { { SELECT ?b { WINDOW :w1 { ?b :p ?c } } LIMIT 1 } }", 1),
    ("SELECT ?b", "WINDOW :w1 { % :p ?b } MINUS { { SELECT ?b { WINDOW :w1 { ?b :p ?c } } ORDER BY ?c LIMIT 1 } }", 1),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p % . ?a :p ?b } } ORDER BY ?b LIMIT 1 #", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :p % . ?a :p ?b } } ORDER BY DESC(?b) OFFSET 1 LIMIT 2 #", 1),
]
#: Rows that ORDER BY takes for equal, or that come at once where there is none, of terms whose ids are not the same in
#: two networks, nor after a restart.
MADE = [
    ("SELECT ?t", 'WINDOW :w1 { % :p ?b . ?a :p ?b BIND(CONCAT("t", STR(?a)) AS ?t) } } ORDER BY ?b LIMIT 1 #', 1),
    ("SELECT (STR(?a) AS ?t)", "WINDOW :w1 { ?a :p % . ?a :p ?b } } ORDER BY DESC(?b) LIMIT 2 #", 1),
    (
        "SELECT ?t ?c",
        "WINDOW :w1 { ?a :p % . ?a :p ?b } OPTIONAL { ?a :k ?c } BIND(STR(?b) AS ?t) } ORDER BY ?v LIMIT 2 #",
        1,
    ),
    (
        "SELECT (SUM(?v + 0.5) AS ?n) (STR(?a) AS ?t)",
        "WINDOW :w1 { ?a :p % . ?a :v ?v } } GROUP BY ?a ORDER BY ?n LIMIT 1 #",
        1,
    ),
    ("SELECT ?t", 'WINDOW :w1 { % :p ?b . ?a :p ?b BIND(CONCAT("t", STR(?a)) AS ?t) } } LIMIT 2 #', 1),
    ("SELECT DISTINCT ?t", 'WINDOW :w1 { ?a :p ?b . ?b :p % BIND(CONCAT("t", STR(?a)) AS ?t) } } LIMIT 2 #', 1),
    ("SELECT ?a (SUM(?v + 0.5) AS ?n)", "WINDOW :w1 { ?a :p % . ?a :v ?v } } GROUP BY ?a OFFSET 1 LIMIT 1 #", 1),
]
MERGED = [
    ("SELECT ?a ?b", "?a :p %", 2),
    ("SELECT ?a ?c", "?a :p % . ?a :p ?c", 1),
    ("SELECT ?a ?k", "% :p ?b . ?b :k ?k", 2),
    ("SELECT ?b (COUNT(*) AS ?n)", "?b :p % } GROUP BY ?b #", 2),
    ("ASK", "?a :p % . % :k ?k", 2),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    yield opened
    opened.close()


@pytest.mark.parametrize("block", range(2))
def test_many_queries_say_what_each_says_by_itself(block: int, tmp_path: Path) -> None:
    shared = sum(play(seed, tmp_path / str(seed)) for seed in range(block * 10, block * 10 + 10))
    assert shared > 20, "these seeds share too little to prove anything"


def test_who_comes_when_nothing_else_does_does_not_hear_of_what_is_over(tmp_path: Path) -> None:
    play(60_100, tmp_path / "found by a soak")


def test_what_says_nothing_is_treated_alike_whoever_else_is_there(tmp_path: Path) -> None:
    play(60_537, tmp_path / "found by a soak")


@pytest.mark.parametrize("block", range(2))
def test_queries_at_arrivals_say_together_what_each_says_by_itself(block: int, tmp_path: Path) -> None:
    shared = sum(
        play(seed, tmp_path / str(seed), cqels=True) for seed in range(7000 + block * 10, 7000 + block * 10 + 10)
    )
    assert shared > 20, "these seeds share too little to prove anything"


@pytest.mark.parametrize("block", range(2))
def test_who_comes_late_shares_once_it_is_evaluated_at_the_same_arrivals(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered, make_one = list[int](), Runs._make_one_of

    def noted(runs: Runs, some: Sequence[Run], sn: int) -> None:
        gathered.append(len(some))
        make_one(runs, some, sn)

    monkeypatch.setattr(Runs, "_make_one_of", noted)
    for seed in range(9000 + block * 10, 9000 + block * 10 + 10):
        play(seed, tmp_path / str(seed), TOGETHER, cqels=True)
    assert len(gathered) > 15


def test_queries_over_counted_windows_emit_together_what_each_emits_by_itself(tmp_path: Path) -> None:
    shared = sum(play(seed, tmp_path / str(seed), TOGETHER, cqels=True, counted=True) for seed in range(9_100, 9_104))
    assert shared > 20, "these seeds share too little to prove anything"


@pytest.mark.parametrize("block", range(2))
def test_what_is_cut_is_cut_as_it_is_by_itself(block: int, tmp_path: Path) -> None:
    shared = sum(play(seed, tmp_path / str(seed), CUT) for seed in range(block * 10, block * 10 + 10))
    assert shared > 10, "these seeds share too little to prove anything"


@pytest.mark.parametrize("block", range(1))
def test_equal_rows_of_made_terms_are_cut_alike_everywhere(block: int, tmp_path: Path) -> None:
    shared = sum(play(seed, tmp_path / str(seed), MADE) for seed in range(block * 10, block * 10 + 10))
    assert shared > 10, "these seeds share too little to prove anything"


def test_a_first_arrival_from_before_registration_is_the_same_after_a_restart(tmp_path: Path) -> None:
    play(60_217, tmp_path / "found by a soak")


@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM"])
def test_a_shared_network_finds_no_rows_any_more_of_queries_that_have_gone(store: Store, r2s: str) -> None:
    """What it finds of them would be told to nobody: it would only cost, for as long as the others stay."""
    scene = Scene([Window("w1", 1, 30, 10)], "WINDOW :w1 { ?a :p % }", "SELECT ?a", r2s, {1: 0, 2: 0})
    registry = Registry.over(store, replace(scene, pattern="WINDOW :w1 { ?a :p :n1 }"))
    for n in (1, 2, 3):
        registry.register(replace(scene, pattern=f"WINDOW :w1 {{ ?a :p :n{n} }}").text)
    shard = Shard(store)
    shard.build({}, int(store.head()))

    def rows_at(time: int) -> list[int]:
        triples = tuple((f"<{EX}a{time}>", f"<{EX}p>", f"<{EX}n{n}>") for n in (1, 2, 3))
        shard.step(registry.player.play([Push(1, ((time, triples),)), Push(1, (), time + 5)]))
        (run,) = set(shard.runs.all)
        assert run.plan.is_shared
        return sorted(set(run.evaluator.last_result[0][0].tolist()))

    assert rows_at(5) == [1, 2, 3]
    shard.step(registry.drop(3))
    assert rows_at(15) == [1, 3]
    shard.step(registry.pause(2))
    assert rows_at(25) == [3]


def test_who_comes_after_elements_shares_nothing_with_who_comes_before_them(store: Store) -> None:
    """Both were never evaluated, as far as the shard knows that is built: the state of the first one is gone, for it
    will be dropped. What came before the second one is not new for it."""
    scene = Scene([Window("w1", 1, 30, 10)], "WINDOW :w1 { :n1 :p ?b }", "SELECT ?b", "ISTREAM", {1: 0, 2: 0})
    scene.cqels = True
    registry = Registry.over(store, scene)
    registry.register(scene.text)
    early = ((f"<{EX}n1>", f"<{EX}p>", f"<{EX}n1>"), (f"<{EX}n2>", f"<{EX}p>", f"<{EX}n3>"))
    registry.player.play([Push(1, ((5, early),))])
    registry.register(replace(scene, pattern="WINDOW :w1 { :n2 :p ?b }").text)
    late = max(registry.queries)
    shard = Shard(store)
    shard.build({}, int(store.head()))
    sn = registry.player.play([Push(1, ((7, ((f"<{EX}n2>", f"<{EX}p>", f"<{EX}n4>"),)),))])
    found = observed(store, parted(shard.step(sn), {}))
    assert [each[1] for key, each in found.items() if key[0] == late and key[2]] == [[(f"<{EX}n4>",)]]


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_queries_at_arrivals_say_together_what_each_says_by_itself_thousands_of_times(
    block: int, tmp_path: Path
) -> None:
    for seed in range(80_000 + block * 50, 80_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed), cqels=True)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_queries_over_counted_windows_emit_together_what_each_emits_by_itself_hundreds_of_times(
    block: int, tmp_path: Path
) -> None:
    for seed in range(90_000 + block * 50, 90_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed), TOGETHER if seed % 2 else OF_TEMPLATES, cqels=True, counted=True)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(200))
def test_many_queries_say_what_each_says_by_itself_thousands_of_times(block: int, tmp_path: Path) -> None:
    for seed in range(50_000 + block * 50, 50_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed))


def play(
    seed: int,
    folder: Path,
    templates: Sequence[tuple[str, str, int]] = OF_TEMPLATES,
    cqels: bool = False,
    counted: bool = False,
) -> int:
    """How many parts came from shared networks. `cqels`: of queries in CQELS-QL, most of all; `counted`: one of their
    windows has the last elements, or triples."""
    store = hbase_store.open(f"lmdb:{folder}")
    try:
        return Play(seed, store, templates, cqels, counted=counted).run()
    finally:
        store.close()


class Play:
    """Two shards, one of which is a Shard or `made` so, get the same; what they say is compared."""

    def __init__(
        self,
        seed: int,
        store: Store,
        templates: Sequence[tuple[str, str, int]],
        cqels: bool = False,
        made: Callable[[Store], Shard] = Shard,
        counted: bool = False,
    ) -> None:
        self.cqels, self.made, self.counted = cqels, made, counted
        self.seed, self.chance, self.store, self.templates = seed, random.Random(seed), store, templates
        self.scenes = [self._scene(), self._scene()]
        self.registry = Registry.over(store, filled(self.chance, self.scenes[0]))
        self.together, self.alone = made(store), AloneShard(store)
        self.states: dict[int, QueryState] = {}
        self.apart: dict[int, QueryState] = {}
        self.paused: set[int] = set()
        sn = int(store.head())
        self.together.build({}, sn)
        self.alone.build({}, sn)

    def _scene(self) -> Scene:
        """A random scene, with a template for its pattern."""
        scene = random_scene(self.chance.randrange(1 << 30))
        chosen = MERGED if scene.merged else self.templates
        if self.chance.random() < 0.1:
            chosen = MERGED if scene.merged else PATTERNS
        scene.select, scene.pattern, count = self.chance.choice(chosen)
        first = scene.windows[0]
        second = Window("w2", 2, first.range_ms, self.chance.choice((first.step_ms, 7)), first.t0_ms)
        scene.windows = [first, *([second] if count == 2 else [])]
        if self.cqels and not scene.merged:
            scene.cqels, scene.report = True, ()
            scene.r2s = "ISTREAM" if self.templates is TOGETHER else scene.r2s
            if self.counted:
                kind, place = self.chance.choice(("TRIPLES", "ELEMENTS")), self.chance.randrange(len(scene.windows))
                scene.windows[place] = replace(scene.windows[place], kind=kind, count=self.chance.choice((1, 2, 5, 30)))
        return scene

    def run(self) -> int:
        shared = 0
        first, second = self.scenes
        steps = [*first.steps, *(_later(step, 300) for step in second.steps)]
        for step in steps:
            for _ in range(self.chance.choice((0, 1, 1, 2, 5))):
                self._change()
            if self.chance.random() < 0.12 and self.templates is not CUT:  # a restart ranks anew inside a sub-SELECT
                self.together = self.made(self.store)
                self.together.build(self.states, int(self.store.head()))
            shared += self._compare(self._played(step))
        return shared

    def _played(self, step: Change | list[Push]) -> int:
        return int(self.registry.player.play(step))

    def _change(self) -> None:
        """Somebody comes, goes, pauses or goes on."""
        registry, there = self.registry, sorted(self.registry.queries)
        chosen = self.chance.random()
        if chosen < 0.6 or not there:
            sn = registry.register(filled(self.chance, self.chance.choice(self.scenes)).text)
        elif chosen < 0.75:
            sn = registry.drop(number := self.chance.choice(there))
            self.states.pop(number, None)
            self.paused.discard(number)
        elif self.paused and chosen < 0.9:
            number = self.chance.choice(sorted(self.paused))
            state = self.states.get(number)
            sn = registry.resume(number, None if state is None else state.t0)
            self.paused.discard(number)
        else:
            sn = registry.pause(number := self.chance.choice(there))
            self.paused.add(number)
        self._compare(sn)

    def _compare(self, sn: int) -> int:
        shared = {n for n, run in self.together.runs.of.items() if run.plan.is_shared}
        mine, theirs = parted(self.together.step(sn), self.states), parted(self.alone.step(sn), self.apart)
        assert not self.together.faults and not self.alone.faults, (self.seed, self.together.faults, self.alone.faults)
        emitted, expected = (sum(part.emits for part in parts) for parts in (mine, theirs))
        assert emitted == expected, f"seed {self.seed}, snapshot {sn}"
        one, other = observed(self.store, mine), observed(self.store, theirs)
        for key in one.keys() | other.keys():
            text = self.registry.queries[key[0]].text
            assert one.get(key) == other.get(key), f"seed {self.seed}, snapshot {sn}, query {key}: {text}"
        return sum(part.query in shared for part in mine)


def _later(step: Change | list[Push], by: int) -> Change | list[Push]:
    """Streams do not go back by as much as a scene lasts."""
    if isinstance(step, Change):
        return step
    return [
        Push(
            push.stream,
            tuple((time + by, triples) for time, triples in push.elements),
            None if push.heartbeat is None else push.heartbeat + by,
        )
        for push in step
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            print(f"seed {given}: {play(int(given), Path(where) / given)} parts of shared networks, nothing is wrong")
