"""A thousand bad requests: each gets an answer that says what is wrong, none of them a fault of the server.

A seed makes a request; RILLET_FUZZ=SEED replays one alone."""

from __future__ import annotations

import gzip
import http.client
import logging
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from endpoint.limits import HttpLimits
from endpoint.routes.table import ROUTES, Route
from tests.endpoint.live import Live, live
from tests.parts.waiting import PATIENCE_S

COUNT = 1_000
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW", "get", "TRACE")
TYPES = (
    "application/sparql-query",
    "application/sparql-update",
    "application/x-www-form-urlencoded",
    "text/turtle",
    "application/n-triples",
    "application/n-quads",
    "application/trig",
    "application/ld+json",
    "application/rdf+xml",
    "application/x-ndjson",
    "application/json",
    "multipart/form-data",
    "multipart/form-data; boundary=b",
    "multipart/form-data; boundary=",
    "text/turtle; charset=utf-16",
    "image/png",
    "",
    ";;;=",
    "\xff",
)
TEXTS = (
    "SELECT * { ?s ?p ?o }",
    "SELECT ?s { ?s ?p ?o } LIMIT 99999999999999999999",
    "ASK {} #" + "x" * 5_000,
    "ASK " + "{" * 3_000 + "}" * 3_000,
    "SELECT ?x { ?x ?y " + "(" * 2_000,
    "INSERT DATA { <a> <b> 1 }",
    "INSERT DATA { <a> <b> '\\uD800' }",
    "DELETE WHERE { ?s ?p ?o }",
    "REGISTER QUERY q AS SELECT ?s FROM NAMED WINDOW <w> ON s [RANGE 1s] { WINDOW <w> { ?s ?p ?o } }",
    "SELECT (1/0 AS ?x) {}",
    "SELECT * { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }",
    "LOAD <file:///etc/passwd>",
    "CONSTRUCT { ?s ?p ?o } FROM <http://127.0.0.1:1/> { ?s ?p ?o }",
    "EXPLAIN",
    "DROP STREAM nothing",
    "<a> <b> <c> .",
    '{"timestamp": "x", "data": "<a:a> <b:b> <c:c> ."}',
    '{"@context": "http://127.0.0.1:1/c", "@id": "a:a", "b:b": 1}',
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>',
    "[" * 20_000,
    "\0\0\0",
    "",
    "--b\r\n\r\n--b--",
    '--b\r\nContent-Disposition: form-data; name="f"; filename="f.ttl"\r\n\r\n<a> <b>\r\n--b--\r\n',
)
PARAMETERS = (
    *("query", "update", "snapshot", "at", "timeout", "explain", "wait", "default-graph-uri", "using-graph-uri"),
    *("default", "graph", "timestamp", "source", "seq", "since", "until", "limit", "follow", "emission", "action"),
    *("format", "nonsense", "", "size", "path", "go-on"),
)
VALUES = ("", "0", "-1", "1", "99999999999999999999", "1e9", "true", "x", "\u0000", "%", "\ufffd", "http://ex/g", "1s")
SEGMENTS = ("sparql", "query", "update", "data", "streams", "queries", "$", "s", "q1", "..", "", "%2F", "%00", "\xe9")
HEADERS = {
    "accept": (
        "text/csv",
        "*/*;q=0",
        "text/event-stream",
        "a/b;q=x,,;",
        "text/html",
        "application/problem+json",
        "\xe9",
    ),
    "content-encoding": ("gzip", "zstd", "br", "gzip, gzip", "deflate"),
    "authorization": ("Bearer", "Basic x", "Basic \xff", "Digest a=b"),
    "origin": ("http://[", "null", "https://evil.example", "\xff"),
    "last-event-id": ("-1", "x", "9" * 30),
    "accept-encoding": ("gzip;q=0", "\xff"),
    "host": ("", "evil.example/../", "a b"),
    "content-length": ("-1", "x", "0"),
    "transfer-encoding": ("chunked", "gzip"),
    "expect": ("100-continue",),
}


class Request:
    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        route = chance.choice(ROUTES)
        sane = chance.random() < 0.5  # in its address, so that the rest is looked at
        self.method = chance.choice(list(route.methods) if sane else METHODS)
        self.path = _path(chance, route, 2 if sane else 4)
        self.headers = {name: chance.choice(values) for name, values in HEADERS.items() if chance.random() < 0.12}
        self.body = b""
        if self.method in ("POST", "PUT", "PATCH") or chance.random() < 0.1:
            self.headers["content-type"] = chance.choice(TYPES)
            self.body = _body(chance, self.headers)
        self.cut = chance.random() < 0.03  # in the middle of the body
        # Where the server would wait for more, the client says that there is none.
        self.ends = self.cut or "transfer-encoding" in self.headers or "content-length" in self.headers

    def bytes(self) -> bytes:
        headers = {"host": "localhost", "connection": "close", "content-length": str(len(self.body)), **self.headers}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        body = self.body[: len(self.body) // 2] if self.cut else self.body
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


def _path(chance: random.Random, route: Route, pairs_max: int) -> str:
    if chance.random() < 0.9:
        path = route.path
        for name in ("{stream}", "{query}", "{asset}", "{path...}"):
            path = path.replace(name, chance.choice(("s", "q", "nothing", "http%3A%2F%2Fex%2Fs", "9", "%FF", "a%20b")))
    else:
        path = "/" + "/".join(chance.choice(SEGMENTS) for _ in range(chance.randrange(1, 5)))
    pairs = [
        f"{chance.choice(PARAMETERS)}={quote(chance.choice((*VALUES, chance.choice(TEXTS)[:2_000])), safe='')}"
        for _ in range(chance.randrange(pairs_max))
    ]
    if chance.random() < 0.05:
        pairs.append(chance.choice(("%zz", "=", "&&&", "query=%FF", "a", "query=" + "+" * 3_000)))
    return path + ("?" + "&".join(pairs) if pairs else "")


def _body(chance: random.Random, headers: dict[str, str]) -> bytes:
    text = chance.choice(TEXTS).encode("utf-8", "replace")
    if chance.random() < 0.3 and text:
        damaged = bytearray(text)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        text = bytes(damaged)
    if headers["content-type"].startswith("application/x-www") and chance.random() < 0.7:
        text = chance.choice((b"query=", b"update=", b"query=x&update=")) + quote(text).encode()
    if headers.get("content-encoding") == "gzip" and chance.random() < 0.7:
        text = gzip.compress(text)
    return text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder: Path = tmp_path_factory.mktemp("fuzzed")
    with live(folder, limits=HttpLimits(body_bytes=10_000, text_bytes=2_500, query_s=5, heartbeat_s=0.05)) as running:
        running.update("INSERT DATA { <http://ex/s> <http://ex/p> 1 }")
        yield running


def answered(server: Live, request: Request) -> tuple[int, bytes]:
    """The status (0: the connection was closed without one) and what came with it."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(request.bytes())
        if request.ends:
            connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection, method=request.method)
        try:
            response.begin()
            return response.status, response.read(200_000)
        except (http.client.BadStatusLine, http.client.IncompleteRead, ConnectionResetError):
            return 0, b""


def seeds() -> list[int]:
    one = os.environ.get("RILLET_FUZZ")
    return list(range(COUNT)) if one is None else [int(one)]


def faults(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the server says of itself; that somebody was turned away is no fault."""
    return [each for each in caplog.records if each.name.startswith("rillet") and each.levelno >= logging.WARNING]


def test_a_thousand_bad_requests_learn_what_is_wrong(server: Live, caplog: pytest.LogCaptureFixture) -> None:
    statuses: dict[int, int] = {}
    for seed in seeds():
        request = Request(seed)
        status, body = answered(server, request)
        where = f"RILLET_FUZZ={seed}: {request.bytes()[:400]!r}"
        assert status != 500, f"{where}\n{body!r}"
        assert b"Traceback" not in body, where
        assert b'File "' not in body, where
        assert not faults(caplog), f"{where}\n{caplog.text}"
        statuses[status] = statuses.get(status, 0) + 1
    assert server.http.get("/$/ready").text == "ready\n"
    assert server.http.get("/sparql", params={"query": "ASK { ?s ?p ?o }"}).status_code == 200
    assert {400, 404, 405, 415} <= set(statuses), statuses  # it reached what it was meant to reach
