"""A server with a source attached: what users of its endpoint see."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyoxigraph as ox
import pytest
from SPARQLWrapper import JSON as AS_JSON
from SPARQLWrapper import POST, TURTLE, SPARQLWrapper

from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.source import SourceSettings
from tests.endpoint.live import Live, live
from tests.parts.waiting import until
from tests.sources.scripted import JSON, Scripted, scripted

PEOPLE = "".join(
    f'<http://ex/p{n}> <http://ex/name> "name {n}" .\n<http://ex/p{n}> <http://ex/livesIn> <http://ex/c{n % 3}> .\n'
    for n in range(50)
)


@pytest.fixture
def source() -> Iterator[Scripted]:
    with scripted() as running:
        running.add(PEOPLE)
        yield running


def endpoint(source: Scripted, name: str = "main", url: str | None = None) -> SparqlEndpointSource:
    return SparqlEndpointSource(SourceSettings(name, url or source.url), 10.0)


@pytest.fixture
def server(source: Scripted, tmp_path: Path) -> Iterator[Live]:
    attached = endpoint(source)
    with live(tmp_path / "store", sources=[attached], allowed_urls=AllowedUrls(bytes_max=2 << 20)) as running:
        until(lambda: attached.health.probed, "the source is probed")
        source.texts.clear()
        yield running


def rows(server: Live, query: str, **more: str) -> list[dict[str, str]]:
    answer = server.http.get("/sparql", params={"query": query, **more}, headers={"accept": JSON})
    assert answer.status_code == 200, answer.text
    return [{name: term["value"] for name, term in row.items()} for row in answer.json()["results"]["bindings"]]


def test_a_query_that_only_the_source_can_answer_is_one_question(server: Live, source: Scripted) -> None:
    query = "SELECT ?c (COUNT(?p) AS ?n) { ?p <http://ex/livesIn> ?c } GROUP BY ?c ORDER BY DESC(?n) ?c LIMIT 2"
    assert rows(server, query) == [{"c": "http://ex/c0", "n": "17"}, {"c": "http://ex/c1", "n": "17"}]
    assert len(source.texts) == 1
    assert "GROUP BY" in source.texts[0]


def test_what_our_own_store_has_is_joined_with_it(server: Live, source: Scripted) -> None:
    own = "<http://ex/c1> <http://ex/partOf> <http://ex/bern> . <http://ex/p1> <http://ex/age> 7"
    server.update(f"INSERT DATA {{ {own} }}")
    query = "SELECT ?p ?city { ?p <http://ex/age> 7 ; <http://ex/livesIn> ?z . ?z <http://ex/partOf> ?city }"
    assert rows(server, query) == [{"p": "http://ex/p1", "city": "http://ex/bern"}]
    assert len(source.texts) == 3
    assert all("VALUES" in text for text in source.texts[1:])


def test_the_same_triple_in_both_is_one(server: Live) -> None:
    server.update('INSERT DATA { <http://ex/p1> <http://ex/name> "name 1" . <http://ex/p1> <http://ex/name> "other" }')
    found = rows(server, "SELECT ?n { <http://ex/p1> <http://ex/name> ?n } ORDER BY ?n")
    assert found == [{"n": "name 1"}, {"n": "other"}]
    assert rows(server, "SELECT (COUNT(*) AS ?n) { ?p <http://ex/name> ?x }") == [{"n": "51"}]


def test_an_answer_of_the_source_is_not_cached(server: Live, source: Scripted) -> None:
    query = "SELECT ?n { <http://ex/new> <http://ex/name> ?n }"
    assert rows(server, query) == []
    source.add('<http://ex/new> <http://ex/name> "new" .')
    assert rows(server, query) == [{"n": "new"}]


def test_a_snapshot_of_what_is_asked_is_refused_by_name(server: Live) -> None:
    answer = server.http.get("/sparql", params={"query": "SELECT * { ?s ?p ?o }", "snapshot": "0"})
    assert answer.status_code == 400
    assert "main" in answer.text
    assert rows(server, "SELECT (1 AS ?x) {}", snapshot="0") == [{"x": "1"}]


def test_the_forms_of_queries_through_sparqlwrapper(server: Live) -> None:
    client = SPARQLWrapper(f"{server.url}/sparql")
    client.setReturnFormat(AS_JSON)
    client.setQuery("ASK { <http://ex/p1> <http://ex/name> ?n }")
    assert client.queryAndConvert()["boolean"] is True
    client.setQuery("SELECT ?p { ?p <http://ex/name> ?n FILTER(STRSTARTS(?n, 'name 4')) }")
    client.setMethod(POST)
    assert len(client.queryAndConvert()["results"]["bindings"]) == 11
    client.setReturnFormat(TURTLE)
    client.setQuery("CONSTRUCT { ?p a <http://ex/Person> } WHERE { ?p <http://ex/name> ?n }")
    assert client.queryAndConvert().count(b"Person") == 50


def test_a_graph_is_read_from_both_each_triple_once(server: Live, source: Scripted) -> None:
    source.add(
        "<http://ex/a> <http://ex/in> <http://ex/b> <http://ex/g> .\n<http://ex/a> <http://ex/in> _:x <http://ex/g> ."
    )
    server.update(
        "INSERT DATA { GRAPH <http://ex/g> { <http://ex/a> <http://ex/in> <http://ex/b>, <http://ex/c> } "
        "GRAPH <http://ex/own> { <http://ex/a> <http://ex/in> <http://ex/d> } }"
    )
    read = server.http.get("/data", params={"graph": "http://ex/g"}, headers={"accept": "application/n-triples"})
    assert len(read.text.splitlines()) == 3
    assert len(server.http.get("/data?default", headers={"accept": "application/n-triples"}).text.splitlines()) == 100
    whole = server.http.get("/data", headers={"accept": "application/n-quads"}).text
    assert len(whole.splitlines()) == 104
    assert server.http.get("/data", params={"graph": "http://ex/none"}).status_code == 404
    assert server.http.get("/data", params={"graph": "http://ex/g", "snapshot": "1"}).status_code == 400


def test_a_cut_within_each_graph_is_made_here(server: Live, source: Scripted) -> None:
    source.add("".join(f"<http://ex/a> <http://ex/in> <http://ex/{n}> <http://ex/g{n % 2}> .\n" for n in range(4)))
    query = "SELECT ?g ?s FROM NAMED <http://ex/g1> { GRAPH ?g { { SELECT ?s { ?s <http://ex/in> ?o } LIMIT 1 } } }"
    assert rows(server, query) == [{"g": "http://ex/g1", "s": "http://ex/a"}]


def test_a_filter_inside_of_exists_sees_what_is_around_it(server: Live) -> None:
    server.update("INSERT DATA { <http://ex/p1> <http://ex/wants> <http://ex/c1>, <http://ex/c2> }")
    inner = "?p <http://ex/livesIn> ?z FILTER(?z = ?c)"
    query = f"SELECT ?c {{ ?p <http://ex/wants> ?c FILTER EXISTS {{ {inner} }} }}"
    assert rows(server, query) == [{"c": "http://ex/c1"}]


def test_a_resource_is_described_by_both(server: Live, source: Scripted) -> None:
    source.add(
        '<http://ex/a> <http://ex/at> _:x .\n_:x <http://ex/street> _:y .\n_:y <http://ex/no> "1" .\n'
        '_:z <http://ex/no> "2" .\n<http://ex/a> <http://ex/in> <http://ex/b> .'
    )
    server.update("INSERT DATA { <http://ex/a> <http://ex/in> <http://ex/b>, <http://ex/c> }")
    answer = server.http.get(
        "/sparql", params={"query": "DESCRIBE <http://ex/a>"}, headers={"accept": "application/n-triples"}
    )
    found = ox.Dataset(ox.parse(answer.content, ox.RdfFormat.N_TRIPLES))
    expected = ox.Dataset(
        ox.parse(b"@prefix : <http://ex/> . :a :in :b, :c ; :at [ :street [ :no '1' ] ] .", ox.RdfFormat.TURTLE)
    )
    for each in (found, expected):
        each.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    assert found == expected


def test_explain_says_what_is_asked(server: Live) -> None:
    server.update('INSERT DATA { <http://ex/c1> <http://ex/name> "one" }')
    query = "SELECT * { ?p <http://ex/livesIn> ?c . ?c <http://ex/name> ?n }"
    found = server.http.get("/sparql", params={"query": query, "explain": "true"}).json()
    asked = {each["exclusive"]: each["asked"] for each in found["sources"]}
    assert "livesIn" in asked[True]
    assert "name" in asked[False]


def test_sources_are_services_by_name_and_by_address(source: Scripted, tmp_path: Path) -> None:
    with scripted() as other:
        other.add('<http://ex/p1> <http://ex/likes> "tea" .')
        with live(tmp_path / "store", sources=[endpoint(source), endpoint(other, "bio")]) as server:
            for service in ("<bio>", f"<{other.url}>", "<http://ex.org/sources/bio>"):
                query = f"SELECT ?l {{ ?p <http://ex/name> 'name 1' SERVICE {service} {{ ?p <http://ex/likes> ?l }} }}"
                assert rows(server, query) == [{"l": "tea"}]
            answer = server.http.get("/sparql", params={"query": "SELECT * { SERVICE <http://ex/no> { ?s ?p ?o } }"})
            assert answer.status_code == 403


def test_the_sources_are_listed_with_their_state(server: Live, source: Scripted) -> None:
    rows(server, "SELECT * { ?s <http://ex/name> ?n }")
    (listed,) = server.http.get("/sources").json()["sources"]
    assert (listed["source"], listed["url"], listed["state"], listed["error"]) == ("main", source.url, "ready", None)
    assert listed["round_trips"] > 1
    assert server.http.get("/sources/main").json().keys() == listed.keys() | {"groups"}
    assert server.http.get("/sources/other").status_code == 404


def test_readiness_names_a_source_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as nobody:  # bound, and not listening: a connection is refused
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/ds/sparql"
        with live(tmp_path / "store", sources=[SparqlEndpointSource(SourceSettings("main", url), 1.0)]) as server:
            ready = lambda: server.http.get("/$/ready")  # noqa: E731
            until(lambda: "the attached store main does not answer: " in ready().text, "nothing is reported")
            assert ready().status_code == 200
            assert ready().text.startswith("ready\n")
    with scripted() as source, live(tmp_path / "other", sources=[endpoint(source)]) as server:
        rows(server, "SELECT * { ?s ?p ?o }")
        assert server.http.get("/$/ready").text == "ready\n"


def test_what_is_held_is_refreshed_on_request(server: Live, source: Scripted) -> None:
    refreshed = server.http.post("/sources/main/refresh", params={"wait": "evaluated"})
    assert refreshed.status_code == 202
    assert refreshed.json()["snapshot"] == int(refreshed.headers["rillet-snapshot"])
    assert server.http.post("/sources/other/refresh").status_code == 404


# ---- a source that fails ---------------------------------------------------------------------------------------


def _answering(status: int, form: str, data: bytes, **headers: str) -> Callable[[Any, str], bool]:
    def spoil(request: Any, text: str) -> bool:
        request.respond(status, form, data, **headers)
        return True

    return spoil


HALF = b'{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"uri","value":"a:a"}},'
BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/><results/></sparql>"""


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_answering(200, "text/html", b"<html>Please log in</html>"), "Please log in"),
        (_answering(200, JSON, HALF), "too early"),
        (_answering(200, JSON, HALF[:-1] + b"]}"), "no SPARQL results"),
        (_answering(200, JSON, b'{"error": "out of memory"}'), "out of memory"),
        (_answering(200, "application/sparql-results+xml", BOMB), "document type"),
        (_answering(500, "text/plain", b"Query timed out"), "Query timed out"),
        (_answering(503, "text/plain", b"busy", retry_after="3600"), "busy"),
        (_answering(307, "text/plain", b"", location="http://127.0.0.1:1/x"), "another origin"),
        (_answering(307, "text/plain", b"", location="file:///etc/passwd"), "another origin"),
        (_answering(200, JSON, b'{"results":{"bindings":[]}}', x_sparql_maxrows="10000"), "cuts its answer"),
    ],
)
def test_what_is_no_answer_is_an_error_with_the_words_of_the_source(
    spoil: Callable[[Any, str], bool], words: str, server: Live, source: Scripted
) -> None:
    source.spoil = spoil
    answer = server.http.get("/sparql", params={"query": "SELECT ?s { ?s <http://ex/name> ?n }"})
    assert answer.status_code == 502
    assert "source main" in answer.text
    assert words in answer.text


def test_an_error_behind_the_first_rows_breaks_the_connection(server: Live, source: Scripted) -> None:
    row = b'{"s":{"type":"uri","value":"http://ex/a-rather-long-name-of-a-thing"}},'

    def spoil(request: Any, text: str) -> bool:
        request.respond(200, JSON, b'{"results":{"bindings":[' + row * 20_000)
        return True

    source.spoil = spoil
    with pytest.raises(httpx.RemoteProtocolError):
        server.http.get("/sparql", params={"query": "SELECT ?s { ?s <http://ex/name> ?n }"})
    source.spoil = lambda request, text: False
    assert len(rows(server, "SELECT ?s { ?s <http://ex/name> ?n }")) == 50


ROW = b'{"s":{"type":"uri","value":"http://ex/a-rather-long-name-of-a-thing"},"row":{"type":"literal","value":"0"}},'


def _streaming(pause_s: float, piece: bytes) -> Callable[[Any, str], bool]:
    """An answer that does not end before the client leaves."""

    def spoil(request: Any, text: str) -> bool:
        request.send_response(200)
        request.send_header("content-type", JSON)
        request.send_header("connection", "close")
        request.end_headers()
        request.wfile.write(b'{"results":{"bindings":[')
        ended = threading.Event()
        with contextlib.suppress(OSError):
            while not ended.wait(pause_s):
                request.wfile.write(piece)
        request.close_connection = True
        return True

    return spoil


@pytest.mark.parametrize(
    ("spoil", "query", "words"),
    [
        (_streaming(0, ROW * 1000), "SELECT ?s { ?s <http://ex/name> ?n . ?s <http://ex/own> 1 }", "--fetch-bytes"),
        (_streaming(0, b" " * 100_000), "SELECT ?s { ?s <http://ex/name> ?n }", "without a solution"),
        (_streaming(0.05, b" "), "SELECT ?s { ?s <http://ex/name> ?n }", "took longer"),
        (_streaming(0.05, ROW), "SELECT ?s { ?s <http://ex/name> ?n . ?s <http://ex/own> 1 }", "took longer"),
    ],
)
def test_an_answer_without_an_end_is_an_error(
    spoil: Callable[[Any, str], bool], query: str, words: str, server: Live, source: Scripted
) -> None:
    server.update("INSERT DATA { <http://ex/p1> <http://ex/own> 1 }")
    source.spoil = lambda request, text: "name" in text and spoil(request, text)
    limit = {"timeout": "2s"} if "longer" in words else {}
    answer = server.http.get("/sparql", params={"query": query, **limit}, timeout=110.0)
    assert answer.status_code in (502, 503), answer.text
    assert words in answer.text


def test_a_source_that_was_away_is_asked_again(server: Live, source: Scripted) -> None:
    tries: list[str] = []

    def spoil(request: Any, text: str) -> bool:
        tries.append(text)
        if len(tries) > 2:
            return False
        request.respond(503, "text/plain", b"busy", retry_after="0")
        return True

    source.spoil = spoil
    assert len(rows(server, "SELECT ?s { ?s <http://ex/name> ?n }")) == 50
    assert len(tries) == 3


def test_a_server_starts_while_its_source_is_away(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/sparql"
        with live(tmp_path / "store", sources=[SparqlEndpointSource(SourceSettings("main", url), 5.0)]) as server:
            answer = server.http.get("/sparql", params={"query": "SELECT * { ?s ?p ?o }"})
            assert answer.status_code == 502
            assert "source main" in answer.text
            explained = server.http.get("/sparql", params={"query": "SELECT * { ?s ?p ?o }", "explain": "true"})
            assert "does not answer" in json.dumps(explained.json())


def test_answers_in_xml_are_read(server: Live, source: Scripted) -> None:
    def spoil(request: Any, text: str) -> bool:
        found: Any = source.store.query(text)
        form = ox.QueryResultsFormat.XML if "name" in text else ox.QueryResultsFormat.TSV
        request.respond(200, form.media_type, found.serialize(format=form))
        return True

    source.add(
        '<http://ex/odd> <http://ex/odd> "tab\\t, \\"quote\\" <&> \\u00e9"@en-GB .\n'
        '<http://ex/odd> <http://ex/odd> "1.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .'
    )
    source.spoil = spoil
    assert len(rows(server, "SELECT ?s ?n { ?s <http://ex/name> ?n }")) == 50
    found = rows(server, "SELECT ?o { <http://ex/odd> <http://ex/odd> ?o }")
    assert sorted(row["o"] for row in found) == ["1.5", 'tab\t, "quote" <&> é']


def test_a_registered_query_holds_what_it_needs_and_follows_a_refresh(source: Scripted, tmp_path: Path) -> None:
    text = """REGISTER RSTREAM homes AS SELECT ?p ?c FROM NAMED WINDOW <w> ON STREAM seen [RANGE PT10S STEP PT1S]
        { WINDOW <w> { ?door <http://ex/saw> ?p } ?p <http://ex/livesIn> ?c }"""
    with live(tmp_path / "store", sources=[endpoint(source)], token="secret") as server:
        writing = {"authorization": "Bearer secret"}
        sent = server.http.post(
            "/queries", content=text, headers={"content-type": "application/sparql-query", **writing}
        )
        assert sent.status_code == 201, sent.text
        (group,) = server.http.get("/sources/main").json()["groups"]
        assert group == {"pattern": "?s <http://ex/livesIn> ?o", "way": "held", "quads": 50}

        def seen(time: int) -> dict[str, Any]:
            data, form = "<http://ex/d> <http://ex/saw> <http://ex/p4> .", {"content-type": "application/n-triples"}
            server.http.post(f"/streams/seen?timestamp={time}", content=data, headers=form | writing).raise_for_status()
            beat = f"/streams/seen/heartbeat?timestamp={time + 1_000}&wait=evaluated"
            server.http.post(beat, headers=writing).raise_for_status()
            lines = server.http.get("/queries/homes/results?since=0", headers={"accept": "application/x-ndjson"}).text
            last = json.loads(lines.splitlines()[-1])
            assert last["sources"]["main"]["as_of"].keys() == {"from", "to"}
            return {row["c"]["value"]: row["p"]["value"] for row in last["results"]["bindings"]}

        assert seen(1_000) == {"http://ex/c1": "http://ex/p4"}
        source.store.update(
            "DELETE DATA { <http://ex/p4> <http://ex/livesIn> <http://ex/c1> };"
            "INSERT DATA { <http://ex/p4> <http://ex/livesIn> <http://ex/c9> }"
        )
        assert server.http.post("/sources/main/refresh").status_code == 401
        refreshed = server.http.post("/sources/main/refresh?wait=evaluated", headers=writing)
        assert refreshed.status_code == 202 and refreshed.json().keys() == {"source", "snapshot"}
        assert seen(3_000) == {"http://ex/c9": "http://ex/p4"}
        assert server.http.post("/sources/other/refresh", headers=writing).status_code == 404

        def away(request: Any, query: str) -> bool:
            request.send_error(503)
            return True

        source.spoil = away
        answer = server.http.post("/sources/main/refresh", headers=writing)
        assert answer.status_code == 503 and "503" in answer.text and answer.headers["retry-after"]
        assert seen(5_000) == {"http://ex/c9": "http://ex/p4"}
