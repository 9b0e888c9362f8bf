"""Connections: a client can use only a bounded part of the server, however it sends or reads.

    waiting   no complete request yet. Closed if nothing arrives for `idle_s`, or if a request that has begun is not
              complete within `head_s`. If there is no room for a new connection, the oldest waiting one is closed
    busy      a request is being answered. Never closed for lack of room; closed if the client reads too slowly

Whether a body arrives fast enough is checked where it is read (`endpoint.http.body`): only the time in which we wait
for it counts. Everything here happens on the event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from endpoint.limits import HttpLimits

log = logging.getLogger("rillet.http")

#: Why the server ends a connection: idle (no request arrived), head (too long or slow), room (its place was needed),
#: refused (all connections are busy), unread (the client reads too slowly).
REASONS = ("idle", "head", "room", "refused", "unread")

#: In the ASGI message with the head of an answer: its body is the next message, which is sent at once. Other servers
#: than ours ignore it.
BODY_FOLLOWS = "rillet.body_follows"

_SWEEP_S = 1.0
#: A head of at most so many bytes, without its URL, is always accepted, whatever the heads of others take.
_SMALL_HEAD_BYTES = 64 << 10
#: uvicorn parses a path before our code sees it.
_PATH_BYTES = 64 << 10
#: The size of all larger heads together.
_HEADS_BYTES = 64 << 20


class Connections:
    """All connections of one server."""

    def __init__(self, limits: HttpLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self.open: set[Connection] = set()
        self.ended: Counter[str] = Counter()  # connections that the server ended, by reason
        self.heads_bytes = 0
        self._waiting: dict[Connection, None] = {}  # in the order in which they began to wait
        self._sweeping = False

    def protocol(self) -> Callable[..., asyncio.Protocol]:
        """The class that uvicorn creates for each connection."""
        return partial(Connection, self)

    @property
    def busy(self) -> int:
        return len(self.open) - len(self._waiting)

    def opened(self, connection: Connection) -> bool:
        """Whether there is room for this connection."""
        if len(self.open) >= self.limits.connections:
            oldest = next(iter(self._waiting), None)
            if oldest is None:
                return False
            oldest.end("room", "another connection needed its place")
        self.open.add(connection)
        self.waits(connection)
        if not self._sweeping:
            self._sweeping = True
            self._sweep_later(connection.loop)
        return True

    def closed(self, connection: Connection) -> None:
        self.open.discard(connection)
        self._waiting.pop(connection, None)

    def waits(self, connection: Connection) -> None:
        if connection in self.open:
            self._waiting[connection] = None

    def is_answered(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def has_room_for_head(self, size: int) -> bool:
        return self.heads_bytes + size <= _HEADS_BYTES

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        limits = self.limits
        pause_s = min(_SWEEP_S, limits.idle_s / 4, limits.head_s / 4, limits.slow_s / 4)
        loop.call_later(pause_s, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = self.clock()
        for connection in list(self.open):
            connection.look(now)
        self._bound_unread()
        if self.open:
            self._sweep_later(loop)
        else:
            self._sweeping = False

    def _bound_unread(self) -> None:
        """Ends connections if unread answers take too much together, those with the most unread bytes first."""
        unread = {connection: connection.unread_bytes for connection in self.open}
        left = sum(unread.values())
        for connection in sorted(unread, key=unread.__getitem__, reverse=True):
            if left <= self.limits.unread_bytes:
                return
            left -= unread[connection]
            connection.end(
                "unread", f"{unread[connection]} bytes of responses were not read, and other clients need the memory"
            )


class Connection(HttpToolsProtocol):
    """The connection of uvicorn, with deadlines and bounds."""

    def __init__(self, connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._all = connections
        self._limits = connections.limits
        self._since = connections.clock()  # since when it waits, or since when its request arrives
        self._in_head = False
        self._head_bytes = self._large_bytes = 0
        self._unread: tuple[float, int] | None = None  # the begin of the period, and the unread bytes at that time
        self._closing_since: float | None = None

    # ---- life of the connection --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if not self._all.opened(self):
            many = self._limits.connections
            self._all.ended["refused"] += 1
            self._refuse(503, f"this server has {many} connections, its limit (--connections), and all are busy")

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self)
        self._forget_head()
        super().connection_lost(exc)

    def end(self, reason: str, why: str) -> None:
        """Closes it at once: what the client has not read is lost."""
        self._all.ended[reason] += 1
        fields = {"reason": reason, "why": why, "client": self.client[0] if self.client else None}
        log.log(logging.INFO if self._is_busy else logging.DEBUG, "a connection was closed", extra={"fields": fields})
        self._all.closed(self)
        self.transport.abort()
        self._let_go()

    def eof_received(self) -> None:
        self._let_go()  # what has no more to say is closed

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        self._let_go()

    def _let_go(self) -> None:
        """The code that still answers an earlier request finds the transport closed before it is notified."""
        for cycle in (self.cycle, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _refuse(self, status: int, why: str) -> None:
        body = why.encode() + b"\n"
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            b"retry-after: 1\r\nconnection: close\r\n\r\n%s" % (status, _PHRASES[status], len(body), body)
        )
        self.transport.close()
        self._let_go()

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    # ---- requests ----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        before = self._in_head
        super().data_received(data)
        if before and self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            self._check_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.url = bytearray()  # type: ignore[assignment]  # it grows piece by piece, until the head is whole
        self._in_head, self._head_bytes, self._since = True, 0, self._all.clock()

    def on_headers_complete(self) -> None:
        self.url = bytes(self.url)
        self._in_head = False
        if self.url.find(b"?") > _PATH_BYTES or (b"?" not in self.url and len(self.url) > _PATH_BYTES):
            self._all.ended["head"] += 1
            self._refuse(414, f"the path is over {_PATH_BYTES} bytes: send a query text as ?query=, or in the body")
            return
        self._all.is_answered(self)
        super().on_headers_complete()
        self.cycle.__class__ = _Cycle  # uvicorn has no setting for this class

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self._forget_head()
            if not self._in_head:
                self._since = self._all.clock()
            self._all.waits(self)
        super().on_response_complete()

    def _check_head(self) -> None:
        other_bytes = self._head_bytes - len(self.url)
        if self._head_bytes > self._limits.head_bytes or other_bytes > _SMALL_HEAD_BYTES:
            self._all.ended["head"] += 1
            most = f"{self._limits.head_bytes} bytes, or its headers over {_SMALL_HEAD_BYTES}"
            self._refuse(431, f"the head of a request is over {most}: send what is long in the body")
            return
        large = max(0, self._head_bytes - _SMALL_HEAD_BYTES)
        if not self._all.has_room_for_head(large - self._large_bytes):
            self._all.ended["head"] += 1
            self._refuse(503, "too many requests have long URLs: send what is long in the body")
            return
        self._all.heads_bytes += large - self._large_bytes
        self._large_bytes = large

    def _forget_head(self) -> None:
        self._all.heads_bytes -= self._large_bytes
        self._large_bytes = 0

    # ---- deadlines ---------------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Checks the deadlines; called about once a second."""
        if self._is_read_too_slowly(now):
            self.end("unread", f"its client has read almost nothing for {self._limits.slow_s:g} s")
        elif self.transport.is_closing() or self._is_busy:
            return
        elif self._in_head and now - self._since > self._limits.head_s:
            self._all.ended["head"] += 1
            self._refuse(408, f"the head of the request was not complete within {self._limits.head_s:g} s")
        elif not self._in_head and now - self._since > self._limits.idle_s:
            self._all.ended["idle"] += 1
            self.transport.close()

    def _is_read_too_slowly(self, now: float) -> bool:
        """Whether the client read too little of the buffer in this period. While the buffer is over its high-water
        mark, nothing is added to it."""
        size = self.unread_bytes
        if not size or not (self.flow.write_paused or self.transport.is_closing()):
            self._unread = None
            return False
        if self._unread is None or size > self._unread[1]:
            self._unread = now, size
            return False
        since, was = self._unread
        if now - since < self._limits.slow_s:
            return False
        if was - size < self._limits.rate_bytes * (now - since):
            return True
        self._unread = now, size
        return False


class _Cycle(RequestResponseCycle):
    """A request and its answer. If a connection has ended by itself, its answer notices later; what is sent in
    between is lost, and that is no error.

    The head of an answer whose body follows at once is written together with it: each write is a call of the system, a
    packet, and a client that is woken."""

    _head: Any = None  # its body follows at once

    async def send(self, message: Any) -> None:
        if self.transport.is_closing():
            self.disconnected = True
        head, self._head = self._head, None
        if head is not None:
            if self._is_plain(head, message):
                self._write_whole(head, message.get("body", b""))
                return
            await super().send(head)
        elif message.get(BODY_FOLLOWS):
            self._head = message
            return
        await super().send(message)

    def _is_plain(self, head: Any, message: Any) -> bool:
        """Whether it is an answer with a length, on a connection that stays open and takes it. uvicorn writes the
        others, and rejects what is no answer."""
        if not self.keep_alive or self.disconnected or self.response_started or self.flow.write_paused:
            return False
        if message.get("more_body") or self.scope["method"] == "HEAD":
            return False
        length, is_right = b"%d" % len(message.get("body", b"")), False
        for name, value in head["headers"]:
            if name in _OF_CONNECTION:
                return False
            is_right = is_right or (name == b"content-length" and value == length)
        return is_right

    def _write_whole(self, head: Any, body: bytes) -> None:
        headers = self.default_headers + head["headers"]
        names, values = zip(*headers, strict=True)
        if HEADER_RE.search(b"".join(names)):
            raise RuntimeError("the name of a header has characters that it may not have")
        if HEADER_VALUE_RE.search(b"".join(values)):
            raise RuntimeError("a header has characters that it may not have")
        lines = [b"%s: %s\r\n" % header for header in headers]
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(b"".join((STATUS_LINE[head["status"]], *lines, b"\r\n", body)))
        self.message_event.set()
        self.on_response()


_OF_CONNECTION = frozenset({b"connection", b"transfer-encoding"})
_PHRASES = {
    414: b"URI Too Long",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}
