"""Queries that are divided among shards by a key say what one shard says, whatever dies or is handed over.

python -m tests.stream_ext.continuous.test_divided SEED SHARDS"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

import hbase_store
from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.registered_text import query_of
from stream_ext.continuous.assignment import may_divide
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.placement import ShardPlan
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.divisible import division_of
from stream_ext.rows.key_range import Ranges
from tests.stream_ext.continuous.test_shards import Divided
from tests.stream_ext.emissions.test_merge import definition
from tests.stream_ext.opened import opened, registration
from tests.stream_ext.scene import BASE, EX, Change, Push, Scene, Window, random_scene

#: With the key that each is divided by. A % is a constant, so that it is a template of several queries.
BY_KEY = [
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b }", 1, "a"),
    ("SELECT ?b ?a", "WINDOW :w1 { ?a :p ?b }", 1, "a"),
    ("SELECT ?a ?b ?c", "WINDOW :w1 { ?a :p ?b . ?a :p ?c }", 1, "a"),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b . ?b :p ?c }", 1, "b"),
    ("SELECT ?a ?b ?c", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?a :p ?c }", 2, "a"),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b . ?b :p ?a }", 1, "a"),
    ("SELECT ?a ?b ?c ?d", "WINDOW :w1 { ?a :p ?b . ?c :p ?a . ?d :p ?a }", 1, "a"),
    ("SELECT ?a ?v ?c", "WINDOW :w1 { ?a :v ?v } OPTIONAL { WINDOW :w2 { ?a :p ?c FILTER(?c != :n2) } }", 2, "a"),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } MINUS { WINDOW :w2 { ?a :p :n1 } }", 2, "a"),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } FILTER NOT EXISTS { WINDOW :w2 { ?b :p ?a } }", 2, "a"),
    ("SELECT ?a ?b ?k", "WINDOW :w1 { ?a :p ?b } ?b :k ?k", 1, "a"),
    ("SELECT ?a ?k", "WINDOW :w1 { ?a :p ?b } OPTIONAL { ?a :k ?k }", 1, "a"),
    ("SELECT ?a ?b", "{ WINDOW :w1 { ?a :p ?b } } UNION { WINDOW :w2 { ?a :v ?b } }", 2, "a"),
    ("SELECT DISTINCT ?a", "WINDOW :w1 { ?a :p ?b }", 1, "a"),
    ("SELECT ?a (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b } } GROUP BY ?a #", 1, "a"),
    ("SELECT ?b (COUNT(DISTINCT ?a) AS ?n)", "WINDOW :w1 { ?a :p ?b } } GROUP BY ?b HAVING(COUNT(*) > 1) #", 1, "b"),
    ("SELECT ?a (AVG(?v + 0.5) AS ?m) (MAX(?v) AS ?h)", "WINDOW :w1 { ?a :v ?v } } GROUP BY ?a #", 1, "a"),
    ("SELECT ?a ?t", 'WINDOW :w1 { ?a :v ?v BIND(CONCAT("t", STR(?a)) AS ?t) }', 1, "a"),
    ("SELECT ?a ?n", "{ SELECT ?a (SUM(?v) AS ?n) { WINDOW :w1 { ?a :v ?v } } GROUP BY ?a } FILTER(?n > 2)", 1, "a"),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p % } WINDOW :w2 { ?a :p ?c }", 2, "a"),
    ("SELECT ?b", "WINDOW :w1 { % :p ?b . ?b :p ?c }", 1, "b"),
    ("SELECT ?a (COUNT(?b) AS ?n)", "WINDOW :w1 { ?a :p ?b } ?b :k % } GROUP BY ?a #", 1, "a"),
    # Some patterns are without the key: each shard reads all of them.
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b . ?b :p ?d . ?d :p ?c }", 1, "b"),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :v ?v } WINDOW :w2 { ?c :v ?u } FILTER(?v < ?u)", 2, "a"),
    ("SELECT ?b (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?c :v ?v } } GROUP BY ?b #", 2, "b"),
    ("SELECT DISTINCT ?b", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?c :v ?v }", 2, "b"),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } FILTER NOT EXISTS { WINDOW :w2 { ?c :p :n1 } }", 2, "a"),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } OPTIONAL { WINDOW :w2 { ?b :p ?c } }", 2, "b"),
    ("SELECT ?a ?b ?c", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p+ ?c }", 2, "a"),
    # Their rows are summed.
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } } ORDER BY ?b #", 1, "a"),
    ("SELECT ?a", "WINDOW :w1 { ?a :p ?b } } ORDER BY DESC(?b) LIMIT 3 OFFSET 1 #", 1, "a"),
    ("SELECT DISTINCT ?b", "WINDOW :w1 { ?a :p ?b . ?a :p :n2 } } ORDER BY ?a LIMIT 2 #", 1, "a"),
    ("SELECT ?a (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b } } GROUP BY ?a ORDER BY DESC(?n) LIMIT 2 #", 1, "a"),
    ("SELECT ?t ?a", 'WINDOW :w1 { ?a :v ?v BIND(CONCAT("t", STR(?v)) AS ?t) } } ORDER BY ?v LIMIT 3 #', 1, "a"),
    ("SELECT ?c", "WINDOW :w1 { ?a :p ?b } ?b :k ?c", 1, "a"),
    ("CONSTRUCT { ?b :of ?a . ?a :is :n1 }", "WINDOW :w1 { ?a :p ?b }", 1, "a"),
    ("CONSTRUCT { ?a :mean ?m }", "{ SELECT ?a (AVG(?v) AS ?m) { WINDOW :w1 { ?a :v ?v } } GROUP BY ?a }", 1, "a"),
    ("ASK", "WINDOW :w1 { ?a :p ?b . ?a :p :n3 }", 1, "a"),
    ("SELECT ?b", "WINDOW :w1 { ?a :p % . ?a :p ?b } } ORDER BY DESC(?b) LIMIT 2 #", 1, "a"),
    # Their groups have rows of several shards.
    ("SELECT (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b }", 1, "a"),
    ("SELECT (AVG(?v) AS ?m) (MIN(?v) AS ?l) (SUM(?v + 0.5) AS ?s)", "WINDOW :w1 { ?a :v ?v }", 1, "a"),
    ("SELECT (COUNT(DISTINCT ?b) AS ?n) (COUNT(*) AS ?m)", "WINDOW :w1 { ?a :p ?b }", 1, "b"),
    ("SELECT ?c (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b } ?b :k ?c } GROUP BY ?c #", 1, "a"),
    (
        "SELECT ?c (AVG(?v) AS ?m)",
        "WINDOW :w1 { ?a :v ?v } ?a :k ?c } GROUP BY ?c HAVING(COUNT(*) > 1) ORDER BY ?m #",
        1,
        "a",
    ),
    ("CONSTRUCT { :all :mean ?m }", "{ SELECT (AVG(?v) AS ?m) { WINDOW :w1 { ?a :v ?v } } }", 1, "a.1"),
    ("SELECT (MAX(?v) AS ?h) (AVG(?v) AS ?m)", "WINDOW :w1 { ?a :p % . ?a :v ?v } } HAVING(COUNT(*) != 2) #", 1, "a"),
    (
        "SELECT ?c (COUNT(*) AS ?n)",
        "WINDOW :w1 { ?a :p % . ?a :v ?v } ?a :k ?c } GROUP BY ?c HAVING(SUM(?v) > 3) #",
        1,
        "a",
    ),
]
#: And why these are not.
WHOLE = [
    ("SELECT (COUNT(DISTINCT ?a) AS ?n) (COUNT(DISTINCT ?b) AS ?m)", "WINDOW :w1 { ?a :p ?b }", 1, "DISTINCT"),
    ("SELECT (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b } } HAVING(EXISTS { ?x :k ?y }) #", 1, "EXISTS"),
    ("ASK", "WINDOW :w1 { ?a :p ?b } ?b :k ?c } GROUP BY ?c HAVING(COUNT(*) > 2) #", 1, "ASK of groups"),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } } LIMIT 2 #", 1, "LIMIT"),
    ("SELECT ?a (SAMPLE(?b) AS ?s)", "WINDOW :w1 { ?a :p ?b } } GROUP BY ?a #", 1, "SAMPLE"),
    ("SELECT ?a (GROUP_CONCAT(STR(?b)) AS ?s)", "WINDOW :w1 { ?a :p ?b } } GROUP BY ?a #", 1, "GROUP_CONCAT"),
    ("SELECT ?a (RAND() AS ?r)", "WINDOW :w1 { ?a :p ?b }", 1, "another at each evaluation"),
    ("SELECT ?a (<http://ex/f>(?b) AS ?r)", "WINDOW :w1 { ?a :p ?b }", 1, "of others"),
    ("SELECT (AVG(?v) AS ?m) ?a", "WINDOW :w1 { ?a :v ?v } } GROUP BY ?a #", 1, "?m is computed"),
    ("SELECT ?a ?b", "{ WINDOW :w1 { ?a :p ?b } } UNION { ?a :k ?b }", 1, "no variable"),
    (
        "SELECT ?a ?m ?v",
        "{ WINDOW :w1 { ?a :v ?v BIND(?v / 3 AS ?m) } } UNION { WINDOW :w2 { ?a :v ?v BIND(?v / 7 AS ?m) } }",
        2,
        "?m is computed in several places",
    ),
    ("SELECT ?b", "?a :k ?b MINUS { WINDOW :w1 { ?a :p ?c } }", 1, "no variable"),
    ("SELECT ?a ?t", 'WINDOW :w1 { ?a :v ?v BIND(CONCAT("t", STR(?v)) AS ?t) } } ORDER BY ?t #', 1, "?t is computed"),
    ("CONSTRUCT { ?a :is ?b }", "WINDOW :w1 { ?a :p ?b } } ORDER BY ?b LIMIT 2 #", 1, "LIMIT"),
    ("CONSTRUCT { _:x :is ?b }", "WINDOW :w1 { ?a :p ?b }", 1, "blank node"),
    ("CONSTRUCT { ?a :is ?t }", "WINDOW :w1 { ?a :v ?v BIND(?v + 0.5 AS ?t) }", 1, "?t is computed"),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b } { SELECT ?c { WINDOW :w2 { ?c :p ?d } } LIMIT 1 }", 2, "no variable"),
]


def _division(
    select: str, pattern: str, windows: int, r2s: str = "RSTREAM", report: str = ""
) -> tuple[str | None, str, bool]:
    froms = " ".join(f"FROM NAMED WINDOW :w{n} ON :s{n} [RANGE PT3S STEP PT1S{report}]" for n in range(1, windows + 1))
    text = f"PREFIX : <{EX}> REGISTER {r2s} :q AS {select} {froms} WHERE {{ {pattern.replace('%', ':n1')} }}"
    query = query_of(text, BASE)
    return division_of(query, logic_of(query))[:3]


@pytest.mark.parametrize(("select", "pattern", "windows", "key"), BY_KEY)
def test_a_query_is_divided_by_what_is_in_all_of_its_windows(
    select: str, pattern: str, windows: int, key: str | None
) -> None:
    assert _division(select, pattern, windows)[0] == key


@pytest.mark.parametrize(("select", "pattern", "windows", "why"), WHOLE)
def test_what_needs_the_rows_of_other_shards_is_whole(select: str, pattern: str, windows: int, why: str) -> None:
    variable, found, _ = _division(select, pattern, windows)
    assert variable is None and why in found


def test_a_row_may_be_new_in_one_shard_only_if_it_has_the_key_or_is_summed() -> None:
    for r2s, key in (("RSTREAM", "a"), ("ISTREAM", "b"), ("DSTREAM", "b")):
        assert _division("SELECT ?b", "WINDOW :w1 { ?a :p ?b }", 1, r2s) == (key, "", False)
    assert _division("SELECT ?c", "WINDOW :w1 { ?a :p ?b } ?b :k ?c", 1, "ISTREAM") == ("a", "", True)


def test_the_rows_that_go_must_have_been_shown() -> None:
    pattern = "WINDOW :w1 { ?a :p ?b } } ORDER BY ?b LIMIT 3 OFFSET 1 #"
    assert _division("SELECT ?a", pattern, 1, "ISTREAM")[0] == "a"
    variable, why, _ = _division("SELECT ?a", pattern, 1, "DSTREAM")
    assert variable is None and "OFFSET under DSTREAM" in why


def test_groups_of_several_shards_are_new_or_gone_if_they_were_shown() -> None:
    groups = "WINDOW :w1 { ?a :p ?b } ?b :k ?c } GROUP BY ?c"
    assert _division("SELECT ?c", f"{groups} HAVING(COUNT(*) > 2) #", 1, "ISTREAM") == ("a", "", True)
    assert _division("SELECT ?c (COUNT(*) AS ?n)", f"{groups} #", 1, "DSTREAM") == ("a", "", True)
    for r2s, select, pattern, why in (
        ("DSTREAM", "SELECT ?c", f"{groups} HAVING(COUNT(*) > 2) #", "HAVING"),
        ("ISTREAM", "SELECT (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b }", "one group of all"),
    ):
        variable, found, _ = _division(select, pattern, 1, r2s)
        assert variable is None and why in found


def test_what_a_source_evaluates_is_whole() -> None:
    asks = msgspec.structs.replace(definition(1), functions=["http://ex/f"])
    assert asks.asks_source and not may_divide(asks, Catalog())


def test_what_arrives_causes_no_evaluation_of_a_divided_query() -> None:
    for report in (" REPORT CONTENT_CHANGE", " REPORT NON_EMPTY_CONTENT, WINDOW_CLOSE", " REPORT PERIODIC 2s"):
        assert _division("SELECT ?a", "WINDOW :w1 { ?a :p ?b }", 1, report=report)[0] is None


def test_what_was_dropped_meanwhile_is_not_divided(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        query, *_ = service.register(registration())
        assert may_divide(query, Catalog.read(service.store, service.store.head()))
        assert not may_divide(query, Catalog())


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_each_key_is_in_one_range_and_the_ranges_are_even(count: int) -> None:
    for first, step in ((1, 1), (1 << 60, 1), (7, 1 << 20), ((1 << 56) + 3, 64)):
        ids = np.uint64(first) + np.uint64(step) * np.arange(10_000, dtype=np.uint64)
        sizes = [np.count_nonzero(Ranges(count, frozenset({each})).contain(ids)) for each in range(count)]
        assert sum(sizes) == len(ids) and max(sizes) < 1.1 * len(ids) / count, (first, step, sizes)
        two = Ranges(count, frozenset({0, count - 1})).contain(ids)
        assert np.count_nonzero(two) == sizes[0] + sizes[-1]


@pytest.mark.parametrize("count", [2, 4])
def test_the_keys_of_a_range_are_in_all_buckets_of_an_index(count: int) -> None:
    """Indexes of rows have them by the upper bits of this product: if ranges had, too, chains would be longer."""
    ids = np.uint64(1 << 56) + np.arange(1, 2_000, dtype=np.uint64)
    for each in range(count):
        own = ids[Ranges(count, frozenset({each})).contain(ids)]
        buckets = np.bincount(((own * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(60)).astype(np.int64), minlength=16)
        assert buckets.min() > len(own) / 16 / 2


class AllDivided(Divided):
    """Every template that can be divided is, by most plans, and plans are frequent."""

    moves = False

    def __init__(self, seed: int, store: Store, shards: int) -> None:
        self.most = shards
        super().__init__(seed, store, shards)
        self.templates = [(select, pattern, windows) for select, pattern, windows, _ in BY_KEY]

    def _scene(self) -> Scene:
        scene = random_scene(self.chance.randrange(1 << 30))
        scene.select, scene.pattern, count, _ = self.chance.choice(BY_KEY)
        ranges, steps = self.chance.choice([10, 20, 30]), self.chance.choice([5, 7, 10])
        scene.windows = [Window(f"w{n}", n, ranges, steps) for n in range(1, count + 1)]
        scene.merged = scene.static = False
        scene.report, scene.r2s = (), self.chance.choice(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"])
        scene.steps = [*[each for each in scene.steps if isinstance(each, Change)][:2], *self._pushes(count)]
        return scene

    def _pushes(self, streams: int) -> list[Change | list[Push]]:
        """With more triples than those of other scenes."""
        found: list[Change | list[Push]] = []
        for number in range(10):
            batch = []
            for stream in range(1, streams + 1):
                time = 1 + number * 7 + self.chance.randrange(5)
                triples = [self._triple() for _ in range(self.chance.randrange(1, 9))]
                batch.append(Push(stream, ((time, tuple(triples)),)))
            found.append(batch)
        return found

    def _triple(self) -> tuple[str, str, str]:
        subject, predicate = f"<{EX}n{self.chance.randrange(1, 8)}>", self.chance.choice("ppv")
        value = f"<{EX}n{self.chance.randrange(1, 8)}>" if predicate == "p" else str(self.chance.randrange(9))
        literal = f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'
        return subject, f"<{EX}{predicate}>", value if predicate == "p" else literal

    def _act(self) -> None:
        if self.chance.random() < 0.04:
            self._acted("plan")
        super()._act()

    def _plan(self) -> None:
        plan = self.merge.plan
        self._leave()
        divided = self._to_divide() if self.chance.random() < 0.9 else frozenset[int]()
        self.merge.follow_plan(ShardPlan(plan.number + 1, (1.0,) * self.most, divided))

    def _acted(self, action: str) -> None:
        before, position = self.merge.plan, self.merge.position
        super()._acted(action)
        if before.divided and self.merge.owner == Runner.SPARK:
            self.did["united"] += self.merge.position - position


class WithFaults(AllDivided):
    """Now and then the evaluation of a range fails, or its query is suspended in one shard only."""

    def _step(self) -> None:
        tasks = [process for process in self.processes if process.task]
        if tasks and self.chance.random() < 0.05:
            shard = self.chance.choice(tasks).shard
            numbers = [number for number in shard.runs.of if number in shard.divided]
            if numbers and self.chance.random() < 0.5:
                shard.runs.of[self.chance.choice(numbers)].step = _fails  # type: ignore[method-assign]
                self.did["faults"] += 1
            elif numbers:
                shard.suspended = frozenset({self.chance.choice(numbers)})
                self.did["suspended"] += 1
        super()._step()
        for process in self.processes:
            process.shard.suspended = frozenset()


def _fails(*_: object) -> None:
    raise ValueError("a test says so")


def play(seed: int, folder: Path, shards: int, kind: type[AllDivided] = AllDivided) -> tuple[int, Counter[str]]:
    """How many emissions there were, and what happened."""
    store = hbase_store.open(f"lmdb:{folder}")
    try:
        divided = kind(seed, store, shards)
        divided.run()
        divided.finish()
        if kind is AllDivided:
            assert not divided.did["whole"], f"seed {seed}: what was divided could not be united"
        return divided.compare_all(), divided.did
    finally:
        store.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shards", [2, 4])
def test_divided_queries_emit_what_one_shard_emits(shards: int, tmp_path: Path) -> None:
    emitted, did = 0, Counter[str]()
    for seed in range(3):
        some, what = play(seed, tmp_path / str(seed), shards)
        emitted += some
        did += what
    assert emitted > 100 and did["united"] > 20, (emitted, did)
    assert all(did[each] for each in ("lost", "plan", "kill", "die")), did


@pytest.mark.timeout(120)
def test_a_query_is_whole_once_its_range_fails_in_one_shard(tmp_path: Path) -> None:
    did = Counter[str]()
    for seed in range(2):
        did += play(seed, tmp_path / str(seed), 2, WithFaults)[1]
    assert did["faults"] and did["whole"], did


@pytest.mark.soak
@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("block", range(50))
def test_divided_queries_emit_what_one_shard_emits_thousands_of_times(shards: int, block: int, tmp_path: Path) -> None:
    for seed in range(10_000 + block * 20, 10_000 + block * 20 + 20):
        play(seed, tmp_path / str(seed), shards)
        play(seed, tmp_path / f"faults{seed}", shards, WithFaults)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        print(play(int(sys.argv[1]), Path(where), int(sys.argv[2])))
