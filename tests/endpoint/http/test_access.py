"""Who may come in, read and write: by which names, with which tokens, and from which pages."""

from __future__ import annotations

import base64
import hmac
import html
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from endpoint.app import create_app
from endpoint.errors import Forbidden, Unauthorized
from endpoint.http import access as access_module
from endpoint.http.access import Access, Caller, SignIns, is_loopback, origin_of
from endpoint.routes.table import OPEN, ROUTES
from endpoint.serve import ServeSettings
from stream_ext.clock import SystemClock
from stream_ext.errors import BadArgument
from stream_ext.service.service import Service
from tests.endpoint.live import BASE, NEAR, NT, SPARQL_QUERY, TAXI_IN_ZONE, Live, live
from tests.parts.waiting import PATIENCE_S

UPDATE = {"update": "INSERT DATA { <http://ex/a> <http://ex/p> 1 }"}
TOKEN, READ = "s:ecret-of-writers", "s:ecret-of-readers"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("unguarded"), allowed_hosts=("rillet.lan",)) as running:
        prepare(running, {})
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("guarded"), token=TOKEN) as running:
        prepare(running, bearer(TOKEN))
        yield running


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("closed"), token=TOKEN, read_token=READ) as running:
        prepare(running, bearer(TOKEN))
        yield running


def prepare(server: Live, headers: dict[str, str]) -> None:
    server.http.put("/streams/taxis", headers=headers).raise_for_status()
    server.http.put("/streams/spare", headers=headers).raise_for_status()
    server.http.post("/queries", content=NEAR, headers=SPARQL_QUERY | headers).raise_for_status()


# ---- the token, on every route that writes

TURTLE = {"content-type": "text/turtle"}
#: What is no GET and changes nothing.
READING = {("POST", "/queries/{query}/results")}
#: What each route wants to do something, for the names of its path and its methods.
REQUESTS: dict[str, dict[str, dict[str, Any]]] = {
    "/sparql": {"POST": {"data": UPDATE}},
    "/query": {"POST": {"data": UPDATE}},
    "/update": {"POST": {"data": UPDATE}},
    "/data": {
        "PUT": {"params": {"graph": "http://ex/g"}, "content": TAXI_IN_ZONE, "headers": TURTLE},
        "POST": {"params": {"graph": "http://ex/g"}, "content": TAXI_IN_ZONE, "headers": TURTLE},
        "DELETE": {"params": {"default": ""}},
    },
    "/data/{path...}": {
        "PUT": {"content": TAXI_IN_ZONE, "headers": TURTLE},
        "POST": {"content": TAXI_IN_ZONE, "headers": TURTLE},
        "DELETE": {},
    },
    "/streams/{stream}": {
        "PUT": {"json": {"lateness": "5s"}},
        "PATCH": {"json": {"retention": "90s"}},
        "POST": {"params": {"timestamp": "1"}, "content": TAXI_IN_ZONE, "headers": NT},
        "DELETE": {},
    },
    "/streams/{stream}/heartbeat": {"POST": {"params": {"timestamp": "1000"}}},
    "/queries": {"POST": {"content": NEAR.replace("near", "other"), "headers": SPARQL_QUERY}},
    "/queries/{query}": {
        "PUT": {"content": NEAR, "headers": SPARQL_QUERY},
        "POST": {"params": {"action": "pause"}},
        "DELETE": {},
    },
    "/sources/{source}/refresh": {"POST": {}},
    "/$/queries/{query}": {"DELETE": {}},
    "/$/loads": {"POST": {"content": TAXI_IN_ZONE, "headers": NT}},
}
#: Statements have routes of their own, and come by /sparql as well.
STATEMENTS = (
    "CREATE STREAM made",
    "DROP STREAM spare",
    "UNREGISTER QUERY near",
    NEAR.replace("near", "another"),
    "DROP ALL",
)


class Write(NamedTuple):
    method: str
    path: str
    request: dict[str, Any]

    def send(self, server: Live, headers: dict[str, str]) -> httpx.Response:
        path = (
            self.path.replace("{stream}", "spare")
            .replace("{query}", "near")
            .replace("{path...}", "g")
            .replace("{source}", "main")
        )
        request = {**self.request, "headers": {**self.request.get("headers", {}), **headers}}
        return server.http.request(self.method, path, **request)


WRITES = [
    *(
        Write(method, route.path, REQUESTS[route.path][method])
        for route in ROUTES
        for method in route.methods
        if method != "GET" and (method, route.path) not in READING
    ),
    *(Write("POST", "/sparql", {"data": {"query": text}}) for text in STATEMENTS),
]


def state(server: Live) -> tuple[object, ...]:
    service = server.service
    return (
        service.head(),
        {stream.name for stream in service.streams()},
        {query.name: service.query_status(query.name)["state"] for query in service.queries()},
    )


@pytest.mark.parametrize("write", WRITES, ids=lambda each: f"{each.method} {each.path}")
def test_no_route_writes_without_the_token(guarded: Live, closed: Live, write: Write) -> None:
    for server, wrong in ((guarded, []), (closed, [bearer(READ)])):
        before = state(server)
        for headers in ({}, bearer("x" * len(TOKEN)), bearer(TOKEN[:-1]), {"authorization": basic("u", "")}, *wrong):
            answer = write.send(server, headers)
            assert (answer.status_code, "www-authenticate" in answer.headers) == (401, True), (headers, answer.text)
            assert TOKEN not in answer.text
        assert state(server) == before


FOREIGN = (
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "chrome-extension://abcdefghijklmnop"},
    {"origin": "moz-extension://1b2c"},
    {"origin": "http://localhost:3000"},
    {"origin": "http://127.0.0.1:1"},
    {"origin": "http://127.0.0.1"},
    {"origin": ""},
    {"origin": "http://["},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "nonsense"},
)


@pytest.mark.parametrize("write", WRITES, ids=lambda each: f"{each.method} {each.path}")
def test_no_page_of_another_origin_writes(guarded: Live, unguarded: Live, write: Write) -> None:
    for server, token in ((unguarded, {}), (guarded, bearer(TOKEN)), (guarded, {"authorization": basic("u", TOKEN)})):
        before = state(server)
        other_scheme = {"origin": server.url.replace("http:", "https:"), "x-forwarded-proto": "https"}
        for headers in (*FOREIGN, other_scheme):
            answer = write.send(server, {**token, **headers})
            assert answer.status_code == 403, (headers, answer.text)
        assert state(server) == before


def test_a_live_query_is_a_write_though_it_comes_by_get(guarded: Live, unguarded: Live) -> None:
    text = "SELECT * FROM NAMED WINDOW <w> ON STREAM taxis [RANGE 1s] { WINDOW <w> { ?s ?p ?o } }"
    live_query = {"params": {"query": text}, "headers": {"accept": "text/event-stream"}}
    for server, headers, status in (
        (guarded, {}, 401),
        *((guarded, each | bearer(TOKEN), 403) for each in FOREIGN),
        *((unguarded, each, 403) for each in FOREIGN),
    ):
        before = state(server)
        answer = Write("GET", "/sparql", live_query).send(server, headers)
        assert answer.status_code == status, (headers, answer.text)
        assert state(server) == before


def test_pages_of_this_server_and_programs_write(unguarded: Live, guarded: Live) -> None:
    for server, token in ((unguarded, {}), (guarded, bearer(TOKEN)), (guarded, {"authorization": basic("u", TOKEN)})):
        for headers in (
            {},
            {"origin": server.url},
            {"origin": f"http://localhost:{server.port}", "host": f"localhost:{server.port}"},
            {"origin": BASE.rstrip("/")},
            {"sec-fetch-site": "same-origin"},
            {"sec-fetch-site": "none"},
        ):
            answer = server.http.post("/update", data=UPDATE, headers={**token, **headers})
            assert answer.status_code == 204, (headers, answer.text)


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        (f"Bearer {TOKEN}", 204),
        (f"bearer  {TOKEN}", 204),
        ("Bearer wrong", 401),
        ("Bearer", 401),
        (basic("anyone", TOKEN), 204),
        (basic("", TOKEN), 204),
        (basic(TOKEN, ""), 401),
        (basic("anyone", "wrong"), 401),
        ("Basic !!!", 401),
        ("Basic c2VjcmV0", 401),
        (f"Digest {TOKEN}", 401),
    ],
)
def test_the_token_comes_as_bearer_or_as_a_password(guarded: Live, authorization: str | None, status: int) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = guarded.http.post("/update", data=UPDATE, headers=headers)
    assert answer.status_code == status, answer.text
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert TOKEN not in answer.text
    assert guarded.http.get("/sparql", params={"query": "ASK {}"}, headers=headers).status_code == 200


def test_a_token_is_compared_in_a_time_that_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(given: bytes, token: bytes) -> bool:
        compared.append((given, token))
        return given == token

    monkeypatch.setattr(hmac, "compare_digest", compare)
    access = Access(TOKEN, BASE, read_token=READ)
    assert (access.level(TOKEN.encode()), access.level(READ.encode()), access.level(b"x")) == ("write", "read", None)
    assert compared[-2:] == [(b"x", TOKEN.encode()), (b"x", READ.encode())]
    monkeypatch.setattr(hmac, "compare_digest", lambda given, token: False)
    assert access.level(TOKEN.encode()) is None  # nothing else decides
    with pytest.raises(Unauthorized):
        access.check_write(caller(authorization=f"Bearer {TOKEN}"))
    assert vars(access_module)["hmac"] is hmac


def caller(**given: str) -> Caller:
    known = {"scheme": "http", "port": "8000", "host": "localhost:8000"}
    return Caller(**{name: given.get(name, known.get(name)) for name in Caller.__slots__})  # type: ignore[arg-type]


# ---- hosts


def raw(server: Live, method: str, path: str, headers: list[tuple[str, str]], body: str = "") -> int:
    """A request with these headers and no others."""
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)) as connection:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in [*headers, ("content-length", str(len(body)))]:
            connection.putheader(name, value)
        connection.endheaders(body.encode())
        return connection.getresponse().status


PATHS = ("/sparql?query=ASK%7B%7D", "/sparql", "/streams", "/console/", "/console/query", "/docs", "/openapi.json", "/",
         "/$/ping", "/$/metrics", "/nowhere", "/console/static/console.css")  # fmt: skip


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1:{port}", "",
     "localhost:x", "localhost@evil.example", "evil.example, localhost", "0.0.0.0", "[::]", "rillet.lan.evil.example"],
)  # fmt: skip
def test_a_name_that_is_not_ours_is_refused_on_every_path(unguarded: Live, host: str) -> None:
    headers = [("host", host.format(port=unguarded.port))]
    for path in PATHS:
        assert raw(unguarded, "GET", path, headers) == 403, path
    head = unguarded.service.head()
    form = [*headers, ("content-type", "application/sparql-update")]
    assert raw(unguarded, "POST", "/update", form, "DROP ALL") == 403
    own = [*form, ("origin", f"http://{host}"), ("x-forwarded-host", "localhost"), ("forwarded", "host=localhost")]
    assert raw(unguarded, "POST", "/update", own, "INSERT DATA { <a:a> <a:b> 1 }") == 403
    assert raw(unguarded, "OPTIONS", "/update", headers) == 403
    assert unguarded.service.head() == head


def test_a_request_without_a_name_is_refused(unguarded: Live) -> None:
    assert raw(unguarded, "GET", "/sparql?query=ASK%7B%7D", []) == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}",
                                  "ex.org", "ex.org:81", "rillet.lan", "Rillet.lan:{port}"])  # fmt: skip
def test_loopback_the_base_and_names_that_were_let_in_are_ours(unguarded: Live, host: str) -> None:
    headers = [("host", host.format(port=unguarded.port)), ("x-forwarded-host", "evil.example")]
    for path in PATHS:
        assert raw(unguarded, "GET", path, headers) in (
            (307,) if path == "/" else (404,) if path == "/nowhere" else (200,)
        )


def test_with_a_token_any_name_will_do_unless_names_are_given(guarded: Live, tmp_path: Path) -> None:
    assert raw(guarded, "GET", "/streams", [("host", "data.example.org")]) == 200
    with live(tmp_path, token=TOKEN, allowed_hosts=("data.example.org",)) as server:
        assert raw(server, "GET", "/streams", [("host", "data.example.org:80")]) == 200
        assert raw(server, "GET", "/streams", [("host", "evil.example")]) == 403


def test_an_application_of_others_has_its_own_rules(tmp_path: Path) -> None:
    with Service.open(f"lmdb:{tmp_path}", base=BASE, clock=SystemClock(), engine="inline") as service:
        app = create_app(service)
        app.app_state.access.check_host("anything.example")
        with pytest.raises(Forbidden):
            app.app_state.access.check_write(caller(host="anything.example", origin="http://evil.example"))
        app.app_state.access.check_write(caller(host="anything.example", origin="http://anything.example"))
        app.app_state.workers.close()


def test_loopback_is_this_machine_only() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "10.0.0.1", "example.org", "localhost.example", "::")))


def test_an_origin_is_written_as_browsers_write_it() -> None:
    for url, origin in (
        ("http://ex.org:80/a/b", "http://ex.org"),
        ("https://EX.org:443", "https://ex.org"),
        ("https://ex.org:444/", "https://ex.org:444"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
        ("urn:ex:a", ""),
        ("http://[", ""),
        ("http://ex.org:x", ""),
    ):
        assert origin_of(url) == origin


# ---- pages of other origins

APP = "https://app.example"


def cors_headers(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


def answers_for(server: Live, origin: str) -> list[httpx.Response]:
    headers = {"origin": origin}
    return [
        server.http.get("/sparql", params={"query": "ASK {}"}, headers=headers),
        server.http.post("/sparql", data={"query": "ASK {}"}, headers=headers),
        server.http.get("/sparql", params={"query": "nonsense"}, headers=headers),
        server.http.get("/sparql", headers=headers),
        server.http.options("/sparql", headers=headers | {"access-control-request-method": "POST"}),
        server.http.post("/update", data=UPDATE, headers=headers),
        server.http.get("/nowhere", headers=headers),
        server.http.get("/openapi.json", headers=headers),
        server.http.get("/$/ping", headers=headers),
    ]


def test_no_other_origin_is_let_in_by_default(guarded: Live, unguarded: Live) -> None:
    for server in (guarded, unguarded):
        for origin in (APP, "null", server.url, "http://localhost:3000"):
            assert [cors_headers(answer) for answer in answers_for(server, origin)] == [{}] * 9


@pytest.fixture(scope="module")
def let_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("let in"), token=TOKEN, cors=(APP, "http://localhost:3000")) as running:
        yield running


def test_an_origin_that_is_let_in_reads_every_answer_and_no_other_does(let_in: Live) -> None:
    for answer in answers_for(let_in, APP):
        assert answer.headers["access-control-allow-origin"] == APP
        assert (
            "Rillet-Snapshot" in answer.headers["access-control-expose-headers"] or answer.request.method == "OPTIONS"
        )
        assert "access-control-allow-credentials" not in answer.headers
        assert "Origin" in answer.headers["vary"].split(", ")
    for other in ("https://evil.example", "null", APP + ".evil.example", APP + ":444", "http://app.example", "*"):
        for answer in answers_for(let_in, other):
            assert cors_headers(answer) == {}
            assert "Origin" in answer.headers["vary"].split(", ")
    assert cors_headers(let_in.http.get("/console/", headers={"origin": APP})) == {}


def test_a_preflight_allows_what_a_client_needs(let_in: Live) -> None:
    for path in ("/sparql", "/data", "/streams/s", "/queries/q/results", "/$/stats"):
        preflight = let_in.http.options(path, headers={"origin": APP, "access-control-request-method": "PUT"})
        assert preflight.status_code == 204
        allowed = {name: value.split(", ") for name, value in cors_headers(preflight).items()}
        assert allowed["access-control-allow-methods"] == ["GET", "POST", "PUT", "PATCH", "DELETE"]
        assert allowed["access-control-allow-headers"] == ["Authorization", "Content-Type", "Last-Event-ID"]
        assert allowed["access-control-allow-origin"] == [APP]


def test_an_origin_that_is_let_in_writes_with_the_bearer_token_only(let_in: Live, tmp_path: Path) -> None:
    for headers, status in (
        (bearer(TOKEN), 204),
        (bearer("wrong"), 401),
        ({}, 401),
        ({"authorization": basic("u", TOKEN)}, 403),
    ):
        assert let_in.http.post("/update", data=UPDATE, headers={"origin": APP, **headers}).status_code == status
    form = let_in.http.post("/console/sign-in", data={"token": TOKEN}, headers={"origin": APP})
    assert form.status_code == 403
    with live(tmp_path, cors=(APP,)) as unguarded:
        answer = unguarded.http.post("/update", data=UPDATE, headers={"origin": APP})
        assert (answer.status_code, "start the server with --token" in answer.text) == (403, True)
        assert unguarded.service.head() == 0


def test_the_subclass_lets_any_origin_read_if_it_is_set_to(tmp_path: Path) -> None:
    with Service.open(f"lmdb:{tmp_path}", base=BASE, clock=SystemClock(), engine="inline") as service:
        app = create_app(service, token=TOKEN, cors_enabled=True)
        access = app.app_state.access
        assert (b"access-control-allow-origin", b"*") in access.for_origin("https://any.example")
        access.check_write(caller(origin="https://any.example", authorization=f"Bearer {TOKEN}"))
        for origin in ("null", "chrome-extension://a", "file://"):
            with pytest.raises(Forbidden):
                access.check_write(caller(origin=origin, authorization=f"Bearer {TOKEN}"))
        with pytest.raises(Forbidden):
            access.check_write(caller(origin="https://any.example", authorization=basic("u", TOKEN)))
        app.app_state.workers.close()


# ---- reading

#: Where reading is closed, and these are open all the same.
STAYS_OPEN = {"/$/ping", "/$/assets/{asset}"}


def reads() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for route in ROUTES:
        path = (
            route.path.replace("{stream}", "taxis")
            .replace("{query}", "near")
            .replace("{path...}", "g")
            .replace("{source}", "main")
        )
        for method in route.methods:
            if method == "GET" or (method, route.path) in READING:
                yield method, path.replace("{asset}", "docs.js"), {}
        if route.path in ("/sparql", "/query", "/update"):
            yield "GET", path, {"params": {"query": "ASK {}"}}
            yield "POST", path, {"data": {"query": "ASK {}"}}
    for path in ("/docs", "/openapi.json", "/nowhere"):
        yield "GET", path, {}


def test_reading_can_be_closed_on_every_route(closed: Live) -> None:
    open_paths = {path.replace("{asset}", "docs.js") for path in STAYS_OPEN}
    assert set(OPEN) - STAYS_OPEN == {"/sparql", "/query", "/update"}  # which look themselves
    for method, path, request in reads():
        for headers in ({}, bearer("wrong"), {"cookie": f"rillet-{closed.port}=x"}):
            answer = closed.http.request(method, path, headers=headers, **request)
            assert answer.status_code == (200 if path in open_paths else 401), (method, path, answer.text)
            assert path in open_paths or "www-authenticate" in answer.headers
        for token in (READ, TOKEN):
            answer = closed.http.request(method, path, headers=bearer(token), **request)
            # Addresses of clients are for those who may write.
            assert (answer.status_code == 401) == (path == "/$/subscribers" and token == READ), (method, path)
            # Servers of the same store prove that they are, by its secret: no token is one.
            assert (answer.status_code == 403) == (path == "/$/heads"), (method, path)
        if method == "GET" and path not in open_paths:
            assert closed.http.head(path, **request).status_code == 401
    events = {"accept": "text/event-stream"}
    assert closed.http.get("/queries/near/results", headers=events).status_code == 401
    with closed.http.stream("GET", "/queries/near/results", headers=events | bearer(READ)) as listening:
        assert listening.status_code == 200


PAGES = (
    "/",
    "/query",
    "/explain",
    "/graphs",
    "/upload",
    "/streams",
    "/streams/taxis",
    "/queries",
    "/queries/near",
    "/x",
)


def test_the_console_is_closed_with_it_but_for_signing_in(closed: Live) -> None:
    html = {"accept": "text/html"}
    for path in (*(f"/console{page}" for page in PAGES), "/sparql"):
        answer = closed.http.get(path, headers=html)
        assert (answer.status_code, "<h1>Sign in</h1>" in answer.text) == (401, True), path
        assert "taxis" not in answer.text.replace(f'name="back" value="{path.removeprefix("/console")}"', "")
        assert "<b>" not in answer.text  # the snapshot
    posted = closed.http.post("/console/query", data={"query": "SHOW STREAMS"})
    assert (posted.status_code, "taxis" in posted.text) == (401, False)
    assert closed.http.get("/console/static/console.css").status_code == 200
    assert closed.http.get("/console/sign-in").status_code == 200


def test_who_signs_in_with_the_token_for_reading_may_look_and_not_change(closed: Live) -> None:
    with httpx.Client(base_url=closed.url, follow_redirects=True) as browser:
        assert browser.post("/console/sign-in", data={"token": "wrong"}).status_code == 401
        assert "may read" in browser.post("/console/sign-in", data={"token": READ}).text
        assert "taxis" in browser.post("/console/query", data={"query": "SHOW STREAMS"}).text
        refused = browser.post("/console/query", data={"query": UPDATE["update"]})
        assert (refused.status_code, "sign in with the token of this server" in refused.text) == (401, True)
        assert "<h1>Query</h1>" in browser.get("/sparql", headers={"accept": "text/html"}).text
        assert "may make changes" in browser.post("/console/sign-in", data={"token": TOKEN}).text
        assert "Snapshot" in browser.post("/console/query", data={"query": UPDATE["update"]}).text


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("/console/queries/near", "/console/queries/near"),
        ("/console/query?query=ASK%20%7B%7D%23%22", "/console/query?query=ASK%20%7B%7D%23%22"),
        ("/sparql?query=ASK%7B%7D", "/console/query?query=ASK%7B%7D"),
        ("/console/", "/console/"),
    ],
)
def test_who_signs_in_comes_to_the_page_that_was_asked_for(closed: Live, asked: str, shown: str) -> None:
    with httpx.Client(base_url=closed.url) as browser:
        form = browser.get(asked, headers={"accept": "text/html"}).text
        back = {"back": html.unescape(form.split('name="back" value="')[1].split('"')[0])}
        wrong = browser.post("/console/sign-in", data={"token": "wrong"} | back)
        assert wrong.text.count('name="back"') == 1
        entered = browser.post("/console/sign-in", data={"token": READ} | back)
        assert (entered.status_code, entered.headers["location"]) == (302, shown)
        assert browser.get(shown).status_code == 200


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example/", "/\\evil.example", "/a\r\nx: y", "evil"])
def test_signing_in_leads_nowhere_else(closed: Live, back: str) -> None:
    entered = closed.http.post("/console/sign-in", data={"token": READ, "back": back})
    assert (entered.status_code, entered.headers["location"]) == (302, "/console/")


def test_the_cookie_of_the_console_reads_for_its_own_pages_only(closed: Live) -> None:
    events = {"accept": "text/event-stream"}
    with httpx.Client(base_url=closed.url) as browser:
        browser.post("/console/sign-in", data={"token": READ})
        for headers in ({}, {"sec-fetch-site": "same-origin"}, {"origin": closed.url}, {"sec-fetch-site": "none"}):
            with browser.stream("GET", "/queries/near/results", headers=events | headers) as listening:
                assert listening.status_code == 200
            assert browser.get("/data?default", headers=headers).status_code == 200
            assert browser.post("/sparql", data={"query": "ASK {}"}, headers=headers).status_code == 200
        for headers in ({"sec-fetch-site": "same-site"}, {"sec-fetch-site": "cross-site"}, *FOREIGN):
            assert browser.get("/queries/near/results", headers=events | headers).status_code == 401
        browser.post("/console/sign-in", data={"token": TOKEN})
        assert browser.post("/update", data=UPDATE).status_code == 401  # it writes for no route but the console's
        browser.post("/console/sign-out")
        assert browser.get("/data?default").status_code == 401


def test_sign_ins_are_few_and_the_oldest_go_first() -> None:
    sign_ins = SignIns()
    first = sign_ins.begin("write")
    others = [sign_ins.begin("read") for _ in range(1_000)]
    assert sign_ins.level(first) is None
    assert {sign_ins.level(id) for id in others} == {"read"}
    assert sign_ins.level(None) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"host": "0.0.0.0"}, "set a token"),
        ({"read_token": "r"}, "give a --token, too"),
        ({"read_token": "r", "token": "r"}, "are the same"),
        ({"token": "é"}, "ASCII"),
        ({"token": "t", "read_token": "é"}, "ASCII"),
    ],
)
def test_settings_that_would_leave_a_door_open_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        ServeSettings("lmdb:none", **settings).access(BASE)  # type: ignore[arg-type]  # all of them are texts


def test_the_remembered_hosts_are_bounded_and_only_those_that_are_answered() -> None:
    access = Access(None, "http://localhost:8000/", hosts=("example.org",))
    for port in range(3_000):
        access.check_host(f"127.0.0.1:{port}")
        with pytest.raises(Forbidden):
            access.check_host(f"evil.example:{port}")
    assert len(access._answered) <= 1_000
    for _ in range(2):
        access.check_host("EXAMPLE.org")
        for host in (None, "", "evil.example:2999"):
            with pytest.raises(Forbidden):
                access.check_host(host)
