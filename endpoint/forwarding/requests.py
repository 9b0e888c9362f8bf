"""A request as it is forwarded: which headers go along, and whether it may be sent twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from endpoint.http.body import Disconnected
from endpoint.http.exchange import Exchange, Headers
from endpoint.http.parameters import parse_pairs
from endpoint.http.sealed import COMMIT, ERROR, HEADER
from stream_ext.errors import TooLarge

#: Bodies up to this size are read before they are forwarded, and can be sent again if the writer has just changed.
BUFFERED_BYTES = 1 << 20

#: They are about one connection, or were checked here; with the seal the writer needs no others.
_NOT_SENT = frozenset(
    (
        "connection", "keep-alive", "transfer-encoding", "upgrade", "te", "expect", "content-length", "authorization",
        "cookie", "origin", "referer", "accept-encoding", HEADER,
    )
)  # fmt: skip
_NOT_RELAYED = frozenset(("connection", "keep-alive", "transfer-encoding", "date", "server", COMMIT, ERROR))
_READS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    method: str
    target: bytes  # the path with its parameters
    headers: Headers
    body: bytes | AsyncIterator[bytes]
    reads: bool
    counts_once: bool  # its `source` and `seq` make sure of it, however often it is sent

    @property
    def is_read(self) -> bool:
        """Whether all of the body is here, so that it can be sent again if the writer has not begun with it."""
        return isinstance(self.body, bytes)

    @property
    def may_repeat(self) -> bool:
        """Whether it does no harm to send it again when it is not known whether it was done."""
        return self.is_read and (self.reads or self.counts_once)


async def request_of(exchange: Exchange, body_bytes_max: int | None) -> ForwardedRequest:
    """A short body is read. A body that was read already is sent as it was unpacked."""
    names = dict(parse_pairs(exchange.query_string))
    headers = [
        (name.encode(), value.encode("latin-1"))
        for name, value in exchange.headers.items()
        if name not in _NOT_SENT and not name.startswith("sec-")
    ]
    body: bytes | AsyncIterator[bytes] = b""
    if exchange.unpacked is not None:
        body = exchange.unpacked
        headers = [header for header in headers if header[0] != b"content-encoding"]
    elif exchange.method not in _READS:
        declared = exchange.headers.get("content-length", "")
        is_short = declared.isdigit() and int(declared) <= BUFFERED_BYTES
        has_none = not declared and "transfer-encoding" not in exchange.headers
        body = await exchange.sent_body() if is_short or has_none else _pieces(exchange, body_bytes_max)
    target = exchange.path + (b"?" + exchange.query_string if exchange.query_string else b"")
    reads = exchange.method in _READS
    return ForwardedRequest(exchange.method, target, headers, body, reads, "source" in names and "seq" in names)


async def _pieces(exchange: Exchange, bytes_max: int | None) -> AsyncIterator[bytes]:
    """The body as it arrives."""
    size, more, receive = 0, True, exchange.paced()
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if bytes_max is not None and size > bytes_max:
            raise TooLarge(f"the body is over {bytes_max} bytes; send it in parts")
        more = message.get("more_body", False)
        if piece:
            yield piece


def relayed(headers: Headers) -> Headers:
    """The headers of the writer's answer that the client gets."""
    return [(name, value) for name, value in headers if name.decode("latin-1").lower() not in _NOT_RELAYED]
