"""Allowed URLs: what a request may make the server fetch, from other machines and its own files. By default nothing.

LOAD and SERVICE name URLs. By them, a client could reach what only the server can reach. So each of the two has a list
of URLs that are allowed, with all that lies below them. A list is read by its parts: `https://example.org/data`
allows /data and /data/x.ttl of that very host and port, and neither /database nor https://example.org.evil.net/data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from stream_ext.errors import BadArgument

_PORTS = {"http": 80, "https": 443, "file": 0}


class OutOfBounds(Exception):
    """A URL that this server does not fetch."""


@dataclass(frozen=True, slots=True)
class UrlParts:
    """A URL in parts that can be compared: the host in lower case, the port always there, the path without escapes.

    The path of a file has no symbolic links any more."""

    scheme: str
    host: str
    port: int
    path: str

    def covers(self, other: UrlParts) -> bool:
        """Whether `other` is this URL, or lies below it."""
        if (self.scheme, self.host, self.port) != (other.scheme, other.host, other.port):
            return False
        return other.path == self.path or other.path.startswith(self.path.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class AllowedUrls:
    """The URLs that LOAD and SERVICE may fetch, and the limits of a fetch."""

    load: tuple[UrlParts, ...] = ()
    service: tuple[UrlParts, ...] = ()
    bytes_max: int = 64 << 20  # of one document or answer
    timeout_s: float = 30.0
    # Of registered queries:
    refresh_s: float = 60.0  # answers of a service are used by evaluations for so long
    service_timeout_s: float = 5.0  # an evaluation waits so long for all its services together

    def check_load(self, url: str) -> str:
        """The URL as it is to be fetched."""
        return _checked(url, self.load, "LOAD", "--allow-load")

    def check_service(self, url: str) -> str:
        return _checked(url, self.service, "SERVICE", "--allow-service")


NOTHING = AllowedUrls()


def places(text: str) -> tuple[UrlParts, ...]:
    """The URLs of a list, which are separated by blanks; BadArgument if one of them is not a URL."""
    found = []
    for url in text.split():
        try:
            found.append(_place(urlsplit(url)))
        except ValueError as error:
            raise BadArgument(f"{url}: {error}; write https://example.org/data/ or file:///srv/rdf/") from None
    return tuple(found)


def _checked(url: str, allowed: tuple[UrlParts, ...], verb: str, flag: str) -> str:
    if not allowed:
        raise OutOfBounds(f"{verb} is off: this server was started without {flag}")
    try:
        parts = urlsplit(url)
        place = _place(parts)
    except ValueError as error:
        raise OutOfBounds(f"<{url}> cannot be fetched: {error}") from None
    if not any(each.covers(place) for each in allowed):
        raise OutOfBounds(f"<{url}> is not among the URLs that this server allows ({flag})")
    # Written anew from the parts that were checked, so that no HTTP client can read it in another way.
    path = quote(place.path) if place.scheme == "file" else parts.path
    return urlunsplit((place.scheme, _authority(place), path, parts.query, ""))


def _authority(place: UrlParts) -> str:
    host = f"[{place.host}]" if ":" in place.host else place.host
    return host if place.port == _PORTS[place.scheme] else f"{host}:{place.port}"


def _place(parts: SplitResult) -> UrlParts:
    """The parts of a URL; ValueError for a URL that is not fetched, or that can be read in more than one way."""
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise ValueError("only http, https and file URLs are supported")
    if "@" in parts.netloc or "\\" in parts.netloc:
        raise ValueError("a URL must not have a user name or a backslash")
    host = (parts.hostname or "").lower().removesuffix(".")
    if (scheme == "file") == bool(host and host != "localhost"):
        raise ValueError("a file URL has no host, and every other URL has one")
    path = unquote(parts.path) or "/"
    if not path.startswith("/") or {".", ".."} & set(path.replace("\\", "/").split("/")) or "\0" in path:
        raise ValueError("a path begins with / and has no . or .. in it")
    if scheme == "file":
        return UrlParts(scheme, "", 0, os.path.realpath(path))
    return UrlParts(scheme, host, parts.port or _PORTS[scheme], path)
