"""What the forms of the pages do, what they refuse, and who may."""

from __future__ import annotations

import gzip
import html
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import pytest
from flask import Flask

from endpoint.console import console_blueprint
from endpoint.limits import HttpLimits
from stream_ext.catalog.catalog import Failure
from stream_ext.clock import SystemClock
from stream_ext.service.service import Service
from tests.endpoint.console.conftest import fill
from tests.endpoint.console.html import Page, answered, get, post, run
from tests.endpoint.live import NEAR, Live, live


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as running:
        yield running


def test_a_name_that_another_query_has_is_replaced_by_a_button(tmp_path: Path) -> None:
    with live(tmp_path) as server:
        fill(server)
        text = NEAR.replace("?taxi ?zone ?city", "?taxi")
        for path, fields in (("/query", {"act": "register"}), ("/queries", {})):
            page = post(server, path, 409, query=text, **fields)
            [button] = [each for each in page.all("button") if each.shown == "Replace near"]
            assert "--replace" not in answered(page)
            name, value = button.attributes["name"], button.attributes["value"]
            post(server, path, **{"query": text, **fields, name: value})
            assert server.service.query_status("near")["text"] == text
            text = NEAR


def test_an_update_is_run_by_post_only(fresh: Live) -> None:
    text = "INSERT DATA { <http://ex/a> <http://ex/p> 1 }"
    assert get(fresh, f"/query?query={text}").all("textarea")[0].text == text
    assert fresh.service.head() == 0
    assert "1 triples added, 0 deleted. Snapshot 1 contains the change" in answered(post(fresh, "/query", query=text))
    assert get(fresh, "/").facts()["Triples"] == "1"


def test_statements_and_registrations_are_run_from_the_editor_too(fresh: Live) -> None:
    assert post(fresh, "/query", query="CREATE STREAM taxis").cells()[0][1] == "taxis"
    assert run(fresh, "SHOW STREAMS").cells()[0][1] == "taxis"
    assert post(fresh, "/query", query=NEAR).all("h1")[0].shown == "near"


def test_a_page_shows_as_much_of_an_answer_as_a_page_may_have(fresh: Live) -> None:
    """A term is made once, and would be written in each row."""
    fours = " ".join(f"VALUES ?{name} {{ 1 2 3 4 }}" for name in "abcde")
    long = f'{{ SELECT (REPLACE("{"a" * 2_000}", "a", "{"<" * 1_000}") AS ?x) {{ }} }} {fours}'
    answer = fresh.http.post("/console/query", data={"query": f"SELECT ?x ?a {{ {long} }}"})
    assert (answer.status_code, len(answer.text) < 64 << 20) == (200, True)
    shown = len(Page(answer.text).cells())
    assert 0 < shown < 1_000
    assert f"1\u202f024 rows, the first {shown} shown" in answer.text
    for form in ("json", "csv"):
        assert "more than the 8 MiB" in answered(run(fresh, f"SELECT ?x ?a {{ {long} }}", 413, **{"as": form}))
    assert "a whole number is expected" in answered(run(fresh, "ASK { }", 400, snapshot="9" * 5_000))


def test_a_page_shows_prefixes_as_far_as_it_looks_at_them(fresh: Live) -> None:
    many = "".join(f"PREFIX p{number}: <http://ex/{number}/>\n" for number in range(1_000))
    cells = run(fresh, many + "SELECT ?x { VALUES ?x { <http://ex/1/a> <http://ex/999/a> } }").cells()
    assert [row[1] for row in cells] == ["p1:a", "<http://ex/999/a>"]


def test_explain_is_a_word_in_the_editor_too(fresh: Live) -> None:
    long = " ".join(f"?s <http://ex/{number}> ?o{number} ." for number in range(3_000))  # more than an address may be
    page = run(fresh, f"EXPLAIN SELECT * {{ {long} }}")
    assert "Plan" in [heading.shown for heading in page.all("h2")]
    assert "http://ex/2999" in page.all("pre")[0].text


def test_a_query_is_measured_from_the_editor_and_nothing_else_is(fresh: Live) -> None:
    fresh.update("INSERT DATA { <http://ex/a> <http://ex/p> 1, 2, 3 }")
    page = post(fresh, "/query", query="SELECT ?o { ?s <http://ex/p> ?o }", act="analyze")
    assert [cell.shown for cell in page.all("th")] == ["Operator", "Rows, estimated", "Rows", "Time"]
    assert page.cells()[0][2] == "3"
    for text in (NEAR, "INSERT DATA { <http://ex/a> <http://ex/p> 4 }"):
        assert "only a query without windows is measured" in answered(
            post(fresh, "/query", 400, query=text, act="analyze")
        )
    assert fresh.service.queries() == []
    assert run(fresh, "SELECT ?o { ?s <http://ex/p> ?o }").cells()[2:] != []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("one.ttl", b"<http://ex/a> <http://ex/p> 1 ."),
        ("one.nt.gz", gzip.compress(b'<http://ex/a> <http://ex/p> "1" .', mtime=0)),
        ("one.jsonld", b'{"@id": "http://ex/a", "http://ex/p": 1}'),
    ],
)
def test_a_file_is_uploaded_into_the_default_graph(name: str, data: bytes, fresh: Live) -> None:
    answer = fresh.http.post(
        "/console/upload", files={"file": (name, data)}, data={"into": "default"}, follow_redirects=True
    )
    assert "had 0 triples and now has 1" in answered(Page(answer.text))
    assert fresh.service.query("ASK { <http://ex/a> <http://ex/p> ?o }").boolean


def test_of_several_files_all_are_stored_or_none(fresh: Live) -> None:
    good, wrong = b"<http://ex/a> <http://ex/p> <http://ex/o> .", b"<http://ex/a> <http://ex/p>"
    sent = [("file", ("good.nt", good)), ("file", ("wrong.nt", wrong))]
    answer = fresh.http.post("/console/upload", files=sent, data={"into": "default"})
    assert answer.status_code == 400
    assert "(in the file wrong.nt)" in answered(Page(answer.text))
    assert fresh.service.head() == 0
    sent[1] = ("file", ("more.ttl", b"<http://ex/b> <http://ex/p> 1 ."))
    scripted = {"rillet-script": "1"}
    answer = fresh.http.post("/console/upload", files=sent, data={"into": "default"}, headers=scripted)
    assert (answer.status_code, answer.headers["rillet-location"]) == (204, "/console/graphs")
    assert "had 0 triples and now has 2" in answered(get(fresh, "/graphs"))
    assert fresh.service.head() == 1


def test_rdf_is_uploaded_into_a_graph_and_replaces_it(fresh: Live) -> None:
    form = {"into": "named", "graph": "http://ex/g", "type": "text/turtle"}
    post(fresh, "/upload", text="<http://ex/a> <http://ex/p> 1, 2 .", **form)
    page = post(fresh, "/upload", text="<http://ex/a> <http://ex/p> 3 .", replace="on", **form)
    assert {row[0]: row[1] for row in page.cells()} == {"default graph": "0", "<http://ex/g>": "1"}
    quads = "<http://ex/a> <http://ex/p> <http://ex/o> <http://ex/h> ."
    page = post(fresh, "/upload", text=quads, into="own", type="application/n-quads")
    assert {row[0] for row in page.cells()} == {"default graph", "<http://ex/g>", "<http://ex/h>"}
    page = post(fresh, "/graphs/drop", graph="http://ex/g")
    assert "was dropped" in answered(page)
    assert {row[0] for row in page.cells()} == {"default graph", "<http://ex/h>"}


@pytest.mark.parametrize(
    ("form", "status", "observed"),
    [
        ({}, 400, "choose a file"),
        ({"text": "<a> <b> <c> ."}, 400, "choose the format of the RDF"),
        ({"text": "<a> <b> .", "type": "text/turtle"}, 400, "line 1"),
        ({"text": "<a:a> <a:b> 1 .", "type": "text/turtle", "into": "named"}, 400, "IRI of the graph"),
        (
            {"text": "<a:a> <a:b> 1 .", "type": "text/turtle", "into": "own", "replace": "on"},
            400,
            "only a named graph or the default graph can be replaced",
        ),
    ],
)
def test_an_upload_that_cannot_be_done_says_why_and_keeps_what_was_filled_in(
    form: dict[str, str], status: int, observed: str, fresh: Live
) -> None:
    page = post(fresh, "/upload", status, **form)
    assert observed in answered(page)
    assert page.all("textarea")[0].text == form.get("text", "")
    assert fresh.service.head() == 0


def test_a_file_whose_name_says_nothing_is_asked_about(fresh: Live) -> None:
    answer = fresh.http.post("/console/upload", files={"file": ("data.bin", b"x")})
    assert answer.status_code == 400
    assert "has no known file extension" in answer.text


def test_a_stream_is_made_pushed_to_and_dropped(fresh: Live) -> None:
    page = post(fresh, "/streams", name="taxis", timeless="some", predicates="http://ex/livesIn", lateness="2s")
    assert page.facts()["Lateness"] == "2 s"
    assert fresh.service.stream("taxis").options.timeless == ["http://ex/livesIn"]
    data = "<http://ex/t> <http://ex/livesIn> <http://ex/z> ."
    page = post(fresh, "/streams/taxis", act="push", data=data, type="application/n-triples", timestamp="1000")
    assert "1 element accepted" in answered(page)
    assert page.facts()["Times from"] == "elements"
    assert get(fresh, "/").facts()["Triples"] == "1"
    assert "The time of the stream is now 5000" in answered(post(fresh, "/streams/taxis", act="heartbeat", time="5000"))
    assert "was dropped" in answered(post(fresh, "/streams/taxis", act="drop"))
    assert fresh.service.streams() == []


@pytest.mark.parametrize(
    ("form", "observed"),
    [
        ({"act": "push", "data": "<a> <b>", "type": "text/turtle"}, "line 1"),
        ({"act": "push", "data": " "}, "write some RDF"),
        ({"act": "push", "data": "<a:a> <a:b> 1 .", "type": "text/turtle", "timestamp": "soon"}, "is not a time"),
        ({"act": "heartbeat"}, "needs a time"),
        ({"act": "dance"}, "is not an action on a"),
    ],
)
def test_what_cannot_be_done_to_a_stream_is_reported_on_its_page(
    form: dict[str, str], observed: str, fresh: Live
) -> None:
    fresh.service.create_stream("taxis", {})
    page = post(fresh, "/streams/taxis", 400, **form)
    assert observed in answered(page)
    assert page.all("h1")[0].shown == "taxis"


def test_a_stream_that_cannot_be_made_leaves_the_form_as_it_was(fresh: Live) -> None:
    page = post(fresh, "/streams", 400, name="taxis", lateness="soon")
    assert "is not a duration" in answered(page)
    [name] = [field for field in page.all("input") if field.attributes.get("name") == "name"]
    assert name.attributes["value"] == "taxis"


def test_the_stream_of_a_query_is_distinguished_from_those_that_take_pushes(fresh: Live) -> None:
    alarms = NEAR.replace("near", "alarms").replace("SELECT ?taxi ?zone ?city", "CONSTRUCT { ?taxi a ex:Near }")
    page = post(fresh, "/queries", query=alarms)
    assert page.facts()["Output stream"] == "alarms"
    assert "No emission yet: waiting for taxis" in [title.shown for title in page.all("h3")]
    rows = {row[0]: row for row in get(fresh, "/streams").cells()}
    assert rows["alarms"][1:3] == ["query alarms", "never"]
    assert rows["taxis"][1:3] == ["the first push decides", "never"]
    [waiting] = get(fresh, "/queries").cells()
    assert waiting[6] == "never waits for taxis"
    page = get(fresh, "/streams/alarms")
    assert [button.shown for button in page.all("button")] == []
    assert "It accepts no pushes" in page.all("main")[0].shown
    fresh.push(1_700_000_000_000).raise_for_status()
    fresh.push(1_700_000_000_300).raise_for_status()
    assert get(fresh, "/streams/alarms").facts()["Time"] == "2023-11-14 22:13:20.300Z"


def test_a_warning_is_no_success(fresh: Live) -> None:
    page = post(fresh, "/queries", query=NEAR.replace("?city\n", "?town\n"))
    observed = [each for each in page.elements if each.attributes.get("role") == "status"]
    notices = {each.attributes.get("class"): each.shown for each in observed}
    assert notices["notice good"] == "near is registered."
    assert "?town is never bound in this text" in notices["notice warned"]


def test_a_query_is_paused_and_resumed(fresh: Live) -> None:
    post(fresh, "/queries", query=NEAR)
    page = post(fresh, "/queries/near", act="pause")
    assert "near is paused" in answered(page)
    assert fresh.service.query_status("near")["state"] == "paused"
    assert "Resume the query" in [button.shown for button in page.all("button")]
    assert "Move inline" not in [button.shown for button in page.all("button")], "there is no Spark here"
    post(fresh, "/queries/near", act="resume")
    assert "near was moved to inline" in answered(post(fresh, "/queries/near", act="move", runner="inline"))
    assert "there is no Spark to move a query to" in answered(
        post(fresh, "/queries/near", 400, act="move", runner="spark")
    )
    assert fresh.service.query_status("near")["state"] == "running"
    assert "is not an action on a" in answered(post(fresh, "/queries/near", 400, act="dance"))


@pytest.mark.parametrize(("kind", "state"), [("budget", "failed"), ("worker", "parked")])
def test_a_query_that_has_failed_is_resumed_from_its_page(
    fresh: Live, kind: Literal["budget", "worker"], state: str
) -> None:
    post(fresh, "/queries", query=NEAR)
    query = fresh.service.query_definition("near")
    assert fresh.service._engine.fail(query.number, Failure(kind, "it took too much"), query.since).result()
    page = get(fresh, "/queries/near")
    assert state in [each.shown for each in page.all("span")] and "it took too much" in page.all("pre")[0].shown
    assert "Resume the query" in [button.shown for button in page.all("button")]
    post(fresh, "/queries/near", act="resume")
    assert fresh.service.query_status("near")["state"] == "running"


def test_a_query_is_edited_and_replaced(fresh: Live) -> None:
    fresh.register().raise_for_status()
    (link,) = (each for each in get(fresh, "/queries/near").all("a") if each.text == "Edit and replace")
    form = get(fresh, str(link.attributes["href"]).removeprefix("/console").partition("#")[0])
    assert "Replace near" in [heading.text for heading in form.all("h2")]
    assert form.all("textarea")[0].text == NEAR
    text = NEAR.replace("RANGE 1s", "RANGE 2s")
    assert "near is registered" in answered(post(fresh, "/queries", query=text, replace="near"))
    assert fresh.service.query_status("near")["text"] == text
    renamed = post(fresh, "/queries", 400, query=NEAR.replace(" near ", " far "), replace="near")
    assert "the path names 'near'" in renamed.all("body")[0].shown, (
        "a query of the other name is not replaced by mistake"
    )
    assert "Replace near" in [heading.text for heading in renamed.all("h2")]


def test_a_query_is_registered_and_deleted(fresh: Live) -> None:
    page = post(fresh, "/queries", query=NEAR)
    assert "near is registered" in answered(page)
    assert "taxis" in answered(page)  # a stream that it made, which the service warns of
    assert get(fresh, "/streams").cells()[0][-1] == "near"
    refused = post(fresh, "/queries", 400, query="REGISTER nonsense")
    assert refused.all("textarea")[0].text == "REGISTER nonsense"
    assert "was dropped" in answered(post(fresh, "/queries/near", act="drop"))
    assert fresh.service.queries() == []


# ---- who may


def test_with_a_token_looking_is_open_and_changing_takes_signing_in(tmp_path: Path) -> None:
    text = "INSERT DATA { <http://ex/a> <http://ex/p> 1 }"
    with live(tmp_path, token="s3cret") as server, httpx.Client(base_url=server.url) as browser:
        assert browser.get("/console/").status_code == 200
        for path, form in (
            ("/query", {"query": text}),
            ("/upload", {"text": "<a:a> <a:b> 1 .", "type": "text/turtle"}),
            ("/streams", {"name": "s"}),
            ("/queries", {"query": NEAR}),
            ("/graphs/drop", {"graph": ""}),
        ):
            answer = browser.post("/console" + path, data=form)
            assert answer.status_code == 401, path
            assert "/console/sign-in" in answer.text
            shown = html.unescape(answer.text)
            assert all(value in shown for value in form.values()), "what was typed comes back"
        assert browser.post("/console/sign-in", data={"token": "wrong"}).status_code == 401
        assert browser.post("/console/query", data={"query": text}).status_code == 401
        assert server.service.head() == 0
        entered = browser.post("/console/sign-in", data={"token": "s3cret"})
        assert entered.status_code == 302
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "s3cret" not in cookie
        assert browser.post("/console/query", data={"query": text}).status_code == 200
        elsewhere = {"origin": "http://evil.example"}
        assert browser.post("/console/query", data={"query": text}, headers=elsewhere).status_code == 403
        own = {"origin": server.url}
        assert browser.post("/console/query", data={"query": text}, headers=own).status_code == 200
        browser.post("/console/sign-out")
        assert browser.post("/console/query", data={"query": text}).status_code == 401


def test_what_was_typed_is_there_again_where_reading_takes_a_token_too(tmp_path: Path) -> None:
    """Who typed for longer than the server ran has to sign in again."""
    text, rdf = 'INSERT DATA { <http://ex/a> <http://ex/p> "ä&?" }', "<http://ex/a> <http://ex/p> 1 ."
    with live(tmp_path, token="s3cret", read_token="r3ad") as server, httpx.Client(base_url=server.url) as browser:
        asked = browser.post("/console/query", data={"query": text.replace("INSERT", "\r\nINSERT")})
        assert asked.status_code == 401
        fields = {each.attributes["name"]: each.attributes.get("value", "") for each in Page(asked.text).all("input")}
        entered = browser.post(
            "/console/sign-in", data={"token": "s3cret", "back": fields["back"]}, follow_redirects=True
        )
        assert Page(entered.text).all("textarea")[0].text.strip() == text
        assert server.service.head() == 0, "it is filled in, and not run"
        browser.post("/console/sign-out")
        for path, form in (
            ("/upload", {"text": rdf}),
            ("/streams/s", {"act": "push", "data": rdf}),
            ("/query", {"query": rdf + "#" * 20_000}),
        ):
            asked = browser.post("/console" + path, data=form)
            assert rdf in Page(asked.text).all("textarea")[0].text
            asked = browser.post("/console/sign-in", data={"token": "wrong", "typed": rdf})
            assert Page(asked.text).all("textarea")[0].text == rdf


def test_what_is_not_there_says_what_is(fresh: Live) -> None:
    answer = fresh.http.get("/console/nope")
    assert answer.status_code == 404
    assert "the console has no page /console/nope; its pages are /console/, /console/query, " in answered(
        Page(answer.text)
    )


def test_a_cookie_of_one_server_opens_no_other(tmp_path: Path) -> None:
    with live(tmp_path / "a", token="one") as first, live(tmp_path / "b", token="two") as second:
        with httpx.Client(base_url=first.url) as browser:
            browser.post("/console/sign-in", data={"token": "one"})
            cookie = browser.cookies[f"rillet-{first.port}"]
        for port in (first.port, second.port):  # browsers send it to both, and it may be renamed
            headers = {"cookie": f"rillet-{port}={cookie}"}
            answer = httpx.post(f"{second.url}/console/streams", data={"name": "s"}, headers=headers)
            assert answer.status_code == 401


def test_a_cookie_is_worth_nothing_after_signing_out(tmp_path: Path) -> None:
    with live(tmp_path, token="one") as server, httpx.Client(base_url=server.url) as browser:
        browser.post("/console/sign-in", data={"token": "one"})
        stolen = {"cookie": f"rillet-{server.port}={browser.cookies[f'rillet-{server.port}']}"}
        assert httpx.post(f"{server.url}/console/streams", data={"name": "s"}, headers=stolen).status_code == 302
        browser.post("/console/sign-out")
        assert httpx.post(f"{server.url}/console/streams", data={"name": "t"}, headers=stolen).status_code == 401


def test_without_a_token_a_page_of_another_site_changes_nothing(server: Live) -> None:
    head = server.service.head()
    answer = server.http.post("/console/query", data={"query": "CLEAR ALL"}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403
    answer = server.http.post("/console/streams", data={"name": "s"}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403
    assert server.service.head() == head


def test_a_form_that_is_too_large_is_reported_as_a_page(tmp_path: Path) -> None:
    with live(tmp_path, limits=HttpLimits(body_bytes=20_000, text_bytes=5_000)) as server:
        answer = server.http.post("/console/upload", files={"file": ("a.ttl", b"#" * 30_000)})
        assert answer.status_code == 413
        assert "larger than this server accepts" in answered(Page(answer.text))
        page = post(server, "/query", 413, query="#" * 6_000)
        assert "the limit is 5000" in answered(page)


def test_the_pages_are_a_blueprint_that_another_application_can_show(tmp_path: Path) -> None:
    with Service.open(f"lmdb:{tmp_path}", base="http://ex/", clock=SystemClock(), engine="inline") as service:
        app = Flask("host")
        app.secret_key = "of the host"
        app.register_blueprint(console_blueprint(service), url_prefix="/rdf")
        client = app.test_client()
        foreign = client.post("/rdf/queries", data={"query": NEAR}, headers={"origin": "http://localhost:3000"})
        assert (foreign.status_code, service.queries()) == (403, [])
        client.post("/rdf/queries", data={"query": NEAR}, headers={"origin": "http://localhost"})
        page = Page(client.get("/rdf/queries/near").text)
        assert page.all("h1")[0].shown == "near"
        assert not [element for element in page.elements if "data-live" in element.attributes]
        for link in (e.attributes.get("href", "") for e in page.elements if e.tag in ("a", "link")):
            assert link.startswith(("/rdf/", "#")), link
