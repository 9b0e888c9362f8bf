"""Queries of one timing class share scans and joins; each says what it says by itself, whoever comes and goes.

python -m tests.stream_ext.continuous.test_shared_stages SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.continuous import course, joint_parts, run, shared_stages
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.run import Run
from stream_ext.continuous.shard import Shard
from stream_ext.continuous.shared_stages import SharedStages
from stream_ext.continuous.timing_class import TimingClass
from stream_ext.network.operators.core import shared_stage
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shared_stage import SharedReader, SharedStage
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.rows.zset import ZSet
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.continuous.test_sleeping import SleepyPlay, SleepyShard
from tests.stream_ext.many import AloneShard, ApartShard, Registry, observed, parted
from tests.stream_ext.scene import EX, Push, Scene, Window

#: Of the same parts, in several orders and under several names, over one window or two; and of every kind of operator.
PATTERNS = [
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b . ?b :p ?c }", 1),
    ("SELECT ?x", "WINDOW :w1 { ?x :p ?y . ?y :p ?z }", 1),
    ("SELECT ?x ?v", "WINDOW :w1 { ?x :p ?y . ?y :p ?z . ?x :v ?v }", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b . ?b :p ?c } FILTER(?a != ?c)", 1),
    ("SELECT DISTINCT ?a", "WINDOW :w1 { ?a :p ?b . ?a :rare ?c }", 1),
    ("SELECT ?a (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :p ?b . ?a :rare ?c } } GROUP BY ?a #", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b } OPTIONAL { WINDOW :w1 { ?a :rare ?c } }", 1),
    ("SELECT ?a ?b", "WINDOW :w1 { ?a :p ?b } MINUS { WINDOW :w1 { ?a :rare ?c } }", 1),
    ("SELECT ?a ?k", "WINDOW :w1 { ?a :p ?b . ?b :p ?c } ?a :k ?k", 1),
    ("SELECT ?t", 'WINDOW :w1 { ?a :v ?v . ?a :p ?b BIND(CONCAT("http://ex/n", STR(?v)) AS ?t) } } ORDER BY ?t #', 1),
    ("SELECT (SUM(?v) AS ?n)", "WINDOW :w1 { ?a :v ?v . ?a :p ?b }", 1),
    ("SELECT ?a ?n", "WINDOW :w1 { ?a :v ?v . ?a :p ?b BIND(?v + 1 AS ?n) }", 1),
    ("SELECT ?p", "WINDOW :w1 { :n1 ?p :n2 }", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :p :n2 . ?a :p ?b }", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p ?c }", 2),
    ("SELECT ?a ?c ?d", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p ?c . ?c :p ?d }", 2),
    (
        "SELECT ?a",
        "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p ?c } FILTER NOT EXISTS { WINDOW :w1 { ?a :rare ?c } }",
        2,
    ),
    ("SELECT ?a ?c", "{ WINDOW :w1 { ?a :p ?b . ?b :p ?c } } UNION { WINDOW :w1 { ?a :rare ?c } }", 1),
    ("SELECT ?a", "WINDOW :w1 { ?a :p % . ?a :p ?b }", 1),
    # Alike beyond the first join, under other names, and with other ends.
    ("SELECT ?x", "WINDOW :w1 { ?x :p ?y . ?y :p ?z } FILTER(?x != ?z)", 1),
    ("SELECT DISTINCT ?z", "WINDOW :w1 { ?x :p ?y . ?y :p ?z } FILTER(?x != ?z)", 1),
    ("SELECT ?x (COUNT(*) AS ?n)", "WINDOW :w1 { ?x :p ?y . ?y :p ?z } FILTER(?x != ?z) } GROUP BY ?x #", 1),
    ("SELECT ?o (COUNT(*) AS ?m)", "WINDOW :w1 { ?o :v ?v . ?o :p ?b } } GROUP BY ?o HAVING(COUNT(*) > 1) #", 1),
    ("SELECT ?a (AVG(?v) AS ?m)", "WINDOW :w1 { ?a :v ?v . ?a :p ?b } } GROUP BY ?a #", 1),
    ("SELECT ?x (AVG(?w) AS ?n)", "WINDOW :w1 { ?x :v ?w . ?x :p ?y } } GROUP BY ?x HAVING(AVG(?w) > 1.5) #", 1),
    ("SELECT (AVG(?n) AS ?m)", "{ SELECT (AVG(?v) AS ?n) { WINDOW :w1 { ?a :v ?v . ?a :p ?b } } GROUP BY ?a }", 1),
    ("SELECT (MAX(?n) AS ?m)", "{ SELECT (AVG(?w) AS ?n) { WINDOW :w1 { ?x :v ?w . ?x :p ?y } } GROUP BY ?x }", 1),
    ("SELECT ?b (GROUP_CONCAT(?a) AS ?m)", "WINDOW :w1 { ?a :p ?b . ?a :rare ?c } } GROUP BY ?b #", 1),
    ("SELECT (GROUP_CONCAT(?z) AS ?all) (MIN(?z) AS ?m)", "WINDOW :w1 { ?z :p ?y . ?z :rare ?c } } GROUP BY ?y #", 1),
    ("SELECT ?x ?z", "WINDOW :w1 { ?x :p ?y } OPTIONAL { WINDOW :w1 { ?x :rare ?z } }", 1),
    ("SELECT ?x", "WINDOW :w1 { ?x :p ?y } OPTIONAL { WINDOW :w1 { ?x :rare ?z } } FILTER(!BOUND(?z))", 1),
    ("SELECT ?x ?z", "WINDOW :w1 { ?x :p ?y } OPTIONAL { WINDOW :w1 { ?x :v ?z } FILTER(?z > 2) }", 1),
    ("SELECT (COUNT(?u) AS ?n)", "WINDOW :w1 { ?t :p ?y } OPTIONAL { WINDOW :w1 { ?t :v ?u } FILTER(?u > 2) }", 1),
    ("SELECT ?y", "WINDOW :w1 { ?x :p ?y } MINUS { WINDOW :w1 { ?x :rare ?z } }", 1),
    ("SELECT DISTINCT ?y", "WINDOW :w1 { ?x :p ?y } FILTER NOT EXISTS { WINDOW :w1 { ?x :rare ?z } }", 1),
    ("SELECT ?q", "WINDOW :w1 { ?o :p ?q } FILTER NOT EXISTS { WINDOW :w1 { ?o :rare ?i } }", 1),
    ("SELECT ?q", "WINDOW :w1 { ?o :p ?q } FILTER(?q = :n1 || EXISTS { WINDOW :w1 { ?o :rare ?i } })", 1),
    ("SELECT ?o", "WINDOW :w1 { ?o :p ?q } FILTER(?q = :n1 || EXISTS { WINDOW :w1 { ?o :rare ?i } })", 1),
    ("SELECT ?i ?k", "WINDOW :w1 { ?i :p ?j . ?j :p ?l } ?i :k ?k", 1),
    ("SELECT ?k (COUNT(*) AS ?n)", "WINDOW :w1 { ?i :p ?j } ?i :k ?k } GROUP BY ?k #", 1),
    ("SELECT DISTINCT ?m", "WINDOW :w1 { ?i :p ?j } ?i :k ?m", 1),
    ("SELECT ?i ?m", "WINDOW :w1 { ?i :p ?j } OPTIONAL { ?i :k ?m }", 1),
    ("SELECT (COUNT(?m) AS ?n)", "WINDOW :w1 { ?i :p ?j } OPTIONAL { ?i :k ?m }", 1),
    ("SELECT ?i", "WINDOW :w1 { ?i :p ?j } MINUS { ?i :k ?m }", 1),
    ("SELECT ?y ?v", "WINDOW :w1 { ?x :p ?y . ?y :p ?z . ?x :v ?v } FILTER(?v > 1)", 1),
    ("SELECT (SUM(?v) AS ?n)", "WINDOW :w1 { ?x :p ?y . ?y :p ?z . ?x :v ?v } FILTER(?v > 1)", 1),
    ("SELECT ?n ?b", "WINDOW :w1 { ?a :v ?v . ?a :p ?b BIND(?v / 2 AS ?n) }", 1),
    ("SELECT DISTINCT ?m", "WINDOW :w1 { ?o :v ?v . ?o :p ?b BIND(?v / 2 AS ?m) }", 1),
    ("SELECT DISTINCT ?n", "WINDOW :w1 { ?a :v ?w . ?a :p ?b BIND(?w / 2 AS ?n) }", 1),
    ("SELECT ?s ?c", 'WINDOW :w1 { ?s :p ?b BIND(IRI(CONCAT(STR(?b), "x")) AS ?c) }', 1),
    ("SELECT DISTINCT ?d", 'WINDOW :w1 { ?s :p ?b BIND(IRI(CONCAT(STR(?b), "x")) AS ?d) }', 1),
    ("SELECT ?b", "WINDOW :w1 { ?a :p ?b } VALUES ?b { :n1 :n2 :n9 }", 1),
    ("SELECT ?x", "WINDOW :w1 { ?x :p ?y } VALUES ?y { :n1 :n2 :n9 }", 1),
    ("SELECT ?x", "WINDOW :w1 { ?x :p ?y } FILTER(?y = :n9)", 1),
    ("SELECT ?y", "WINDOW :w1 { ?x :p ?y } FILTER(?y IN (:n9, :n7, :n1))", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :p ?b } WINDOW :w2 { ?b :p ?c } FILTER(?a != ?c)", 2),
    (
        "SELECT ?z (MIN(?x) AS ?n)",
        "WINDOW :w1 { ?x :p ?y } WINDOW :w2 { ?y :p ?z } FILTER(?x != ?z) } GROUP BY ?z #",
        2,
    ),
    ("SELECT ?x", "{ WINDOW :w1 { ?x :p ?y . ?y :p ?z } } UNION { WINDOW :w1 { ?x :rare ?z } }", 1),
    ("SELECT DISTINCT ?x", "{ WINDOW :w1 { ?x :p ?y . ?y :p ?z } } UNION { WINDOW :w1 { ?x :rare ?z } }", 1),
    ("SELECT ?x ?y", "WINDOW :w1 { ?x :p ?y } } ORDER BY ?x ?y LIMIT 3 #", 1),
    ("SELECT ?x ?z", "WINDOW :w1 { ?x :p ?y . ?y :p ?z } } ORDER BY ?z ?x LIMIT 2 #", 1),
]


class Shares:
    """How often a stage that was stepped for one network was read by another, and what it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kinds = Counter[str]()
        found = SharedStage.found

        def counted(stage: SharedStage, moment: Moment) -> ZSet | None:
            change = found(stage, moment)
            self.kinds[type(stage.operator).__name__] += change is not None
            return change

        monkeypatch.setattr(SharedStage, "found", counted)


class HastyShard(SleepyShard):
    """Turns of a few evaluations; what falls behind catches up at once."""

    def step(self, sn: int) -> list[Part]:
        parts = super().step(sn)
        while self.has_more:
            parts += self.step_one_behind()
        return parts


class HastyApartShard(HastyShard, ApartShard):
    """Queries of a template share nothing but stages."""


def alike(first: Scene, chance: random.Random) -> list[Scene]:
    """Queries over the windows of this one, of which some share stages."""
    # Those that are alike are next to each other.
    starts = chance.sample(range(len(PATTERNS)), 3)
    some = {place % len(PATTERNS) for start in starts for place in range(start, start + 4)}
    windows = [replace(first.windows[0], name=f"w{number}", stream=number) for number in (1, 2)]
    return [
        replace(
            first, select=select, pattern=pattern, windows=windows[:count], merged=False,
            r2s=chance.choice(("ISTREAM", "DSTREAM", "RSTREAM")),
        )
        for select, pattern, count in (PATTERNS[place] for place in sorted(some))
    ]  # fmt: skip


class SharingPlay(SleepyPlay):
    """All queries are of a few classes: their windows are the same."""

    def __init__(self, seed: int, store: Store) -> None:
        chance = random.Random(seed)
        made: type[HastyShard] = chance.choice((HastyShard, HastyApartShard, HastyApartShard))
        limits = TurnLimits(evaluations=chance.choice((1, 2, 10_000)), seconds=None, seconds_behind=None)
        super().__init__(seed, store, PATTERNS, made=lambda store: made(store, pace=limits))
        self._many = alike(self.scenes[0], self.chance)

    def _change(self) -> None:
        scenes, self.scenes = self.scenes, self._many
        super()._change()
        self.scenes = scenes


@pytest.mark.parametrize("block", range(3))
def test_queries_that_share_stages_say_what_each_says_by_itself(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = Counter[str]()
    for seed in range(block * 5, block * 5 + 5):
        shares += play(seed, tmp_path / str(seed), monkeypatch)
    assert shares.total() > 100, f"stages were read {shares} times by others"


class Scenery:
    """Queries over one window, in a shard where they share stages and in one where none does: parts are compared."""

    def __init__(self, store: Store, range_ms: int, sharing: ApartShard | None = None) -> None:
        self._windows, self._store = [Window("w1", 1, range_ms, 10)], store
        self._registry = Registry.over(store, self._scene("", "SELECT *"))
        self.sharing, self._alone = sharing or ApartShard(store), AloneShard(store)
        self._states: tuple[dict[int, QueryState], dict[int, QueryState]] = ({}, {})
        for shard in (self.sharing, self._alone):
            shard.build({}, int(store.head()))

    def _scene(self, pattern: str, select: str) -> Scene:
        return Scene(self._windows, f"WINDOW :w1 {{ {pattern} }}", select, "RSTREAM", {1: 0, 2: 0})

    def register(self, pattern: str, select: str = "SELECT *") -> int:
        self._step(self._registry.register(self._scene(pattern, select).text))
        return self._registry.used

    def drop(self, number: int) -> None:
        self._step(self._registry.drop(number))

    def push(self, time: int, *triples: str) -> list[Part]:
        """Triples like `a p b`, in one element; none: a heartbeat."""
        terms = tuple(tuple(map(_term, triple.split())) for triple in triples)
        push = Push(1, ((time, terms),)) if terms else Push(1, (), time)  # type: ignore[arg-type]  # terms are triples
        return self._step(int(self._registry.player.play([push])))

    def _step(self, sn: int) -> list[Part]:
        mine = parted(self.sharing.step(sn), self._states[0])
        theirs = parted(self._alone.step(sn), self._states[1])
        mine, theirs = ([part for part in parts if part.query not in self.sharing.faults] for parts in (mine, theirs))
        assert not self._alone.faults
        assert observed(self._store, mine) == observed(self._store, theirs)
        return theirs


def _term(name: str) -> str:
    if not name[0].isdigit():
        return f"<{EX}{name}>"
    return f'"{name}"^^<http://www.w3.org/2001/XMLSchema#{"decimal" if "." in name else "integer"}>'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    yield opened
    opened.close()


def test_who_comes_when_a_triple_came_thrice_shares_when_both_show_it_alike(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 50 the first query shows the triple as long as its last copy is there, since the first one has gone; the
    second query, which is built then, as long as the copy is there that came first of those that are left."""
    shares, both = Shares(monkeypatch), Scenery(store, 40)
    both.register("?a :p ?b")
    for time in (5, 15, 35):
        both.push(time, "a p b")
    both.push(41)
    both.register("?x :p ?y BIND(1 AS ?one)")  # its answer is its own
    for time in range(51, 400, 10):
        assert sum(len(part.columns[0]) for part in both.push(time)) == 2 * (time < 80)
    both.push(405, "a p b")
    both.push(411)
    assert shares.kinds.total() > 0


@pytest.mark.parametrize(
    "pattern",
    [
        "{ SELECT DISTINCT ?b { ?a :p ?b } }",
        "?b :is ?c OPTIONAL { ?a :p ?b }",
        "?b :is ?c MINUS { ?a :p ?b }",
        "?b :is ?c FILTER NOT EXISTS { ?a :p ?b }",
    ],
)
def test_who_comes_when_a_row_has_several_copies_shares_when_both_show_it_alike(pattern: str, store: Store) -> None:
    """As above, where several triples are one row."""
    both = Scenery(store, 40)
    both.register(pattern)
    for time in (5, 15, 35):
        both.push(time, f"a{time} p b", "b is c")
    both.push(41)
    both.register(pattern.replace("?a", "?x") + " BIND(1 AS ?one)")  # its answer is its own
    for time in range(51, 200, 10):
        both.push(time, "b is c")
    both.push(205, "a p b")
    for time in range(211, 261, 10):
        both.push(time, "b is c")
    assert _stages_of(both.sharing), "they share in the end"
    assert all(stage.readers == 2 for stage in _stages_of(both.sharing))


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_fault_in_what_queries_share_is_that_of_one_of_them(
    at: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one whose step it was; the others are built anew, and share again. `at`: the close of the snapshot."""
    both, stepped, left = Scenery(store, 40), JoinOperator.step, [10_000]
    for name in ("b", "c", "d"):
        both.register(f"?a :p ?{name} . ?a :q ?x")

    def fails(join: JoinOperator, moment: Moment, *changes: ZSet) -> ZSet:
        if any(stage.operator is join for stage in stages):
            left[0] -= 1
            if not left[0]:
                raise RuntimeError("a fault")
        return stepped(join, moment, *changes)

    for time in range(5, 65, 10):
        both.push(time, f"a{time} p b", f"a{time} q c")
    stages = _stages_of(both.sharing)
    assert [stage.readers for stage in stages] == [3, 3, 3]
    monkeypatch.setattr(JoinOperator, "step", fails)
    left[0] = at
    both.push(85, "b p b", "b q c")
    assert list(both.sharing.faults) == [2]
    assert both.sharing.faults[2].startswith("RuntimeError")
    assert not set(stages) & set(_stages_of(both.sharing))
    for time in range(95, 145, 10):
        both.push(time, f"a{time} p b", f"a{time} q c")
    assert [stage.readers for stage in _stages_of(both.sharing)] == [2, 2, 2]


def test_who_leaves_a_class_has_operators_of_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """More closes are due than a class finds together: all go through them alone, and share again afterwards."""
    both = Scenery(store, 40)
    for name in ("b", "c", "d"):
        both.register(f"?a :p ?{name} . ?a :q ?x")
    for time in range(5, 65, 10):
        both.push(time, f"a{time} p b", f"a{time} q c")
    both.drop(3)
    both.push(75, "b p b", "b q c")
    assert [stage.readers for stage in _stages_of(both.sharing)] == [2, 2, 2]
    monkeypatch.setattr(course, "_CLOSES_MAX", 1)
    assert sum(len(part.columns[0]) for part in both.push(95, "d p b")) == 2 * (3 + 2)
    both.push(105, "d q c")
    assert sum(len(part.columns[0]) for part in both.push(111)) == 2 * 2
    assert [stage.readers for stage in _stages_of(both.sharing)] == [2, 2, 2]


#: A term is created before a stream brings it: the query has another id for it than the store.
CREATES = "?a :p ?b . ?b :q ?c BIND(IRI(CONCAT(STR(?b), 'x')) AS ?t)"


@pytest.mark.parametrize("evaluations", [2, 10_000])
@pytest.mark.parametrize("creates", [0, 1])
def test_who_has_created_terms_that_came_leaves_without_losing_a_row(
    evaluations: int, creates: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More closes are due than a class finds together, or than a turn has: one that creates terms leaves the class."""
    limits = TurnLimits(evaluations=evaluations, seconds=None, seconds_behind=None)
    both = Scenery(store, 100, HastyApartShard(store, pace=limits))
    for place in range(2):
        both.register(CREATES if place == creates else "?a :p ?b . ?b :q ?c")
    for time, triples in ((5, ("a p b", "b q c")), (15, ("a p b",)), (25, ("d p bx",)), (35, ("d p e",))):
        both.push(time, *triples)
    assert [stage.readers for stage in _stages_of(both.sharing)] == [2, 2, 2]
    if evaluations > 2:
        monkeypatch.setattr(course, "_CLOSES_MAX", 1)
    both.push(45, "bx q c")
    assert sum(len(part.columns[0]) for part in both.push(75, "bx q e")) == 2 * 3 * 2
    for time in range(81, 181, 10):
        both.push(time)


def test_operators_with_ids_of_their_query_are_not_shared(store: Store) -> None:
    both = Scenery(store, 100)
    both.register(CREATES)
    for time, triples in ((5, ("a p b", "b q c")), (15, ("a p b",)), (25, ("d p bx",)), (35, ("d p e",))):
        both.push(time, *triples)
    for _ in range(2):
        both.register("?a :p ?b . ?b :q ?c")
    both.push(45, "e p e")
    assert sum(len(part.columns[0]) for part in both.push(55, "bx q c")) == 3
    assert sum(len(part.columns[0]) for part in both.push(65, "e p e")) == 3 * 2
    assert [stage.readers for stage in _stages_of(both.sharing)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("?a :p ?b . ?a :q ?c FILTER(?b != ?c)", "?x :p ?y . ?x :q ?z FILTER(?y != ?z)"),
        ("?a :p ?b . ?b :p ?c . ?a :q ?d", "?x :p ?y . ?y :p ?z . ?x :q ?v"),
        ("?a :p ?b OPTIONAL { ?a :q ?c FILTER(?c != :b) }", "?x :p ?y OPTIONAL { ?x :q ?z FILTER(?z != :b) }"),
        ("?a :p ?b MINUS { ?a :q ?c }", "?x :p ?y MINUS { ?x :q ?z }"),
        ("?a :p ?b FILTER NOT EXISTS { ?a :q ?c }", "?x :p ?y FILTER NOT EXISTS { ?x :q ?z }"),
        ("{ ?a :p ?b } UNION { ?a :q ?b }", "{ ?x :p ?y } UNION { ?x :q ?y }"),
        ("?a :p ?b BIND(STR(?b) AS ?c)", "?x :p ?y BIND(STR(?y) AS ?z)"),
        ("?a :p ?b VALUES ?b { :b :c }", "?x :p ?y VALUES ?y { :b :c }"),
        ("{ SELECT (MIN(?a) AS ?n) { ?a :p ?b } GROUP BY ?b }", "{ SELECT (MIN(?x) AS ?m) { ?x :p ?y } GROUP BY ?y }"),
        ("{ SELECT DISTINCT ?b { ?a :p ?b } }", "{ SELECT DISTINCT ?y { ?x :p ?y } }"),
    ],
)  # fmt: skip
def test_queries_that_differ_in_names_share_all_operators(first: str, second: str, store: Store) -> None:
    both = Scenery(store, 40)
    for pattern in (first, second):
        both.register(pattern)
    for time in range(5, 75, 10):
        both.push(time, "a p b", f"a{time} p c", f"a{time} q b", f"b p d{time}")
    one, other = (both.sharing.runs.of[number].evaluator.triggered(False).network for number in (2, 3))
    assert [type(stage.operator) for stage in (*one.stepped_stages, *other.stepped_stages)] == [SharedReader] * 2
    assert (one.answer._rows is other.answer._rows) == all(each not in first for each in ("BIND", "VALUES"))
    assert {stage.readers for stage in _stages_of(both.sharing)} == {2}
    both.drop(2)
    for time in range(75, 145, 10):
        both.push(time, "a p b", f"a{time} q b")


def test_operators_with_another_condition_are_not_shared(store: Store) -> None:
    both = Scenery(store, 40)
    for condition in ("?b != :b", "?b != :c", "?a != :b"):
        both.register(f"?a :p ?b FILTER({condition})")
    for time in range(5, 45, 10):
        both.push(time, "a p b", "a p c", "b p c")
    assert [type(stage.operator).__name__ for stage in _stages_of(both.sharing)] == ["WindowScan"]


@pytest.mark.parametrize("closes", [1, 16])
def test_averages_are_shared_by_who_comes_late_and_by_who_leaves(
    closes: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An average is mostly a term that the query creates; the same one is created by the stream later."""
    both, select = Scenery(store, 40), "SELECT ?a (AVG(?v) AS ?m) { ?a :v ?v } GROUP BY ?a"
    both.register(f"{{ {select} }}")
    both.push(5, "a v 1", "a v 2", "b v 7")
    both.push(11)
    for name in "xy":
        both.register(f"{{ {select.replace('?a', f'?{name}')} }} FILTER(?m > 1.5)")
    both.push(15, "a v 4", "b v 8")
    both.push(25, "b v 1", "b v 4")
    both.push(35, "b v 2")
    assert sum(stage.readers == 3 for stage in _stages_of(both.sharing)) >= 2
    with monkeypatch.context() as patched:
        patched.setattr(course, "_CLOSES_MAX", closes)
        both.push(65, "a v 1", "a v 2", "a v 7")
    for time in (75, 85, 95):
        both.push(time, f"c v {time}", "c v 7.5", f"a v {time}")
    both.drop(3)
    for time in range(101, 161, 10):
        both.push(time)


@pytest.mark.parametrize("limit", ["TERMS_CREATED_MAX", "TERMS_BYTES_MAX"])
@pytest.mark.parametrize("left", [1, 2])
def test_terms_that_only_shared_stages_have_are_forgotten(
    left: int, limit: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a query that nobody shares with any more."""
    both, most = Scenery(store, 20), {"TERMS_CREATED_MAX": 20, "TERMS_BYTES_MAX": 5_000}[limit]
    monkeypatch.setattr(shared_stages, limit, most)
    for name in "xy":
        pattern = f"?{name} :v ?v BIND(CONCAT('a text ', STR(?v)) AS ?t)"
        both.register(f"{{ SELECT (COUNT(DISTINCT ?t) AS ?n) {{ {pattern} }} }}")
    created = []
    for time in range(5, 405, 10):
        both.push(time, *(f"a v {time * 10 + number}" for number in range(4)))
        terms = [each.shared._terms for each in _classes_of(both.sharing)]
        created += [each.created if "CREATED" in limit else each.created_bytes for each in terms if each is not None]
        if time == 55 and left == 1:
            both.drop(3)
    assert max(created) > 0, "some are created"
    assert max(created) <= most


def test_who_sleeps_with_many_rows_has_parts_of_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last result is from when the members were few."""
    monkeypatch.setattr(joint_parts, "TOGETHER_MIN", 2)
    monkeypatch.setattr(joint_parts, "_CELLS_MAX", 4)
    both = Scenery(store, 100)
    both.register("?a :p ?b")
    both.push(5, *(f"a{number} p b" for number in range(6)))
    both.push(11)
    both.push(21)
    for name in "qr":
        both.register(f"?a :{name} ?b")
    for time in range(31, 61, 10):
        both.push(time)
    runs = both.sharing.runs
    assert [runs.of[number] in runs.awake for number in (2, 3, 4)] == [False] * 3
    assert [runs.of[number].in_class.joint is None for number in (2, 3, 4)] == [True, False, False]
    for time in range(71, 151, 10):
        both.push(time)


def test_the_budget_counts_from_where_a_query_shares_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Much came to what it shared before."""
    both = Scenery(store, 20)
    for name in ("b", "c"):
        both.register(f"?a :p ?{name} . ?a :q ?x")
    networks = [both.sharing.runs.of[number].evaluator.triggered(False).network for number in (2, 3)]
    for time in range(5, 305, 10):
        both.push(time, *(f"a{number}x{time} {p} b" for number in range(20) for p in "pq"))
        assert all(network.retained_bytes(0) > 0 for network in networks)
    monkeypatch.setattr(course, "_CLOSES_MAX", 1)
    both.push(325)
    assert all(network.sharing is not None for network in networks), "they share again"
    assert all(0 < network.retained_bytes(1 << 40) < 1 << 20 for network in networks)


def test_who_comes_first_is_not_charged_for_what_others_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes six milliseconds: a third of a step, with what it reads, is for each."""
    ticks = count()
    monkeypatch.setattr(shared_stage, "thread_time", lambda: next(ticks) * 0.006)
    both = Scenery(store, 40)
    for name in ("b", "c", "d"):
        both.register(f"?a :p ?{name} . ?a :q ?x")
    for time in (5, 15, 25):
        both.push(time, f"a{time} p b", f"a{time} q c")
    runs, spent_ms = both.sharing.runs, {2: 10.0, 3: 2.0, 4: 2.0}
    runs.own_ms(spent_ms)
    both.push(35, "a p b", "a q c")
    assert runs.own_ms(spent_ms) == pytest.approx({0: 4.0, 2: 6.0, 3: 2.0, 4: 2.0})
    assert runs.own_ms(spent_ms) == {0: 0.0, **spent_ms}


def _classes_of(shard: Shard) -> list[TimingClass]:
    return list(dict.fromkeys(shard.runs._by_timing._of.values()))


def _stages_of(shard: Shard) -> list[SharedStage]:
    return [stage for each in _classes_of(shard) for stage in each.shared._stages.values()]


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_queries_that_share_stages_say_what_each_says_by_itself_thousands_of_times(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(50_000 + block * 50, 50_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed), monkeypatch)


def play(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often stages were read by others than those who stepped them, by what they do."""
    chance = random.Random(seed)
    apart, gather = chance.choice((0.0, 0.0, 0.3)), SharedStages.gather

    def now_and_then(stages: SharedStages, awake: Collection[Run]) -> None:
        if chance.random() >= apart:
            gather(stages, awake)

    store: Store = hbase_store.open(f"lmdb:{folder}")
    try:
        with monkeypatch.context() as patched:
            shares = Shares(patched)
            patched.setattr(SharedStages, "gather", now_and_then)
            patched.setattr(course, "_CLOSES_MAX", chance.choice((1, 2, 16)))
            patched.setattr(joint_parts, "TOGETHER_MIN", chance.choice((1, 3, 1_000)))
            patched.setattr(joint_parts, "_CELLS_MAX", chance.choice((4, 1 << 14)))
            patched.setattr(run, "TERMS_CREATED_MAX", chance.choice((3, 50_000)))
            patched.setattr(shared_stages, "TERMS_CREATED_MAX", chance.choice((3, 30, 50_000)))
            SharingPlay(seed, store).run()
    finally:
        store.close()
    return shares.kinds


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            print(f"seed {given}: {play(int(given), Path(where) / given, pytest.MonkeyPatch())} times read by others")
