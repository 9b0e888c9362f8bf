"""What the editor asks the server while somebody types: what is wrong, what it means, what there is; and to stop."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from endpoint.console.assets import assets, has_libraries
from endpoint.console.editor.examples import CITY, EXAMPLES
from tests.endpoint.console.html import get
from tests.endpoint.live import NEAR, Live, live
from tests.parts.missing import missing
from tests.parts.waiting import until


def check(server: Live, text: str, method: str = "POST") -> dict[str, Any]:
    fields = {"query": text}
    if method == "GET":
        return dict(server.http.get("/console/query/check", params=fields).raise_for_status().json())
    return dict(server.http.post("/console/query/check", data=fields).raise_for_status().json())


@pytest.mark.parametrize(
    ("text", "line", "column", "word"),
    [
        ("SELECT * { ?s ?p", 1, 17, "object"),
        ("SELECT *\n{ ?s ?p ?o\n  FILTER(?o >) }", 3, 14, "expected"),
        ("SELECT * { ex:a ?p ?o }", 1, 12, "ex:"),
        ("REGISTER RSTREAM a AS SELECT ?x FROM NAMED WINDOW <w> ON STREAM s [RANG 1s] { }", 1, 68, "RANGE"),
    ],
)
def test_an_error_is_told_with_its_place(server: Live, text: str, line: int, column: int, word: str) -> None:
    for method in ("GET", "POST"):
        [problem] = check(server, text, method)["problems"]
        assert (problem["line"], problem["column"]) == (line, column), problem
        assert word in problem["message"] and "\n" not in problem["message"]


def test_a_text_that_is_checked_is_not_run(server: Live) -> None:
    head = server.service.head()
    for text, kind in [
        ("INSERT DATA { <http://ex/a> <http://ex/b> 1 }", "update"),
        (NEAR.replace("near", "other"), "registration"),
        ("DROP ALL", "update"),
        ("CREATE STREAM other", "statement"),
        ("SELECT * { ?s ?p ?o }", "query"),
    ]:
        assert check(server, text)["kind"] == kind
        assert check(server, text)["problems"] == []
    assert server.service.head() == head


def test_what_a_registration_means_is_told_in_words(server: Live) -> None:
    found = check(server, NEAR.replace("near", "other"))
    assert found["name"] == "other"
    assert found["means"] == [
        "It reads the last 1 s of the stream taxis, every 100 ms.",
        "It is evaluated at every close of a window.",
        "Each emission has the whole answer (RSTREAM).",
        "An empty answer is an emission, too.",
        "Patterns outside of windows match the store's default graph.",
    ]
    assert check(server, "SELECT * { ?s ?p ?o }")["means"] == []
    cqels = "SELECT ?a { STREAM <http://ex/s> [TRIPLES 3] { ?a ?b ?c } }"
    assert check(server, cqels)["means"][:3] == [
        "It reads the last 3 triples of the stream http://ex/s.",
        "It is evaluated at every arrival.",
        "Each emission has the rows that are new in the answer (ISTREAM).",
    ]


def test_what_is_probably_not_meant_is_told(server: Live) -> None:
    [warning] = check(server, NEAR.replace("SELECT ?taxi", "SELECT ?taxy"))["warnings"]
    assert "?taxy is never bound" in warning


def test_a_stream_that_does_not_exist_is_told_before_the_query_is_registered(server: Live) -> None:
    text = NEAR.replace("near", "other").replace("taxis", "taxi")
    [warning] = check(server, text)["warnings"]
    assert "there is no stream 'taxi' (did you mean 'taxis'?)" in warning
    for path in (f"/explain?query={quote(text)}", f"/explain?query={quote('EXPLAIN ' + text)}"):
        assert "there is no stream &#39;taxi&#39;" in server.http.get(f"/console{path}").text
    assert "missing_streams" not in server.service.explain(NEAR.replace("near", "other"))


def test_patterns_outside_of_windows_are_mentioned_if_there_are_some(server: Live) -> None:
    def means(body: str) -> str:
        text = f"SELECT * FROM NAMED WINDOW <w> ON STREAM taxis [RANGE 1s STEP 1s] {{ {body} }}"
        return " ".join(check(server, text)["means"])

    for body in ("WINDOW <w> { ?s ?p ?o }", "WINDOW <w> { ?s ?p ?o FILTER NOT EXISTS { ?s ?o ?p } }"):
        assert "Patterns outside" not in means(body)
    for body in ("WINDOW <w> { ?s ?p ?o } ?s ?p ?o", "WINDOW <w> { ?s ?p ?o } OPTIONAL { ?s ?o ?p }"):
        assert "Patterns outside of windows match the store's default graph" in means(body)


@pytest.mark.parametrize("text", [text for kind in (*EXAMPLES.values(), CITY) for text in kind.values()])
def test_every_template_is_accepted(server: Live, text: str) -> None:
    assert check(server, text)["problems"] == []


def test_a_text_is_laid_out_and_a_wrong_one_stays(server: Live) -> None:
    def layout(text: str, status: int = 200) -> dict[str, str]:
        answer = server.http.post("/console/query/layout", data={"query": text})
        assert answer.status_code == status
        return dict(answer.json())

    assert layout("SELECT * {?s ?p ?o}") == {"text": "SELECT * {\n  ?s ?p ?o\n}\n"}
    assert "expected" in layout("SELECT * {", 400)["problem"]


def test_the_names_of_the_store_are_offered_with_their_counts(server: Live) -> None:
    known = server.http.get("/console/vocabulary").json()
    assert known["predicates"] == [["http://ex/partOf", 3], ["http://ex/name", 2], ["http://ex/rooms", 1]]
    assert known["graphs"] == [["http://ex/g", 2]]
    assert known["classes"] == []
    assert known["stream_predicates"] == [["http://ex/in", "taxis"]], "no stored triple has it"
    assert [name for name, _ in known["streams"]] == ["taxis"]
    assert [name for name, _ in known["queries"]] == ["near"]
    assert known["prefixes"]["ex"] == "http://ex/"


def test_classes_are_counted(tmp_path: Path) -> None:
    with live(tmp_path) as server:
        for count, expected in ((1, 1), (2, 2)):
            server.update(f"INSERT DATA {{ <http://ex/{count}> a <http://ex/Taxi> }}")
            assert server.http.get("/console/vocabulary").json()["classes"] == [["http://ex/Taxi", expected]]


def test_the_words_of_the_language_are_on_the_page(server: Live) -> None:
    words = json.loads(get(server, "/query").all("textarea")[0].attributes["data-words"])
    assert {"SELECT", "WINDOW", "REGISTER"} < set(words["keywords"])
    assert {"STRLEN", "COUNT"} < set(words["functions"])


LONG = "SELECT (SUM(STRLEN(MD5(CONCAT(STR(?a), ' ', STR(?b))))) AS ?n) {{ VALUES ?a {{ {0} }} VALUES ?b {{ {0} }} }}"


def test_a_query_that_runs_can_be_cancelled_by_its_page(server: Live) -> None:
    text = LONG.format(" ".join(map(str, range(2_000))))
    answers: list[httpx.Response] = []

    def ask() -> None:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            answers.append(http.post("/console/query", data={"query": text, "run": "mine"}))

    asking = threading.Thread(target=ask)
    asking.start()

    def cancelled() -> bool:
        server.http.post("/console/query/cancel", data={"run": "another"}).raise_for_status()
        server.http.post("/console/query/cancel", data={"run": "mine"}).raise_for_status()
        return bool(answers)

    until(cancelled, "the query ended")
    asking.join()
    assert answers[0].status_code == 503
    assert "cancel" in answers[0].text


def test_a_page_with_a_thousand_rows_is_sent_packed(server: Live) -> None:
    values = " ".join(f"<http://ex/resource/{number}>" for number in range(10))
    text = f"SELECT * {{ VALUES ?a {{ {values} }} VALUES ?b {{ {values} }} VALUES ?c {{ {values} }} }}"
    sizes = {}
    for coding in ("gzip", "gzip;q=0", "identity"):
        headers = {"accept-encoding": coding}
        answer = server.http.post("/console/query", data={"query": text}, headers=headers)
        assert "accept-encoding" in answer.headers["vary"]
        assert answer.text.count("<tr>") == 1_001
        assert (answer.headers.get("content-encoding") == "gzip") == (coding == "gzip")
        sizes[coding] = answer.num_bytes_downloaded
    assert sizes["gzip"] < 60_000 < 300_000 < sizes["identity"]
    assert "content-encoding" not in server.http.get("/console/snapshot").headers


def test_the_scripts_are_small_and_sent_packed_once(server: Live) -> None:
    shown = [name for name in assets() if not name.endswith((".txt", ".svg"))]
    assert sum(len(assets()[name].packed) for name in shown) < 300_000
    for name in shown:
        answer = server.http.get(f"/console/static/{name}", headers={"accept-encoding": "gzip"})
        assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
        assert gzip.compress(answer.content, mtime=0) == assets()[name].packed
        again = {"accept-encoding": "gzip", "if-none-match": answer.headers["etag"]}
        assert server.http.get(f"/console/static/{name}", headers=again).status_code == 304
    plain = server.http.get("/console/static/console.js", headers={"accept-encoding": "identity"})
    assert plain.content == assets()["console.js"].body and "content-encoding" not in plain.headers
    assert server.http.get("/console/static/nothing.js").status_code == 404


def test_the_licences_of_the_libraries_are_with_them() -> None:
    if not has_libraries():
        missing("EDITOR", "python -m endpoint.console.web")
    text = assets()["libraries/LICENSES.txt"].body.decode()
    for name in ("@codemirror/view", "@lezer/highlight", "uplot"):
        assert name in text
    assert text.count("Permission is hereby granted") >= 10
