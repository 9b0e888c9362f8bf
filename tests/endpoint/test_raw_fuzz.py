"""Bytes that are nearly HTTP: whatever comes, the server answers the next one, and none of it is a fault of its own.

A seed makes what one connection sends; RILLET_FUZZ_RAW=SEED replays it alone."""

from __future__ import annotations

import logging
import os
import random
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoint.limits import HttpLimits
from endpoint.routes.openapi import OPERATIONS
from tests.endpoint.live import TAXI_IN_ZONE, Live, live

LIMITS = HttpLimits(body_bytes=20_000, text_bytes=5_000, query_s=5, head_s=2, idle_s=2, slow_s=2, heartbeat_s=0.05)
BODY = TAXI_IN_ZONE.encode()
REQUESTS = (
    b"GET /$/ping HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /sparql?query=ASK%20%7B%7D HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n",
    b"GET /console/ HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n",
    b"POST /streams/s?timestamp=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/n-triples\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
    b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nASK\r\n3\r\n {}\r\n0\r\n\r\n",
    b"PUT /data?default HTTP/1.0\r\nContent-Type: text/turtle\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
    b"POST /console/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 14\r\n\r\nquery=ASK%20%7B",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nOrigin: http://x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b":",
    b"\x00",
    b"\xff\xfe",
    b"%",
    b"%00",
    b"//",
    b"..",
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: 1, 2\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Connection: upgrade\r\nUpgrade: websocket\r\n",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"Host: \r\n",
    b"Host: a b\r\n",
    b"Authorization: Basic %%%\r\n",
    b"Cookie: rillet=;;=\r\n",
    b"Last-Event-ID: x\r\n",
    b" folded: header\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n\r\n",
    b"x" * 3_000,
)


def sent_by(seed: int) -> list[bytes]:
    """What one connection sends, in pieces."""
    chance = random.Random(seed)
    data = bytearray(b"".join(chance.choices(REQUESTS, k=chance.choice((1, 1, 1, 2, 5)))))
    for _ in range(chance.choice((0, 1, 1, 2, 4, 10))):
        at = chance.randrange(len(data) + 1)
        kind = chance.random()
        if kind < 0.5:
            data[at:at] = chance.choice(PIECES)
        elif kind < 0.7:
            del data[at : at + chance.randrange(1, 30)]
        elif kind < 0.9 and at < len(data):
            data[at] = chance.randrange(256)
        else:
            data[at:at] = bytes(data[: chance.randrange(60)])
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 1, 3))))
    return [bytes(data[a:b]) for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def answered(server: Live, pieces: list[bytes]) -> bytes:
    found = b""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 30) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                found += piece
        except OSError:
            pass  # it was cut off
    return found


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("store"), limits=LIMITS) as server:
        server.http.put("/streams/s").raise_for_status()
        yield server


def play(server: Live, seed: int) -> None:
    found = answered(server, sent_by(seed))
    for status in re.findall(rb"(?:^|\n)HTTP/1\.1 (\d+)", found):
        assert status != b"500", f"RILLET_FUZZ_RAW={seed}: {found!r}"
    assert found[:9] in (b"", b"HTTP/1.1 "), f"RILLET_FUZZ_RAW={seed}: {found[:100]!r}"


def seeds(first: int, count: int) -> range:
    alone = os.environ.get("RILLET_FUZZ_RAW")
    return range(first, first + count) if alone is None else range(int(alone), int(alone) + 1)


def test_whatever_bytes_come_the_server_continues(fuzzed: Live, caplog: pytest.LogCaptureFixture) -> None:
    check(fuzzed, seeds(0, 1_500), caplog)


@pytest.mark.soak
def test_whatever_bytes_come_the_server_continues_for_long(fuzzed: Live, caplog: pytest.LogCaptureFixture) -> None:
    check(fuzzed, seeds(1_000, 30_000), caplog)


def check(server: Live, played: range, caplog: pytest.LogCaptureFixture) -> None:
    for seed in played:
        play(server, seed)
        faults = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert not faults, f"RILLET_FUZZ_RAW={seed}: {faults[0].getMessage()}"
        caplog.clear()
        if seed % 50 == 0:
            assert server.http.get("/$/ping").text == "pong\n"
    assert server.http.get("/sparql", params={"query": "ASK {}"}).json()["boolean"] is True


@pytest.mark.soak
def test_what_openapi_allows_and_what_it_does_not_is_answered_without_a_fault(tmp_path: Path) -> None:
    """schemathesis makes requests out of the description."""
    schemathesis = pytest.importorskip("schemathesis", reason="pip install --group soak")
    hypothesis = pytest.importorskip("hypothesis")
    with live(tmp_path / "store", limits=LIMITS) as server:
        # What it does not know how to write is sent as it was drawn.
        types = sorted({name for each in OPERATIONS.values() for one in each.values() for name in one.body if name})
        schemathesis.serializer(*types)(lambda _, value: value if isinstance(value, bytes) else str(value).encode())
        schema = schemathesis.openapi.from_url(server.url + "/openapi.json")
        tried = 0
        for result in schema.get_all_operations():
            operation = result.ok()

            @hypothesis.seed(1)
            @hypothesis.settings(
                max_examples=200, deadline=None, suppress_health_check=list(hypothesis.HealthCheck), database=None
            )
            @hypothesis.given(case=operation.as_strategy())
            def send(case: object) -> None:
                headers = {"accept": "application/json"}  # events would never end
                answer = case.call(base_url=server.url, headers=headers, timeout=30)  # type: ignore[attr-defined]
                assert answer.status_code != 500, answer.text

            send()
            tried += 1
        assert tried > 25
        assert server.http.get("/$/ping").text == "pong\n"
