"""The body of a request, read piece by piece: one that is too long is rejected before all of it has arrived.

A compressed body is unpacked with a limit on its unpacked size, as a few kilobytes can unpack to gigabytes. The
bodies of all running requests together are limited, too: if many large bodies arrive at once, the server accepts
some and answers the others with an error that says to try again. A declared length counts only when its bytes have
arrived. A client that sends too slowly is disconnected."""

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
#: Bodies of at most so many bytes have twice the room: a few large bodies must not block many small ones.
_SMALL_BYTES = 1 << 20
_RETRY_AFTER_S = 1


class Disconnected(Exception):
    """The client closed the connection before its request was complete: there is no one to answer."""


class Bodies:
    """The size of the bodies of all running requests together. On the event loop only."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[object, int] = {}
        self.nbytes = 0
        self.refused = 0

    def hold(self, request: object, size: int) -> None:
        """Counts `size` bytes for this request. Overload if the bodies of the other requests leave no room for them."""
        others = self.nbytes - self._sizes.get(request, 0)
        room = self._bytes_max * (1 if size > _SMALL_BYTES else 2)
        if others and others + size > room:
            self.refused += 1
            raise Overload(
                f"the bodies of other requests use {others} bytes, which leaves no room for {size} more; send "
                "this request again later",
                _RETRY_AFTER_S,
            )
        self._sizes[request], self.nbytes = size, others + size

    def release(self, request: object) -> None:
        self.nbytes -= self._sizes.pop(request, 0)


class Paced:
    """`receive` with a minimum rate: in each `slow_s` of waiting `rate_bytes` a second must arrive, otherwise
    TooSlow."""

    def __init__(self, receive: Receive, slow_s: float, rate_bytes: int) -> None:
        self._receive, self._slow_s, self._least = receive, slow_s, int(slow_s * rate_bytes)
        self._left_s, self._received = slow_s, 0

    async def __call__(self) -> MutableMapping[str, Any]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._left_s):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(
                f"{self._received} bytes of the body arrived in {self._slow_s:g} s, fewer than the required "
                f"{self._least}: send it faster, or in parts"
            ) from None
        self._left_s -= loop.time() - began
        self._received += len(message.get("body", b""))
        if self._received >= self._least:
            self._left_s, self._received = self._slow_s, 0
        return message


async def read_body(receive: Receive, declared: str | None, limit: int, hold: Callable[[int], None]) -> bytes:
    """The whole body. `declared`: its Content-Length, if there is one; `hold` is called with the size so far."""
    if declared and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()  # not a list of pieces: a body that is sent byte by byte would have too many
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
    """The body without its Content-Encoding."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    for name in reversed(names):
        if name in ("gzip", "x-gzip", "deflate"):
            body = _inflate(body, limit)
        elif name == "zstd":
            body = _unpack_zstd(body, limit)
        elif name != "identity":
            raise UnsupportedMedia(f"Content-Encoding: {name} is not supported; use gzip, deflate or zstd")
    return body


def _inflate(body: bytes, limit: int) -> bytes:
    return _unpacked(body, limit, lambda: zlib.decompressobj(_GZIP_OR_ZLIB), zlib.error, "gzip")


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    return _unpacked(body, limit, unpacker.decompressobj, zstandard.ZstdError, "zstd")


def _unpacked(body: bytes, limit: int, start: Callable[[], Any], fault: type[Exception], what: str) -> bytes:
    """Unpacks all members, one after the other; `start` creates the decompressor of a member."""
    pieces: list[bytes] = []
    size = at = 0
    while at < len(body):
        engine = start()
        while not engine.eof:
            # In small pieces: the output of one call is not bounded, and each call copies the unused input.
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
    return TooLarge(f"the body is over {limit} bytes after decompression; send it in parts")


def as_text(body: bytes, what: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadArgument(f"the {what} is not UTF-8 (byte {error.start})") from None
