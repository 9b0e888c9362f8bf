"""An answer whose body follows its head at once is one write, with the same bytes that uvicorn writes."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from endpoint.http.connections import BODY_FOLLOWS, _Cycle

LOG = logging.getLogger("test")
PLAIN = [(b"content-type", b"text/plain"), (b"content-length", b"5")]


class Written:
    """A transport that only notes what is written to it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        if data:
            self.writes.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Flow:
    write_paused = False


def cycle(
    of: type[RequestResponseCycle], method: str = "GET", keep_alive: bool = True
) -> tuple[Any, Written, list[str]]:
    transport, ended = Written(), list[str]()
    default: list[tuple[bytes, bytes]] = [(b"date", b"today")]
    flow: Any = Flow()
    on: Any = transport
    scope: Any = {"method": method}
    made = of(
        scope, on, flow, LOG, LOG, False, default, asyncio.Event(), False, keep_alive, partial(ended.append, "ended")
    )
    return made, transport, ended


async def sent(made: Any, status: int, headers: list[tuple[bytes, bytes]], *bodies: bytes) -> None:
    follows = {BODY_FOLLOWS: True}
    await made.send({"type": "http.response.start", "status": status, "headers": headers, **follows})
    for number, body in enumerate(bodies, 1):
        await made.send({"type": "http.response.body", "body": body, "more_body": number < len(bodies)})


@pytest.mark.parametrize(
    ("method", "keep_alive", "status", "headers", "bodies", "writes"),
    [
        ("GET", True, 200, PLAIN, [b"hello"], 1),
        ("POST", True, 404, [*PLAIN, (b"x-of-a-test", b"a, b")], [b"hello"], 1),
        ("GET", True, 200, [(b"content-length", b"0")], [b""], 1),
        ("GET", True, 204, [], [b""], 1),
        ("HEAD", True, 200, PLAIN, [b"hello"], 1),
        ("GET", False, 200, PLAIN, [b"hello"], 2),
        ("GET", True, 413, [*PLAIN, (b"connection", b"close")], [b"hello"], 2),
        ("GET", True, 200, [(b"content-type", b"text/plain")], [b"hello"], 2),
        ("GET", True, 200, PLAIN, [b"he", b"llo"], 3),
    ],
)
def test_the_bytes_are_those_of_uvicorn(
    method: str, keep_alive: bool, status: int, headers: Any, bodies: list[bytes], writes: int
) -> None:
    async def test() -> None:
        ours, our_transport, our_end = cycle(_Cycle, method, keep_alive)
        theirs, their_transport, their_end = cycle(RequestResponseCycle, method, keep_alive)
        for made in (ours, theirs):
            await sent(made, status, headers, *bodies)
        assert b"".join(our_transport.writes) == b"".join(their_transport.writes)
        assert (our_transport.closed, our_end, ours.response_complete) == (
            their_transport.closed, their_end, theirs.response_complete
        )  # fmt: skip
        assert len(our_transport.writes) == writes
        assert ours.message_event.is_set()

    asyncio.run(test())


@pytest.mark.parametrize("header", [(b"x-bad", b"a\r\nset-cookie: b"), (b"x bad", b"a"), (b"x\r\ny", b"a")])
def test_a_header_that_would_be_two_is_no_header(header: tuple[bytes, bytes]) -> None:
    async def test() -> None:
        made, transport, _ = cycle(_Cycle)
        with pytest.raises(RuntimeError, match="header"):
            await sent(made, 200, [*PLAIN, header], b"hello")
        assert transport.writes == []
        assert not made.response_started

    asyncio.run(test())


def test_a_body_of_another_length_than_was_declared_is_an_error() -> None:
    async def test() -> None:
        made, _, _ = cycle(_Cycle)
        with pytest.raises(RuntimeError, match="Content-Length"):
            await sent(made, 200, PLAIN, b"hello, world")

    asyncio.run(test())


def test_nothing_is_written_to_a_connection_that_is_gone() -> None:
    async def test() -> None:
        made, transport, _ = cycle(_Cycle)
        transport.close()
        await sent(made, 200, PLAIN, b"hello")
        assert transport.writes == []

    asyncio.run(test())
