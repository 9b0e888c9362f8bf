"""SERVICE in registered queries: what they say is what pyoxigraph says of the same windows, store and endpoint.

To it windows, and what the endpoint knows, are named graphs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pyoxigraph
import pytest

from stream_ext.clock import ManualClock
from stream_ext.continuous.catching_up.turns import Turn, TurnLimits
from stream_ext.continuous.shard import Shard
from stream_ext.errors import NotAllowed, ServiceFailed
from stream_ext.rdf.canonical import canonical
from stream_ext.remote.allowed_urls import AllowedUrls, places
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from tests.stream_ext.fake_server import FakeServer, Reply, fake_server
from tests.stream_ext.network.test_service_operator import answering, knowing
from tests.stream_ext.opened import EX, emissions_of, push, times, triple, values

PREFIX = f"PREFIX : <{EX}> "
W1 = "FROM NAMED WINDOW :w1 ON s1 [RANGE PT3S STEP PT1S]"
W2 = "FROM NAMED WINDOW :w2 ON s2 [RANGE PT2S STEP PT2S]"
NAMES = ":z1 :name 'one' . :z2 :name 'two', 'zwei' . :c :name 'city'"


@pytest.fixture
def there() -> Iterator[FakeServer]:
    with fake_server() as server:
        server.replies["/x"] = answering(knowing(NAMES))
        yield server


def allowed_urls(there: FakeServer, **named: Any) -> AllowedUrls:
    return AllowedUrls(service=places(there.url), **named)


def asked(there: FakeServer, text: str) -> str:
    return PREFIX + text.replace("<x>", f"<{there.url}/x>")


QUESTIONS = [
    (W1, "SELECT ?t ?n", "WINDOW :w1 { ?t :in ?z } SERVICE <x> { ?z :name ?n }"),
    (W1, "SELECT *", "WINDOW :w1 { ?t :in ?z } ?z :partOf ?c OPTIONAL { SERVICE <x> { ?c :name ?n } }"),
    (W1 + W2, "SELECT *", "WINDOW :w1 { ?t :in ?z } WINDOW :w2 { ?z :load ?l } SERVICE <x> { ?z :name ?n }"),
    (W1, "SELECT ?t", "WINDOW :w1 { ?t :in ?z } FILTER NOT EXISTS { SERVICE <x> { ?z :name 'one' } }"),
    (W1 + W2, "SELECT *", "{ WINDOW :w1 { ?t :in ?z } } UNION { WINDOW :w2 { ?z :load ?t } } SERVICE <x> { ?z ?p ?n }"),
    (W1, "SELECT ?n (COUNT(*) AS ?k)", "WINDOW :w1 { ?t :in ?z } SERVICE <x> { ?z :name ?n } } GROUP BY ?n"),
    (W1, "SELECT DISTINCT ?n", "WINDOW :w1 { ?t :in ?z } MINUS { ?z :partOf :c } SERVICE <x> { ?z :name ?n }"),
    (W1, "SELECT ?t ?n ?p", "WINDOW :w1 { ?t :in ?z } SERVICE <x> { ?z :name ?n } OPTIONAL { ?z :partOf ?p }"),
    ("", "SELECT *", "?z :partOf ?c SERVICE <x> { ?z :name ?n }"),
]  # fmt: skip


def end_of(pattern: str) -> str:
    return "" if pattern.endswith("?n") else " }"


class Model:
    """The same pushes, answered by pyoxigraph."""

    def __init__(self, there: FakeServer) -> None:
        self.there, self.names, self.ours = there, NAMES, ""
        self.elements: list[tuple[str, int, str]] = []

    def answer(self, question: tuple[str, str, str], time: int) -> Counter[tuple[bytes | None, ...]]:
        _, select, pattern = question
        store = knowing(self.ours) if self.ours else pyoxigraph.Store()
        w1 = [each for s, at, each in self.elements if s == "s1" and time - 3000 <= at < time]
        close = -(-time // 2000) * 2000
        w2 = [each for s, at, each in self.elements if s == "s2" and close - 2000 <= at < min(close, time)]
        for name, held in (("w1", w1), ("w2", w2)):
            store.update(f"{PREFIX} INSERT DATA {{ GRAPH :{name} {{ {' '.join(held)} }} }}")
        store.update(f"{PREFIX} INSERT DATA {{ GRAPH <http://x/> {{ {self.names} }} }}")
        pattern = pattern.replace("WINDOW", "GRAPH").replace("SERVICE <x>", "GRAPH <http://x/>")
        found: Any = store.query(f"{PREFIX} {select} {{ {pattern}{end_of(pattern)}")
        names = sorted(variable.value for variable in found.variables)
        return Counter(
            tuple(None if row[n] is None else canonical(str(row[n]).encode()) for n in names) for row in found
        )


def bag(emission: dict[str, Any]) -> Counter[tuple[bytes | None, ...]]:
    def text(term: dict[str, str] | None) -> bytes | None:
        if term is None:
            return None
        if term["type"] == "uri":
            return f"<{term['value']}>".encode()
        datatype = f"^^<{term['datatype']}>" if "datatype" in term else ""
        return canonical(f'"{term["value"]}"{datatype}'.encode())

    names = sorted(emission["head"]["vars"])
    return Counter(tuple(text(row.get(n)) for n in names) for row in emission["results"]["bindings"])


@pytest.mark.parametrize("seed", range(4))
def test_what_is_emitted_is_pyoxigraphs_answer_whatever_comes_goes_and_is_another_name_by_then(
    tmp_path: Path, there: FakeServer, seed: int
) -> None:
    chance, clock, model = random.Random(seed), ManualClock(1_000_000), Model(there)
    named = {"clock": clock, "allowed_urls": allowed_urls(there, refresh_s=0)}
    kinds = ["RSTREAM", "ISTREAM", "DSTREAM"]
    queries = {f"q{i}_{r2s.lower()}": (q, r2s) for i, q in enumerate(QUESTIONS) for r2s in kinds}
    expected: dict[str, list[tuple[int, Counter[Any]]]] = {name: [] for name in queries}
    before: dict[str, Counter[Any]] = {name: Counter() for name in queries}

    def evaluated(time: int, windows: bool) -> None:
        for name, (question, r2s) in queries.items():
            if bool(question[0]) != windows:
                continue
            now, was = model.answer(question, time), before[name]
            before[name] = now
            rows = {"RSTREAM": now, "ISTREAM": now - was, "DSTREAM": was - now}[r2s]
            if windows or (now != was and (rows or r2s == "RSTREAM")):
                expected[name].append((time, rows))

    service = Service.open(f"lmdb:{tmp_path / 'store'}", base="http://rillet/", engine="inline", batch_ms=0, **named)
    try:
        for name, ((windows, select, pattern), r2s) in queries.items():
            text = f"REGISTER {r2s} {name} AS {select} {windows} WHERE {{ {pattern}{end_of(pattern)}"
            service.register(asked(there, text))
        for name, (question, r2s) in queries.items():
            if not question[0] and r2s == "RSTREAM":
                expected[name].append((clock.now_ms(), Counter()))
        for second in range(1, 8):
            clock.advance(1000)
            if chance.random() < 0.5:
                model.names = NAMES if chance.random() < 0.3 else f":z1 :name 'n{second}' . :z2 :name 'two'"
                there.replies["/x"] = answering(knowing(model.names))
            z = chance.choice(["z1", "z2", "z3"])
            verb = chance.choice(["INSERT", "INSERT", "DELETE"])
            service.update(f"{PREFIX} {verb} DATA {{ :{z} :partOf :c }}", wait="evaluated")
            line = f":{z} :partOf :c ."
            has = line in model.ours
            model.ours = model.ours.replace(line, "") + (line if verb == "INSERT" else "")
            if has != (verb == "INSERT"):
                evaluated(clock.now_ms(), windows=False)
            for stream, s, p, o in (
                ("s1", f"t{chance.randint(1, 2)}", "in", chance.choice(["z1", "z2", "z3"])),
                ("s2", chance.choice(["z1", "z2"]), "load", "much"),
            ):
                at = second * 1000 + chance.choice([0, 500])
                model.elements.append((stream, at, triple(s, o, p)))
                push(service, stream, at, triple(s, o, p))
            evaluated(second * 1000, windows=True) if second > 1 else None
            if second == chance.randint(3, 5):
                for name, (question, _) in queries.items():  # it is the answer of now that later ones are compared with
                    if not question[0]:
                        before[name] = model.answer(question, 0)
                service.close()
                service = Service.open(
                    f"lmdb:{tmp_path / 'store'}", base="http://rillet/", engine="inline", batch_ms=0, **named
                )
        for name, what in expected.items():
            found = [(each["time"], bag(each)) for each in emissions_of(service, name)]
            assert found == what, name
            assert service.query_status(name)["state"] == "running"
    finally:
        service.close()


# ---- when there is no answer -----------------------------------------------------------------------------------

NAMED = f"SELECT ?t ?n {W1} WHERE {{ WINDOW :w1 {{ ?t :in ?z }} SERVICE <x> {{ ?z :name ?n }} }}"
STORED = "SELECT ?z ?n { ?z :in :c SERVICE <x> { ?z :name ?n } }"
ALONE = f"SELECT ?t {W1} WHERE {{ WINDOW :w1 {{ ?t :in ?z }} }}"


class Line:
    """A service beside an endpoint that may fail; a second passes with each element."""

    def __init__(self, folder: Path, there: FakeServer, **named: Any) -> None:
        self.folder, self.there, self.clock = folder, there, ManualClock(1_000_000)
        self.named = {"allowed_urls": allowed_urls(there, **named)}
        self.start()

    def start(self) -> None:
        self.service = Service.open(
            f"lmdb:{self.folder / 'store'}", base="http://rillet/", engine="inline", batch_ms=0, clock=self.clock,
            **self.named,
        )  # fmt: skip

    def restart(self) -> None:
        self.service.close()
        self.start()

    def second(self, number: int, *triples: str) -> None:
        self.clock.advance(1000)
        push(self.service, "s1", number * 1000, *(triples or (triple("t0", "nowhere", "in"),)))

    def fails(self, reply: Reply | None = None) -> None:
        self.there.replies["/x"] = reply or Reply(503, b"not now")

    def answers(self, names: str = NAMES) -> None:
        self.there.replies["/x"] = answering(knowing(names))

    def state(self, name: str = "q") -> str:
        return str(self.service.query_status(name)["state"])

    def observed(self, name: str = "q") -> list[tuple[int, list[tuple[str, ...]]]]:
        return [(each["time"], values(each)) for each in emissions_of(self.service, name)]


@pytest.fixture
def line(tmp_path: Path, there: FakeServer) -> Iterator[Line]:
    made = Line(tmp_path, there)
    yield made
    made.service.close()


T1, T2, T3 = (triple(f"t{i}", "z1", "in") for i in (1, 2, 3))


@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM", "DSTREAM"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_missed_is_made_up_for_when_there_is_an_answer(line: Line, r2s: str, restarts: bool) -> None:
    """As another service says it, whose endpoint never failed."""
    for name in ("q", "other"):
        asks = NAMED if name == "q" else NAMED.replace("<x>", "<y>").replace("<y>", f"<{line.there.url}/y>")
        line.service.register(asked(line.there, f"REGISTER {r2s} {name} AS {asks}"))
    line.there.replies["/y"] = answering(knowing(NAMES))
    line.second(1, T1)
    line.second(2, triple("t2", "z2", "in"))
    line.fails()
    line.second(3, triple("t4", "z3", "in"))
    assert line.state() == "waiting", "z2 has never been asked for"
    assert line.state("other") == "running"
    error = line.service.query_status("q")["error"]
    assert (
        f"ServiceFailed: line 1, column {asked(line.there, f'REGISTER {r2s} q AS {NAMED}').index('SERVICE') + 1}"
        in error
    )
    assert "answered 503 Service Unavailable: not now" in error and "the query catches up" in error
    line.second(4, T3)
    line.service.update(f"{PREFIX} INSERT DATA {{ :a :b :c }}", wait="evaluated")
    if restarts:
        line.restart()
    line.second(6)  # two closes at once, so that one snapshot has several evaluations, and the next one more
    assert line.state() == "waiting"
    assert len(line.observed()) == 1 and len(line.observed("other")) == 5
    line.answers()
    line.second(7)
    if line.state() == "waiting":
        line.second(9)
    line.second(10, T1)
    assert line.state() == "running" and line.service.query_status("q")["error"] is None
    assert line.observed() == line.observed("other")
    assert [each["emission"] for each in emissions_of(line.service)] == list(range(1, len(line.observed()) + 1))
    assert not any("gap" in each for each in emissions_of(line.service))
    line.restart()
    line.second(11)
    assert line.observed() == line.observed("other")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_long_past_is_made_up_for_little_by_little(
    line: Line, restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the others go on; a drop in the middle ends it."""
    monkeypatch.setattr(TurnLimits, "behind", lambda pace, interrupted: Turn(5))
    for name in ("q", "other", "dropped"):
        asks = NAMED.replace("<x>", f"<{line.there.url}/y>") if name == "other" else NAMED
        line.service.register(asked(line.there, f"REGISTER RSTREAM {name} AS {asks}"))
    line.there.replies["/y"] = answering(knowing(NAMES))
    line.fails()
    for number in range(1, 21):
        line.second(number, triple(f"t{number}", "z1", "in"))
    line.clock.advance(60_000)
    line.answers()
    steps: list[int] = []
    step = Shard.step_one_behind
    monkeypatch.setattr(Shard, "step_one_behind", lambda shard: (steps.append(shard.sn), step(shard))[1])
    for number in range(21, 28):
        line.second(number)
        assert len(line.observed("other")) == number - 1
        assert line.state() == "running" and line.observed() == line.observed("other")
        if number == 23:
            line.service.drop_query("dropped")
            if restarts:
                line.restart()
    assert max(Counter(steps).values()) >= 2 * 20 // 5 - 2, "both were made up for by turns"
    assert line.state() == "running" and line.observed() == line.observed("other")
    assert not any("gap" in each for each in emissions_of(line.service))


def test_who_does_not_wait_for_what_was_missed_resumes_the_query(line: Line) -> None:
    line.service.register(asked(line.there, f"REGISTER RSTREAM q AS {NAMED}"))
    line.service.register(asked(line.there, f"REGISTER RSTREAM alone AS {ALONE}"))
    line.second(1, T1)
    line.fails()
    for number in range(2, 6):
        line.second(number)
    assert line.state() == "waiting" and line.observed() == []
    line.service.resume_query("alone")
    assert "gap" not in emissions_of(line.service, "alone")[-1], "it runs, and goes on as it was"
    line.answers()
    line.service.resume_query("q")
    line.second(6, T2)
    line.second(7)
    assert line.observed() == [(6000, []), (7000, [("t2", "one")])]
    assert [each.get("gap") for each in emissions_of(line.service)] == [True, None]
    assert line.state() == "running"
    assert times(emissions_of(line.service, "alone")) == [2000, 3000, 4000, 5000, 6000, 7000]


def test_one_that_is_resumed_too_early_begins_where_it_was_resumed(line: Line) -> None:
    line.service.register(asked(line.there, f"REGISTER RSTREAM q AS {STORED}"))
    line.service.update(f"{PREFIX} INSERT DATA {{ :z1 :in :c }}", wait="evaluated")
    line.fails()
    line.service.update(f"{PREFIX} INSERT DATA {{ :z2 :in :c }}", wait="evaluated")
    line.service.update(f"{PREFIX} INSERT DATA {{ :z3 :in :c }}", wait="evaluated")
    line.service.resume_query("q")
    line.service.update(f"{PREFIX} DELETE DATA {{ :z1 :in :c }}", wait="evaluated")
    assert line.state() == "waiting"
    line.restart()
    line.answers()
    line.clock.advance(5_000)
    line.service.update(f"{PREFIX} INSERT DATA {{ :a :b :c }}", wait="evaluated")
    two = [("z2", "two"), ("z2", "zwei")]
    assert [rows for _, rows in line.observed()] == [[], [("z1", "one")], [("z1", "one"), *two], two]
    assert [each.get("gap") for each in emissions_of(line.service)] == [None, None, True, None]


def test_time_by_itself_causes_no_answer_and_what_others_say_does(line: Line) -> None:
    line.named["allowed_urls"] = allowed_urls(line.there, refresh_s=60)
    line.restart()
    text = f"REGISTER RSTREAM q AS {STORED.replace('SELECT ?z ?n', 'SELECT (NOW() AS ?now) ?n')}"
    line.service.register(asked(line.there, text))
    line.service.update(f"{PREFIX} INSERT DATA {{ :z1 :in :c }}", wait="evaluated")
    for number in range(3):
        line.clock.advance(30_000)
        line.answers(":z1 :name 'eins'")
        line.service.update(f"{PREFIX} INSERT DATA {{ :a :b {number} }}", wait="evaluated")
    assert [[row[1] for row in rows] for _, rows in line.observed()] == [[], ["one"], ["eins"]]


def test_a_query_without_windows_says_each_change_that_it_missed(line: Line) -> None:
    line.service.register(asked(line.there, f"REGISTER ISTREAM q AS {STORED}"))
    line.service.update(f"{PREFIX} INSERT DATA {{ :z1 :in :c }}", wait="evaluated")
    line.fails()
    line.service.update(f"{PREFIX} INSERT DATA {{ :z2 :in :c }}", wait="evaluated")
    line.service.update(f"{PREFIX} INSERT DATA {{ :c :in :c }} ; DELETE DATA {{ :z1 :in :c }}", wait="evaluated")
    assert line.state() == "waiting"
    line.answers()
    line.clock.advance(5000)
    line.service.update(f"{PREFIX} INSERT DATA {{ :a :b :c }}", wait="evaluated")
    assert line.state() == "running"
    assert [rows for _, rows in line.observed()] == [
        [("z1", "one")], [("z2", "two"), ("z2", "zwei")], [("c", "city")],
    ]  # fmt: skip


def test_a_query_that_had_no_answer_at_its_registration_begins_when_there_is_one(line: Line) -> None:
    line.fails()
    line.service.update(f"{PREFIX} INSERT DATA {{ :z1 :in :c }}")
    line.service.create_stream("s1", {"retention": "1h"})
    line.second(1, T1)
    line.second(3, T2)
    line.service.register(asked(line.there, f"REGISTER RSTREAM q AS {STORED}"))
    past = NAMED.replace("[RANGE PT3S STEP PT1S]", "[START 0 END 4000 STEP 2s]").replace("name", "name ?n . ?z :name")
    line.service.register(asked(line.there, f"REGISTER RSTREAM past AS {past}"))
    line.second(4)
    assert line.state() == line.state("past") == "waiting"
    line.restart()
    line.answers()
    line.second(9)
    assert line.observed() == [(1_002_000, [("z1", "one")])]
    assert line.observed("past") == [(2000, [("t1", "one")]), (4000, [("t1", "one"), ("t2", "one")])]
    assert line.state("past") == "ended"


def test_at_arrivals_nothing_is_missed_either(line: Line) -> None:
    window = W1.replace("STEP PT1S", "STEP PT1S REPORT CONTENT_CHANGE")
    line.service.register(asked(line.there, f"REGISTER RSTREAM q AS {NAMED.replace(W1, window)}"))
    line.second(1, T1)
    line.fails()
    line.second(2, triple("t2", "z2", "in"))
    line.second(3, T3)
    line.answers()
    line.clock.advance(5_000)
    line.second(7)
    assert line.observed() == [
        (1000, [("t1", "one")]),
        (2000, [("t1", "one"), ("t2", "two"), ("t2", "zwei")]),
        (3000, [("t1", "one"), ("t2", "two"), ("t2", "zwei"), ("t3", "one")]),
        (7000, []),
    ]


def test_closes_and_arrivals_are_emitted_the_same_until_all_is_asked_for_again(line: Line) -> None:
    """Else an ISTREAM would say either answer again and again."""
    window = W1.replace("PT3S STEP PT1S", "PT90S STEP PT1S REPORT WINDOW_CLOSE, CONTENT_CHANGE")
    line.service.register(asked(line.there, f"REGISTER ISTREAM q AS {NAMED.replace(W1, window)}"))
    line.second(1, T1)
    line.answers(":z1 :name 'eins' . :z2 :name 'zwei'")
    line.second(2, triple("t2", "z2", "in"))
    line.second(3, T3)
    line.clock.advance(60_000)
    for number in (4, 5, 6):
        line.second(number)
    again = [("t1", "eins"), ("t3", "eins")]
    said_at = [(1000, [("t1", "one")]), (2000, [("t2", "zwei")]), (3000, [("t3", "one")]), (4000, again)]
    assert [(at, rows) for at, rows in line.observed() if rows] == said_at
    assert sum(each.body.count(b"z1") for each in line.there.asked) == 2


def test_what_is_not_retained_any_more_leaves_a_gap_and_windows_hold_what_they_need(
    tmp_path: Path, there: FakeServer
) -> None:
    line = Line(tmp_path, there)
    line.named["retain"] = Retain(snapshots_ms=1_000)
    line.restart()
    line.service.register(asked(there, f"REGISTER RSTREAM q AS {STORED}"))
    line.service.register(asked(there, f"REGISTER RSTREAM w AS {NAMED}"))
    line.fails()
    line.service.update(f"{PREFIX} INSERT DATA {{ :z1 :in :c }}", wait="evaluated")
    assert line.state() == "waiting" and not line.service.query_status("q")["gap"]
    line.second(1, T1)
    for number in range(2, 20):
        line.second(number, triple(f"t{number}", "z1", "in"))
    line.clock.advance(70_000)
    line.service.store.fold()
    line.service.update(f"{PREFIX} INSERT DATA {{ :z2 :in :c }}", wait="evaluated")
    line.service.collect()
    assert {name: line.service.query_status(name)["gap"] for name in "qw"} == {"q": True, "w": False}
    line.clock.advance(60_000)
    line.answers()
    line.service.update(f"{PREFIX} INSERT DATA {{ :a :b :c }}", wait="evaluated")
    assert not line.service.query_status("q")["gap"], "it was emitted"
    assert [values(each) for each in emissions_of(line.service)] == [[], [("z1", "one"), ("z2", "two"), ("z2", "zwei")]]
    assert [each.get("gap") for each in emissions_of(line.service)] == [None, True]
    held = [(n * 1000, sorted((f"t{m}", "one") for m in range(max(1, n - 3), n))) for n in range(2, 20)]
    assert line.observed("w") == held and not any("gap" in each for each in emissions_of(line.service, "w"))
    line.service.close()


def test_one_that_waits_holds_no_more_than_fits_so_that_the_others_continue(tmp_path: Path, there: FakeServer) -> None:
    line = Line(tmp_path, there)
    line.named["retain"] = Retain(snapshots_ms=5_000, timing_bytes=8_000)
    line.restart()
    line.service.register(asked(there, f"REGISTER RSTREAM q AS {NAMED}"))
    line.service.register(asked(there, f"REGISTER RSTREAM alone AS {ALONE}"))
    line.fails()
    for number in range(1, 101):
        line.second(number, *(triple(f"t{number}_{i}", "z1", "in") for i in range(10)))
        if number == 10:
            line.service.collect()
            assert line.service.status()["retention"]["held_by"] == "q"
    line.service.collect()
    retention = line.service.status()["retention"]
    assert not retention["full"] and 2_000 < retention["timing_bytes"] <= 8_000
    assert line.state() == "waiting" and len(line.observed("alone")) == 99
    line.answers()
    line.clock.advance(60_000)
    line.second(101)
    line.service.collect()
    assert line.state() == "running"
    assert line.service.status()["retention"]["oldest_snapshot"] > 90
    line.second(102, T1)
    line.restart()
    line.second(103)
    named = [(at, [(t, "one") for (t,) in rows if t != "t0"]) for at, rows in line.observed("alone")]
    assert line.observed() == named[-3:]
    assert [each.get("gap") for each in emissions_of(line.service)] == [True, None, None]
    line.service.close()


def test_one_whose_elements_were_let_go_while_it_waited_begins_anew(line: Line) -> None:
    """As those of a runner that had no answer where the one whose word counted had one."""
    line.service.register(asked(line.there, f"REGISTER RSTREAM q AS {NAMED}"))
    line.fails()
    for number in range(1, 11):
        line.second(number, T1)
    store, stream = line.service.store, line.service.stream("s1").number
    store.floor(store.oldest(), {stream: line.service.head() - 1})
    line.answers()
    line.clock.advance(60_000)
    for number in (11, 12):
        line.second(number)
    assert line.state() == "running"
    assert [each.get("gap") for each in emissions_of(line.service)] == [True, None]


def test_silent_says_what_there_is_and_the_rest_when_it_is_there(line: Line) -> None:
    line.service.register(asked(line.there, f"REGISTER ISTREAM q AS {NAMED.replace('SERVICE', 'SERVICE SILENT')}"))
    line.fails()
    line.second(1, T1)
    line.second(2)
    line.answers()
    line.second(3)
    line.second(4)
    assert line.state() == "running"
    assert line.observed()[:3] == [(2000, [("t1", "")]), (3000, [("t1", "one")]), (4000, [])]


def test_one_that_does_not_answer_in_time_is_waited_for_once(tmp_path: Path, there: FakeServer) -> None:
    ends = Event()
    line = Line(tmp_path, there, service_timeout_s=0.2)
    for name in "abc":
        line.service.register(asked(there, f"REGISTER RSTREAM {name} AS {NAMED}"))
    line.fails(Reply(200, b'{"results": {"bindings": []}}', wait=ends))
    line.second(1, T1)
    line.second(2)
    assert len(there.asked) == 1, "by one of the three"
    assert "within 0.2 s (--service-timeout)" in line.service.query_status("c")["error"]
    ends.set()
    line.service.close()


# ---- who may be asked, and other ways to ask -------------------------------------------------------------------


def test_what_may_not_be_asked_is_not_registered(line: Line) -> None:
    with pytest.raises(NotAllowed, match=r"<http://example\.org/> is not among"):
        line.service.register(
            asked(line.there, f"REGISTER RSTREAM q AS {NAMED.replace('<x>', '<http://example.org/>')}")
        )
    line.service.register(asked(line.there, f"REGISTER RSTREAM q AS {NAMED}"))
    line.second(1, T1)
    line.named = {}
    line.restart()
    line.second(2)
    assert line.state() == "failed"
    assert "NotAllowed: line 1" in (error := line.service.query_status("q")["error"])
    assert "SERVICE is off" in error and "a resumed query skips" in error


def test_the_same_windows_asked_once_and_emissions_made_again_ask_the_service_again(line: Line) -> None:
    line.service.register(asked(line.there, f"REGISTER ISTREAM q AS {NAMED}"))
    line.second(1, T1)
    line.second(2)
    assert line.observed() == [(2000, [("t1", "one")])]
    line.answers(":z1 :name 'eins'")
    once = line.service.decode(line.service.query(asked(line.there, NAMED), at=2000))
    assert [row[1] for row in once] == [b'"eins"']
    assert b"eins" in line.service.emission_again("q", 1)
    assert line.service.decode(line.service.latest("q"))[0][1] == b'"eins"'
    assert line.observed() == [(2000, [("t1", "one")])]
    line.fails()
    with pytest.raises(ServiceFailed, match="answered 503"):
        line.service.emission_again("q", 1)
    with pytest.raises(ServiceFailed, match="answered 503"):
        line.service.latest("q")


def test_cspariql_asks_too_and_merges_what_it_merges(line: Line) -> None:
    line.service.update(f"{PREFIX} INSERT DATA {{ GRAPH :map {{ :z1 :partOf :c }} }}")
    line.service.register(
        asked(
            line.there,
            "REGISTER QUERY q AS SELECT ?t ?n FROM STREAM <http://rillet/streams/s1> [RANGE 3s STEP 1s] FROM :map "
            "WHERE { ?t :in ?z . ?z :partOf ?c SERVICE <x> { ?c :name ?n } }",
        )
    )
    line.second(1, T1)
    line.second(2)
    assert line.observed() == [(2000, [("t1", "city")])]


def test_what_a_construct_says_of_a_service_is_a_graph_and_a_stream(line: Line) -> None:
    where = NAMED.partition("?n ")[2]
    text = f"REGISTER ISTREAM q AS CONSTRUCT {{ ?t :at ?n }} {where}"
    line.service.register(asked(line.there, text))
    line.service.register(
        PREFIX + "REGISTER RSTREAM chained AS SELECT ?t ?n FROM NAMED WINDOW :w ON q [RANGE PT1S STEP PT1S] "
        "WHERE { WINDOW :w { ?t :at ?n } }"
    )
    line.second(1, T1)
    line.second(2)
    line.second(3, T2)
    line.second(4)
    graph = "SELECT ?t ?n { GRAPH <http://rillet/queries/q> { ?t :at ?n } }"
    rows = line.service.decode(line.service.query(PREFIX + graph))
    assert sorted(n or b"" for _, n in rows) == [b'"one"', b'"one"']
    assert (3000, [("t1", "one")]) in line.observed("chained")


def test_queries_that_ask_a_service_share_no_network(line: Line) -> None:
    for name in "ab":
        line.service.register(
            asked(line.there, f"REGISTER RSTREAM {name} AS {NAMED.replace('?t :in', f':t_{name} :in')}")
        )
    line.second(1, triple("t_a", "z1", "in"))
    line.second(2)
    assert line.observed("a") == [(2000, [("", "one")])] and line.observed("b") == [(2000, [])]


def test_what_was_emitted_is_not_asked_for_again_after_a_restart(line: Line) -> None:
    line.service.register(asked(line.there, f"REGISTER RSTREAM q AS {NAMED}"))
    for number in range(1, 6):
        line.second(number, triple("t", f"z{number}", "in"))
    line.there.asked.clear()
    line.restart()
    line.second(6)
    assert len(line.there.asked) == 2, "what is in the windows, and what is new"
    assert sum(b"z1" in each.body for each in line.there.asked) == 0


@pytest.mark.parametrize("windowed", [True, False])
def test_what_others_answered_once_is_forgotten_with_its_terms(
    line: Line, windowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_ext.continuous.run.TERMS_CREATED_MAX", 10)
    stepped: list[Shard] = []
    step = Shard.step
    monkeypatch.setattr(Shard, "step", lambda shard, sn: (stepped.append(shard), step(shard, sn))[1])
    line.named["allowed_urls"] = allowed_urls(line.there, refresh_s=0)
    line.restart()
    line.service.register(asked(line.there, f"REGISTER ISTREAM q AS {NAMED if windowed else STORED}"))
    line.service.update(f"{PREFIX} INSERT DATA {{ :z1 :in :c }}", wait="evaluated")
    if not windowed:
        line.service.create_stream("s1", {})
    for number in range(1, 40):
        line.answers(f":z1 :name 'name {number}'")
        line.second(number, T1)
        line.service.update(f"{PREFIX} INSERT DATA {{ :a :b {number} }}", wait="evaluated")
    names = [row[1] for _, rows in line.observed() for row in rows]
    assert names == [*([] if windowed else ["one"]), *(f"name {number}" for number in range(1 + windowed, 40))]
    (run,) = stepped[-1].runs.of.values()
    assert run.evaluator.created < 25
