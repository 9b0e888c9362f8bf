"""Who may write: on loopback everyone on this machine, elsewhere who has the token.

A web page that the user happens to visit can post to 127.0.0.1 as well. Browsers say where a page is from, so
without a token a page of another origin is turned away. The token comes as a bearer token, or as the password of
Basic, for clients that know nothing else; a browser sends a password that it remembers with the requests of any page,
so there a page of another origin is turned away, too."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from urllib.parse import urlsplit

from endpoint.errors import Forbidden, Unauthorized


class Access:
    def __init__(self, token: str | None, base: str) -> None:
        self._token = token
        self._own = _origin(base)

    @property
    def guarded(self) -> bool:
        """Whether writing needs the token."""
        return self._token is not None

    def check(self, authorization: str | None, origin: str | None) -> None:
        if self._token is None:
            self._check_origin(origin, "serve with --token, and send it as a bearer token")
            return
        kind, token = _credentials(authorization)
        if kind == "basic":
            self._check_origin(origin, "send the token as a bearer token")
        if not hmac.compare_digest(token, self._token.encode()):
            raise Unauthorized("this is not the token of this server")

    def _check_origin(self, origin: str | None, instead: str) -> None:
        if origin is not None and not self._is_ours(origin):
            raise Forbidden(f"a page of {origin} may not write here; {instead}")

    def _is_ours(self, origin: str) -> bool:
        scheme, place = _origin(origin)
        return (scheme, place) == self._own or is_loopback(_host(place))


def _credentials(authorization: str | None) -> tuple[str, bytes]:
    """`bearer` or `basic`, and the token that came so."""
    kind, _, given = (authorization or "").partition(" ")
    kind, given = kind.lower(), given.strip()
    if kind == "bearer" and given:
        return kind, given.encode()
    if kind == "basic" and given:
        try:
            _, _, password = base64.b64decode(given, validate=True).partition(b":")
        except (binascii.Error, ValueError):
            raise Unauthorized("Authorization: Basic is base64 of USER:TOKEN; this is not") from None
        return kind, password
    raise Unauthorized(
        "writing needs the token of this server: send `Authorization: Bearer TOKEN`, or Basic with it as the password"
    )


def _origin(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", url  # no address at all, so none of ours
    return parts.scheme, parts.netloc


def _host(place: str) -> str:
    """Without its port."""
    return place.partition("]")[0].lstrip("[") if place.startswith("[") else place.partition(":")[0]


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
