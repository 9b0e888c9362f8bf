"""Updates of a server with a source: they go to one of the two stores, and never half."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hbase_store import Loading
from stream_ext.rdf import careful_rows, parse_rdf
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import SourceSettings
from tests.endpoint.live import Live, live
from tests.parts.waiting import PATIENCE_S, until
from tests.sources.scripted import JSON, Scripted, scripted
from tests.sources.test_attached import endpoint

OWN = b"""<http://ex/own> <http://ex/p> "ours" .
<http://ex/own> <http://ex/in> <http://ex/o> <http://ex/h> .
"""
PREFIX = "PREFIX : <http://ex/> "


@pytest.fixture
def source() -> Iterator[Scripted]:
    with scripted() as running:
        running.add(
            '<http://ex/a> <http://ex/p> "theirs" .\n<http://ex/a> <http://ex/in> <http://ex/b> <http://ex/g> .'
        )
        yield running


@pytest.fixture
def server(source: Scripted, tmp_path: Path) -> Iterator[Live]:
    attached = endpoint(source)
    with live(tmp_path / "store", sources=[attached]) as running:
        until(lambda: attached.health.probed, "the source is probed")
        yield running


def update(server: Live, text: str) -> httpx.Response:
    return server.http.post("/update", data={"update": PREFIX + text})


def own(server: Live) -> set[str]:
    """What our own store has."""
    found = server.service.store.at().quads()
    decode = server.service.store.terms
    rows = zip(*(column.tolist() for column in found), strict=True)

    return {" ".join(text.decode() for text in decode(np.array([id for id in row if id], np.uint64))) for row in rows}


@pytest.fixture
def writing(source: Scripted, tmp_path: Path) -> Iterator[Live]:
    """A server whose updates go to the source."""
    settings = SourceSettings("main", source.url, update_url=source.url)
    with live(tmp_path / "store", sources=[SparqlEndpointSource(settings, 10.0)]) as running:
        parsed = parse_rdf(OWN, "application/n-quads", "http://ex/")
        loading = Loading(careful_rows, True)
        loading.add(parsed.terms, (parsed.s, parsed.p, parsed.o, parsed.g))
        running.service.load(loading, None, None)
        yield running


def theirs(source: Scripted) -> set[str]:
    return {str(quad) for quad in source.store}


def test_updates_go_to_a_source_that_takes_them(writing: Live, source: Scripted) -> None:
    before = own(writing)
    assert update(writing, "INSERT DATA { :b :p 1 . GRAPH :g { :b :in _:x } }").status_code == 204
    assert len(source.store) == 4
    failing = update(writing, "DELETE { ?s :p ?o } WHERE { ?s :p ?o }")
    assert failing.status_code == 400
    assert "Rillet's own store has it" in failing.text
    assert len(source.updates) == 1
    templates = "DELETE { ?s :p ?o } INSERT { ?s :had ?o . GRAPH :n { ?s :of [ :is ?o ] } }"
    assert update(writing, f"{templates} WHERE {{ ?s :p ?o FILTER(?s != :own) }}").status_code == 204
    assert len(source.updates) == 2
    assert sum("http://ex/had" in quad for quad in theirs(source)) == 2
    assert sum("http://ex/is" in quad for quad in theirs(source)) == 2
    assert not any("http://ex/p>" in quad for quad in theirs(source))
    assert own(writing) == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CLEAR DEFAULT", "Rillet's own store has triples"),
        ("CLEAR ALL", "Rillet's own store has triples"),
        ("DROP NAMED", "Rillet's own store has named graphs"),
        ('DELETE DATA { :own :p "ours" }', "Rillet's own store has it"),
        ("INSERT DATA { :x :y 1 } ; DELETE WHERE { :x :y ?o }", "send it as a request of its own"),
        ("COPY :g TO :n", "COPY is not sent"),
    ],
)
def test_what_cannot_be_done_in_the_source_is_refused_before_anything_is_sent(
    text: str, words: str, writing: Live, source: Scripted
) -> None:
    answer = update(writing, text)
    assert answer.status_code == 400
    assert words in answer.text
    assert source.updates == []


def test_graphs_are_written_to_the_source(writing: Live, source: Scripted) -> None:
    parameters, headers = {"graph": "http://ex/new"}, {"content-type": "text/turtle"}
    first = writing.http.put("/data", params=parameters, content="<http://ex/x> a _:b . _:b a 1 .", headers=headers)
    assert first.status_code == 201
    assert (
        writing.http.put("/data", params=parameters, content="<http://ex/x> a 2 .", headers=headers).status_code == 204
    )
    assert (
        writing.http.post("/data", params=parameters, content="<http://ex/x> a 3 .", headers=headers).status_code == 204
    )
    assert sum("http://ex/new" in quad for quad in theirs(source)) == 2
    assert writing.http.delete("/data", params=parameters).status_code == 204
    assert writing.http.delete("/data", params=parameters).status_code == 404
    assert writing.http.delete("/data", params={"graph": "http://ex/h"}).status_code == 400
    assert len(source.store) == 2


def test_a_pattern_is_solved_over_both_and_the_result_is_ours(server: Live, source: Scripted) -> None:
    assert update(server, "INSERT { ?s :copied ?o } WHERE { ?s :p ?o }").status_code == 204
    assert own(server) == {'<http://ex/a> <http://ex/copied> "theirs"'}
    assert len(source.store) == 2


@pytest.mark.parametrize(
    "text",
    [
        'DELETE DATA { :a :p "theirs" }',
        "DELETE DATA { GRAPH :g { :a :in :b } }",
        "DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
        "DELETE WHERE { GRAPH ?g { ?s :in ?o } }",
        "INSERT DATA { :x :y :z } ; DELETE WHERE { ?s :p ?o }",
        "CLEAR GRAPH :g",
        "DROP DEFAULT",
        "CLEAR ALL",
        "DROP NAMED",
        "COPY DEFAULT TO :new",
        "ADD :g TO :new",
    ],
)
def test_what_the_source_holds_is_not_deleted_and_nothing_is_done(text: str, server: Live, source: Scripted) -> None:
    update(server, "INSERT DATA { :own :p 1 }")
    before = own(server)
    source.texts.clear()
    answer = update(server, text)
    assert answer.status_code == 400, source.texts
    assert "source main" in answer.text
    assert "nothing of this request was applied" in answer.text
    assert own(server) == before
    assert len(source.store) == 2


def test_what_neither_holds_is_deleted_as_nothing_and_what_is_ours_is_deleted(server: Live) -> None:
    update(server, "INSERT DATA { :own :p 1 . GRAPH :mine { :own :p 2 } }")
    assert update(server, "DELETE DATA { :own :p 1 . :no :no :no }").status_code == 204
    assert update(server, "CLEAR GRAPH :mine").status_code == 204
    assert own(server) == set()


def test_graphs_of_the_source_are_not_replaced_or_dropped(server: Live) -> None:
    parameters, headers = {"graph": "http://ex/g"}, {"content-type": "text/turtle"}
    for answer in (
        server.http.put("/data", params=parameters, content="<http://ex/x> a <http://ex/Y> .", headers=headers),
        server.http.delete("/data", params=parameters),
    ):
        assert answer.status_code == 400
        assert "source main" in answer.text
    added = server.http.post("/data", params=parameters, content="<http://ex/x> a <http://ex/Y> .", headers=headers)
    assert added.status_code == 204 or added.status_code == 201


def test_a_blank_node_of_the_source_is_not_copied_as_another(server: Live, source: Scripted) -> None:
    source.add("<http://ex/a> <http://ex/q> _:x .")
    answer = update(server, "INSERT { ?s :copied ?o } WHERE { ?s :q ?o }")
    assert answer.status_code == 400
    assert "blank node of the source main" in answer.text
    assert own(server) == set()


def test_an_update_fails_while_the_source_is_away(server: Live, source: Scripted) -> None:
    def spoil(request: object, text: str) -> bool:
        request.respond(500, "text/plain", b"out of order")  # type: ignore[attr-defined]
        return True

    source.spoil = spoil
    answer = update(server, "DELETE WHERE { ?s :p ?o }")
    assert answer.status_code == 502
    assert "out of order" in answer.text
    assert update(server, "INSERT DATA { :x :y :z }").status_code == 204
    assert JSON in source.headers[-1]["accept"]


@pytest.mark.parametrize(
    "text",
    [
        "DELETE DATA { :own :p 'ours' }",
        "DELETE WHERE { :own :p ?o }",
        "DELETE { ?s :p ?o } INSERT { ?s :q ?o } WHERE { ?s :p ?o FILTER(?s = :own) }",
        "INSERT DATA { :own :r 1 } ; DELETE { ?s :p ?o } WHERE { ?s :r 1 ; :p ?o }",
        "CLEAR GRAPH :h",
    ],
)
def test_pushes_do_not_wait_while_the_source_is_asked_about_an_update(
    text: str, server: Live, source: Scripted
) -> None:
    assert server.http.post("/data", content=OWN, headers={"content-type": "application/n-quads"}).status_code < 300
    server.http.put("/streams/s", json={})
    asked, answers = threading.Event(), threading.Event()

    def slow(request: Any, query: str) -> bool:
        asked.set()
        answers.wait(2 * PATIENCE_S)
        return False

    source.spoil = slow
    found: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: found.append(update(server, text)))
    thread.start()
    try:
        assert asked.wait(PATIENCE_S)
        pushed = server.http.post(
            "/streams/s?timestamp=1000",
            content=b"<http://ex/a> <http://ex/b> <http://ex/c> .",
            headers={"content-type": "application/n-triples"},
            timeout=PATIENCE_S,
        )
        assert pushed.status_code < 300, pushed.text
    finally:
        answers.set()
        thread.join()
    assert found[0].status_code == 204, found[0].text
    assert "ours" not in str(own(server)) or "CLEAR" in text or ":q" in text
