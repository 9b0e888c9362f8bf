"""Each page as it is sent: what it shows, and that anybody can find the way in it."""

from __future__ import annotations

from pathlib import Path
from typing import cast
from urllib.parse import quote

import httpx
import pytest
from flask import Flask

from endpoint.console.blueprint import console_blueprint
from hbase_store.errors import StoreUnavailable
from stream_ext.clock import ManualClock
from stream_ext.upkeep.retention import Retain
from tests.endpoint.console.html import Page, answered, get, post, run
from tests.endpoint.live import NEAR, Live, live
from tests.stream_ext.opened import opened, push, registration, triple

PATHS = (
    "/",
    "/query",
    "/query?query=SELECT * { ?s ?p ?o }",
    "POST /query?query=SELECT * { ?s ?p ?o }",
    "POST /query?query=ASK { ?s ?p ?o }",
    "POST /query?query=SELECT",
    "/explain",
    "/explain?query=ASK { ?s ?p ?o }",
    "/resource?iri=http://ex/z1",
    "/resource?iri=nothing",
    "/graphs",
    "/upload",
    "/streams",
    "/streams/taxis",
    "/queries",
    "/queries/near",
    "/operators/near",
    "/subscribers",
    "/subscribers?query=near",
    "/sources",
    "/server",
    "/log",
    "/sign-in",
    "/nowhere",
)


# ---- every page


def show(server: Live, path: str) -> httpx.Response:
    if not path.startswith("POST "):
        return server.http.get("/console" + path)
    path, _, text = path.removeprefix("POST ").partition("?query=")
    return server.http.post("/console" + path, data={"query": text})


@pytest.mark.parametrize("path", PATHS)
def test_a_page_has_what_anybody_needs_to_find_the_way(path: str, server: Live) -> None:
    answer = show(server, path)
    page = Page(answer.text)
    assert answer.headers["content-type"].startswith("text/html")
    assert page.all("html")[0].attributes["lang"] == "en"
    assert page.all("title")[0].shown.endswith("· Rillet")
    assert len(page.all("h1")) == 1
    assert "/console/" in [link.attributes["href"] for link in page.all("a")]
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", PATHS)
def test_every_field_has_a_label_and_every_region_a_name(path: str, server: Live) -> None:
    page = Page(show(server, path).text)
    labelled = {label.attributes.get("for") for label in page.all("label")}
    for element in page.elements:
        if element.tag in ("input", "select", "textarea") and element.attributes.get("type") != "hidden":
            named = "aria-label" in element.attributes or element.attributes.get("id") in labelled
            assert named, element.attributes
        if element.tag == "button":
            assert element.shown
        if element.attributes.get("role") == "region":
            assert element.attributes["aria-label"]
    ids = {element.attributes.get("id") for element in page.elements}
    assert {e.attributes["aria-labelledby"] for e in page.elements if "aria-labelledby" in e.attributes} <= ids


@pytest.mark.parametrize("path", PATHS)
def test_a_page_loads_nothing_from_another_place_and_runs_nothing_of_its_own(path: str, server: Live) -> None:
    answer = show(server, path)
    page = Page(answer.text)
    assert set(answer.headers["content-security-policy"].split("; ")) == {
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    for element in page.elements:
        assert not any(name.startswith("on") or name == "style" for name in element.attributes)
        if element.tag in ("script", "link"):
            source = element.attributes.get("src") or element.attributes.get("href")
            assert source is not None and source.startswith("/console/static/")
            assert server.http.get(source).status_code == 200
            assert not element.shown


def test_a_page_is_reported_to_be_of_a_snapshot_and_is_cached_nowhere(server: Live) -> None:
    answer = server.http.get("/console/")
    assert answer.headers["rillet-snapshot"] == str(server.service.head())
    assert answer.headers["cache-control"] == "no-store"


def test_an_address_without_a_page_is_reported_as_a_page(server: Live) -> None:
    assert "the console has no page /console/nowhere" in answered(get(server, "/nowhere", 404))
    assert server.http.post("/console/graphs").status_code == 405
    assert "no stream 'nowhere'" in answered(get(server, "/streams/nowhere", 404))
    assert "no registered query 'nowhere'" in answered(get(server, "/queries/nowhere", 404))


# ---- what they show


def test_the_overview_counts_what_is_there(server: Live) -> None:
    facts = get(server, "/").facts()
    assert facts["Triples"] == "6"
    assert facts["Predicates"] == "3"
    assert facts["Named graphs"] == "1"
    assert facts["Snapshot"] == str(server.service.head())
    assert (facts["Streams"], facts["Registered queries"], facts["Runner"]) == ("1", "1", "inline")
    assert facts["Memory"].endswith(("MiB", "GiB"))  # that of the process, of all tests that it has run
    assert [row[0] for row in get(server, "/").cells()] == ["near"]
    counted = {row[0]: row[2] for row in get(server, "/").cells(1)}
    assert counted == {"ex:partOf": "3", "ex:name": "2", "ex:rooms": "1"}  # the prefix is that of the query


def test_the_graphs_are_listed_with_their_sizes(server: Live) -> None:
    listed = {row[0]: row[1] for row in get(server, "/graphs").cells()}
    assert listed == {"default graph": "4", "ex:g": "2"}


def test_a_result_is_a_table_in_which_terms_look_like_what_they_are(server: Live) -> None:
    text = "PREFIX ex: <http://ex/> SELECT ?name { ex:z1 ?p ?name }"
    page = run(server, text)
    kinds = {e.shown: e.attributes["class"] for e in page.elements if "term" in e.attributes.get("class", "").split()}
    assert kinds == {
        "ex:c1": "term iri",
        "Zürich": "term literal",
        "<b>bold</b>": "term literal",  # a text, and no markup
        "12": "term number",
    }
    assert not page.all("b") or all(element.inside("header") for element in page.all("b"))
    blank = run(server, "SELECT ?s { GRAPH ?g { ?s ?p <http://ex/c2> } }")
    assert blank.cells()[0][1].startswith("_:b")


def test_an_iri_leads_to_what_is_known_of_it(server: Live) -> None:
    page = run(server, "SELECT ?o { <http://ex/z1> <http://ex/partOf> ?o }")
    [link] = [link for link in page.all("a") if link.shown == "<http://ex/c1>"]
    found = Page(server.http.get(link.attributes["href"]).text)
    assert found.all("h1")[0].shown == "ex:c1"
    assert found.cells() == [
        ["ex:partOf", "ex:z1", "default graph"],
        ["ex:partOf", found.cells()[1][1], "ex:g"],
    ]


def test_a_resource_shows_what_streams_said_of_it_lately(server: Live) -> None:
    found = get(server, "/resource?iri=http://ex/t1")
    assert "Of the stream taxis: rows" in [box.attributes.get("aria-label") for box in found.all("div")]
    assert found.cells() == [["ex:t1", "ex:in", "ex:z1"]]
    assert not [each for each in get(server, "/resource?iri=http://ex/c1").all("h2") if "stream" in each.shown]


def test_only_an_iri_of_the_web_is_a_link(server: Live) -> None:
    iris = ("javascript:alert(1)", "data:text/html,x", "urn:ex:a", "HTTPS://ex.org/b", "http://ex.org/a")
    page = run(server, "SELECT ?iri { VALUES ?iri { " + " ".join(f"<{iri}>" for iri in iris) + " } }")
    assert [row[1] for row in page.cells()] == [f"<{iri}>" for iri in iris]
    assert [link.shown for link in page.all("a") if "term" in link.attributes.get("class", "")] == [
        "<HTTPS://ex.org/b>",
        "<http://ex.org/a>",
    ]


@pytest.mark.parametrize("text", ["SELECT ?s { ?s ?p ?o }", "DROP ALL", "<b>'\"no text"])
def test_a_text_in_the_address_is_filled_in_and_waits(text: str, server: Live) -> None:
    head, before = server.service.head(), get(server, "/").facts()["Triples"]
    page = get(server, f"/query?query={quote(text)}")
    assert page.all("textarea")[0].text == text
    assert not page.all("tbody")
    assert "This text comes from the link" in answered(page)
    assert (server.service.head(), get(server, "/").facts()["Triples"]) == (head, before)
    [empty] = [each for each in get(server, "/query").elements if "data-came" in each.attributes]
    assert "hidden" in empty.attributes


@pytest.mark.parametrize(
    ("form", "media_type"),
    [
        ("json", "application/json"),
        ("xml", "application/xml"),
        ("csv", "text/csv"),
        ("tsv", "text/tab-separated-values"),
    ],
)
def test_a_result_is_also_written_as_the_protocol_writes_it(form: str, media_type: str, server: Live) -> None:
    text = "SELECT ?o { <http://ex/z1> <http://ex/rooms> ?o }"
    [raw] = run(server, text, **{"as": form}).all("pre")
    protocol = server.http.get("/sparql", params={"query": text}, headers={"accept": media_type}).text
    assert "12" in protocol
    assert raw.text.replace("\r", "") == protocol.replace("\r", "")


def test_what_a_query_has_computed_is_shown_too(server: Live) -> None:
    page = run(server, "SELECT (CONCAT('a', 'b') AS ?text) (?n * 100001 AS ?number) { ?s <http://ex/rooms> ?n }")
    assert [row[1:] for row in page.cells()] == [["ab", "1200012"]]
    assert page.cells()[0][0] == "1"


@pytest.mark.parametrize(
    ("query", "triples"),
    [
        (
            "CONSTRUCT { ?s <http://ex/made> 'new' } { ?s <http://ex/rooms> ?n }",
            [["<http://ex/z1>", "<http://ex/made>", "new"]],
        ),
        ("DESCRIBE ?s { ?s <http://ex/partOf> <http://ex/none> }", []),
    ],
)
def test_a_graph_is_a_table_of_triples_or_written_as_rdf(query: str, triples: list[list[str]], server: Live) -> None:
    page = run(server, query)
    assert [row[1:] for row in page.cells()] == triples
    [raw] = run(server, query, **{"as": "nt"}).all("pre")
    assert len(raw.text.strip().splitlines()) == len(triples)
    assert {option.shown for option in page.all("option")} == {"Table", "Turtle", "N-Triples", "RDF/XML", "JSON-LD"}


def word(page: Page) -> list[str]:
    return [element.shown for element in page.elements if "answer" in element.attributes.get("class", "").split()]


def test_an_ask_is_answered_with_a_word(server: Live) -> None:
    assert word(run(server, "ASK { ?s ?p ?o }")) == ["Yes"]
    assert word(run(server, "ASK { ?s <http://no> ?o }")) == ["No"]


def test_an_error_says_where_and_the_text_stays(server: Live) -> None:
    page = run(server, "SELECT * { ?s ?p", status=400)
    [notice] = [element for element in page.elements if "data-line" in element.attributes]
    assert (notice.attributes["role"], notice.attributes["data-line"]) == ("alert", "1")
    assert "expected an object" in notice.shown
    assert page.all("textarea")[0].text == "SELECT * { ?s ?p"


def test_an_older_snapshot_can_be_asked(tmp_path: Path) -> None:
    with live(tmp_path) as server:
        server.update("INSERT DATA { <http://ex/a> <http://ex/p> 1 }")
        first = server.service.head()
        server.update("INSERT DATA { <http://ex/a> <http://ex/p> 2 }")
        text = "SELECT ?o { ?s ?p ?o }"
        assert len(run(server, text).cells()) == 2
        assert [row[1] for row in run(server, text, snapshot=str(first)).cells()] == ["1"]
        assert "no snapshot 99" in answered(run(server, text, 410, snapshot="99"))
        assert "a whole number is expected" in answered(run(server, text, 400, snapshot="x"))


def test_explain_shows_the_plan_and_does_nothing(server: Live) -> None:
    before = server.service.head()
    page = post(server, "/explain", query=NEAR.replace("near", "other"))
    [plan] = page.all("pre")
    assert "registration other" in plan.text and "RSP-QL" in plan.text
    assert server.service.head() == before
    assert "expected" in answered(get(server, "/explain?query=SELECT", 400))


def test_a_query_shows_its_state_and_its_latest_answer(server: Live) -> None:
    page = get(server, "/queries/near")
    facts = page.facts()
    assert facts["Streams"] == "taxis"
    assert int(facts["Emissions"]) == server.service.query_status("near")["emissions"]
    answer = server.service.latest("near")
    assert page.cells() == [[str(place + 1), "ex:t1", "ex:z1", "ex:c1"] for place in range(len(answer.columns[0]))]
    [section] = [element for element in page.elements if "data-live" in element.attributes]
    assert section.attributes["data-live"] == "/queries/near/results"


# ---- where a store on HBase is


def test_the_page_of_the_server_shows_the_regions_of_a_store_on_hbase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = [{"meta": {"h1:16020": 1}, "slabs": {"h1:16020": 2, "h2:16020": 1}}, None]

    def read(_url: str) -> dict[str, dict[str, int]]:
        if (first := found.pop(0)) is None:
            raise StoreUnavailable("HBase does not answer")
        return cast("dict[str, dict[str, int]]", first)

    monkeypatch.setattr("hbase_store.provisioning.regions", read)
    monkeypatch.setattr("endpoint.console.room._on_hbase", lambda url: True)
    with live(tmp_path) as server:
        page = get(server, "/server")
        rows = [row for table in range(len(page.all("tbody"))) for row in page.cells(table)]
        assert ["slabs", "3", "h1:16020: 2, h2:16020: 1"] in rows and ["meta", "1", "h1:16020: 1"] in rows
        again = get(server, "/server")  # what was known stays while HBase does not answer
        assert ["meta", "1", "h1:16020: 1"] in [row for n in range(len(again.all("tbody"))) for row in again.cells(n)]


def test_addresses_of_clients_are_shown_to_those_who_may_write(tmp_path: Path) -> None:
    for token, shown in ((None, True), ("secret", False)):
        with live(tmp_path / str(token), token=token) as server:
            server.service.create_stream("taxis", {})
            server.service.register(NEAR)
            server.http.get("/queries/near/results", headers={"user-agent": "me/1"}).raise_for_status()
            for path in ("/subscribers", "/queries/near"):
                text = server.http.get("/console" + path).text
                assert ("me/1" in text, "from 127.0.0.1" in text) == (True, shown)


def test_a_stream_whose_elements_are_no_longer_retained_shows_when_the_last_one_came(tmp_path: Path) -> None:
    clock = ManualClock(1_600_000_000_000)
    with opened(tmp_path, clock, retain=Retain(snapshots_ms=5_000)) as service:
        service.create_stream("s", {"retention": "5s"})
        push(service, "s", 1_000, triple("a", 1))
        app = Flask("host")
        app.register_blueprint(console_blueprint(service))
        client = app.test_client()
        assert "of the last 10 elements" in client.get("/streams/s").text
        for time in (100_000, 200_000):
            clock.advance(3_600_000)
            service.heartbeat("s", time, wait="evaluated")
        service.collect()
        shown = client.get("/streams/s").text
    assert "No elements are retained; the last one came at 2020-09-13 12:26:40.000Z." in shown


def test_the_page_of_a_query_whose_streams_stand_still_says_why_it_is_silent(tmp_path: Path) -> None:
    clock = ManualClock(1_600_000_000_000)
    with opened(tmp_path, clock) as service:
        service.register(registration(window="RANGE 1s STEP 1s"))
        push(service, "s", 1_000, triple("a", 1))
        app = Flask("host")
        app.register_blueprint(console_blueprint(service))
        clock.advance(300_000)
        facts = Page(app.test_client().get("/queries/q").text).facts()
        figures = app.test_client().get("/figures").json
    awaited = "stream s: its time is 1000, and the next close is at 2000; the last element came 5 min ago"
    assert awaited in facts["Waits for"]
    assert figures is not None
    assert figures["queries"][0]["waits_for"] == ["s"]
