"""The scripts and styles of the pages: packed once, and sent again only when they have changed."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Response, request

from stream_ext.errors import NotFound

if TYPE_CHECKING:
    from endpoint.console.room import Room

_FOLDER = Path(__file__).parent / "static"
_TEXT = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    packed: bytes
    media_type: str
    tag: str


def give(_room: Room, filename: str) -> Response:
    asset = assets().get(filename)
    if asset is None:
        raise NotFound(f"the console has no file {filename!r}")
    packed = "gzip" in request.headers.get("accept-encoding", "")
    response = Response(asset.packed if packed else asset.body, content_type=asset.media_type)
    if packed:
        response.headers["content-encoding"] = "gzip"
    response.headers["vary"] = "accept-encoding"
    response.headers["cache-control"] = "no-cache"  # kept by the browser, and asked for again: it may have changed
    response.set_etag(asset.tag + ("-packed" if packed else ""))
    response.make_conditional(request)
    return response


@cache
def assets() -> dict[str, Asset]:
    """All files of the folder by their paths in it."""
    files = [file for file in _FOLDER.rglob("*") if file.is_file()]
    return {file.relative_to(_FOLDER).as_posix(): _read(file) for file in files}


def has_libraries() -> bool:
    """Whether the editor and the charts of others were made at set-up (`endpoint.console.web`)."""
    return "libraries/codemirror.js" in assets()


def _read(file: Path) -> Asset:
    body = file.read_bytes()
    media_type = _TEXT.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Asset(body, gzip.compress(body, mtime=0), media_type, hashlib.sha256(body).hexdigest()[:16])
