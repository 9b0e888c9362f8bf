"""GROUP_CONCAT and SAMPLE over windows: values in the order in which they came, for whoever asks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.language.algebra.algebra import Query
from stream_ext.language.syntax import parse
from stream_ext.plan.passes.lift import lift_select
from stream_ext.plan.passes.normalise import normalise
from stream_ext.plan.pipeline import logic_of
from stream_ext.service.service import Service
from tests.stream_ext.opened import BASE, EX, emissions_of, opened, push, push_lines, triple, values

HEAD = f"PREFIX : <{EX}>"
WINDOW = "FROM NAMED WINDOW :w ON s [RANGE 5s STEP 1s]"
PATH = 'SELECT ?taxi (GROUP_CONCAT(STRAFTER(STR(?zone), "/ex/")) AS ?path) (SAMPLE(?zone) AS ?first)'
GROUPS = "{ WINDOW :w { ?taxi :in ?zone } } GROUP BY ?taxi"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def observed(service: Service, name: str = "q") -> list[tuple[int, list[tuple[str, ...]]]]:
    return [(emission["time"], values(emission)) for emission in emissions_of(service, name)]


@pytest.mark.parametrize("restart", [False, True])
def test_the_path_of_a_taxi_is_emitted_as_it_went(restart: bool, tmp_path: Path) -> None:
    """Later elements may be pushed first; and where it is again, it is last."""
    with opened(tmp_path) as service:
        service.create_stream("s", {"lateness": "1s"})
        service.register(f"{HEAD} REGISTER QUERY q AS {PATH} {WINDOW} {GROUPS}")
        push(service, "s", 900, triple("t", "z3", "in"))
        push(service, "s", 400, triple("t", "z9", "in"), triple("t", "z1", "in"))
        push(service, "s", 900, triple("t", "z2", "in"), triple("u", "z2", "in"))
        push(service, "s", 2000, triple("t", "z9", "in"))
    with opened(tmp_path) as service:
        if not restart:
            service.heartbeat("s", 2000, wait="evaluated")
        push(service, "s", 2000, triple("t", "z8", "in"), triple("t", "z0", "in"))
        service.heartbeat("s", 6000, wait="evaluated")
        assert observed(service) == [
            (1000, [("t", "z9 z1 z3 z2", "z9"), ("u", "z2", "z2")]),
            (2000, [("t", "z9 z1 z3 z2", "z9"), ("u", "z2", "z2")]),
            *((time, [("t", "z1 z3 z2 z9 z8 z0", "z1"), ("u", "z2", "z2")]) for time in (3000, 4000, 5000)),
            (6000, [("t", "z9 z8 z0", "z9")]),
        ]


def test_who_asks_once_gets_the_same(service: Service) -> None:
    service.create_stream("s", {"lateness": "1s"})
    service.register(f"{HEAD} REGISTER QUERY q AS {PATH} {WINDOW} {GROUPS}")
    for time, zone in ((700, "z2"), (300, "z7"), (500, "z1"), (300, "z3"), (700, "z7")):
        push(service, "s", time, triple("t", zone, "in"))
    service.heartbeat("s", 1000, wait="evaluated")
    snapshot = service.head()
    push(service, "s", 750, triple("t", "z1", "in"))
    assert observed(service) == [(1000, [("t", "z3 z1 z2 z7", "z3")])]
    assert values(json.loads(service.emission_again("q", 1))) == [("t", "z3 z1 z2 z7", "z3")]
    for sn, path in ((snapshot, b'"z3 z1 z2 z7"'), (service.head(), b'"z3 z2 z7 z1"')):
        text = f"{HEAD} {PATH} {WINDOW} {GROUPS}"
        assert service.decode(service.query(text, snapshot=sn, at=1000))[0][1:] == (path, b"<http://ex/z3>")


def test_elements_of_several_streams_are_in_the_order_of_their_pushes(service: Service) -> None:
    service.register(
        f"{HEAD} REGISTER QUERY q AS {PATH} FROM STREAM a [RANGE 1s T0 0] FROM STREAM b [RANGE 1s T0 0] "
        "WHERE { ?taxi :in ?zone } GROUP BY ?taxi"
    )
    for stream, zone in (("b", "z5"), ("a", "z4"), ("b", "z3"), ("a", "z5"), ("b", "z1")):
        push(service, stream, 500, triple("t", zone, "in"))
    for stream in "ab":
        service.heartbeat(stream, 1000, wait="evaluated")
    assert observed(service) == [(1000, [("t", "z4 z3 z5 z1", "z4")])]


def test_at_arrivals_each_value_comes_behind_those_before(service: Service) -> None:
    service.register(
        f"{HEAD} REGISTER QUERY q AS {PATH} FROM NAMED WINDOW :w ON s [RANGE 5s STEP 5s REPORT CONTENT_CHANGE] {GROUPS}"
    )
    push_lines(
        service,
        "s",
        {"timestamp": 200, "data": triple("t", "z2", "in")},
        {"timestamp": 100, "data": triple("t", "z3", "in")},
        {"timestamp": 200, "data": triple("t", "z1", "in")},
    )
    push(service, "s", 150, triple("t", "z0", "in"))
    assert observed(service) == [
        (100, [("t", "z3", "z3")]),
        (200, [("t", "z3 z2 z1", "z3")]),
        (200, [("t", "z3 z0 z2 z1", "z3")]),
    ]


def test_the_past_is_replayed_in_its_order(service: Service) -> None:
    service.create_stream("s", {})
    for time, zone in ((300, "z2"), (100, "z9"), (300, "z1"), (100, "z3")):
        push(service, "s", time, triple("t", zone, "in"))
    service.register(f"{HEAD} REGISTER QUERY q AS {PATH} FROM NAMED WINDOW :w ON s [START 0 END 1000] {GROUPS}")
    service._engine.merge.wait(service.head(), 10)
    assert observed(service) == [(1000, [("t", "z9 z3 z2 z1", "z9")])]


@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM"])
def test_triples_of_an_emission_are_read_in_the_order_of_terms(r2s: str, tmp_path: Path) -> None:
    """Whichever of their terms the store knew first, and however their triples came."""
    texts, found = [10, 9, "b", "a", 1, "c"], []
    for seed in range(3):
        chance = random.Random(seed)
        with opened(tmp_path / str(seed)) as service:
            for term in chance.sample(texts, k=3):
                service.update(f"INSERT DATA {{ {triple('x', term)} }}")
            service.register(
                f"PREFIX : <{EX}> REGISTER {r2s} one AS CONSTRUCT {{ ?x :q ?y }} "
                "FROM NAMED WINDOW :w ON s [RANGE 10] WHERE { WINDOW :w { ?x :p ?y } }"
            )
            service.register(
                f"PREFIX : <{EX}> REGISTER QUERY q AS SELECT (GROUP_CONCAT(STR(?y)) AS ?all) (SAMPLE(?y) AS ?first) "
                "FROM NAMED WINDOW :w ON one [RANGE 20] WHERE { WINDOW :w { ?x :q ?y } }"
            )
            for term in chance.sample(texts, k=len(texts)):
                push(service, "s", 5, triple("x", term))
            service.heartbeat("s", 20, wait="evaluated")
            found += observed(service)
    everything = f"a {EX}b {EX}c 1 9 10"  # `values` shortens the first
    assert found == [(20, [(everything, "a")])] * 3


def test_windows_on_a_variable_and_graphs_of_elements_have_one_order(service: Service) -> None:
    service.create_stream("s", {})
    service.create_stream("r", {})
    service.register(
        f"{HEAD} REGISTER QUERY q AS {PATH} FROM NAMED WINDOW :w ON s [RANGE 1s STEP 1s] "
        "FROM NAMED WINDOW :v ON r [RANGE 1s STEP 1s] "
        "WHERE { WINDOW ?any { GRAPH ?g { ?taxi :in ?zone } } } GROUP BY ?taxi"
    )
    for number, (stream, zone) in enumerate([("s", "z5"), ("r", "z4"), ("s", "z3"), ("r", "z6")]):
        element = {"timestamp": 100, "graph": f"{EX}g{9 - number}", "data": triple("t", zone, "in")}
        push_lines(service, stream, element)
    for stream in "sr":
        service.heartbeat(stream, 1000, wait="evaluated")
    assert observed(service) == [(1000, [("t", "z5 z4 z3 z6", "z5")])]


WINDOWED = "FROM NAMED WINDOW <w> ON s [RANGE 1s]"
IN_WINDOW = "{ WINDOW <w> { ?x <p> ?y } }"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT ?x (COUNT(?y) AS ?n) (MAX(?y) AS ?m) {WINDOWED} {IN_WINDOW} GROUP BY ?x",
        f"SELECT ?x (SAMPLE(?y) AS ?n) {WINDOWED} {{ ?x <q> ?y FILTER EXISTS {IN_WINDOW} }} GROUP BY ?x",
        f"SELECT ?x (SAMPLE(?y) AS ?n) {WINDOWED} {{ WINDOW <w> {{ ?x <p>+ ?y }} }} GROUP BY ?x",
        f"SELECT * {WINDOWED} {{ {IN_WINDOW} {{ SELECT ?y (SAMPLE(?z) AS ?n) {{ ?y <q> ?z }} GROUP BY ?y }} }}",
        "SELECT (GROUP_CONCAT(?y) AS ?n) { ?x <p> ?y }",
    ],
)
def test_who_does_not_ask_for_the_order_of_a_window_has_the_plan_that_there_was(text: str) -> None:
    query = parse(text, BASE)
    assert isinstance(query, Query)
    assert logic_of(query) == lift_select(normalise(query))
