"""Windows that hold all: what they contain is saved, the history of their streams goes, and no emission differs."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hbase_store import SnRow, Store, StreamColumns
from stream_ext.clock import ManualClock
from stream_ext.emissions.saved_windows import SavedWindows
from stream_ext.errors import BadArgument, Gone
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from stream_ext.upkeep.saving import Saving
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, emissions_of, open_service, push, push_lines, triple, values

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
PREFIX = f"PREFIX : <{EX}> PREFIX rlt: <urn:rillet:ns#>"
RETAIN = Retain(snapshots_ms=SECOND, emissions_ms=1 << 40)


def cqels(name: str, select: str, pattern: str, more: str = "") -> str:
    return f"{PREFIX} REGISTER QUERY {name} AS {select} WHERE {{ {pattern} }}{more}"


def rsp(name: str, r2s: str, select: str, windows: str, pattern: str, more: str = "") -> str:
    return f"{PREFIX} REGISTER {r2s} {name} AS {select} {windows} WHERE {{ {pattern} }}{more}"


STEPPED = "FROM NAMED WINDOW :all ON s [ALL] FROM NAMED WINDOW :w ON t [RANGE PT3S STEP PT2S]"
OF_ALL, OF_T = "STREAM s [ALL] { ?x :p ?y }", "STREAM t [NOW] { ?x :p ?y }"
BOTH = "WINDOW :all { ?x :p ?y } WINDOW :w { ?x :p ?z }"
TIMED = "{ ?x :p ?y BIND(rlt:timestamp(?x, :p, ?y) AS ?t) }"
BY_X = " GROUP BY ?x"
QUERIES = {
    "rows": cqels("rows", "SELECT ?x ?y", OF_ALL),
    "whole": cqels("whole", "SELECT RSTREAM ?x", OF_ALL),
    "number": cqels("number", "SELECT (COUNT(*) AS ?n)", OF_ALL),
    "sums": cqels("sums", "SELECT ?x (SUM(?y) AS ?n) (COUNT(DISTINCT ?y) AS ?m)", OF_ALL, BY_X),
    "distinct": cqels("distinct", "SELECT DISTINCT ?x", OF_ALL),
    "joined": cqels("joined", "SELECT ?x ?y ?z", f"{OF_ALL} STREAM t [RANGE 2s] {{ ?x :p ?z }}"),
    "both": cqels("both", "SELECT ?x ?z", f"{OF_ALL} STREAM t [ALL] {{ ?z :p ?y }}"),
    "twice": cqels("twice", "SELECT ?x ?z", f"{OF_ALL} STREAM s [TRIPLES 2] {{ ?z :p ?y }}"),
    "listed": cqels("listed", "SELECT ?x (GROUP_CONCAT(?y) AS ?ys) (SAMPLE(?y) AS ?one)", OF_ALL, BY_X),
    "timed": cqels("timed", "SELECT RSTREAM ?x ?t", f"STREAM s [ALL] {TIMED}"),
    "optional": cqels("optional", "SELECT ?x ?z", f"{OF_T} OPTIONAL {{ STREAM s [ALL] {{ ?x :p ?z }} }}"),
    "missing": cqels("missing", "SELECT ?x", f"{OF_T} FILTER NOT EXISTS {{ STREAM s [ALL] {{ ?x :q ?y }} }}"),
    "first": cqels("first", "SELECT RSTREAM ?x ?y", OF_ALL, " LIMIT 3"),
    "made": cqels("made", "CONSTRUCT { ?y :of ?x }", OF_ALL),
    "path": cqels("path", "SELECT ?x ?z", f"{OF_T} STREAM s [ALL] {{ ?x :q+ ?z }}"),
    "stepped": rsp("stepped", "RSTREAM", "SELECT ?x ?y ?z", STEPPED, BOTH),
    "new": rsp("new", "ISTREAM", "SELECT ?x (COUNT(*) AS ?n)", STEPPED, BOTH, BY_X),
    "last": rsp("last", "RSTREAM", "SELECT ?x ?t", STEPPED, f"WINDOW :all {TIMED} WINDOW :w {{ ?x :p ?z }}"),
    "merged": rsp(
        "merged", "QUERY", "SELECT ?x (GROUP_CONCAT(?y) AS ?ys)",
        "FROM STREAM s [ALL] FROM STREAM t [RANGE 3s STEP 2s]", "?x :p ?y", BY_X,
    ),
}  # fmt: skip


class Life:
    """A service that clients push to, and that may be collected, and opened again."""

    def __init__(self, folder: Path, queries: dict[str, str], retain: Retain = RETAIN) -> None:
        self.folder, self.retain, self.clock = folder, retain, ManualClock(HOUR)
        self.service = self._opened()
        for stream in "st":
            self.service.create_stream(stream, {"retention": "0s"})
        for text in queries.values():
            self.service.register(text)

    def _opened(self) -> Service:
        return open_service(self.folder, self.clock, retain=self.retain)

    def collect(self) -> None:
        for _ in range(2):  # what was saved at a snapshot is let go of when that is the oldest
            self.clock.advance(10 * SECOND)
            self.service.collect()

    def open_again(self) -> None:
        self.service.close()
        self.service = self._opened()

    def observed(self, name: str) -> list[Any]:
        return [
            (e["emission"], e["time"], e["windows"], sorted(e["graph"].splitlines()) if "graph" in e else values(e))
            for e in emissions_of(self.service, name)
        ]


def pushes(chance: random.Random, number: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """Times go back now and then, and ahead of what is evaluated at a close."""
    found, time = [], 10_000
    for _ in range(number):
        elements = []
        for _ in range(chance.randint(1, 3)):
            time += chance.choice([0, 100, 700])
            at = max(0, time - chance.choice([0, 0, 0, 300, 5_000]))
            p = chance.choice("pppq")
            o: object = chance.choice([1, 2, 3, "a", "b"]) if p == "p" else chance.choice("abc")
            elements.append({"timestamp": at, "data": triple(chance.choice("abc"), o, p)})
        found.append((chance.choice("sst"), elements))
    return found


def saved(service: Service, name: str) -> SavedWindows | None:
    query = service._engine._injector.catalog.find_query(name)
    assert query is not None
    return service._engine.merge.saved(query.number)


def lived(folder: Path, seed: int, name: str, troubled: bool) -> list[Any]:
    chance = random.Random(seed)
    life = Life(folder, {name: QUERIES[name]})
    said = pushes(chance, 30)
    for place, (stream, elements) in enumerate(said):
        push_lines(life.service, stream, *elements)
        if troubled and chance.random() < 0.3:
            life.collect()
        if troubled and chance.random() < 0.3:
            life.open_again()
        if troubled and place == len(said) // 2:
            life.collect()
    if troubled:
        life.collect()
        assert saved(life.service, name) is not None
        of_s = life.service._engine._injector.catalog.find_stream("s")
        assert of_s is not None
        assert life.service.store.horizon(of_s.number) > 10, "its history has gone"
    found = life.observed(name)
    life.service.close()
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_saved_and_read_again_changes_no_emission(name: str, tmp_path: Path) -> None:
    for seed in range(2):
        calm = lived(tmp_path / f"calm {seed}", seed, name, False)
        assert len(calm) > 1
        assert lived(tmp_path / f"troubled {seed}", seed, name, True) == calm, f"seed {seed}"


@pytest.mark.parametrize("name", QUERIES)
def test_answers_and_emissions_are_evaluated_again_from_what_is_saved(name: str, tmp_path: Path) -> None:
    """The history has gone, but for the last pushes."""
    lives = [Life(tmp_path / kind, {name: QUERIES[name]}) for kind in ("calm", "collected")]
    for place, (stream, elements) in enumerate(pushes(random.Random(5), 40)):
        for life in lives:
            push_lines(life.service, stream, *elements)
        if place in (6, 12):
            lives[1].collect()
    calm, collected = (life.service for life in lives)
    assert answered(collected, name) == answered(calm, name)
    again = 0
    for emission in emissions_of(collected, name):
        try:
            made = json.loads(collected.emission_again(name, emission["emission"]))
        except (Gone, BadArgument):  # its snapshot has gone; LIMIT cuts by all evaluations before
            continue
        again += 1
        assert made.keys() == emission.keys()
        if "graph" in emission:
            assert sorted(made["graph"].splitlines()) == sorted(emission["graph"].splitlines())
        else:
            assert sorted(values(made)) == sorted(values(emission))
    assert again or name in ("first", "distinct")
    for life in lives:
        life.service.close()


def answered(service: Service, name: str) -> list[tuple[bytes, ...]]:
    """The whole answer of the last evaluation."""
    answer = service.latest(name)
    columns = answer.columns if answer.graph is None else list(answer.graph)
    unbound = answer.vocabulary.encode([b"<urn:unbound>"])
    texts = [answer.vocabulary.decode(np.where(column, column, unbound)) for column in columns]
    return sorted(zip(*texts, strict=True))


# ---- what is stored, and what is read again


def arrive(life: Life, first: int, last: int) -> None:
    """Ten elements a push, of values that there were before."""
    for number in range(first, last):
        lines = [triple(f"x{number % 7}", i % 5) for i in range(10)]
        push(life.service, "s", 10_000 + number * 100, *lines, wait="evaluated")
        if number % 10 == 9:
            life.collect()


def stored(service: Service) -> dict[str, int]:
    """Bytes of what grows with a stream's history."""
    tables = ("slice", "terms", "slab", "emission")
    scanned = {table: service.store.kv.scan(table, b"", None) for table in tables}
    return {table: sum(len(key) + len(value) for key, value in rows) for table, rows in scanned.items()}


@pytest.mark.parametrize("name", ["number", "sums", "distinct"])
def test_what_is_stored_grows_with_what_windows_contain_and_not_with_history(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.upkeep.saving._FEW", 16)
    monkeypatch.setattr("stream_ext.upkeep.saving._GRACE_MS", 0)
    life = Life(tmp_path, {name: QUERIES[name]}, Retain(snapshots_ms=SECOND, emissions_ms=MINUTE))
    arrive(life, 0, 100)
    early = stored(life.service)
    arrive(life, 100, 400)
    late = stored(life.service)
    life.service.close()
    for table in early:
        assert late[table] <= 1.5 * early[table] + 4_000, table


def test_a_restart_reads_what_is_saved_and_not_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(tmp_path, {"number": QUERIES["number"]})
    arrive(life, 0, 203)
    life.service.close()
    read = []

    def counted(store: Store, stream: int, rows: Sequence[SnRow]) -> list[StreamColumns]:
        read.extend(rows)
        return streams(store, stream, rows)

    streams = Store.streams
    monkeypatch.setattr(Store, "streams", counted)
    life.service = life._opened()
    push(life.service, "s", 100_000, triple("x1", 1))
    assert life.observed("number")[-1][3] == [("2031",)], "all are counted"
    assert 0 < len(read) < 20, "of 203 snapshots"
    life.service.close()


def test_values_that_nothing_looks_at_are_saved_as_one(tmp_path: Path) -> None:
    """Each element has a value of its own."""
    life = Life(tmp_path, {"number": QUERIES["number"]})
    for number in range(50):
        push(life.service, "s", 10_000 + number, triple(f"x{number}", number), wait="evaluated")
    life.collect()
    known = saved(life.service, "number")
    assert known is not None
    assert [point.rows for point in known.points] == [1]
    life.service.close()


def test_a_resumed_query_does_not_have_what_was_saved_before_its_pause(tmp_path: Path) -> None:
    life = Life(tmp_path, {"number": QUERIES["number"]})
    arrive(life, 0, 20)
    life.service.pause_query("number")
    life.collect()
    assert saved(life.service, "number") is None
    life.service.resume_query("number")
    push(life.service, "s", 100_000, triple("x1", 1))
    assert life.observed("number")[-1][3] == [("1",)], "the elements before have gone"
    life.collect()
    life.open_again()
    push(life.service, "s", 100_001, triple("x1", 1))
    assert life.observed("number")[-1][3] == [("2",)]
    life.service.close()


def test_a_query_that_joins_others_keeps_the_elements_that_only_they_have_saved(tmp_path: Path) -> None:
    """Their windows and their last evaluation are the same; the later one is not saved yet."""
    silent = "OPTIONAL { STREAM t [NOW] { ?y :p ?z } }"  # no time is known of what waits for both streams
    texts = [
        cqels(name, f"SELECT (COUNT({what}) AS ?n)", f"{OF_ALL} {silent}")
        for name, what in (("old", "?x"), ("new", "?y"))
    ]
    life = Life(tmp_path, {"old": texts[0]})
    arrive(life, 0, 10)  # they are saved, and have gone
    arrive(life, 10, 13)
    life.service._engine.saving.look()  # these are saved, and are there
    life.service.register(texts[1])
    arrive(life, 13, 15)
    ((held,),) = life.observed("new")[-1][3]
    life.clock.advance(10 * SECOND)
    life.service._engine.retention.look()
    life.open_again()
    arrive(life, 15, 16)
    assert life.observed("new")[-1][3] == [(str(int(held) + 10),)], "ten came"
    life.service.close()


def test_a_dropped_query_leaves_nothing(tmp_path: Path) -> None:
    life = Life(tmp_path, {"number": QUERIES["number"]})
    arrive(life, 0, 20)
    life.service.drop_query("number")

    def is_all_gone() -> bool:
        life.collect()
        return stored(life.service)["emission"] == 0

    until(is_all_gone, "what is stored of a dropped query goes when the runner has come to the drop")
    life.service.close()


def test_what_cannot_be_saved_is_shown_in_the_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Saving) -> None:
        raise OSError("no room")

    monkeypatch.setattr(Saving, "look", fails)
    life = Life(tmp_path, {})
    life.service._engine.saving._alarm()
    until(lambda: life.service.status()["retention"]["fault"] == "OSError: no room", "it is shown")
    life.service.close()


def test_what_cannot_be_saved_of_one_query_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path, {name: QUERIES[name] for name in ("rows", "whole", "number")})
    push(life.service, "s", 5, triple("a", 1))
    push(life.service, "s", 6, triple("b", 1))
    saving = life.service._engine.saving
    first, *others = list(saving._queries)
    points = saving._points

    def fails_of_first(stream: int, query: Any, state: Any, saved: SavedWindows, writing: Any) -> Any:
        if query is saving._queries[first]:
            raise OSError("its terms cannot be read")
        return points(stream, query, state, saved, writing)

    monkeypatch.setattr(saving, "_points", fails_of_first)
    with pytest.raises(OSError, match="its terms"):
        saving.look()
    merge = life.service._engine.merge
    assert merge.saved(first) is None
    assert None not in [merge.saved(number) for number in others]
    monkeypatch.setattr(saving, "_points", points)
    saving.look()
    assert merge.saved(first) is not None
    life.service.close()
