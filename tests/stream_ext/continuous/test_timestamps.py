"""Times of triples as values: the latest time in the window of an element that has the triple."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.errors import Unsupported
from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, emissions_of, opened, push, push_lines, triple, values

HEAD = f"PREFIX : <{EX}> PREFIX rlt: <urn:rillet:ns#> PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#> "
WINDOW = "FROM NAMED WINDOW :w ON s [RANGE 3s STEP 1s]"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def observed(service: Service) -> list[tuple[int, list[tuple[str, ...]]]]:
    return [(emission["time"], values(emission)) for emission in emissions_of(service)]


@pytest.mark.parametrize("restart", [False, True])
def test_the_latest_time_of_a_triple_is_its_timestamp_for_as_long_as_it_is_there(restart: bool, tmp_path: Path) -> None:
    text = (
        f"{HEAD} REGISTER ISTREAM q AS SELECT ?x ?t {WINDOW} "
        "WHERE { WINDOW :w { ?x :p ?y BIND(rlt:timestamp(?x, :p, ?y) AS ?t) } }"
    )
    with opened(tmp_path) as service:
        service.register(text)
        push(service, "s", 500, triple("a", 1))
        push(service, "s", 1500, triple("a", 1))
        push(service, "s", 1200, triple("a", 1), triple("b", 1))
        if not restart:
            push(service, "s", 2000, triple("other", 1, "q"))
    with opened(tmp_path) as service:
        if restart:
            push(service, "s", 2000, triple("other", 1, "q"))
        push(service, "s", 5250, triple("a", 1))
        push(service, "s", 6000, triple("other", 1, "q"))
        assert observed(service) == [
            (1000, [("a", "1970-01-01T00:00:00.5Z")]),
            (2000, [("a", "1970-01-01T00:00:01.5Z"), ("b", "1970-01-01T00:00:01.2Z")]),
            (3000, []),
            (4000, []),
            (5000, []),
            (6000, [("a", "1970-01-01T00:00:05.25Z")]),
        ]


def test_the_times_of_two_triples_are_compared_in_c_sparql(service: Service) -> None:
    service.register(
        f"{HEAD} REGISTER QUERY q AS SELECT ?x FROM STREAM s [RANGE 1s T0 0] "
        "WHERE { ?x :in ?z . ?x :out ?z FILTER(f:timestamp(?x, :in, ?z) < f:timestamp(?x, :out, ?z)) }"
    )
    for time, name, predicate in ((100, "a", "in"), (200, "a", "out"), (300, "b", "out"), (400, "b", "in")):
        push(service, "s", time, triple(name, "z", predicate))
    service.heartbeat("s", 1000, wait="evaluated")
    assert observed(service) == [(1000, [("a",)])]


def test_a_triple_that_is_not_there_has_no_time(service: Service) -> None:
    service.register(
        f"{HEAD} REGISTER QUERY q AS SELECT ?x (MAX(?t) AS ?last) {WINDOW} "
        "WHERE { WINDOW :w { ?x :p ?y BIND(rlt:timestamp(?x, :q, ?y) AS ?t) } } GROUP BY ?x"
    )
    push(service, "s", 100, triple("a", 1), triple("a", 1, "q"), triple("b", 1))
    service.heartbeat("s", 1000, wait="evaluated")
    assert observed(service) == [(1000, [("a", "1970-01-01T00:00:00.1Z"), ("b", "")])]


@pytest.mark.parametrize("restart", [False, True])
def test_over_merged_windows_the_latest_time_of_any_is_the_timestamp(restart: bool, tmp_path: Path) -> None:
    text = (
        f"{HEAD} REGISTER QUERY q AS SELECT ?x ?t FROM STREAM s [RANGE 2s STEP 1s T0 0] "
        "FROM STREAM r [RANGE 3s STEP 1s T0 0] FROM :g WHERE { ?x :p ?y BIND(f:timestamp(?x, :p, ?y) AS ?t) }"
    )
    with opened(tmp_path) as service:
        service.update(f"INSERT DATA {{ GRAPH <{EX}g> {{ {triple('stored', 1)} }} }}")
        service.register(text)
        push(service, "s", 500, triple("a", 1), triple("b", 1))
        push(service, "r", 700, triple("a", 1), triple("stored", 1))
        if not restart:
            service.heartbeat("r", 1000)
    with opened(tmp_path) as service:
        if restart:
            service.heartbeat("r", 1000)
        service.heartbeat("r", 4000)
        service.heartbeat("s", 4000, wait="evaluated")
        a, b, stored = (
            ("a", "1970-01-01T00:00:00.7Z"),
            ("b", "1970-01-01T00:00:00.5Z"),
            ("stored", "1970-01-01T00:00:00.7Z"),
        )
        assert observed(service) == [
            (1000, [a, b, stored]),
            (2000, [a, b, stored]),
            (3000, [a, stored]),
            (4000, [("stored", "")]),
        ]


def test_inside_of_graph_the_time_is_that_of_an_element_of_the_graph(service: Service) -> None:
    service.register(
        f"{HEAD} REGISTER QUERY q AS SELECT ?g ?t {WINDOW} "
        "WHERE { WINDOW :w { GRAPH ?g { ?x :p ?y BIND(rlt:timestamp(?x, :p, ?y) AS ?t) } } }"
    )
    push_lines(service, "s", {"timestamp": 100, "graph": f"{EX}g", "data": triple("a", 1)})
    push_lines(service, "s", {"timestamp": 200, "graph": f"{EX}h", "data": triple("a", 1)})
    service.heartbeat("s", 1000, wait="evaluated")
    assert observed(service) == [(1000, [("g", "1970-01-01T00:00:00.1Z"), ("h", "1970-01-01T00:00:00.2Z")])]


def test_a_selected_time_is_one_of_c_sparqls_only_window(service: Service) -> None:
    service.register(
        f"{HEAD} REGISTER QUERY q AS SELECT ?x (f:timestamp(?x, :p, ?y) AS ?t) FROM STREAM s [RANGE 1s T0 0] "
        "WHERE { ?x :p ?y } ORDER BY DESC(f:timestamp(?x, :p, ?y))"
    )
    push(service, "s", 100, triple("a", 1))
    push(service, "s", 200, triple("b", 1))
    service.heartbeat("s", 1000, wait="evaluated")
    rows = [row["x"]["value"][-1] for row in emissions_of(service)[0]["results"]["bindings"]]
    assert rows == ["b", "a"]


def test_an_optional_part_may_ask_for_times(service: Service) -> None:
    service.register(
        f"{HEAD} REGISTER QUERY q AS SELECT ?x ?z FROM STREAM s [RANGE 1s T0 0] WHERE {{ ?x :p ?y "
        "OPTIONAL { ?x :q ?z FILTER(f:timestamp(?x, :p, ?y) < f:timestamp(?x, :q, ?z)) } }".replace("{{", "{")
    )
    for time, name, predicate in ((100, "a", "p"), (200, "a", "q"), (300, "b", "q"), (400, "b", "p"), (500, "c", "p")):
        push(service, "s", time, triple(name, "z", predicate))
    service.heartbeat("s", 1000, wait="evaluated")
    assert observed(service) == [(1000, [("a", "z"), ("b", ""), ("c", "")])]


OUTSIDE = "a timestamp outside windows"


@pytest.mark.parametrize(
    ("says", "text"),
    [
        (OUTSIDE, f"SELECT ?x {WINDOW} {{ WINDOW :w {{ ?x :p 1 }} FILTER(rlt:timestamp(?x, :p, 1)) }}"),
        (
            OUTSIDE,
            "SELECT ?x FROM STREAM s [RANGE 1s] FROM NAMED :g { GRAPH :g { ?x :p 1 FILTER(f:timestamp(?x, :p, 1)) } }",
        ),
        (
            "a timestamp of something that is not a triple",
            f"SELECT ?x {WINDOW} {{ WINDOW :w {{ ?x :p 1 FILTER(rlt:timestamp(?x, :p)) }} }}",
        ),
    ],
)
def test_a_timestamp_that_no_window_has_is_refused_by_name(service: Service, says: str, text: str) -> None:
    with pytest.raises(Unsupported, match=says):
        service.register(HEAD + text)
