"""Streams named by a variable where a query is asked once, replays the past, or is C-SPARQL: against pyoxigraph.

The streams that a question ranges over are those that there are when it is asked, or registered to replay; a C-SPARQL
query that goes on reads those that come later, too."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from stream_ext.errors import BadArgument, NameInUse
from stream_ext.service.service import Service
from tests.stream_ext.continuous.test_stream_variables import (
    PATTERNS,
    RANGES,
    Element,
    Expected,
    answer,
    iri_of,
    text_of,
)
from tests.stream_ext.opened import BASE, EX, emissions_of, open_service, opened, push, times, triple, values


def rows(service: Service, text: str, **when: int) -> Counter[tuple[str, ...]]:
    found = service.decode(service.query(text, **when))
    return Counter(tuple("" if t is None else re.sub(r"^[<\"]|[>\"].*$", "", t.decode()) for t in row) for row in found)


def plain(expected: Counter[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    """With whole IRIs, as `rows` has them."""
    return Counter(
        {tuple(t if not t or ":" in t or t.isdigit() else EX + t for t in row): n for row, n in expected.items()}
    )


def once(text: str) -> str:
    return re.sub(r"REGISTER \w+ q AS ", "", text)


def evaluated(service: Service) -> None:
    """What a registration makes due at once is said."""
    service.update("INSERT DATA { <urn:a> <urn:b> <urn:c> }", wait="evaluated")


def pushed(service: Service, chance: random.Random, count: int = 30) -> list[Element]:
    there: list[Element] = []
    for stream in "abc":
        service.create_stream(stream, {"retention": "1h"})
    for _ in range(count):
        stream, x, y = chance.choice("abc"), f"n{chance.randint(0, 3)}", f"n{chance.randint(0, 3)}"
        there.append((stream, chance.randint(0, 6000), x, y))
        push(service, stream, there[-1][1], triple(x, y))
    service.update(f"INSERT DATA {{ {' '.join(f'{iri_of(s)} <{EX}in> <{EX}room-{s}> .' for s in 'abc')} }}")
    return there


@pytest.mark.parametrize("place", range(len(PATTERNS)))
def test_what_is_asked_once_is_the_oracles(tmp_path: Path, place: int) -> None:
    chance, (select, pattern) = random.Random(place), PATTERNS[place]
    with opened(tmp_path) as service:
        there = pushed(service, chance)
        found = 0
        for time in range(1000, 8000, 1000):
            asked = rows(service, once(text_of(select, pattern, "RSTREAM")), at=time)
            assert asked == plain(answer(there, select, pattern, time)), f"at {time}"
            found += asked.total()
        assert found


def test_a_question_at_a_snapshot_ranges_over_the_streams_of_then(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {"retention": "1h"})
        then = push(service, "a", 500, triple("x", "y")).snapshot
        service.create_stream("b", {"retention": "1h"})
        push(service, "b", 500, triple("x", "y"))
        text = once(text_of("?s ?x", "WINDOW :w { ?x :p ?y }", "RSTREAM"))
        both = {(f"{BASE}streams/{name}", f"{EX}x") for name in "ab"}
        assert set(rows(service, text, at=1000)) == both
        assert set(rows(service, text, at=1000, snapshot=then)) == {(f"{BASE}streams/a", f"{EX}x")}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x FROM NAMED WINDOW :w ON ?s [RANGE 5s] { { WINDOW :w { ?x ?y ?z } } UNION { ?x :in ?z } }",
        "SELECT ?x FROM STREAM ?s [RANGE 5s] FROM :g { ?x :in ?z }",
        "SELECT ?x FROM NAMED WINDOW :w ON ?s [RANGE 5s] FROM NAMED :g { ?x :in ?z }",
    ],
)
def test_where_there_is_no_stream_the_rest_is_answered(tmp_path: Path, text: str) -> None:
    with opened(tmp_path) as service:
        one = f"<{EX}a> <{EX}in> <{EX}b>"
        service.update(f"INSERT DATA {{ {one} GRAPH <{EX}g> {{ {one} }} }}")
        assert set(rows(service, f"PREFIX : <{EX}> {text}", at=1000)) == {(f"{EX}a",)}


def test_the_streams_of_a_window_with_a_predicate_for_the_time_must_all_have_it(tmp_path: Path) -> None:
    text = f"PREFIX : <{EX}> SELECT ?s ?x FROM NAMED WINDOW :w ON ?s [RANGE 5s ON :t] {{ WINDOW :w {{ ?x :p ?y }} }}"
    with opened(tmp_path) as service:
        service.create_stream("a", {"time": f"{EX}t"})
        push(service, "a", None, triple("x", "y"), triple("x", 500, "t"))
        assert set(rows(service, text, at=5000)) == {(f"{BASE}streams/a", f"{EX}x")}
        service.create_stream("b", {})
        with pytest.raises(
            BadArgument, match=r"RANGE ... ON <http://ex/t> .*stream 'http://rillet/streams/b' takes its times from"
        ):
            service.query(text, at=5000)


# ---- the past, replayed


@pytest.mark.parametrize("place", range(len(PATTERNS)))
def test_what_is_replayed_is_the_oracles(tmp_path: Path, place: int) -> None:
    chance, (select, pattern) = random.Random(100 + place), PATTERNS[place]
    text = re.sub(r"\[RANGE \d+ms STEP 1s\]", "[START 1000 END 5000 STEP 1s]", text_of(select, pattern, "RSTREAM"))
    service = open_service(tmp_path)
    there = [each for each in pushed(service, chance) if each[1] >= 1000]
    service.register(text)
    evaluated(service)
    observed = [(e["time"], sorted(values(e))) for e in emissions_of(service)]
    assert observed == [(at, sorted(whole(there, select, pattern, at).elements())) for at, _ in observed]
    assert [at for at, _ in observed] == [2000, 3000, 4000, 5000]
    assert service.query_status("q")["state"] == "ended"
    service.create_stream("d", {})  # one that comes later changes nothing
    push(service, "d", 1500, triple("n0", "n1"))
    service.close()
    with opened(tmp_path) as service:
        assert [(e["time"], sorted(values(e))) for e in emissions_of(service)] == observed
        assert Counter(rows_of_latest(service)) == plain(Counter(map(tuple, observed[-1][1])))
        assert service.query_status("q")["streams"] == ["a", "b", "c"]
        service.drop_stream("d")
        with pytest.raises(NameInUse, match="'a' is read by 'q'"):
            service.drop_stream("a")


def whole(there: list[Element], select: str, pattern: str, time: int) -> Counter[tuple[str, ...]]:
    """Of windows that hold all from the start on."""
    ranges = dict(RANGES)
    try:
        RANGES.update(dict.fromkeys(RANGES, time + 1))
        return answer(there, select, pattern, time)
    finally:
        RANGES.update(ranges)


def rows_of_latest(service: Service) -> list[tuple[str, ...]]:
    found = service.decode(service.latest("q"))
    return [tuple("" if t is None else re.sub(r"^[<\"]|[>\"].*$", "", t.decode()) for t in row) for row in found]


def test_there_must_be_a_stream_to_replay(tmp_path: Path) -> None:
    text = text_of("?s", "WINDOW :w { ?x :p ?y }", "RSTREAM").replace("RANGE 3000ms STEP 1s", "START 0 END 9")
    with opened(tmp_path) as service, pytest.raises(BadArgument, match="no such stream exists yet"):
        service.register(text.replace("RANGE 2000ms STEP 1s", "START 0 END 9"))


def test_a_construct_that_replays_all_streams_does_not_read_itself(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {"retention": "1h"})
        push(service, "a", 500, triple("x", "y"))
        service.register(
            f"PREFIX : <{EX}> REGISTER STREAM q AS CONSTRUCT {{ ?s :saw ?x }} "
            "FROM NAMED WINDOW :w ON ?s [START 0 END 1000] WHERE { WINDOW :w { ?x :p ?y } }"
        )
        evaluated(service)
        assert [e["graph"] for e in emissions_of(service)] == [f"<{BASE}streams/a> <{EX}saw> <{EX}x> .\n"]


# ---- C-SPARQL: the windows are merged

MERGED = [
    ("?x ?y", "?x :p ?y"),
    ("?x ?z", "?x :p ?y . ?y :p ?z"),
    ("?x (COUNT(*) AS ?n)", "?x :p ?y } GROUP BY ?x #"),
    ("?s ?x ?y", "GRAPH ?s { ?x :p ?y }"),
    ("?s ?x ?z", "GRAPH ?s { ?x :p ?y } ?y :p ?z"),
    ("?s ?r ?x", "GRAPH ?s { ?x :p ?y } ?s :in ?r"),
    ("?x ?y", "?x :p ?y FILTER NOT EXISTS { GRAPH ?s { ?y :p ?x } }"),
    ("?s ?n", "GRAPH ?s { SELECT (COUNT(*) AS ?n) { ?x :p ?y } }"),
]


def merged_answer(there: list[Element], select: str, pattern: str, time: int) -> Counter[tuple[str, ...]]:
    """Of one window of three seconds on each stream; the default graph of the store is FROM :map."""
    store = ox.Store()
    for stream in "abc":
        store.add(ox.Quad(iri_of(stream), ox.NamedNode(f"{EX}in"), ox.NamedNode(f"{EX}room-{stream}")))
    for stream, at, x, y in there:
        if time - 3000 <= at < time:
            one = [ox.NamedNode(EX + each) for each in (x, "p", y)]
            store.add(ox.Quad(*one))
            store.add(ox.Quad(*one, graph_name=iri_of(stream)))
    if "{ SELECT" in pattern:  # one answer for each graph, also where nothing is in it
        each_graph = (pattern.replace("?s", str(iri_of(s))) + f" VALUES ?s {{ {iri_of(s)} }}" for s in "abc")
        pattern = " UNION ".join(f"{{ {each} }}" for each in each_graph)
    found: Any = store.query(f"PREFIX : <{EX}> SELECT {select} WHERE {{ {pattern} }}")
    answers = ([row[variable] for variable in found.variables] for row in found)
    return Counter(tuple("" if term is None else term.value.removeprefix(EX) for term in row) for row in answers)


class ExpectedMerged(Expected):
    """As of named windows, but that the first push gives the origin of the closes."""

    def take(self, *element: Any) -> None:
        if not self.elements:
            self.after = element[1] // 1000 * 1000
        super().take(*element)


def merged_text(select: str, pattern: str, r2s: str = "RSTREAM") -> str:
    return (
        f"PREFIX : <{EX}> REGISTER {r2s} q AS SELECT {select} FROM STREAM ?s [RANGE 3s STEP 1s] FROM :map "
        f"WHERE {{ {pattern} }}"
    )


def with_map(service: Service) -> None:
    facts = " ".join(f"{iri_of(s)} <{EX}in> <{EX}room-{s}> ." for s in "abc")
    service.update(f"INSERT DATA {{ GRAPH <{EX}map> {{ {facts} }} }}")


@pytest.mark.parametrize("seed", range(24))
def test_what_csparql_says_is_the_oracles_also_when_streams_come_and_the_service_is_opened_again(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.stream_ext.continuous.test_stream_variables.answer", merged_answer)
    chance = random.Random(seed)
    (select, pattern), r2s = MERGED[seed % (len(MERGED) - 1)], chance.choice(["RSTREAM", "ISTREAM", "DSTREAM"])
    expected, at = ExpectedMerged(select, pattern, r2s), dict.fromkeys("abc", 0)
    service = open_service(tmp_path)
    with_map(service)
    late = chance.sample("abc", chance.randint(1, 2))
    there = [stream for stream in "abc" if stream not in late]
    for stream in there:
        service.create_stream(stream, {})
        at[stream] = chance.choice([0, 1700])
    service.register(merged_text(select, pattern, r2s))
    for _ in range(50):
        if late and chance.random() < 0.1:
            there.append(late.pop())
            service.create_stream(there[-1], {})
        if chance.random() < 0.08:
            service.close()
            service = open_service(tmp_path)
        stream = chance.choice(there)
        at[stream] += chance.choice([0, 300, 700, 1500])
        x, y = f"n{chance.randint(0, 3)}", f"n{chance.randint(0, 3)}"
        push(service, stream, at[stream], triple(x, y))
        expected.take(stream, at[stream], x, y)
    observed = [(e["time"], sorted(values(e))) for e in emissions_of(service)]
    assert observed == expected.emissions_of
    assert observed
    service.close()


@pytest.mark.parametrize(("select", "pattern"), MERGED)
def test_csparql_that_is_asked_once_is_the_oracles(tmp_path: Path, select: str, pattern: str) -> None:
    with opened(tmp_path) as service:
        there = pushed(service, random.Random(7))
        with_map(service)
        first = min(each[1] for each in there) // 1000 * 1000
        for time in range(first + 1000, 8000, 1000):
            asked = rows(service, once(merged_text(select, pattern)), at=time)
            assert asked == plain(merged_answer(there, select, pattern, time)), f"at {time}"


def test_csparql_that_names_a_stream_next_to_all(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {})
        service.register(
            f"PREFIX : <{EX}> REGISTER QUERY q AS SELECT ?s ?x ?y FROM STREAM a [RANGE 1s STEP 1s] "
            "FROM STREAM ?s [RANGE 2s STEP 1s] WHERE { GRAPH ?s { ?x :p ?z } GRAPH a { ?y :p ?z } }"
        )
        push(service, "a", 100, triple("x", "z"))
        push(service, "a", 1200, triple("y", "z"))
        push(service, "a", 2000, triple("w", "w"))
        assert times(emissions_of(service)) == [1000, 2000]
        a = f"{BASE}streams/a"
        assert values(emissions_of(service)[-1]) == [(a, "x", "y"), (a, "y", "y")]


def test_explain_says_the_variable(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        for text in ("ASK FROM NAMED WINDOW <w> ON ?s [RANGE 1s] {}", "ASK FROM STREAM ?s [RANGE 1s] {}"):
            explained = service.explain(text)
            assert [window["stream"] for window in explained["windows"]] == ["?s"]
            assert "refused" not in explained
