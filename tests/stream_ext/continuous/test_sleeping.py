"""Queries that sleep say what they would say if they were stepped with every snapshot.

python -m tests.stream_ext.continuous.test_sleeping SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.continuous import joint_parts, run, runs_by_timing
from stream_ext.continuous.run import Run
from stream_ext.continuous.runs_by_timing import may_join, sleeps_until
from stream_ext.continuous.shard import Shard
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.continuous.test_sharing import CUT, OF_TEMPLATES, Play
from tests.stream_ext.many import AloneShard, ApartShard, Registry, observed, parted
from tests.stream_ext.scene import EX, Change, Push, Scene, Window

#: Some that few elements concern, or none; and one of every kind of operator.
PATTERNS = [
    ("SELECT ?a", "WINDOW :w1 { ?a :rare ?b }", 1),
    ("SELECT ?a ?v", "WINDOW :w1 { ?a :v ?v FILTER(?v > 4) }", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :rare ?b } WINDOW :w2 { ?a :p ?c }", 2),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :rare ?b } OPTIONAL { WINDOW :w2 { ?a :p ?c } }", 2),
    ("SELECT ?a (COUNT(*) AS ?n)", "WINDOW :w1 { ?a :rare ?b } } GROUP BY ?a #", 1),
    ("SELECT ?a ?k", "WINDOW :w1 { ?a :rare ?b } ?a :k ?k", 1),
    ("SELECT ?a ?k", "?a :k ?k MINUS { WINDOW :w1 { ?a :rare ?b } }", 1),
    ("SELECT ?a ?k", "WINDOW :w2 { ?a :p ?k } FILTER NOT EXISTS { WINDOW :w1 { ?a :rare ?b } }", 2),
    ("SELECT ?g ?a", "WINDOW :w1 { ?a :rare ?b } GRAPH ?g { ?a :k ?k }", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :rare+ ?c }", 1),
    ("SELECT ?a ?c", "WINDOW :w1 { ?a :rare ?b } ?b :k+ ?c", 1),
    ("SELECT ?a ?t", 'WINDOW :w1 { ?a :rare ?b BIND(CONCAT("t", STR(?b)) AS ?t) } } ORDER BY ?t #', 1),
    ("SELECT ?p", "WINDOW :w1 { :n1 ?p :n2 }", 1),
    *CUT,
    *OF_TEMPLATES,
]


class SleepyShard(Shard):
    """Counts the closes that queries slept through."""

    slept = 0

    def step(self, sn: int) -> list[Part]:
        asleep = {number for number, run in self.runs.of.items() if run not in self.runs.awake}
        parts = super().step(sn)
        still = {number for number, run in self.runs.of.items() if run not in self.runs.awake} & asleep
        SleepyShard.slept += sum(len(still.intersection(part.queries.tolist())) for part in parts if part.evaluated)
        return parts


class SleepyApartShard(SleepyShard, ApartShard):
    """Queries of a template share nothing."""


class SleepyPlay(Play):
    """Time passes faster, a predicate is rare, and a run that might sleep may stay awake."""

    def _scene(self) -> Scene:
        """Mostly evaluated when windows close, as those are that sleep."""
        scene = super()._scene()
        if self.chance.random() < 0.9:
            scene.report = ()
        return scene

    def _played(self, step: Change | list[Push]) -> int:
        if not isinstance(step, Change) and self.chance.random() < 0.7:
            rare = "<http://ex/rare>" if self.chance.random() < 0.3 else "<http://ex/other>"
            step = [
                Push(
                    push.stream,
                    tuple(
                        (time, tuple((s, rare if self.chance.random() < 0.8 else p, o) for s, p, o in triples))
                        for time, triples in push.elements
                    ),
                    push.heartbeat,
                )
                for push in step
            ]
        return super()._played(step)


@pytest.mark.parametrize("block", range(3))
def test_queries_that_sleep_say_what_they_say_awake(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = sum(play(seed, tmp_path / str(seed), monkeypatch) for seed in range(block * 4, block * 4 + 4))
    assert slept > 20, f"they slept through {slept} closes only"


def test_queries_of_one_timing_have_windows_with_names_of_their_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one begins anew, as it has created many terms."""
    monkeypatch.setattr(run, "TERMS_CREATED_MAX", 6)
    scene = Scene([Window("w1", 1, 20, 10)], "WINDOW :w1 { ?x :p ?y }", "SELECT ?x", "RSTREAM", {1: 0, 2: 0})
    registry = Registry.over(store, scene)
    shard, rows = Shard(store), 0
    shard.build({}, int(store.head()))
    for name in ("w1", "other"):
        bind = f"BIND(CONCAT(STR(?x), '{name}') AS ?z)"
        registry.register(
            f"PREFIX : <{EX}> REGISTER RSTREAM :{name} AS SELECT ?z FROM NAMED WINDOW :{name} ON STREAM :s1 "
            f"[RANGE 20ms STEP 10ms T0 0] WHERE {{ WINDOW :{name} {{ ?x :p ?y }} {bind} }}"
        )
        shard.step(shard.sn + 1)
    for number in range(40):
        registry.player.play([Push(1, ((number * 10 + 1, ((f"<{EX}s{number}>", f"<{EX}p>", f"<{EX}o>"),)),))])
        rows += sum(len(part.columns[0]) for part in shard.step(shard.sn + 1))
    assert shard.faults == {}
    assert rows == 2 * (1 + 38 * 2)


def test_a_change_of_the_store_wakes_those_that_read_it(store: Store) -> None:
    stored = Change((((f"<{EX}a>", f"<{EX}k>", f"<{EX}n1>"), None),), ())
    both = Both(store, "WINDOW :w1 { ?a :p ?b } ?a :k ?k", "RSTREAM", 1_000)
    both.play([Push(1, ((5, ((f"<{EX}a>", f"<{EX}p>", f"<{EX}b>"),)),))])
    assert [both.rows([Push(1, (), time)]) for time in (10, 20, 30)] == [0, 0, 0]
    assert both.is_asleep
    both.play(stored)
    assert both.rows([Push(1, (), 40)]) == 1
    both.play(Change((), stored.insert))
    assert both.rows([Push(1, (), 50)]) == 0


def test_what_sleeps_is_told_of_a_year_without_elements_as_others_are(store: Store) -> None:
    """A run of closes over empty windows is one part; a window is not empty if no pattern matches what is in it."""
    both = Both(store, "WINDOW :w1 { ?a :rare ?b }", "ISTREAM", 50)
    both.play([Push(1, ((5, ((f"<{EX}a>", f"<{EX}p>", f"<{EX}b>"),)),))])
    for time in (10, 20):
        both.play([Push(1, (), time)])
    assert both.is_asleep
    both.play([Push(1, ((55, ((f"<{EX}a>", f"<{EX}p>", f"<{EX}c>"),)),))])
    both.play([Push(1, ((31, ((f"<{EX}a>", f"<{EX}rare>", f"<{EX}c>"),)),))])  # it is late, and the first to leave
    assert both.rows([Push(1, (), 100_000)]) == 1
    assert both.is_asleep
    both.play([Push(1, (), 300_000)])
    both.play([Push(1, ((300_005, ((f"<{EX}a>", f"<{EX}rare>", f"<{EX}c>"),)),))])
    assert both.rows([Push(1, (), 300_010)]) == 1


def timeline(both: Both, until: int, *elements: tuple[int, str]) -> list[int]:
    """The rows at each close: elements (time, triples) as `a rare, a p` come in the order of their times."""
    found, left = list[int](), dict(elements)
    for close in range(10, until, 10):
        for time in [time for time in left if time < close]:
            triples = [each.split() for each in left.pop(time).split(", ")]
            both.play([Push(1, ((time, tuple((f"<{EX}{s}>", f"<{EX}{p}>", f"<{EX}o>") for s, p in triples)),))])
        found.append(both.rows([Push(1, (), close)]))
    return found


def test_what_leaves_a_window_wakes_no_query_that_emits_what_is_new(store: Store) -> None:
    """But a row that has left is new when it comes again, also at the next close."""
    both = Both(store, "WINDOW :w1 { ?a :rare ?b }", "ISTREAM", 50)
    found = timeline(both, 200, (5, "a rare"), (31, "b rare"), (61, "a rare"), (95, "b rare"), (155, "b rare"))
    assert [close for close, rows in enumerate(found, 1) if rows] == [1, 4, 7, 10, 16]
    assert both.stepped < 10


def test_a_row_that_stays_by_a_later_copy_is_not_new_when_its_first_copy_leaves(store: Store) -> None:
    both = Both(store, "WINDOW :w1 { ?a :rare ?b . ?a :p ?c }", "ISTREAM", 50)
    assert timeline(both, 120, (5, "a rare, a p"), (25, "a rare, a p")) == [1, *[0] * 10]
    assert both.is_asleep


def test_what_leaves_a_window_wakes_a_query_whose_answer_had_it(store: Store) -> None:
    both = Both(store, "WINDOW :w1 { ?a :rare ?b . ?a :p ?c }", "RSTREAM", 50)
    found = timeline(both, 120, (5, "a rare"), (15, "b rare"), (35, "b p"))
    assert found == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0]  # b is joined until its first part has left
    assert both.stepped < 7


def test_streams_that_go_on_sleeping_and_waking_keep_the_times_of_each(store: Store) -> None:
    """One stream is idle when closes fall due, and holds them up again afterwards."""
    both = Both(store, "WINDOW :w1 { ?a :rare ?b } WINDOW :w2 { ?a :rare ?c }", "ISTREAM", 50)
    both.play(
        [
            Push(1, ((5, ((f"<{EX}a>", f"<{EX}p>", f"<{EX}b>"),)),)),
            Push(2, ((5, ((f"<{EX}a>", f"<{EX}p>", f"<{EX}b>"),)),)),
        ]
    )
    for time in (10, 20, 30):
        both.play([Push(1, (), time)])
        both.play([Push(2, (), time)])
    assert both.is_asleep
    rare = ((35, ((f"<{EX}a>", f"<{EX}rare>", f"<{EX}c>"),)),)
    both.play([Push(1, rare)])
    both.play([Push(1, (), 60)])
    both.play([Push(2, rare)])
    assert both.rows([Push(2, (), 50)]) == 1


class Both:
    """One query, in a shard where it sleeps and in one where it does not: their parts are compared."""

    def __init__(self, store: Store, pattern: str, r2s: str, range_ms: int) -> None:
        windows = [Window(f"w{n}", n, range_ms, 10) for n in (1, 2) if f":w{n}" in pattern]
        self._registry = Registry.over(store, Scene(windows, pattern, "SELECT *", r2s, {1: 0, 2: 0}))
        self._sleepy, self._awake = SleepyShard(store), AloneShard(store)
        for shard in (self._sleepy, self._awake):
            shard.build({}, int(store.head()))
        self._store = store
        self._states: tuple[dict[int, QueryState], dict[int, QueryState]] = ({}, {})
        self.stepped = 0  # evaluations that it was awake for
        self._step(self._registry.register(Scene(windows, pattern, "SELECT *", r2s, {1: 0, 2: 0}).text))

    @property
    def is_asleep(self) -> bool:
        return not self._sleepy.runs.awake

    def play(self, step: Change | list[Push]) -> list[Part]:
        return self._step(int(self._registry.player.play(step)))

    def rows(self, step: list[Push]) -> int:
        """In all emissions of this step."""
        return sum(len(part.columns[0]) for part in self.play(step) if part.columns)

    def _step(self, sn: int) -> list[Part]:
        slept, sleepy = SleepyShard.slept, self._sleepy.step(sn)
        self.stepped += sum(part.evaluations for part in sleepy) - (SleepyShard.slept - slept)
        mine = parted(sleepy, self._states[0])
        theirs = parted(self._awake.step(sn), self._states[1])
        assert not self._sleepy.faults
        assert observed(self._store, mine) == observed(self._store, theirs)
        return theirs


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    yield opened
    opened.close()


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_queries_that_sleep_say_what_they_say_awake_thousands_of_times(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(50_000 + block * 50, 50_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed), monkeypatch)


def play(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many closes queries slept through."""
    chance = random.Random(seed)
    often, apart = chance.choice((0.0, 0.0, 0.3, 0.7, 1.0)), chance.choice((0.0, 0.0, 0.5))

    def now_and_then(run: Run, sn: int) -> int | None:
        return None if chance.random() < often else sleeps_until(run, sn)

    def some(run: Run) -> bool:
        return chance.random() >= apart and may_join(run)

    store: Store = hbase_store.open(f"lmdb:{folder}")
    try:
        with monkeypatch.context() as patched:
            patched.setattr(runs_by_timing, "sleeps_until", now_and_then)
            patched.setattr(runs_by_timing, "may_join", some)
            patched.setattr(joint_parts, "TOGETHER_MIN", (1, 2, 1_000)[seed % 3])
            SleepyShard.slept = 0
            SleepyPlay(seed, store, PATTERNS, made=chance.choice((SleepyShard, SleepyApartShard))).run()
    finally:
        store.close()
    return SleepyShard.slept


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            print(f"seed {given}: {play(int(given), Path(where) / given, pytest.MonkeyPatch())} closes slept through")
