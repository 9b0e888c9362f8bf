"""Updates of a server with a source: they go to one of the two stores, and never half."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.endpoint.live import Live, live
from tests.parts.waiting import until
from tests.sources.scripted import JSON, Scripted, scripted
from tests.sources.test_attached import endpoint

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
    import numpy as np

    return {" ".join(text.decode() for text in decode(np.array([id for id in row if id], np.uint64))) for row in rows}


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
    assert "nothing of this request was done" in answer.text
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
