"""A source that is an adversary: answers to other questions, terms that are none, answers that never end or grow when
they are unpacked, and values that would become a part of what another source is asked."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_ext.evaluation_budget import Control
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import SourceSettings
from tests.endpoint.live import Live, live
from tests.parts.waiting import PATIENCE_S, until
from tests.sources.scripted import JSON, Scripted, scripted
from tests.sources.test_attached import endpoint

URI = {"type": "uri", "value": "http://ex/p1"}
OTHER = {"type": "uri", "value": "http://ex/other"}
NAME = {"type": "literal", "value": "a name"}
BLANK = {"type": "bnode", "value": "b0"}


@pytest.fixture
def source() -> Iterator[Scripted]:
    with scripted() as running:
        running.add("".join(f'<http://ex/p{n}> <http://ex/name> "name {n}" .\n' for n in range(3)))
        yield running


@pytest.fixture
def server(source: Scripted, tmp_path: Path) -> Iterator[Live]:
    attached = endpoint(source)
    with live(tmp_path / "store", sources=[attached]) as running:
        until(lambda: attached.health.probed, "the source is probed")
        source.texts.clear()
        yield running


def answers(*bindings: dict[str, Any]) -> Callable[[Any, str], bool]:
    data = json.dumps({"head": {"vars": []}, "results": {"bindings": bindings}}).encode()

    def spoil(request: Any, text: str) -> bool:
        request.respond(200, JSON, data)
        return True

    return spoil


OWN = "INSERT DATA { <http://ex/p1> <http://ex/own> 1 . <http://ex/p2> <http://ex/own> 2 ; <http://ex/name> 'own' }"
JOINED = "SELECT * { ?s <http://ex/own> ?o ; <http://ex/name> ?n }"


@pytest.mark.parametrize(
    ("query", "spoil"),
    [
        # no number of the values that it belongs to
        (JOINED, answers({"s": URI, "n": NAME})),
        (JOINED, answers({"s": URI, "n": NAME, "row": {"type": "literal", "value": "7"}})),
        (JOINED, answers({"s": URI, "n": NAME, "row": {"type": "literal", "value": "-1"}})),
        (JOINED, answers({"s": URI, "n": NAME, "row": URI})),
        # other values than those that were asked for
        (JOINED, answers({"s": OTHER, "n": NAME, "row": {"type": "literal", "value": "0"}})),
        # variables that every solution has
        (JOINED, answers({"s": URI, "row": {"type": "literal", "value": "0"}})),
        ("SELECT ?n { ?s <http://ex/name> ?n }", answers({"n": NAME})),
        ("SELECT * { ?s <http://ex/name> ?n }", answers({"s": URI}, {"n": NAME})),
        ("SELECT * { ?s <http://ex/age> ?n . ?n <http://ex/is> ?s }", answers({"s": URI})),
        ("SELECT (COUNT(*) AS ?c) { ?s <http://ex/age> ?n }", answers({})),
        ("DESCRIBE <http://ex/p1>", answers({"s": URI, "p": URI})),
        ("SELECT * { GRAPH ?g { ?s <http://ex/name> ?n } }", answers({"s": URI, "n": NAME})),
        ("SELECT * { GRAPH ?g {} }", answers({})),
        # terms where they cannot be
        ("SELECT * { ?s <http://ex/name> ?n }", answers({"s": NAME, "n": NAME})),
        ("SELECT * { ?s ?p ?n }", answers({"s": URI, "p": BLANK, "n": NAME})),
        ("SELECT * { ?s ?p ?n }", answers({"s": URI, "p": NAME, "n": NAME})),
        ("SELECT * { GRAPH ?g { ?s <http://ex/name> ?n } }", answers({"s": URI, "n": NAME, "g": NAME})),
    ],
)
def test_an_answer_to_another_question_is_an_error_and_no_row(
    query: str, spoil: Callable[[Any, str], bool], server: Live, source: Scripted
) -> None:
    server.update(OWN)
    source.spoil = spoil
    answer = server.http.get("/sparql", params={"query": query})
    assert answer.status_code == 502, answer.text
    assert "source main" in answer.text


def test_a_graph_of_other_rows_is_an_error(server: Live, source: Scripted) -> None:
    for binding in ({"s": URI, "p": URI}, {"s": NAME, "p": URI, "o": URI}, {"s": URI, "p": BLANK, "o": URI}):
        source.spoil = answers(binding)
        answer = server.http.get("/data?default", headers={"accept": "application/n-triples"})
        assert answer.status_code == 502, answer.text
        assert "source main" in answer.text


@pytest.mark.parametrize(
    "value",
    [
        {"type": "uri", "value": "http://ex/\ud800"},
        {"type": "uri", "value": ""},
        {"type": "literal", "value": "x", "xml:lang": "en> } #"},
        {"type": "literal", "value": "x", "xml:lang": 7},
        {"type": "literal", "value": "x", "datatype": ["a"]},
        {"type": "literal", "value": "x", "xml:lang": "en", "datatype": "http://ex/t"},
        {"type": "triple", "value": {}},
        {"type": "literal", "value": None},
        "x",
        None,
    ],
)
def test_a_term_that_is_none_is_an_error(value: Any, server: Live, source: Scripted) -> None:
    source.spoil = answers({"s": URI, "n": value})
    answer = server.http.get("/sparql", params={"query": "SELECT * { ?s <http://ex/name> ?n }"})
    assert answer.status_code == 502, answer.text
    assert "source main" in answer.text


EVIL = "http://ex/x> 1) } SERVICE <http://ex/inside> { ?s ?p ?secret } VALUES (?q) { (<http://ex/y"


def test_a_value_is_never_a_part_of_what_another_source_is_asked(source: Scripted, tmp_path: Path) -> None:
    """SPARQL reads \\u escapes before all else, so an IRI with an escaped > would end there."""
    with scripted() as evil:
        evil.spoil = answers({"x": {"type": "uri", "value": EVIL}})
        attached = [endpoint(source), endpoint(evil, "evil"), endpoint(source, "bio")]
        with live(tmp_path / "store", sources=attached) as server:
            until(lambda: attached[0].health.probed, "the source is probed")
            for query in (
                "SELECT * { SERVICE <evil> { ?y <http://ex/p> ?x } SERVICE <bio> { ?x <http://ex/name> ?n } }",
                "SELECT * { { SELECT ?x { SERVICE <evil> { ?y <http://ex/p> ?x } } } SERVICE <bio> { ?z ?x ?n } }",
                "DESCRIBE ?x { SERVICE <evil> { ?y <http://ex/p> ?x } }",
            ):
                source.texts.clear()
                answer = server.http.get("/sparql", params={"query": query})
                assert not any("inside" in text for text in source.texts)
                assert answer.status_code == 502, answer.text
                assert "characters that no IRI has" in answer.text


def _endless(piece: bytes, pause_s: float, left: threading.Event, **headers: str) -> Callable[[Any, str], bool]:
    def spoil(request: Any, text: str) -> bool:
        request.send_response(200)
        request.send_header("connection", "close")
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        waiting = threading.Event()
        with contextlib.suppress(OSError):
            while not waiting.wait(pause_s):
                request.wfile.write(piece)
        left.set()
        request.close_connection = True
        return True

    return spoil


@pytest.mark.parametrize("form", [JSON, "application/sparql-results+xml", "text/tab-separated-values", "text/html"])
def test_an_answer_that_drips_is_left_when_its_time_is_over(form: str, server: Live, source: Scripted) -> None:
    left = threading.Event()
    source.spoil = _endless(b" ", 0.02, left, content_type=form)
    answer = server.http.get("/sparql", params={"query": "SELECT ?s { ?s <http://ex/name> ?n }", "timeout": "1s"})
    assert answer.status_code in (502, 503), answer.text
    assert left.wait(PATIENCE_S), "the thread of the server still reads"


def test_rows_are_handed_on_while_they_come(server: Live, source: Scripted) -> None:
    row = b'{"s":{"type":"uri","value":"http://ex/a"}},'
    attached = server.service.sources.main
    assert attached is not None
    began: list[bool] = []

    def spoil(request: Any, text: str) -> bool:
        request.send_response(200)
        request.send_header("connection", "close")
        request.send_header("content-type", JSON)
        request.end_headers()
        request.wfile.write(b'{"results":{"bindings":[' + row)
        request.wfile.flush()
        until(lambda: bool(began), "the row was handed on")
        request.wfile.write(row[:-1] + b"]}}")
        request.close_connection = True
        return True

    source.spoil = spoil
    for some in attached.select("SELECT ?s { ?s ?p ?o }", Control(20.0)):
        began.append(bool(some))


@pytest.mark.parametrize("times", [2, 3])
def test_an_answer_that_is_packed_more_than_once_is_not_unpacked(times: int, server: Live, source: Scripted) -> None:
    data = b'{"results":{"bindings":[]}}' + b" " * 100_000
    for _ in range(times):
        data = gzip.compress(data)

    def spoil(request: Any, text: str) -> bool:
        request.respond(200, JSON, data, content_encoding=", ".join(["gzip"] * times))
        return True

    source.spoil = spoil
    answer = server.http.get("/sparql", params={"query": "SELECT ?s { ?s <http://ex/name> ?n }"})
    assert answer.status_code == 502, answer.text
    assert "gzip, gzip" in answer.text


def test_an_update_is_answered_by_a_body_without_an_end(source: Scripted, tmp_path: Path) -> None:
    settings = SourceSettings("main", source.url, update_url=source.url)
    left = threading.Event()
    with live(tmp_path / "store", sources=[SparqlEndpointSource(settings, 5.0)]) as server:
        endless = _endless(b"x" * 100_000, 0.0001, left, content_type="text/plain")
        source.spoil = lambda request, text: "INSERT" in text and endless(request, text)
        answer = server.http.post("/update", data={"update": "INSERT DATA { <http://ex/a> <http://ex/b> 1 }"})
        assert answer.status_code == 204, answer.text
        assert left.wait(PATIENCE_S), "the server still reads"


INSIDE = "{ SERVICE <http://127.0.0.1:9/inside> { ?s ?p ?o } }"


@pytest.mark.parametrize(
    "pattern",
    [
        f"SERVICE <bio> {INSIDE}",
        f"SERVICE SILENT <bio> {INSIDE}",
        f"SERVICE <main> {{ ?s ?p ?o OPTIONAL {INSIDE} }}",
        f"SERVICE <main> {{ ?s ?p ?o FILTER EXISTS {INSIDE} }}",
        f"SERVICE <main> {{ SELECT ?s {INSIDE} }}",
        f"BIND(IRI('http://ex.org/sources/bio') AS ?u) SERVICE ?u {INSIDE}",
        f"SERVICE <bio> {INSIDE.replace('SERVICE', 'SERVICE SILENT')}",
    ],
)
def test_a_source_is_not_made_to_request_others(pattern: str, source: Scripted, tmp_path: Path) -> None:
    settings = SourceSettings("main", source.url, update_url=source.url)
    attached = [SparqlEndpointSource(settings, 10.0), endpoint(source, "bio")]
    with live(tmp_path / "store", sources=attached) as server:
        until(lambda: all(each.health.probed for each in attached), "the sources are probed")
        source.texts.clear()
        asked = server.http.get("/sparql", params={"query": f"SELECT * {{ {pattern} }}"})
        update = f"INSERT {{ <http://ex/a> <http://ex/b> ?s }} WHERE {{ {pattern} }}"
        updated = server.http.post("/update", data={"update": update})
        registered = server.register(
            "REGISTER RSTREAM q AS SELECT * FROM NAMED WINDOW <w> ON STREAM seen [RANGE PT10S STEP PT1S] "
            f"{{ WINDOW <w> {{ ?door <http://ex/saw> ?s }} {pattern} }}"
        )
        assert not any("inside" in text for text in source.texts + source.updates)
        assert (asked.status_code, updated.status_code, registered.status_code) == (403, 403, 403), updated.text
