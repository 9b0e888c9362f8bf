"""The body of a request: read piece by piece, so that one that is too long is refused before it is all here.

A compressed body is unpacked with a bound on what comes out, for a few kilobytes can say gigabytes. And what all
requests under way have brought is bounded: a server that is sent many large bodies at once takes some, and asks the
other clients to come back. What a client only says that it will send takes nothing; and one that is too slow is not
waited for."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import zstandard

from endpoint.errors import TooSlow
from stream_ext.errors import BadArgument, BadData, Overload, TooLarge, UnsupportedMedia

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_ZSTD_WINDOW_BYTES = 128 << 20
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_STEP_BYTES = 1 << 10
#: Bodies of at most so many bytes have as much room again: few large ones must not hold many small ones back.
_SMALL_BYTES = 1 << 20
_RETRY_AFTER_S = 1


class Disconnected(Exception):
    """The client went away in the middle: there is no one to answer."""


class Bodies:
    """How much the bodies of all requests under way take together. On the event loop only."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[object, int] = {}
        self.nbytes = 0
        self.refused = 0

    def hold(self, request: object, size: int) -> None:
        """So many bytes of this request are here. Overload if there is no room for them beside others'."""
        others = self.nbytes - self._sizes.get(request, 0)
        room = self._bytes_max * (1 if size > _SMALL_BYTES else 2)
        if others and others + size > room:
            self.refused += 1
            raise Overload(
                f"the bodies of other requests take {others} bytes, and there is no room for {size} more beside them; "
                "send this one again a little later",
                _RETRY_AFTER_S,
            )
        self._sizes[request], self.nbytes = size, others + size

    def release(self, request: object) -> None:
        self.nbytes -= self._sizes.pop(request, 0)


class Paced:
    """`receive` for a body: in each `slow_s` that we wait it brings `rate_bytes` a second, or ends."""

    def __init__(self, receive: Receive, slow_s: float, rate_bytes: int) -> None:
        self._receive, self._slow_s, self._least = receive, slow_s, int(slow_s * rate_bytes)
        self._left_s, self._brought = slow_s, 0

    async def __call__(self) -> MutableMapping[str, Any]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._left_s):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(
                f"of the body came {self._brought} bytes in {self._slow_s:g} s, fewer than the {self._least} that are "
                "waited for: send it faster, or in parts"
            ) from None
        self._left_s -= loop.time() - began
        self._brought += len(message.get("body", b""))
        if self._brought >= self._least:
            self._left_s, self._brought = self._slow_s, 0
        return message


async def read_body(receive: Receive, declared: str | None, limit: int, hold: Callable[[int], None]) -> bytes:
    """All of the body. `declared` is its Content-Length, if the client gave one; `hold` is told how much there is."""
    if declared and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()  # not a list of pieces, of which one that is sent byte by byte has too many
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece: bytes = message.get("body", b"")
        if len(body) + len(piece) > limit:
            raise _too_large(limit)
        hold(len(body) + len(piece))
        if not message.get("more_body", False):
            return bytes(body) + piece if body else piece
        body += piece


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
