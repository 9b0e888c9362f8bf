"""Streams and queries by statement: a client that speaks SPARQL only does all but pushing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from SPARQLWrapper import JSON, POST, XML, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

from tests.endpoint.live import NEAR, Live, live


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("store")) as running:
        yield running


def send(running: Live, text: str, path: str = "/sparql") -> list[dict[str, str]]:
    """By SPARQLWrapper itself, which guesses from the text what kind of request it is; where it cannot, it warns."""
    if text.split()[0].upper() in ("SHOW", "UNREGISTER"):
        answer = running.http.post(path, data={"query": text})
        return rows_of(answer.raise_for_status().json())
    client = SPARQLWrapper(running.url + path)
    client.setReturnFormat(JSON)
    client.setMethod(POST)
    client.setQuery(text)
    return rows_of(client.query().convert())


def rows_of(answer: dict[str, Any]) -> list[dict[str, str]]:
    return [{name: term["value"] for name, term in row.items()} for row in answer["results"]["bindings"]]


def test_a_whole_life_through_sparqlwrapper(running: Live) -> None:
    made = "CREATE STREAM taxis WITH (lateness = '5s', timeless = <http://ex/livesIn>, BATCH = 50)"
    (row,) = send(running, made, "/update")
    assert row == {"stream": "taxis", "iri": "http://ex.org/streams/taxis", "created": "true"}
    assert send(running, made)[0]["created"] == "false"
    described = running.http.get("/streams/taxis").json()
    assert (described["lateness"], described["timeless"], described["batch"]) == (5000, ["http://ex/livesIn"], 50)
    assert [row["query"] for row in send(running, NEAR)] == ["near"]
    assert [row["stream"] for row in send(running, "SHOW STREAMS")] == ["taxis"]
    (shown,) = send(running, "show queries")
    assert (shown["query"], shown["r2s"], shown["text"]) == ("near", "RSTREAM", NEAR)
    assert send(running, "UNREGISTER QUERY near") == [{"query": "near", "dropped": "true"}]
    assert send(running, "DROP STREAM <http://ex.org/streams/taxis>", "/update")[0]["dropped"] == "true"
    assert send(running, "SHOW STREAMS") == send(running, "SHOW QUERIES") == []


def test_several_predicates_are_in_one_string(running: Live) -> None:
    send(running, "PREFIX ex: <http://ex/> CREATE STREAM ex:many WITH (timeless = 'http://ex/a http://ex/b')")
    described = running.http.get("/streams/http%3A%2F%2Fex%2Fmany").json()
    assert described["timeless"] == ["http://ex/a", "http://ex/b"]


@pytest.mark.parametrize("text", ["CREATE STREAM s", "DROP STREAM s", "DROP QUERY q", "UNREGISTER QUERY q"])
def test_a_change_by_get_is_refused_with_what_to_do(running: Live, text: str) -> None:
    answer = running.http.get("/sparql", params={"query": text})
    assert (answer.status_code, "setMethod(POST)" in answer.text) == (400, True)


def test_show_may_come_by_get_and_in_any_form(running: Live) -> None:
    send(running, "CREATE STREAM shown")
    answer = running.http.get("/sparql", params={"query": "SHOW STREAMS"}, headers={"accept": "text/csv"})
    assert answer.text.startswith("stream,iri\r\n")
    assert "shown,http://ex.org/streams/shown\r\n" in answer.text
    client = SPARQLWrapper(running.url + "/sparql")
    client.setReturnFormat(XML)
    client.setMethod(POST)
    client.setQuery("CREATE STREAM shown")
    assert "<literal>shown</literal>" in client.query().convert().toxml()


@pytest.mark.parametrize(
    ("status", "says", "text"),
    [
        (400, "unknown stream option 'latness'", "CREATE STREAM s WITH (latness = 5)"),
        (400, "is not a duration", "CREATE STREAM s WITH (lateness = 'soon')"),
        (400, "written twice", "CREATE STREAM s WITH (batch = 5, BATCH = 6)"),
        (400, "not an absolute IRI", "CREATE STREAM s WITH (timeless = 'here')"),
        (400, "line 1, column 13", "DROP STREAM 5"),
        (404, "no stream 'nowhere'", "DROP STREAM nowhere"),
        (404, "no registered query 'none'", "UNREGISTER QUERY none"),
    ],
)
def test_a_bad_statement_is_reported_as_the_routes_tell_it(running: Live, status: int, says: str, text: str) -> None:
    answer = running.http.post("/sparql", data={"query": text})
    assert (answer.status_code, says in answer.text) == (status, True), answer.text


def test_a_wrapper_learns_why_its_statement_was_refused(running: Live) -> None:
    with pytest.raises(QueryBadFormed, match="unknown stream option"):
        send(running, "CREATE STREAM s WITH (latness = 5)")


def test_explain_behind_a_prologue_does_nothing(running: Live) -> None:
    text = "PREFIX ex: <http://ex/> EXPLAIN CREATE STREAM ex:explained"
    answer = running.http.get("/sparql", params={"query": text})
    assert answer.json()["unit"] == "administration"
    assert running.http.get("/streams/http%3A%2F%2Fex%2Fexplained").status_code == 404


def test_a_statement_needs_the_token_where_there_is_one(tmp_path: Path) -> None:
    with live(tmp_path / "guarded", token="secret") as guarded:
        for text, status in (("CREATE STREAM s", 401), ("SHOW STREAMS", 200)):
            assert guarded.http.post("/sparql", data={"query": text}).status_code == status


def test_late_elements_come_as_lines_that_could_be_pushed_again(running: Live) -> None:
    running.http.put("/streams/taxis")
    running.register(NEAR.replace("near", "watching").replace("100ms", "1s")).raise_for_status()
    for time in (100, 2500, 700):
        running.push(time).raise_for_status()
    found = running.http.get("/streams/taxis/late").json()
    assert (found["stream"], found["late"], len(found["elements"])) == ("taxis", 1, 1)
    lines = running.http.get("/streams/taxis/late", headers={"accept": "application/x-ndjson"})
    assert [json.loads(line) for line in lines.text.splitlines()] == found["elements"]
    assert found["elements"][0]["queries"] == ["watching"]
