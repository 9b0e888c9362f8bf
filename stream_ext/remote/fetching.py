"""Fetching: an RDF document from a URL that is allowed, within a size and a time."""

from __future__ import annotations

import gzip
import io
import os
import stat
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from stream_ext.rdf.documents import DOCUMENT_TYPES, JSON_LD, N_QUADS, N_TRIPLES, RDF_XML, TRIG, TURTLE
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.http_limits import PackedOtherwise, client, streamed

if TYPE_CHECKING:
    import httpx

_SUFFIXES = {
    ".nt": N_TRIPLES, ".nq": N_QUADS, ".ttl": TURTLE, ".trig": TRIG, ".rdf": RDF_XML, ".owl": RDF_XML, ".xml": RDF_XML,
    ".jsonld": JSON_LD,
}  # fmt: skip
#: A server that says one of these does not know what it sends: the name decides.
_VAGUE = ("", "text/plain", "application/octet-stream", "application/gzip", "application/x-gzip", "application/xml")
_REDIRECTS_MAX = 5


class CannotFetch(Exception):
    """Why there is no document."""


class NoAnswer(CannotFetch):
    """The server cannot be reached, or took too long: another request to it would fail, too."""


@dataclass(frozen=True, slots=True)
class Fetched:
    url: str  # where it was found in the end: what its relative IRIs resolve against
    media_type: str
    data: bytes


def fetch(url: str, allowed_urls: AllowedUrls) -> Fetched:
    """Raises OutOfBounds or CannotFetch."""
    allowed = allowed_urls.check_load(url)
    found = _file(allowed, allowed_urls) if allowed.startswith("file:") else _over_http(allowed, allowed_urls)
    if urlsplit(found.url).path.lower().endswith(".gz"):
        return Fetched(found.url, found.media_type, _unzipped(found, allowed_urls.bytes_max))
    return found


# ---- files -----------------------------------------------------------------------------------------------------


def _file(url: str, allowed_urls: AllowedUrls) -> Fetched:
    try:
        with open(unquote(urlsplit(url).path), "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CannotFetch(f"<{url}> is not a file")
            data = file.read(allowed_urls.bytes_max + 1)
    except OSError as error:
        raise CannotFetch(f"<{url}> cannot be read: {error.strerror}") from None
    return Fetched(url, _by_name(url, "its name"), _within(data, url, allowed_urls.bytes_max))


def _without_waiting(path: str, flags: int) -> int:
    """Opens without waiting: an open of a pipe that nobody writes to would wait for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


# ---- HTTP ------------------------------------------------------------------------------------------------------


def _over_http(url: str, allowed_urls: AllowedUrls) -> Fetched:
    import httpx  # takes a tenth of a second to import

    ends = time.monotonic() + allowed_urls.timeout_s
    accept = ", ".join([TURTLE, N_TRIPLES, *(f"{each};q=0.8" for each in DOCUMENT_TYPES), "*/*;q=0.1"])
    with client(
        httpx.create_ssl_context(trust_env=False), timeout=allowed_urls.timeout_s, headers={"accept": accept}
    ) as asks:
        try:
            return _followed(asks, url, allowed_urls, ends)
        except PackedOtherwise as error:
            raise CannotFetch(f"<{url}> {error}") from None
        except httpx.TimeoutException:
            raise NoAnswer(late(url, allowed_urls)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CannotFetch(f"<{url}> cannot be fetched: {error or type(error).__name__}") from None


def _followed(asks: httpx.Client, url: str, allowed_urls: AllowedUrls, ends: float) -> Fetched:
    """Each step of a redirection must be allowed."""
    for _ in range(_REDIRECTS_MAX + 1):
        with streamed(asks, "GET", url, max(0.0, ends - time.monotonic())) as response:
            if not response.is_redirect:
                return _received(response, url, allowed_urls, ends)
            url = allowed_urls.check_load(urljoin(url, response.headers["location"]))
            if url.startswith("file:"):
                raise CannotFetch(f"a server redirected this request to <{url}>")
    raise CannotFetch(f"<{url}>: more than {_REDIRECTS_MAX} redirects")


def _received(response: httpx.Response, url: str, allowed_urls: AllowedUrls, ends: float) -> Fetched:
    if response.status_code != 200:
        raise CannotFetch(f"<{url}> answered {response.status_code} {response.reason_phrase}".rstrip())
    content_type = response.headers.get("content-type", "")
    vague = content_type.partition(";")[0].strip().lower() in _VAGUE
    media_type = _by_name(url, f"Content-Type {content_type or '(none)'} and its name") if vague else content_type
    return Fetched(url, media_type, b"".join(pieces(response, url, allowed_urls, ends)))


def pieces(response: httpx.Response, url: str, allowed_urls: AllowedUrls, ends: float) -> Iterator[bytes]:
    """The body, unpacked, as far as size and time allow."""
    size = 0
    for piece in response.iter_bytes():  # as they come: a server may send a byte at a time
        size += len(piece)
        if size > allowed_urls.bytes_max:
            raise CannotFetch(_large(url, allowed_urls.bytes_max))
        if time.monotonic() > ends:
            raise NoAnswer(late(url, allowed_urls))
        yield piece


# ---- files and HTTP --------------------------------------------------------------------------------------------


def _by_name(url: str, looked_at: str) -> str:
    stem = Path(urlsplit(url).path.lower().removesuffix(".gz"))
    media_type = _SUFFIXES.get(stem.suffix)
    if media_type is None:
        raise CannotFetch(f"<{url}>: {looked_at} does not determine the RDF format ({' '.join(_SUFFIXES)}, also .gz)")
    return media_type


def _unzipped(found: Fetched, bytes_max: int) -> bytes:
    try:
        with gzip.open(io.BytesIO(found.data)) as file:
            return _within(file.read(bytes_max + 1), found.url, bytes_max)
    except (OSError, EOFError, zlib.error):
        raise CannotFetch(f"<{found.url}> is not valid gzip data, or is incomplete") from None


def _within(data: bytes, url: str, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise CannotFetch(_large(url, bytes_max))
    return data


def _large(url: str, bytes_max: int) -> str:
    return f"<{url}> has more than {bytes_max} bytes, the limit of this server (--fetch-bytes)"


def late(url: str, allowed_urls: AllowedUrls) -> str:
    return f"<{url}> took longer than {allowed_urls.timeout_s:g} s (--fetch-timeout)"
