"""`/$/assets/...`: scripts and styles of /docs, from the package itself, so that it works without a network."""

from __future__ import annotations

import gzip
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from stream_ext.errors import NotFound

if TYPE_CHECKING:
    from endpoint.exchange import Exchange  # the pages behind it want this module first

PATH = "$/assets/"
_TYPES = {".js": b"text/javascript; charset=utf-8", ".css": b"text/css; charset=utf-8"}
_KEPT = (b"cache-control", b"public, max-age=86400")


async def give(exchange: Exchange, name: str) -> None:
    exchange.parameters().done("none")
    packed = _packed().get(name)
    if packed is None:
        raise NotFound(f"there is no asset {name}; there is {', '.join(_packed())}")
    media_type = next(kind for ending, kind in _TYPES.items() if name.endswith(ending))
    headers = [_KEPT, (b"vary", b"accept-encoding")]
    if "gzip" in exchange.headers.get("accept-encoding", ""):
        await exchange.answer(200, packed, media_type, [*headers, (b"content-encoding", b"gzip")])
    else:
        await exchange.answer(200, _unpacked(name), media_type, headers)


@cache
def _packed() -> dict[str, bytes]:
    bundled, own = (resources.files("endpoint") / folder for folder in ("bundled", "static"))
    packed = {
        each.name.removesuffix(".gz"): each.read_bytes() for each in bundled.iterdir() if each.name.endswith(".gz")
    }
    return packed | {each.name: gzip.compress(each.read_bytes(), mtime=0) for each in own.iterdir()}


@cache
def _unpacked(name: str) -> bytes:
    return gzip.decompress(_packed()[name])
