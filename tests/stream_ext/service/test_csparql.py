"""C-SPARQL through the whole service: merged windows, streams as graphs, the origin of closes; graphs in windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, emissions_of, opened, push, push_lines, times, triple, values

P = f"PREFIX : <{EX}> "


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


def register(service: Service, text: str) -> list[str]:
    return service.register(P + text)[2]


def observed(service: Service, name: str = "q") -> list[tuple[int, list[tuple[str, ...]]]]:
    return [(emission["time"], values(emission)) for emission in emissions_of(service, name)]


def test_windows_and_graphs_are_merged_and_a_triple_counts_once(service: Service) -> None:
    service.update(P + "INSERT DATA { GRAPH :kb { :b :k :room . :a :p :b } :b :k :elsewhere }")
    register(
        service,
        "REGISTER QUERY q AS SELECT ?x ?k FROM STREAM s [RANGE 3s STEP 1s] FROM NAMED STREAM t [RANGE 2s STEP 1s] "
        "FROM :kb WHERE { ?x :p ?y . ?y :k ?k }",
    )
    push(service, "s", 300, triple("a", "b"), triple("c", "b"))
    push(service, "t", 300, triple("a", "b"))
    push(service, "s", 1000, triple("z", 1))
    push(service, "t", 1000, triple("z", 1))
    assert observed(service) == [(1000, [("a", "room"), ("c", "room")])]


@pytest.mark.parametrize(
    ("dataset", "expected", "warned"),
    [
        ("FROM STREAM s [RANGE 1s]", [("a", "b")], True),
        ("FROM s [RANGE 1s]", [("a", "b"), ("stored", "b")], False),
        ("FROM STREAM s [RANGE 1s] FROM DEFAULT", [("a", "b"), ("stored", "b")], False),
        ("FROM STREAM s [RANGE 1s] FROM STATIC :kb", [("a", "b"), ("known", "b")], False),
        ("FROM s [RANGE 1s] FROM GRAPH :kb", [("a", "b"), ("known", "b")], False),
        ("FROM s [RANGE 1s] FROM facts", [("a", "b"), ("fact", "b")], False),
    ],
)
def test_what_of_the_store_is_read(
    service: Service, dataset: str, expected: list[tuple[str, ...]], warned: bool
) -> None:
    service.create_stream("s", {})
    named = f"GRAPH :kb {{ :known :p :b }} GRAPH <{service.base}facts> {{ :fact :p :b }}"
    service.update(P + f"INSERT DATA {{ :stored :p :b . {named} }}")
    warnings = register(service, f"REGISTER QUERY q AS SELECT ?x ?y {dataset} WHERE {{ ?x :p ?y }}")
    assert any("reads only its windows and nothing from the store" in warning for warning in warnings) == warned
    push(service, "s", 100, triple("a", "b"))
    service.heartbeat("s", 1000, wait="evaluated")
    assert observed(service) == [(1000, expected)]


@pytest.mark.parametrize("streams", ["FROM STREAM s [RANGE 1s]", "FROM STREAM s [RANGE 1s] FROM STREAM t [RANGE 1s]"])
@pytest.mark.parametrize("merged", ["", "FROM :other", "FROM DEFAULT"])
def test_graph_reads_the_graphs_of_from_named_however_many_streams_are_merged(
    service: Service, streams: str, merged: str
) -> None:
    graphs = " ".join(f"GRAPH :{name} {{ :b :k :in_{name} }}" for name in ("left", "right", "other"))
    service.update(P + f"INSERT DATA {{ {graphs} }}")
    for name in ("s", "t"):
        service.create_stream(name, {})
    text = f"{streams} {merged} FROM NAMED :left FROM NAMED :right WHERE {{ ?x :p ?y . GRAPH"
    warnings = register(service, f"REGISTER QUERY q AS SELECT ?x ?k ?g {text} ?g {{ ?y :k ?k }} }}")
    register(service, f"REGISTER QUERY one AS SELECT ?x ?k {text} :left {{ ?y :k ?k }} }}")
    register(service, f"REGISTER QUERY none AS SELECT ?x ?k {text} :other {{ ?y :k ?k }} }}")
    for name in ("s", "t"):
        push_lines(service, name, {"timestamp": 100, "graph": EX + "left", "data": triple("a", "b")})
        service.heartbeat(name, 1000, wait="evaluated")
    assert observed(service) == [(1000, [("a", "in_left", "left"), ("a", "in_right", "right")])]
    assert observed(service, "one") == [(1000, [("a", "in_left")])]
    assert observed(service, "none") == [(1000, [])], "it is no graph of this dataset"
    assert not any("reads only its windows and nothing from the store" in warning for warning in warnings)


def test_a_graph_without_a_triple_is_warned_of(service: Service) -> None:
    service.create_stream("s", {})
    service.update(P + "INSERT DATA { GRAPH :kb { :known :p :b } GRAPH :left { :known :p :b } } ; CLEAR GRAPH :left")
    dataset = "FROM STREAM s [RANGE 1s] FROM :kb FROM :kbb FROM NAMED :left FROM :left FROM DEFAULT"
    warnings = register(service, f"REGISTER QUERY q AS SELECT ?x ?y {dataset} WHERE {{ ?x :p ?y }}")
    assert warnings == [f"the graph <{EX}{name}> has no triples yet" for name in ("kbb", "left")]


def test_graph_with_a_streams_name_is_its_window(service: Service) -> None:
    register(
        service,
        "REGISTER QUERY q AS SELECT ?x ?z FROM posts [RANGE 1s] FROM likes [RANGE 1s] FROM wiki "
        "WHERE { GRAPH posts { ?x :p ?y } GRAPH likes { ?z :p ?y } GRAPH wiki { ?y :is :known } }",
    )
    service.update(P + f"INSERT DATA {{ GRAPH <{service.base}wiki> {{ :b :is :known }} }}")
    push(service, "posts", 100, triple("a", "b"), triple("c", "d"))
    push(service, "likes", 100, triple("l", "b"), triple("m", "d"))
    for stream in ("posts", "likes"):
        service.heartbeat(stream, 1000, wait="evaluated")
    assert observed(service) == [(1000, [("a", "l")])]


@pytest.mark.parametrize("restart", [False, True])
def test_the_first_push_after_registration_is_the_origin_for_good(restart: bool, tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        push(service, "s", 1200, triple("before", 1))
        register(service, "REGISTER QUERY q AS SELECT ?x FROM STREAM s [RANGE 3s STEP 2s] WHERE { ?x :p ?y }")
        service.heartbeat("s", 3100, wait="evaluated")
        push(service, "s", 3700, triple("a", 1))
        if not restart:
            push(service, "s", 4999, triple("b", 1))
    with opened(tmp_path) as service:
        if restart:
            push(service, "s", 4999, triple("b", 1))
        push(service, "s", 9100, triple("c", 1))
        assert observed(service) == [(5000, [("a",), ("b",)]), (7000, [("b",)]), (9000, [])]
        assert emissions_of(service)[0]["windows"] == [{"stream": "s", "from": 2000, "to": 5000, "bounds": "[)"}]


def test_a_windowed_text_is_answered_at_a_time_without_being_registered(service: Service) -> None:
    service.create_stream("s", {})
    push(service, "s", 2300, triple("a", 1))
    text = P + "SELECT ?x FROM STREAM s [RANGE 1s STEP 1s] WHERE { ?x :p ?y }"
    assert service.decode(service.query(text, at=3000)) == [(b"<http://ex/a>",)]
    assert service.decode(service.query(text, at=4000)) == []


def test_period_and_arrival_hold_for_c_sparql_too(service: Service) -> None:
    register(
        service,
        "REGISTER QUERY q COMPUTED EVERY 500ms AS SELECT ?x FROM STREAM s [RANGE 1s STEP 1s] WHERE { ?x :p ?y }",
    )
    register(
        service, "REGISTER ISTREAM r AS SELECT ?x FROM STREAM s [RANGE 1s REPORT CONTENT_CHANGE] WHERE { ?x :p ?y }"
    )
    for time, name in ((2300, "a"), (2400, "b"), (3000, "c")):
        push(service, "s", time, triple(name, 1))
    assert observed(service) == [(2500, [("a",), ("b",)]), (3000, [("a",), ("b",)])]
    assert observed(service, "r") == [(2300, [("a",)]), (2400, [("b",)]), (3000, [("c",)])]


# ---- graphs and variables in windows (RSP-QL)


def test_graph_inside_a_window_is_the_graph_of_the_elements(service: Service) -> None:
    window = "FROM NAMED WINDOW :w ON s [RANGE 1s] WHERE { WINDOW :w"
    register(service, f"REGISTER QUERY each AS SELECT ?g ?x {window} {{ GRAPH ?g {{ ?x :p ?y }} }} }}")
    register(service, f"REGISTER QUERY one AS SELECT ?x {window} {{ GRAPH :g1 {{ ?x :p ?y }} }} }}")
    register(service, f"REGISTER QUERY whatever AS SELECT ?x {window} {{ ?x :p ?y }} }}")
    push_lines(
        service,
        "s",
        {"timestamp": 100, "graph": EX + "g1", "data": triple("a", 1)},
        {"timestamp": 200, "graph": EX + "g2", "data": triple("a", 1)},
        {"timestamp": 300, "data": triple("b", 1)},
    )
    service.heartbeat("s", 1000, wait="evaluated")
    assert observed(service, "each") == [(1000, [("g1", "a"), ("g2", "a")])]
    assert observed(service, "one") == [(1000, [("a",)])]
    assert observed(service, "whatever") == [(1000, [("a",), ("b",)])]


def test_a_variable_ranges_over_the_named_windows(service: Service) -> None:
    register(
        service,
        "REGISTER QUERY q AS SELECT ?w ?x FROM NAMED WINDOW :v ON s [RANGE 1s] FROM NAMED WINDOW :u ON t [RANGE 2s] "
        "WHERE { WINDOW ?w { ?x :p ?y } }",
    )
    push(service, "s", 100, triple("a", 1))
    push(service, "t", 100, triple("a", 1), triple("b", 1))
    for stream in ("s", "t"):
        service.heartbeat(stream, 1000, wait="evaluated")
    assert observed(service) == [(1000, [("u", "a"), ("u", "b"), ("v", "a")])]
    assert times(emissions_of(service)) == [1000]
