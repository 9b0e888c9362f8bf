"""Clients that mean no good: they send slowly, or nothing, or do not read. Each costs its share and is let go."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from endpoint.http.parameters import unescaped
from endpoint.limits import HttpLimits
from tests.endpoint.live import NT, Live, live
from tests.parts.waiting import until

QUICK = HttpLimits(
    connections=60,
    head_s=1.0,
    idle_s=2.0,
    slow_s=1.0,
    rate_bytes=1_000,
    heartbeat_s=0.05,
    bodies_bytes=4 << 20,
    body_bytes=3 << 20,
    unread_bytes=8 << 20,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("store"), limits=QUICK) as running:
        running.http.put("/streams/taxis").raise_for_status()
        yield running


def raw(server: Live, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 20)
    client.sendall(sent)
    return client


def all_of(client: socket.socket) -> bytes:
    """Until the server closes."""
    found = b""
    with client:
        try:
            while piece := client.recv(1 << 16):
                found += piece
        except ConnectionResetError:
            pass
    return found


def drip(client: socket.socket, piece: bytes) -> threading.Thread:
    """Sends a piece again and again until the server closes."""

    def go_on() -> None:
        try:
            while True:
                client.sendall(piece)
                time.sleep(0.02)
        except OSError:
            return

    thread = threading.Thread(target=go_on)
    thread.start()
    return thread


def ended(server: Live, reason: str) -> int:
    return server.server._app.app_state.connections.ended[reason]


PUSH = b"POST /streams/taxis?timestamp=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/n-triples\r\n"


# ---- heads


def test_a_head_that_never_ends_is_not_waited_for(server: Live) -> None:
    client = raw(server, b"GET /$/ping HTTP/1.1\r\nHost: localhost\r\n")
    dripping = drip(client, b"A: b\r\n")
    assert all_of(client).startswith(b"HTTP/1.1 408 ")
    dripping.join()


def test_a_connection_on_which_nothing_comes_is_closed(server: Live) -> None:
    assert all_of(raw(server)) == b""


def test_a_connection_is_closed_when_no_other_request_follows(server: Live) -> None:
    assert all_of(raw(server, b"GET /$/ping HTTP/1.1\r\nHost: localhost\r\n\r\n")).endswith(b"pong\n")


def test_a_connection_serves_as_many_requests_as_come_in_time(server: Live) -> None:
    with raw(server) as client:
        for _ in range(5):
            client.sendall(b"GET /$/ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while not client.recv(1 << 16).endswith(b"pong\n"):
                pass
            time.sleep(QUICK.head_s / 2)  # together longer than a connection may wait for one


@pytest.mark.parametrize("head", [b"X: " + b"x" * (1 << 20), b"X: y\r\n" * 200_000], ids=["long", "many"])
def test_headers_have_a_bound(server: Live, head: bytes) -> None:
    client = raw(server, b"GET /$/ping HTTP/1.1\r\nHost: localhost\r\n")
    with suppress(ConnectionError):  # refused before all was sent
        client.sendall(head)
    found = all_of(client)
    assert not found or found.startswith(b"HTTP/1.1 431 ")
    assert ended(server, "head")


def test_a_url_has_a_bound(server: Live) -> None:
    client = raw(server)
    before = ended(server, "head")
    with suppress(ConnectionError):
        client.sendall(b"GET /sparql?query=" + b"x" * (5 << 20))
    all_of(client)
    assert ended(server, "head") == before + 1
    assert server.server._app.app_state.connections.heads_bytes == 0


def test_a_path_has_a_bound(server: Live) -> None:
    found = all_of(raw(server, b"GET /streams/" + b"%41" * 50_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    assert found.startswith(b"HTTP/1.1 414 ")
    assert all_of(raw(server, b"GET /?query=" + b"%41" * 50_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")) != found


def test_an_accept_header_has_a_bound(server: Live) -> None:
    ranges = ", ".join(["*/*"] * 2_000)
    answer = server.http.get("/sparql", params={"query": "ASK {}"}, headers={"accept": ranges})
    assert (answer.status_code, "Accept header" in answer.text) == (400, True)


def test_escapes_are_decoded_all_at_once_as_one_by_one() -> None:
    draw = random.Random(4)
    for size in (1, 2, 3, 5_000, 20_000):
        for alphabet in (b"%4aG", b"%%%0", bytes(range(256))):
            text = bytes(draw.choices(alphabet, k=size))
            assert unescaped(text) == unquote_to_bytes(text)
    began = time.process_time()
    assert unescaped(b"%41" * (1 << 20)) == b"A" * (1 << 20)
    assert time.process_time() - began < 1  # some 50 ms, and one by one ten times as long


# ---- bodies


def test_what_is_only_declared_takes_no_room(server: Live) -> None:
    """Four clients say that they will send all that a server takes, and send nothing."""
    size = QUICK.body_bytes
    body = b'<http://a> <http://b> "1" .\n#' + b"x" * (size - 100)
    with ExitStack() as opened:
        for _ in range(4):
            opened.enter_context(raw(server, PUSH + b"Content-Length: %d\r\n\r\n" % size))
        answer = server.http.post("/streams/taxis?timestamp=1", content=body, headers=NT)
        assert answer.status_code == 202, answer.text


@pytest.mark.parametrize(
    ("path", "dripping"),
    [(b"/streams/taxis?timestamp=1", True), (b"/$/loads", False), (b"/sparql", False), (b"/console/query", True)],
)
def test_a_body_that_hardly_comes_is_not_waited_for(server: Live, path: bytes, dripping: bool) -> None:
    of_type = (
        b"application/x-www-form-urlencoded" if b"query" in path or b"sparql" in path else b"application/n-triples"
    )
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 100000\r\n\r\n" % (
        path,
        of_type,
    )
    client = raw(server, head)
    thread = drip(client, b"#") if dripping else None
    found = all_of(client)
    assert found.startswith(b"HTTP/1.1 408 "), found
    assert b"bytes of the body arrived in 1 s" in found
    if thread is not None:
        thread.join()


def test_a_body_that_comes_fast_enough_may_take_long(server: Live) -> None:
    pieces, size = 60, 1_000
    with raw(server, PUSH + b"Content-Length: %d\r\n\r\n" % (pieces * size)) as client:
        for _ in range(pieces):
            client.sendall(b'<http://a> <http://b> "1" . #'.ljust(size - 1) + b"\n")
            time.sleep(0.04)  # more than twice the time in which nothing would be too slow
        assert client.recv(12) == b"HTTP/1.1 202"


def test_thirty_slow_bodies_do_not_hang_the_console(server: Live) -> None:
    with ExitStack() as opened:
        for _ in range(30):
            head = b"POST /console/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
            opened.enter_context(raw(server, head + b"Content-Type: application/x-www-form-urlencoded\r\n\r\nquery="))
        began = time.monotonic()
        assert server.http.get("/console/").status_code == 200
        assert time.monotonic() - began < 10 * QUICK.slow_s
        assert ended(server, "refused") == 0


# ---- who does not read


def test_who_reads_no_answer_is_cut(tmp_path: Path) -> None:
    with live(tmp_path, limits=QUICK) as server:
        for number in range(10):
            rows = "".join(f'<http://ex/s> <http://ex/p{number}> "{row:0>2000}" .\n' for row in range(1_300))
            server.http.post("/data?default", content=rows, headers=NT).raise_for_status()
        before = ended(server, "unread")
        with raw(server, b"GET /data?default HTTP/1.1\r\nHost: localhost\r\nAccept: application/n-triples\r\n\r\n"):
            until(lambda: ended(server, "unread") > before, "who does not read is cut off")
        assert len(server.http.get("/data?default", headers={"accept": "application/n-triples"}).content) > 20 << 20


def test_a_listener_who_does_not_read_is_cut_and_costs_little_meanwhile(tmp_path: Path) -> None:
    with live(tmp_path, limits=QUICK) as server:
        server.http.put("/streams/taxis").raise_for_status()
        text = (
            "REGISTER RSTREAM big AS SELECT ?o FROM NAMED WINDOW <http://w> ON STREAM taxis [RANGE 10ms STEP 10ms] "
            "WHERE { WINDOW <http://w> { ?s ?p ?o } }"
        )
        server.register(text).raise_for_status()
        with raw(
            server, b"GET /queries/big/results HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        ) as client:
            assert client.recv(12) == b"HTTP/1.1 200"
            large, most, time_ms = "x" * 200_000, 0, 0
            connections = server.server._app.app_state.connections
            while not connections.ended["unread"]:
                time_ms += 10
                server.push(time_ms, f'<http://ex/s> <http://ex/p> "{large}" .').raise_for_status()
                most = max([most, *(each.unread_bytes for each in list(connections.open))])
                assert time_ms < 10_000, "it was never cut"
            assert most < 2 << 20
        until(lambda: server.service.status()["subscriptions"] == 0, "nobody listens")


# ---- how many


def test_idle_connections_give_way_to_those_who_ask(server: Live) -> None:
    with ExitStack() as opened:
        for _ in range(3 * QUICK.connections):
            opened.enter_context(raw(server))
        assert server.http.get("/$/ping").text == "pong\n"
        assert len(server.server._app.app_state.connections.open) <= QUICK.connections
        until(lambda: ended(server, "room") > QUICK.connections, "the oldest make room")


def test_when_all_connections_are_busy_one_more_is_refused_in_words(server: Live) -> None:
    server.register(
        "REGISTER RSTREAM quiet AS SELECT ?o FROM NAMED WINDOW <http://w> ON STREAM taxis [RANGE 1s STEP 1s] "
        "WHERE { WINDOW <http://w> { ?s ?p ?o } }"
    ).raise_for_status()
    connections = server.server._app.app_state.connections
    listen = b"GET /queries/quiet/results HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    with ExitStack() as opened:
        for _ in range(QUICK.connections):
            client = opened.enter_context(raw(server, listen))
            assert client.recv(12) == b"HTTP/1.1 200"
        assert connections.busy == QUICK.connections
        found = all_of(raw(server, b"GET /$/ping HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        assert found.startswith(b"HTTP/1.1 503 ")
        assert b"60 connections, its limit (--connections)" in found
    until(lambda: connections.busy == 0, "no connection is busy")
    assert raw(server).close() is None
