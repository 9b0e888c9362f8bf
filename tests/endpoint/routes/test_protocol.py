"""SPARQL 1.1 Protocol, and what our texts add to it, over real HTTP."""

from __future__ import annotations

import csv
import io
import json
import threading
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor, as_completed
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
import rdflib
from SPARQLWrapper import CSV, JSON, POST, POSTDIRECTLY, TSV, XML, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

from endpoint.limits import HttpLimits
from tests.endpoint.live import NEAR, Live, live
from tests.parts.waiting import PATIENCE_S

SAYS = "SELECT ?o { <http://ex/a> <http://ex/says> ?o }"
SAID = {"one", "zwei", "3", '<&"\t,\n'}


def ask(server: Live, accept: str, query: str = SAYS) -> httpx.Response:
    return server.http.get("/sparql", params={"query": query}, headers={"accept": accept})


# ---- how a question may come


@pytest.mark.parametrize("path", ["/sparql", "/query", "/update", "/sparql/"])
def test_a_question_may_come_in_three_ways_to_any_of_the_paths(server: Live, path: str) -> None:
    direct = {"content-type": "application/sparql-query; charset=UTF-8"}
    answers = [
        server.http.get(path, params={"query": SAYS}),
        server.http.post(path, data={"query": SAYS}),
        server.http.post(path, content=SAYS, headers=direct),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert len({answer.text for answer in answers}) == 1
    assert {row["o"]["value"] for row in answers[0].json()["results"]["bindings"]} == SAID


def test_an_update_may_come_in_two_ways_and_is_classified_by_its_text(server: Live) -> None:
    for number, (data, content, headers) in enumerate(
        [
            ({"update": "INSERT DATA { <http://ex/u0> a 1 }"}, None, {}),
            ({"query": "INSERT DATA { <http://ex/u1> a 1 }"}, None, {}),
            (None, "INSERT DATA { <http://ex/u2> a 1 }", {"content-type": "application/sparql-update"}),
            (None, "INSERT DATA { <http://ex/u3> a 1 }", {"content-type": "application/sparql-query"}),
        ]
    ):
        answer = server.http.post("/sparql", data=data, content=content, headers=headers)
        assert (answer.status_code, answer.content) == (204, b"")
        there = ask(server, "application/json", f"ASK {{ <http://ex/u{number}> a 1 }}")
        assert there.json() == {"head": {}, "boolean": True}


def test_every_answer_names_its_snapshot_and_an_old_one_can_be_asked_again(server: Live) -> None:
    before = server.http.get("/$/ping").headers["rillet-snapshot"]
    after = server.http.post("/update", data={"update": "INSERT DATA { <http://ex/new> a 7 }"}).headers[
        "rillet-snapshot"
    ]
    assert int(after) == int(before) + 1
    for snapshot, there in ((before, False), (after, True)):
        answer = server.http.get("/sparql", params={"query": "ASK { <http://ex/new> a 7 }", "snapshot": snapshot})
        assert (answer.headers["rillet-snapshot"], answer.json()["boolean"]) == (snapshot, there)
    gone = server.http.get("/sparql", params={"query": SAYS, "snapshot": "999999"})
    assert gone.status_code == 410


SHUT = ("frame-ancestors 'none'", "base-uri 'none'")
CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"


@pytest.mark.parametrize("path", ["/sparql", "/query", "/update"])
@pytest.mark.parametrize("accept", [CHROMIUM, "text/html", "text/html;q=0.9,*/*;q=0.1"])
@pytest.mark.parametrize("text", [None, SAYS, "DROP ALL", "nonsense"])
def test_a_browser_gets_the_query_page_which_runs_nothing(
    server: Live, path: str, accept: str, text: str | None
) -> None:
    head = server.service.head()
    answer = server.http.get(path, params={} if text is None else {"query": text}, headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<h1>Query</h1>" in answer.text
    assert text is None or escape(text) in answer.text
    assert "zwei" not in answer.text
    assert server.service.head() == head


@pytest.mark.parametrize("accept", ["text/html,text/csv", "text/csv,text/html;q=0.9", "text/html,*/*", "*/*", ""])
def test_whoever_likes_something_else_as_well_gets_the_answer(server: Live, accept: str) -> None:
    answer = server.http.get("/sparql", params={"query": SAYS}, headers={"accept": accept})
    assert "zwei" in answer.text


def test_a_post_never_gets_the_page(server: Live) -> None:
    for request in (
        {"data": {"query": SAYS}},
        {"content": SAYS, "headers": {"content-type": "application/sparql-query"}},
    ):
        headers = {"accept": CHROMIUM, **request.pop("headers", {})}
        answer = server.http.post("/sparql", headers=headers, **request)
        assert answer.headers["content-type"].startswith("application/xml")
        assert "zwei" in answer.text


def test_without_a_console_a_browser_gets_the_service_description(tmp_path: Path) -> None:
    with live(tmp_path, console=False) as server:
        for parameters in ({}, {"query": "ASK {}"}):
            answer = server.http.get("/sparql", params=parameters, headers={"accept": "text/html"})
            assert answer.headers["content-type"].startswith("text/turtle")
            assert "sparql-service-description" in answer.text
        assert server.http.get("/console/").status_code == 404
        assert server.http.get("/docs").status_code == 200


def test_without_a_question_programs_get_the_description(server: Live) -> None:
    sd = rdflib.Namespace("http://www.w3.org/ns/sparql-service-description#")
    for accept in ("text/turtle", "application/rdf+xml", "*/*"):
        answer = server.http.get("/sparql", headers={"accept": accept})
        described = rdflib.Graph().parse(data=answer.text, format=answer.headers["content-type"].split(";")[0])
        assert (None, rdflib.RDF.type, sd.Service) in described
        assert (None, sd.feature, sd.BasicFederatedQuery) not in described


def test_whatever_an_answer_is_a_browser_runs_nothing_of_it(server: Live) -> None:
    """Also what others wrote, and what went wrong."""
    routes = ("/sparql?query=" + SAYS, "/sparql?query=nonsense", "/sparql", "/data?default", "/streams/none", "/$/ping")
    for path in (*routes, "/nowhere", "/openapi.json", "/", "/docs/nothing"):
        answer = server.http.get(path, headers={"accept": "application/xml, */*;q=0.1"})
        policy = answer.headers["content-security-policy"].split("; ")
        assert answer.headers.get_list("content-security-policy") == [answer.headers["content-security-policy"]]
        is_xml = "xml" in answer.headers.get("content-type", "")
        more = {"style-src 'unsafe-inline'"} if is_xml else set()
        assert set(policy) - {"form-action 'none'"} == {"default-src 'none'", *SHUT, *more}, path
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_explain_is_a_word_or_a_parameter_and_does_nothing(server: Live) -> None:
    text = NEAR.replace("near", "explained")
    answers = [
        server.http.get("/sparql", params={"query": "EXPLAIN " + text}),
        server.http.get("/sparql", params={"query": text, "explain": "true"}),
        server.http.post("/sparql", data={"update": "# why\n explain " + text}),
    ]
    assert [answer.json()["windows"][0]["step_ms"] for answer in answers] == [100, 100, 100]
    assert server.http.get("/queries/explained").status_code == 404


def test_a_query_is_explained_by_the_operators_that_would_answer_it(server: Live) -> None:
    text = "SELECT ?s { ?s <http://ex/p> ?o OPTIONAL { ?o <http://ex/q> ?z } FILTER(?o > 1) }"
    operators = server.http.get("/sparql", params={"query": text, "explain": "true"}).json()["operators"]
    answered = [each["operator"] for each in operators]
    assert (
        answered[0] == "project s"
        and any("optional" in line for line in answered)
        and any("filter" in line for line in answered)
    )
    assert all(each["estimated"] >= 0 for each in operators if not each["operator"].endswith("(as above)"))


def test_a_query_is_measured_operator_by_operator(tmp_path: Path) -> None:
    values = " ".join(f"<http://ex/{n}> <http://ex/p> {n % 10} ." for n in range(100))
    text = "SELECT ?o (COUNT(*) AS ?n) { ?s <http://ex/p> ?o FILTER(?o >= 5) } GROUP BY ?o"
    with live(tmp_path) as server:
        server.update(f"INSERT DATA {{ {values} }}")
        found = server.http.get("/sparql", params={"query": text, "explain": "analyze"}).json()
        measured = [each for each in found["operators"] if "rows" in each]
        assert measured[0]["rows"] == 5, "what the query itself answers"
        assert 50 in [each["rows"] for each in measured], "the rows that the filter leaves"
        assert found["ms"] == pytest.approx(sum(each["ms"] for each in measured), abs=0.01)
        server.update("DELETE WHERE { ?s <http://ex/p> 7 }")
        old = {"query": text, "explain": "analyze", "snapshot": found["snapshot"]}
        assert server.http.get("/sparql", params=old).json()["operators"][0]["rows"] == 5
        assert (
            server.http.get("/sparql", params={"query": text, "explain": "analyze"}).json()["operators"][0]["rows"] == 4
        )
        for refused, why in (("INSERT DATA { <http://ex/a> <http://ex/b> 1 }", "query"), (NEAR, "without windows")):
            answer = server.http.post("/sparql", data={"query": refused, "explain": "analyze"})
            assert (answer.status_code, why in answer.text) == (400, True)
        assert not server.http.get("/sparql", params={"query": "ASK { <http://ex/a> ?p ?o }"}).json()["boolean"]
        slow = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n ?o }"
        late = server.http.get("/sparql", params={"query": slow, "explain": "analyze", "timeout": "200ms"})
        assert late.status_code in (413, 503), "the limits of queries are also those of measured ones"


def test_a_windowed_query_is_answered_at_a_time(server: Live) -> None:
    window = "FROM NAMED WINDOW <http://ex/w> ON STREAM past [RANGE 1s]"
    text = f"SELECT ?s {window} WHERE {{ WINDOW <http://ex/w> {{ ?s ?p ?o }} }}"
    server.http.put("/streams/past").raise_for_status()
    body = {"content": "<http://ex/s> <http://ex/p> 1 .", "headers": {"content-type": "text/turtle"}}
    server.http.post("/streams/past?timestamp=500", **body).raise_for_status()
    answer = server.http.get("/sparql", params={"query": text, "at": "1970-01-01T00:00:01Z"})
    assert [row["s"]["value"] for row in answer.json()["results"]["bindings"]] == ["http://ex/s"]
    assert server.http.get("/sparql", params={"query": text}).status_code == 400


def test_measured_queries_wait_for_each_other_and_nobody_for_them(tmp_path: Path) -> None:
    began, let_go, measured = threading.Semaphore(0), threading.Event(), {"query": "ASK {}", "explain": "analyze"}
    with live(tmp_path / "store", limits=HttpLimits(readers=2)) as running, ThreadPoolExecutor(20) as pool:
        analyze = running.service.analyze

        def held(*arguments: Any) -> dict[str, Any]:
            began.release()
            assert let_go.wait(60)
            return analyze(*arguments)

        running.service.analyze = held  # type: ignore[method-assign]
        asked = [pool.submit(httpx.get, f"{running.url}/sparql", params=measured, timeout=60) for _ in range(20)]
        try:
            assert began.acquire(timeout=60)
            refused = {future.result().status_code for future in islice(as_completed(asked, timeout=PATIENCE_S), 3)}
            assert refused == {429}, "one is measured, and sixteen wait"
            text = {"query": "SELECT * { ?s ?p ?o }"}
            assert running.http.get("/sparql", params=text).status_code == 200
            assert not began.acquire(blocking=False), "one is measured at a time"
        finally:
            let_go.set()
        assert sorted({future.result().status_code for future in asked}) == [200, 429]


# ---- formats


def test_each_format_says_the_same(server: Live) -> None:
    as_json = [row["o"] for row in ask(server, "application/sparql-results+json").json()["results"]["bindings"]]
    assert {"type": "literal", "xml:lang": "de", "value": "zwei"} in as_json
    assert {row["value"] for row in as_json} == SAID
    name = "{http://www.w3.org/2005/sparql-results#}"
    tree = ElementTree.fromstring(ask(server, "application/sparql-results+xml").text)
    assert {found.text for found in tree.iter(f"{name}literal")} == SAID
    rows = list(csv.reader(io.StringIO(ask(server, "text/csv").text, newline="")))
    assert rows[0] == ["o"]
    assert {row[0] for row in rows[1:]} == SAID
    tsv = ask(server, "text/tab-separated-values").text.splitlines()
    assert tsv[0] == "?o"
    assert set(tsv[1:]) == {
        '"one"',
        '"zwei"@de',
        '"3"^^<http://www.w3.org/2001/XMLSchema#integer>',
        '"<&\\"\\t,\\n"',
    }


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "application/sparql-results+json"),
        ("*/*", "application/sparql-results+json"),
        ("text/*", "text/xml; charset=utf-8"),
        ("image/png, text/csv;q=0.2", "text/csv; charset=utf-8"),
        ("text/csv;q=0.2, application/sparql-results+xml;q=0.9", "application/sparql-results+xml"),
        ("application/sparql-results+json;q=0, */*", "application/json"),
        ("text/turtle, application/rdf+xml, text/n3, application/json;q=0.1", "application/json"),
        ("TEXT/CSV ; q=nonsense", "application/sparql-results+json"),  # malformed ranges are passed over
        ("application/json;q=2, TEXT/CSV ; q=0.1", "text/csv; charset=utf-8"),
        (
            'text/tab-separated-values;profile="a,b;q=0";q=0.5, text/csv;q=0.4',
            "text/tab-separated-values; charset=utf-8",
        ),
    ],
)
def test_an_accept_list_gets_the_best_of_what_we_have(server: Live, accept: str, media_type: str) -> None:
    answer = ask(server, accept)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)


def test_an_answer_of_many_rows_is_whole_in_every_format(server: Live) -> None:
    triples = "".join(f"<http://ex/many> <http://ex/n> {n} . " for n in range(1000))
    for block in range(8):
        text = f"INSERT DATA {{ {triples.replace('/many', f'/many{block}')} }}"
        server.service.update(text)
    query = "SELECT ?s ?o { ?s <http://ex/n> ?o }"
    assert len(ask(server, "application/json", query).json()["results"]["bindings"]) == 8000
    assert len(ask(server, "text/csv", query).text.splitlines()) == 8001
    assert ask(server, "application/xml", query).text.count("<result>") == 8000


def test_what_xml_cannot_say_is_refused_before_the_first_byte(server: Live) -> None:
    server.service.update("INSERT DATA { <http://ex/bell> <http://ex/rings> '\\u0007' }")
    query = "SELECT ?o { <http://ex/bell> <http://ex/rings> ?o }"
    assert ask(server, "application/xml", query).status_code == 406
    assert ask(server, "application/json", query).json()["results"]["bindings"][0]["o"]["value"] == "\x07"


def test_an_update_says_what_it_changed_or_why_it_did_not(server: Live) -> None:
    def sent(text: str) -> httpx.Response:
        return server.http.post("/update", data={"update": "PREFIX : <http://ex/counted/> " + text})

    counted = ("rillet-snapshot", "rillet-inserted", "rillet-deleted")
    first = sent("INSERT DATA { :a :p 1, 2 . GRAPH :g { :a :p 3 } }")
    second = sent("DELETE { ?s :p ?o } INSERT { ?s :q ?o . ?s :r ?o } WHERE { ?s :p ?o }")
    third = sent("DROP GRAPH :none")
    head = int(first.headers["rillet-snapshot"])
    assert [[int(answer.headers[name]) for name in counted] for answer in (first, second, third)] == [
        [head, 3, 0],
        [head + 1, 4, 2],
        [head + 1, 0, 0],
    ]
    for text, status, says in (
        ("CREATE GRAPH :g", 400, "already exists"),
        ("CLEAR ALL ; COPY :none TO :g", 400, "operation 2 of 2"),
        ("LOAD <http://127.0.0.1:1/x.ttl>", 403, "--allow-load"),
        ("INSERT { ?s ?p ?o } WHERE { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }", 403, "--allow-service"),
    ):
        answer = sent(text)
        assert answer.status_code == status, answer.text
        assert says in answer.text
        assert int(answer.headers["rillet-snapshot"]) == head + 1


# ---- SPARQLWrapper


def wrapper(server: Live, path: str = "/sparql") -> SPARQLWrapper:
    made = SPARQLWrapper(server.url + path)
    made.setReturnFormat(JSON)
    return made


@pytest.mark.parametrize("format", [JSON, XML, CSV, TSV])
def test_sparqlwrapper_reads_every_format(server: Live, format: str) -> None:
    client = wrapper(server)
    client.setReturnFormat(format)
    client.setQuery(SAYS)
    answer = client.query().convert()
    if format == JSON:
        assert {row["o"]["value"] for row in answer["results"]["bindings"]} == SAID
    else:
        assert "zwei" in (answer.toxml() if format == XML else answer.decode())


def test_sparqlwrapper_asks_and_updates(server: Live) -> None:
    client = wrapper(server)
    client.setMethod(POST)
    client.setQuery("INSERT DATA { <http://ex/wrapped> a 1 }")
    client.query()
    client.setQuery("ASK { <http://ex/wrapped> a 1 }")
    assert client.query().convert()["boolean"] is True
    client.setRequestMethod(POSTDIRECTLY)
    client.setQuery("DELETE DATA { <http://ex/wrapped> a 1 }")
    client.query()
    client.setQuery("ASK { <http://ex/wrapped> a 1 }")
    assert client.query().convert()["boolean"] is False


@pytest.mark.parametrize("name", ["loadAlerts", "plain"])
@pytest.mark.parametrize("method", ["urlencoded", "postdirectly"])
def test_sparqlwrapper_registers_however_it_misreads_the_text(server: Live, name: str, method: str) -> None:
    client = wrapper(server)
    client.setMethod(POST)
    client.setRequestMethod(method)
    client.setQuery(NEAR.replace("near", f"{name}_{method}"))
    [row] = client.query().convert()["results"]["bindings"]
    assert row["query"]["value"] == f"{name}_{method}"
    assert httpx.get(row["results"]["value"]).status_code == 200


def test_a_change_over_get_is_refused_with_the_way_out(server: Live) -> None:
    client = wrapper(server)
    client.setQuery(NEAR.replace("near", "overGet"))
    with pytest.raises(QueryBadFormed, match=r"setMethod\(POST\)"):
        client.query()
    for name in ("query", "update"):
        answer = server.http.get("/update", params={name: "INSERT DATA { <http://ex/got> a 1 }"})
        assert (answer.status_code, "setMethod(POST)" in answer.text) == (400, True)
    assert not ask(server, "", "ASK { <http://ex/got> a 1 }").json()["boolean"]


# ---- what is refused


FORM = {"content-type": "application/x-www-form-urlencoded"}
DIRECT = {"content-type": "application/sparql-query"}
QUESTION = "ASK { ?s ?p ?o }"


@pytest.mark.parametrize(
    ("status", "says", "request_"),
    [
        (400, "line 1, column 8", {"method": "GET", "params": {"query": "SELECT { }"}}),
        (400, "send one text in a request", {"method": "GET", "params": [("query", QUESTION), ("update", QUESTION)]}),
        (400, "2 times", {"method": "GET", "params": [("query", QUESTION), ("query", QUESTION)]}),
        (
            400,
            "send one text in a request",
            {"method": "POST", "params": {"query": QUESTION}, "content": QUESTION, "headers": DIRECT},
        ),
        (400, "there is no text", {"method": "POST", "content": "", "headers": FORM}),
        (
            400,
            "the body is a form",
            {"url": "/queries", "method": "POST", "content": "SELECT ?s { ?s ?p 'a=b' }", "headers": FORM},
        ),
        (
            400,
            "-H 'Content-Type: application/sparql-query'",
            {"method": "POST", "content": "SELECT ?s { ?s ?p ?o }", "headers": FORM},
        ),
        (
            400,
            "-H 'Content-Type: application/sparql-update'",
            {"url": "/update", "method": "POST", "content": "INSERT DATA {}", "headers": FORM},
        ),
        (400, "UTF-8", {"method": "POST", "content": QUESTION.encode("utf-16"), "headers": DIRECT}),
        (400, "UTF-8", {"method": "GET", "url": "/sparql?query=%FF%FE"}),
        (415, "Content-Type", {"method": "POST", "content": QUESTION}),
        (415, "Content-Type", {"method": "POST", "content": QUESTION, "headers": {"content-type": "text/plain"}}),
        (
            415,
            "utf-16",
            {"method": "POST", "content": "x", "headers": {"content-type": DIRECT["content-type"] + ";charset=UTF-16"}},
        ),
        (405, "GET, POST", {"method": "PUT", "content": QUESTION, "headers": DIRECT}),
        (400, "absolute IRI", {"method": "GET", "params": {"query": QUESTION, "default-graph-uri": "g"}}),
        (400, "belongs to updates", {"method": "GET", "params": {"query": QUESTION, "using-graph-uri": "http://ex/g"}}),
        (
            400,
            "belongs to queries",
            {"method": "POST", "data": {"update": "INSERT DATA {}", "named-graph-uri": "http://ex/g"}},
        ),
        (
            400,
            "cannot be combined with WITH",
            {
                "method": "POST",
                "data": {
                    "update": "WITH <http://ex/g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
                    "using-graph-uri": "http://ex/h",
                },
            },
        ),
        (400, "timeout=", {"method": "POST", "data": {"update": "INSERT DATA {}", "timeout": "soon"}}),
        (400, "infer=", {"method": "GET", "params": {"query": QUESTION, "infer": "true"}}),
        (400, "snapshot=", {"method": "GET", "params": {"query": QUESTION, "snapshot": "last"}}),
        (400, "timeout=", {"method": "GET", "params": {"query": QUESTION, "timeout": "soon"}}),
        (400, "wait=", {"method": "POST", "data": {"update": "INSERT DATA {}", "wait": "forever"}}),
        (
            400,
            "a live query",
            {"method": "GET", "params": {"query": QUESTION}, "headers": {"accept": "text/event-stream"}},
        ),
        (406, "text/csv", {"method": "GET", "params": {"query": QUESTION}, "headers": {"accept": "image/png"}}),
        (414, "10000", {"method": "GET", "params": {"query": QUESTION + " " * 20_000}}),
        (413, "10000", {"method": "POST", "data": {"query": QUESTION + " " * 20_000}}),
        (413, "bytes", {"method": "POST", "content": QUESTION + " " * 200_000, "headers": DIRECT}),
    ],
)
def test_a_bad_request_learns_what_is_wrong(server: Live, status: int, says: str, request_: dict[str, object]) -> None:
    head = server.service.head()
    answer = server.http.request(**{"url": "/sparql", **request_})  # type: ignore[arg-type]  # httpx's own names
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8"), answer.text
    assert says in answer.text
    assert "Traceback" not in answer.text
    assert server.service.head() == head


def test_an_error_shows_the_place_and_can_be_had_as_a_problem(server: Live) -> None:
    text = "SELECT ?s {\n  ?s ?p }"
    plain = server.http.get("/sparql", params={"query": text})
    assert plain.text.splitlines()[1:] == ["    ?s ?p }", "          ^"]
    problem = server.http.get("/sparql", params={"query": text}, headers={"accept": "application/problem+json"})
    assert problem.headers["content-type"] == "application/problem+json"
    answered = json.loads(problem.text)
    assert (answered["status"], answered["line"], answered["column"]) == (400, 2, 9)
    assert answered["type"] == "urn:rillet:error:query-syntax-error"


def test_options_say_what_a_path_takes(server: Live) -> None:
    assert server.http.options("/data/a/b").headers["allow"] == "GET, PUT, POST, DELETE, HEAD, OPTIONS"
    assert "allow" not in server.http.options("/streams/a/b").headers
