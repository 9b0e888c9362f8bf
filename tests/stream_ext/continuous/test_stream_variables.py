"""Windows on a variable: one on each stream that there is, and `?s` is bound to it.

The oracle is pyoxigraph over one graph for each window and stream, with triples that say which graph is whose; the
times of the evaluations are worked out here, one push after the other."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from stream_ext.errors import BadArgument, NameInUse
from stream_ext.service.service import Service
from tests.stream_ext.opened import BASE, EX, emissions_of, open_service, opened, push, times, triple, values

META = ox.NamedNode("urn:meta")
RANGES = {"w": 3000, "v": 2000}
PATTERNS = [
    ("?s ?x ?y", "WINDOW :w { ?x :p ?y }"),
    ("?x ?y", "WINDOW :w { ?x :p ?y }"),
    ("?x ?z", "WINDOW :w { ?x :p ?y . ?y :p ?z }"),
    ("?s ?x ?z", "WINDOW :w { ?x :p ?y } WINDOW :v { ?y :p ?z }"),
    ("?s ?r", "WINDOW :w { ?x :p ?y } ?s :in ?r"),
    ("?s ?x", "WINDOW :w { ?x :p ?y } FILTER NOT EXISTS { WINDOW :v { ?y :p ?z } }"),
    ("?s ?x ?y", "WINDOW :w { ?x :p ?y } MINUS { WINDOW :v { ?x :p ?y } }"),
    ("?s ?x ?z", "WINDOW :w { ?x :p ?y } OPTIONAL { WINDOW :v { ?y :p ?z } }"),
    ("?s (COUNT(*) AS ?n)", "WINDOW :w { ?x :p ?y } } GROUP BY ?s #"),
    ("?s ?x ?n", "WINDOW :w { ?x :p ?y } { SELECT (COUNT(*) AS ?n) { WINDOW :v { ?x :p ?y } } }"),
]
Element = tuple[str, int, str, str]


def text_of(select: str, pattern: str, r2s: str) -> str:
    windows = " ".join(f"FROM NAMED WINDOW :{name} ON ?s [RANGE {ms}ms STEP 1s]" for name, ms in RANGES.items())
    return f"PREFIX : <{EX}> REGISTER {r2s} q AS SELECT {select} {windows} WHERE {{ {pattern} }}"


def iri_of(stream: str) -> ox.NamedNode:
    return ox.NamedNode(f"{BASE}streams/{stream}")


def answer(elements: list[Element], select: str, pattern: str, time: int) -> Counter[tuple[str, ...]]:
    store = ox.Store()
    for stream in "abc":
        room = ox.NamedNode(f"{EX}room-{stream}")
        store.add(ox.Quad(iri_of(stream), ox.NamedNode(f"{EX}in"), room))
        for name in RANGES:
            graph = ox.NamedNode(f"urn:{name}:{stream}")
            store.add(ox.Quad(iri_of(stream), ox.NamedNode(f"{EX}{name}"), graph, META))
    for stream, at, x, y in elements:
        for name, ms in RANGES.items():
            if time - ms <= at < time:
                graph = ox.NamedNode(f"urn:{name}:{stream}")
                store.add(ox.Quad(*(ox.NamedNode(EX + each) for each in (x, "p", y)), graph_name=graph))
    plain = re.sub(r"WINDOW :(\w) (\{[^}]*\})", r"GRAPH <urn:meta> { ?s :\1 ?g\1 } GRAPH ?g\1 \2", pattern)
    found: Any = store.query(f"PREFIX : <{EX}> SELECT {select} WHERE {{ {plain} }}")
    rows = ([row[variable] for variable in found.variables] for row in found)
    return Counter(tuple("" if term is None else term.value.removeprefix(EX) for term in row) for row in rows)


class Expected:
    """What has to be said, one push after the other."""

    def __init__(self, select: str, pattern: str, r2s: str) -> None:
        self.select, self.pattern, self.r2s = select, pattern, r2s
        self.elements: list[Element] = []
        self.after = 0
        self.before: Counter[tuple[str, ...]] = Counter()
        self.emissions_of: list[tuple[int, list[tuple[str, ...]]]] = []

    def take(self, *element: Any) -> None:
        self.elements.append(element)
        reached = min(max(e[1] for e in self.elements if e[0] == s) for s in {e[0] for e in self.elements})
        first = min(e[1] for e in self.elements) // 1000 * 1000 + 1000
        for time in range(max(self.after + 1000, first), reached + 1, 1000):
            now = answer(self.elements, self.select, self.pattern, time)
            rows = {"RSTREAM": now, "ISTREAM": now - self.before, "DSTREAM": self.before - now}[self.r2s]
            self.emissions_of.append((time, sorted(rows.elements())))
            self.after, self.before = time, now


def check(service: Service, expected: Expected) -> None:
    assert [(e["time"], sorted(values(e))) for e in emissions_of(service)] == expected.emissions_of


@pytest.mark.parametrize("seed", range(40))
def test_what_is_emitted_is_the_oracles_also_when_streams_come_and_the_service_is_opened_again(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    (select, pattern), r2s = PATTERNS[seed % len(PATTERNS)], chance.choice(["RSTREAM", "ISTREAM", "DSTREAM"])
    expected, at = Expected(select, pattern, r2s), dict.fromkeys("abc", 0)
    service = open_service(tmp_path)
    service.update(f"INSERT DATA {{ {' '.join(f'{iri_of(s)} <{EX}in> <{EX}room-{s}> .' for s in 'abc')} }}")
    late = chance.sample("abc", chance.randint(1, 3))  # made while the query runs
    there = [stream for stream in "abc" if stream not in late]
    for stream in there:
        service.create_stream(stream, {})
    service.register(text_of(select, pattern, r2s))
    for number in range(40):
        if late and (not there or chance.random() < 0.15):
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
        if number % 10 == 9:
            check(service, expected)
    check(service, expected)
    assert len(expected.emissions_of) > 2
    again = [json.loads(service.emission_again("q", e["emission"])) for e in emissions_of(service)]
    assert [(e["time"], e["windows"], sorted(values(e))) for e in again] == [
        (e["time"], e["windows"], sorted(values(e))) for e in emissions_of(service)
    ]
    service.close()


def test_window_with_a_variable_has_the_name_that_is_written(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {})
        service.register(text_of("?w ?s ?x", "WINDOW ?w { ?x :p ?y }", "RSTREAM"))
        push(service, "a", 500, triple("x", "y"))
        push(service, "a", 1000, triple("z", "y"))
        assert values(emissions_of(service)[0]) == [("v", f"{BASE}streams/a", "x"), ("w", f"{BASE}streams/a", "x")]


def test_a_window_on_a_named_stream_next_to_one_on_a_variable(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(
            f"PREFIX : <{EX}> REGISTER RSTREAM q AS SELECT ?s ?x FROM NAMED WINDOW :n ON a [RANGE 1s STEP 1s] "
            "FROM NAMED WINDOW :w ON ?s [RANGE 1s STEP 1s] WHERE { WINDOW :n { ?x :p ?y } WINDOW :w { ?x :p ?y } }"
        )
        service.create_stream("b", {})
        push(service, "b", 500, triple("x", "y"))
        push(service, "b", 1500, triple("x", "y"))
        assert emissions_of(service) == []  # a is named, and holds the query back
        push(service, "a", 600, triple("x", "y"))
        push(service, "a", 1000, triple("x", "y"))
        assert values(emissions_of(service)[0]) == [(f"{BASE}streams/{name}", "x") for name in "ab"]


def test_a_stream_holds_back_from_its_first_element_on(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {})
        service.create_stream("b", {})
        service.register(text_of("?s ?x", "WINDOW :w { ?x :p ?y }", "RSTREAM"))
        push(service, "a", 500, triple("x", "y"))
        push(service, "a", 2000, triple("x", "y"))
        assert times(emissions_of(service)) == [1000, 2000]
        push(service, "b", 2500, triple("x", "y"))
        push(service, "a", 5000, triple("x", "y"))
        assert times(emissions_of(service)) == [1000, 2000]
        assert service.query_status("q")["waits_for"] == ["b"]
        push(service, "b", 3100, triple("x", "y"))
        assert times(emissions_of(service)) == [1000, 2000, 3000]


def test_every_stream_is_read(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {})
        service.register(text_of("?s", "WINDOW :w { ?x :p ?y }", "RSTREAM"))
        service.create_stream("b", {})
        assert service.query_status("q")["streams"] == ["a", "b"]
        with pytest.raises(NameInUse, match="'b' is read by 'q'"):
            service.drop_stream("b")
        service.drop_query("q")
        service.drop_stream("b")


def test_a_construct_that_would_read_itself_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as service, pytest.raises(BadArgument, match="would read its own output"):
        service.register(
            f"PREFIX : <{EX}> REGISTER STREAM q AS CONSTRUCT {{ ?s :saw ?x }} "
            "FROM NAMED WINDOW :w ON ?s [RANGE 1s STEP 1s] WHERE { WINDOW :w { ?x :p ?y } }"
        )


def test_a_stream_that_is_new_counts_from_where_the_query_had_come_to(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {})
        service.register(text_of("?s ?x", "WINDOW :w { ?x :p ?y }", "RSTREAM"))
        push(service, "a", 500, triple("x", "y"))
        push(service, "a", 5000, triple("x", "y"))
        service.create_stream("b", {})
        push(service, "b", 100, triple("x", "y"))
        push(service, "a", 6000, triple("x", "y"))
        assert times(emissions_of(service))[-1] == 5000  # b holds it back
        push(service, "b", 6000, triple("x", "y"))
        assert times(emissions_of(service))[-1] == 6000
        assert values(emissions_of(service)[-1]) == [(f"{BASE}streams/a", "x")]


@pytest.mark.parametrize("report", ["REPORT CONTENT_CHANGE", "REPORT PERIODIC 700ms", "REPORT NON_EMPTY_CONTENT"])
def test_a_query_continues_as_it_was_when_a_stream_comes_that_stays_silent(tmp_path: Path, report: str) -> None:
    """Beside one on the stream by its name, which nothing is rebuilt for."""
    window = f"[RANGE 3s STEP 1s {report}]"
    with opened(tmp_path) as service:
        service.create_stream("a", {})
        for name, on in (("q", "?s"), ("fixed", "a")):
            service.register(
                f"PREFIX : <{EX}> REGISTER ISTREAM {name} AS SELECT ?x ?y FROM NAMED WINDOW :w ON {on} {window} "
                "WHERE { WINDOW :w { ?x :p ?y } } LIMIT 3"
            )
        for number in range(20):
            push(service, "a", number * 300, triple(f"x{number % 4}", number))
            if number % 5 == 4:
                service.create_stream(f"silent{number}", {})
        both = ([(e["time"], values(e)) for e in emissions_of(service, name)] for name in ("q", "fixed"))
        mine, expected = both
        assert len(expected) > 4
        assert mine == expected
        assert service.query_status("q")["state"] == "running"


@pytest.mark.parametrize("seed", range(12))
def test_what_is_in_a_window_that_was_emitted_is_late_whenever_its_stream_came(tmp_path: Path, seed: int) -> None:
    """An evaluation tells a window on each stream; that one has no element yet, or is not there yet, makes it empty."""
    chance = random.Random(seed)
    expected, late = Expected("?s ?x ?y", "WINDOW :w { ?x :p ?y }", "RSTREAM"), dict.fromkeys("abc", 0)
    service = open_service(tmp_path)
    service.create_stream("a", {})
    service.register(text_of("?s ?x ?y", "WINDOW :w { ?x :p ?y }", "RSTREAM"))
    there = ["a"]
    for number in range(40):
        if len(there) < 3 and chance.random() < 0.1:
            there.append("abc"[len(there)])
            service.create_stream(there[-1], {})
        if chance.random() < 0.08:
            service.close()
            service = open_service(tmp_path)
        stream, time = chance.choice(there), max(0, number * 150 + chance.choice([300, 0, -700, -2500, -6000]))
        observed = [at for at, _ in expected.emissions_of]
        is_late = any(at - ms <= time < at for at in observed for ms in RANGES.values())
        x, y = f"n{chance.randint(0, 3)}", f"n{chance.randint(0, 3)}"
        assert push(service, stream, time, triple(x, y)).late == is_late, f"{stream} at {time}, told {observed}"
        late[stream] += is_late
        expected.take(stream, time, x, y)
    check(service, expected)
    assert sum(late.values())
    assert {stream: service.late_elements(stream)["late"] for stream in there} == {s: late[s] for s in there}
    assert service.query_status("q")["late"] == sum(late.values())
    service.close()


def test_what_a_stream_that_is_new_begins_with_is_late_if_it_is_in_no_window_to_come(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {})
        service.register(text_of("?s ?x", "WINDOW :w { ?x :p ?y }", "RSTREAM"))
        push(service, "a", 500, triple("x", "y"))
        push(service, "a", 5000, triple("x", "y"))
        service.create_stream("b", {})
        assert push(service, "b", 100, triple("x", "y")).late == 1
        assert [each["timestamp"] for each in service.late_elements("b")["elements"]] == [100]
        assert push(service, "b", 5000, triple("x", "y")).late == 0


def test_an_element_of_a_new_stream_from_before_what_the_query_has_come_to_is_late(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("a", {})
        service.register(text_of("?s ?x", "WINDOW :w { ?x :p ?y }", "RSTREAM"))
        push(service, "a", 9500, triple("x", "y"))
        push(service, "a", 10500, triple("x", "y"))
        assert times(emissions_of(service)) == [10000]
        service.create_stream("b", {})
        assert push(service, "b", 500, triple("x", "y")).late == 1
        assert push(service, "b", 10_400, triple("x", "y")).late == 0
