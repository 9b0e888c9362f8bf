"""The body of a request: read piece by piece, so that one that is too long is refused before it is all here.

A compressed body is unpacked with a bound on what comes out, for a few kilobytes can say gigabytes. And what all
requests under way bring together is bounded: a server that is sent many large bodies at once takes some, and asks the
other clients to come back."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import zstandard

from stream_ext.errors import BadArgument, BadData, Overload, TooLarge, UnsupportedMedia

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_ZSTD_WINDOW_BYTES = 128 << 20
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_STEP_BYTES = 1 << 10
#: A body of at most so many bytes is always let in: few large ones must not hold many small ones back.
_SMALL_BYTES = 1 << 20
_RETRY_AFTER_S = 1


class Disconnected(Exception):
    """The client went away in the middle: there is no one to answer."""


class Bodies:
    """How much the bodies of all requests under way take together. On the event loop only."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: dict[object, int] = {}
        self.nbytes = 0

    def hold(self, request: object, size: int) -> None:
        """The body of this request has come to `size` bytes, or will. Overload if there is no room beside others'."""
        others = self.nbytes - self._held.get(request, 0)
        if others and size > _SMALL_BYTES and others + size > self._bytes_max:
            raise Overload(
                f"the bodies of other requests take {others} bytes, and there is no room for {size} more beside them; "
                "send this one again a little later",
                _RETRY_AFTER_S,
            )
        self._held[request], self.nbytes = size, others + size

    def release(self, request: object) -> None:
        self.nbytes -= self._held.pop(request, 0)


async def read_body(receive: Receive, declared: str | None, limit: int, hold: Callable[[int], None]) -> bytes:
    """All of the body. `declared` is its Content-Length, if the client gave one; `hold` is told how much there is."""
    if declared and declared.isdigit():
        if int(declared) > limit:
            raise _too_large(limit)
        hold(int(declared))
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limit:
            raise _too_large(limit)
        if not declared:
            hold(size)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is over {limit} bytes; send it in parts")


def unpack(body: bytes, encoding: str, limit: int) -> bytes:
    """`body` without its Content-Encoding."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    for name in reversed(names):
        if name in ("gzip", "x-gzip", "deflate"):
            body = _inflate(body, limit)
        elif name == "zstd":
            body = _unpack_zstd(body, limit)
        elif name != "identity":
            raise UnsupportedMedia(f"Content-Encoding: {name} is not read here; gzip, deflate and zstd are")
    return body


def _inflate(body: bytes, limit: int) -> bytes:
    return _unpacked(body, limit, lambda: zlib.decompressobj(_GZIP_OR_ZLIB), zlib.error, "gzip")


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    return _unpacked(body, limit, unpacker.decompressobj, zstandard.ZstdError, "zstd")


def _unpacked(body: bytes, limit: int, start: Callable[[], Any], fault: type[Exception], what: str) -> bytes:
    """All members, one after the other: of each, `start` makes what unpacks it."""
    pieces: list[bytes] = []
    size = at = 0
    while at < len(body):
        engine = start()
        while not engine.eof:
            # In small pieces, because what one call gives is not bounded, and what a member leaves over is copied.
            fed = body[at : at + _STEP_BYTES]
            if not fed:
                raise BadData(f"the {what} body ends too early")
            try:
                pieces.append(engine.decompress(fed))
            except fault as error:
                raise BadData(f"the body is not {what}: {error}") from None
            size += len(pieces[-1])
            if size > limit:
                raise _bomb(limit)
            at += len(fed) - len(engine.unused_data)
    return b"".join(pieces)


def _bomb(limit: int) -> TooLarge:
    return TooLarge(f"the body is over {limit} bytes once it is unpacked; send it in parts")


def as_text(body: bytes, what: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadArgument(f"the {what} is not UTF-8 (byte {error.start})") from None
