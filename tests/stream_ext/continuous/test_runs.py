"""Runs of empty answers, ranked answers, and faults of one query: cases by hand over a real store."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from hbase_store import Store
from stream_ext.catalog.registered_text import query_of
from stream_ext.continuous.run import Run
from stream_ext.continuous.shard import Shard
from stream_ext.continuous.timing_class import TimingClass
from stream_ext.oneshot.evaluate import evaluate
from stream_ext.oneshot.instant import Instant
from stream_ext.values.vocabulary import decoder
from stream_ext.windows.part import Part
from stream_ext.windows.scheduled_window import ScheduledWindow
from tests.stream_ext.many import Registry, filled, parted
from tests.stream_ext.scene import BASE, EX, Change, Player, Push, Scene, Window

A, B, P = f"<{EX}a>", f"<{EX}b>", f"<{EX}p>"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path / 'store'}")
    yield opened
    opened.close()


def scene(select: str = "SELECT ?x ?y", r2s: str = "RSTREAM", step_ms: int = 10) -> Scene:
    return Scene([Window("w1", 1, 10, step_ms)], "WINDOW :w1 { ?x :p ?y }", select, r2s, {1: 0, 2: 0})


def one(time: int, *subjects: str) -> Push:
    return Push(1, ((time, tuple((f"<{EX}{s}>", P, B) for s in subjects)),))


def beat(time: int) -> Push:
    return Push(1, (), time)


class Play:
    """A scene's query, stepped push by push; `restart` rebuilds the shard from what its last part stored."""

    def __init__(self, store: Store, what: Scene) -> None:
        self.player = Player(store, what)
        self.store, self.query = store, query_of(what.text, BASE)
        self.sn = self.player.register()
        self.last: Part | None = None
        self.restart()

    def restart(self) -> None:
        self.shard = Shard(self.store)
        self.shard.build({1: self.last.state} if self.last else {}, self.sn)

    def __call__(self, *step: Push | Change) -> list[Part]:
        self.sn = self.player.play(step[0] if isinstance(step[0], Change) else list(step))  # type: ignore[arg-type]
        parts = self.shard.step(self.sn)
        assert not self.shard.faults
        self.last = parts[-1] if parts else self.last
        return parts

    def rows(self, part: Part) -> list[tuple[str, ...]]:
        columns = [[text.decode() for text in self.store.terms(column)] for column in part.columns]
        return list(zip(*columns, strict=True))


def test_a_leap_of_years_is_one_emission_that_says_how_often_nothing_was_emitted(store: Store) -> None:
    play = Play(store, scene())
    assert play(one(1, "a")) == []
    year = 365 * 24 * 3600 * 1000
    parts = play(one(year + 1, "b"))
    assert [(p.time, p.repeated, p.first, len(p.columns[0])) for p in parts] == [
        (10, 0, None, 1),
        (year, year // 10 - 1, 20, 0),
    ]
    assert parts[-1].windows[0].start == year - 10 and parts[-1].windows[0].end == year
    assert [(p.time, p.repeated, len(p.columns[0])) for p in play(beat(year + 10))] == [(year + 10, 0, 1)]


def test_up_to_a_thousand_empty_answers_are_emitted_singly(store: Store) -> None:
    play = Play(store, scene())
    play(one(1, "a"))
    parts = play(beat(10 * 1001))
    assert [p.repeated for p in parts] == [0] * 1001 and [p.k for p in parts] == list(range(1001))
    assert [p.time for p in parts] == [10 * i for i in range(1, 1002)]
    observed = play(beat(20 * 1001))
    assert [(p.repeated, p.first, p.time, p.k) for p in observed] == [(1001, 10020, 20020, 1000)]


def test_a_run_spans_the_pushes_of_one_snapshot(store: Store) -> None:
    play = Play(store, scene())
    play(one(1, "a"), beat(10))
    observed = play(beat(10 + 10 * 600), beat(10 + 10 * 1200))
    assert [(p.repeated, p.first, p.time) for p in observed] == [(1200, 20, 12010)]


YEAR = 365 * 24 * 3600 * 1000


@pytest.mark.timeout(60)
def test_a_leap_of_years_is_one_emission_that_says_what_a_count_says_each_time(store: Store) -> None:
    play = Play(store, scene("SELECT (COUNT(*) AS ?n)", step_ms=1))
    play(one(1, "a"))
    play(beat(12))
    (observed,) = play(one(YEAR, "b"))
    assert (observed.first, observed.time, observed.repeated) == (13, YEAR, YEAR - 12)
    assert play.rows(observed) == [('"0"^^<http://www.w3.org/2001/XMLSchema#integer>',)]
    assert [play.rows(part)[0][0][1] for part in play(beat(YEAR + 1))] == ["1"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("r2s", "singly"), [("RSTREAM", 1), ("ISTREAM", 2), ("DSTREAM", 2)])
def test_what_a_count_says_as_its_window_becomes_empty_is_distinguished_where_that_is_a_change(
    store: Store, r2s: str, singly: int
) -> None:
    play = Play(store, scene("SELECT (COUNT(*) AS ?n)", r2s))
    observed = play(one(1, "a"), beat(YEAR))
    assert [part.repeated > 0 for part in observed] == [False] * singly + [True]
    assert observed[-1].repeated + singly == YEAR // 10 and observed[-1].k == YEAR // 10 - 1
    assert len(observed[-1].columns[0]) == (r2s == "RSTREAM")


@pytest.mark.timeout(60)
def test_what_queries_of_one_template_say_of_empty_windows_is_one_emission_of_each(store: Store) -> None:
    registry, what = Registry.over(store, scene()), scene("SELECT (COUNT(*) AS ?n)")
    what.pattern = "WINDOW :w1 { ?x :p % }"
    for seed in (1, 2):
        registry.register(filled(random.Random(seed), what).text)
    shard, states = Shard(store), {number: query.state for number, query in registry.queries.items()}
    shard.build({}, int(store.head()))
    shard.step(registry.player.play([one(1, "a")]))
    parts = parted(shard.step(registry.player.play([one(YEAR, "b")])), states)
    assert [(part.query, part.repeated) for part in parts] == [
        (number, count) for number in (2, 3) for count in (0, YEAR // 10 - 1)
    ]


def test_an_element_at_the_time_of_a_close_is_in_the_next_window(store: Store) -> None:
    play = Play(store, scene())
    play(one(10, "a"))
    assert [(p.time, len(p.columns[0])) for p in play(beat(20))] == [(20, 1)]


def test_limit_ranks_by_first_appearance_also_after_a_restart(store: Store) -> None:
    what = scene("SELECT ?x", step_ms=5)
    what.pattern += " } LIMIT 2 #"
    play = Play(store, what)
    play(one(1, "c"))
    assert [play.rows(p) for p in play(beat(5))] == [[(f"<{EX}c>",)]]
    play(one(6, "b", "a"))
    # c (first) is still there at 10; of a and b one has room, and keeps it when c has left at 15.
    (second,) = play(beat(10))
    assert play.rows(second)[0] == (f"<{EX}c>",) and len(play.rows(second)) == 2
    retained = play.rows(second)[1]
    play.restart()
    play(one(11, "d"))
    (third,) = play(beat(15))
    assert play.rows(third)[0] == retained and len(play.rows(third)) == 2


def test_ask_under_istream_says_only_that_it_became_true(store: Store) -> None:
    play = Play(store, scene("ASK", "ISTREAM"))
    play(one(1, "a"))
    emitted = [
        (p.time, p.boolean) for p in play(beat(10), one(12, "a"), beat(20), beat(30), one(31, "b"), beat(40)) if p.emits
    ]
    assert emitted == [(10, True), (40, True)]


def test_an_evaluation_asked_again_at_its_time_and_snapshot_gives_the_whole_answer(store: Store) -> None:
    play = Play(store, scene(r2s="ISTREAM", step_ms=5))
    play(one(1, "a"))
    play(one(6, "b"))
    (second,) = play(beat(10))
    assert [row[0] for row in play.rows(second)] == [f"<{EX}b>"]
    play(one(8, "late"), one(30, "c"))
    window = ScheduledWindow(f"{EX}w1", 1, 10, 5)
    answer = evaluate(store, play.query, second.sn, [window], Instant(10))
    assert [t.decode() for t in store.terms(answer.columns[0])] == [f"<{EX}a>", f"<{EX}b>"]


@pytest.mark.parametrize(
    "tail", ["} ORDER BY ?y LIMIT 1 #", "{ SELECT ?x ?y { WINDOW :w1 { ?x :p ?y } } ORDER BY ?y LIMIT 1 }"]
)
def test_an_evaluation_asked_again_takes_the_same_one_of_rows_that_order_by_takes_for_equal(
    store: Store, tail: str
) -> None:
    what = scene(step_ms=10)
    what.pattern = tail if "SELECT" in tail else f"{what.pattern} {tail}"
    play = Play(store, what)
    play(one(1, "a"), one(2, "b"), one(3, "c"))
    play(one(11, "c"), one(12, "b"), one(13, "a"))
    (emitted,) = play(beat(20))
    window = ScheduledWindow(f"{EX}w1", 1, 10, 10)
    again = evaluate(store, play.query, emitted.sn, [window], Instant(20))
    assert [column.tolist() for column in again.columns] == [column.tolist() for column in emitted.columns]


def test_a_query_that_fails_is_reported_and_the_others_continue(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(store, scene())
    shard = play.shard
    run = shard.runs.of[1]

    def broken(sn: int, pushes: object, turn: object) -> list[Part]:
        raise ValueError("no such column")

    monkeypatch.setattr(run, "step", broken)
    sn = play.player.play([one(1, "a")])
    assert shard.step(sn) == [] and shard.faults == {1: "ValueError: no such column"}
    assert shard.step(play.player.play([beat(50)])) == [] and shard.sn == sn + 1


def test_a_query_that_makes_term_after_term_forgets_those_that_no_row_has(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.continuous.run.TERMS_CREATED_MAX", 6)
    what = Scene(
        [Window("w1", 1, 20, 10)], "WINDOW :w1 { ?x :p ?y } BIND(CONCAT(STR(?x), '!') AS ?z)", "SELECT ?z",
        "ISTREAM", {1: 0, 2: 0},
    )  # fmt: skip
    play = Play(store, what)
    observed: list[str] = []
    most = 0
    for n in range(40):
        for part in play(one(n * 10 + 1, f"s{n}")):
            decode = decoder(part.created, store.terms)
            observed += [text.decode() for text in decode(part.columns[0])]
        (run,) = play.shard.runs.of.values()
        most = max(most, run.evaluator.created)
    assert observed == [f'"{EX}s{n}!"' for n in range(39)]
    assert most <= 7


def test_a_snapshot_steps_those_whose_streams_have_moved(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside thousands of others, a registration would take the time of all of them."""
    over_two = Scene([Window("w1", 1, 10, 10)], "WINDOW :w1 { ?x :p ?y }", "SELECT ?x", "RSTREAM", {1: 0, 2: 0})
    registry = Registry.over(store, over_two)
    numbers = {}
    for stream in (1, 2):
        text = over_two.text.replace("STREAM :s1", f"STREAM :s{stream}")
        registry.register(text)
        numbers[registry.used] = stream
    registry.register(f"PREFIX : <{EX}> REGISTER RSTREAM :kept AS SELECT ?x WHERE {{ ?x :k ?y }}")
    over_store, stepped = registry.used, list[int]()
    shard, step = Shard(store), Run.step
    shard.build({}, int(store.head()))

    def noted(run: Run, *given: Any) -> Any:
        stepped.extend(run.numbers)
        return step(run, *given)

    monkeypatch.setattr(Run, "step", noted)

    def streams_at(sn: int) -> list[int]:
        stepped.clear()
        shard.step(sn)
        return sorted(numbers[number] for number in stepped if number != over_store)

    triple = ((A, P, B),)
    assert streams_at(registry.player.play([Push(1, ((5, triple),)), Push(2, ((5, triple),))])) == [1, 2]
    assert streams_at(registry.player.play([Push(2, ((12, triple),))])) == [2]
    assert streams_at(registry.player.play([beat(15)])) == [1]
    assert streams_at(registry.register(over_two.text.replace("SELECT ?x", "SELECT ?y"))) == []
    assert streams_at(registry.player.play(Change((((A, f"<{EX}k>", B), None),), ()))) == []
    assert over_store in stepped


def test_a_snapshot_looks_at_the_timing_classes_of_its_streams(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of streams may have thousands of classes."""
    over_one = Scene([Window("w1", 1, 10, 10)], "WINDOW :w1 { ?x :p ?y }", "SELECT ?x", "RSTREAM", {1: 0, 2: 0})
    registry = Registry.over(store, over_one)
    for stream in (1, 2):
        registry.register(over_one.text.replace("STREAM :s1", f"STREAM :s{stream}"))
    shard, course, looked_at = Shard(store), TimingClass.course, list[int]()
    shard.build({}, int(store.head()))

    def noted(timing_class: TimingClass, *given: Any) -> Any:
        looked_at.extend(timing_class.streams)
        return course(timing_class, *given)

    monkeypatch.setattr(TimingClass, "course", noted)

    def classes_at(time: int, *streams: int) -> list[int]:
        looked_at.clear()
        shard.step(registry.player.play([Push(stream, ((time, ((A, P, B),)),)) for stream in streams]))
        return sorted(looked_at)

    for time in (5, 12):
        classes_at(time, 1, 2)
    assert classes_at(13, 1, 2) == [1, 2]
    assert classes_at(14, 2) == [2]
    assert classes_at(25, 1) == [1]
    assert classes_at(26, 1, 2) == [1, 2]
