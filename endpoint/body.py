"""The body of a request: read piece by piece, so that one that is too long is refused before it is all here.

A compressed body is unpacked with a bound on what comes out, for a few kilobytes can say gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import zstandard

from stream_ext.errors import BadArgument, BadData, TooLarge, UnsupportedMedia

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_ZSTD_WINDOW_BYTES = 128 << 20
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_STEP_BYTES = 1 << 10


class Disconnected(Exception):
    """The client went away in the middle: there is no one to answer."""


async def read_body(receive: Receive, declared: str | None, limit: int) -> bytes:
    """All of the body. `declared` is its Content-Length, where the client gave one."""
    if declared and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
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
    whole = bytearray()
    while body:
        engine = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            whole += engine.decompress(body, limit + 1 - len(whole))
        except zlib.error as error:
            raise BadData(f"the body is not gzip: {error}") from None
        if len(whole) > limit:
            raise _bomb(limit)
        if not engine.eof:
            raise BadData("the gzip body ends too early")
        body = engine.unused_data  # another member may follow
    return bytes(whole)


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    whole = bytearray()
    while body:
        engine = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
        # In small pieces, because what one call gives cannot be bounded.
        for start in range(0, len(body), _STEP_BYTES):
            try:
                whole += engine.decompress(body[start : start + _STEP_BYTES])
            except zstandard.ZstdError as error:
                raise BadData(f"the body is not zstd: {error}") from None
            if len(whole) > limit:
                raise _bomb(limit)
            if engine.eof:
                break
        if not engine.eof:
            raise BadData("the zstd body ends too early")
        body = engine.unused_data + body[start + _STEP_BYTES :]  # another frame may follow
    return bytes(whole)


def _bomb(limit: int) -> TooLarge:
    return TooLarge(f"the body is over {limit} bytes once it is unpacked; send it in parts")


def as_text(body: bytes, what: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadArgument(f"the {what} is not UTF-8 (byte {error.start})") from None
