"""`/$/assets/...`: scripts and styles of the page /docs, from installed packages: no network is needed.

Swagger UI is a part of the package flask-swagger-ui, of which nothing else is used."""

from __future__ import annotations

import gzip
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from stream_ext.errors import NotFound

if TYPE_CHECKING:
    from endpoint.http.exchange import Exchange  # an import cycle: the console imports this module

PATH = "$/assets/"
_TYPES = {".js": b"text/javascript; charset=utf-8", ".css": b"text/css; charset=utf-8"}
_SWAGGER_UI = ("swagger-ui-bundle.js", "swagger-ui.css")
_CACHED = (b"cache-control", b"public, max-age=86400")


async def give(exchange: Exchange, name: str) -> None:
    exchange.parameters().done("none")
    packed = _packed().get(name)
    if packed is None:
        raise NotFound(f"there is no asset {name}; the assets are {', '.join(_packed())}")
    media_type = next(kind for ending, kind in _TYPES.items() if name.endswith(ending))
    headers = [_CACHED, (b"vary", b"accept-encoding")]
    if "gzip" in exchange.headers.get("accept-encoding", ""):
        await exchange.answer(200, packed, media_type, [*headers, (b"content-encoding", b"gzip")])
    else:
        await exchange.answer(200, _unpacked(name), media_type, headers)


@cache
def _packed() -> dict[str, bytes]:
    swagger_ui = resources.files("flask_swagger_ui") / "dist"
    files = [*(resources.files("endpoint") / "static").iterdir(), *(swagger_ui / name for name in _SWAGGER_UI)]
    return {each.name: gzip.compress(each.read_bytes(), mtime=0) for each in files}


@cache
def _unpacked(name: str) -> bytes:
    return gzip.decompress(_packed()[name])
