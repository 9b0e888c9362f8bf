"""Who may write: on loopback everyone on this machine, elsewhere who has the token.

A web page that the user happens to visit can post to 127.0.0.1 as well. Browsers say where a page is from, so
without a token a page of another origin is turned away."""

from __future__ import annotations

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
        """Whether writing takes a token."""
        return self._token is not None

    def check(self, authorization: str | None, origin: str | None) -> None:
        if self._token is not None:
            self._check_token(authorization)
        elif origin is not None and not self._is_ours(origin):
            raise Forbidden(f"a page of {origin} may not write here; serve with --token, and send it as a bearer token")

    def _check_token(self, authorization: str | None) -> None:
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Unauthorized("writing needs the token of this server: send `Authorization: Bearer TOKEN`")
        if not hmac.compare_digest(token.strip().encode(), (self._token or "").encode()):
            raise Unauthorized("this is not the token of this server")

    def _is_ours(self, origin: str) -> bool:
        return _origin(origin) == self._own or is_loopback(urlsplit(origin).hostname or "")


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
