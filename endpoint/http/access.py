"""Access: which hosts and pages are answered, who may read, and who may write.

A server that only this machine can reach needs no token. But any web page that a user visits can reach it as well,
through the user's browser. Two rules prevent this. Such a server answers only requests for its own host names, because
a page that uses DNS rebinding sends another host name. And a write from a browser must come from a page of this server
(same scheme, name and port), which browsers report; programs report no page. Headers of proxies (X-Forwarded-...) are
not read: any client can write them.

The token is a bearer token, or the password of Basic for clients that know nothing else. With the token one may read
and write, with the read token only read. A page of an origin that --cors allows may read, and may write with the
bearer token; not with Basic, since browsers add a remembered password to the requests of any page."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import re
import secrets
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from endpoint.errors import Forbidden, Unauthorized

Level = Literal["read", "write"]
#: In place of an origin: any origin.
ANY = "*"

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.IGNORECASE)
_SIGNED_IN_MAX = 1_000
#: So many Host headers are remembered, with their ports; those that are not answered are not.
_ANSWERED_MAX = 1_000
_VARIES = (b"vary", b"Origin")
_EXPOSED = (
    b"access-control-expose-headers",
    b"Rillet-Snapshot, Rillet-Inserted, Rillet-Deleted, Rillet-Warning, Location, Retry-After",
)
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Last-Event-ID"),
    (b"access-control-max-age", b"600"),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The headers of a request that say where it comes from and what it may do."""

    scheme: str
    port: str  # of the server that it has reached
    host: str | None
    origin: str | None
    site: str | None
    authorization: str | None
    cookies: str | None

    @classmethod
    def of(cls, scheme: str, port: object, headers: Mapping[str, str]) -> Caller:
        return cls(
            scheme,
            str(port),
            headers.get("host"),
            headers.get("origin"),
            headers.get("sec-fetch-site"),
            headers.get("authorization"),
            headers.get("cookie"),
        )


class SignIns:
    """The sign-ins to the console: random ids, each with its level (read, write), until it signs out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels: dict[str, Level] = {}

    def begin(self, level: Level) -> str:
        with self._lock:
            while len(self._levels) >= _SIGNED_IN_MAX:
                del self._levels[next(iter(self._levels))]
            id = secrets.token_urlsafe(32)
            self._levels[id] = level
            return id

    def level(self, id: object) -> Level | None:
        return self._levels.get(id) if isinstance(id, str) else None

    def end(self, id: object) -> None:
        if isinstance(id, str):
            with self._lock:
                self._levels.pop(id, None)


class Access:
    def __init__(
        self,
        token: str | None,
        base: str,
        *,
        read_token: str | None = None,
        hosts: Collection[str] | None = None,
        cors: Collection[str] = (),
    ) -> None:
        """`hosts`: the host names that are answered besides those of loopback (None: any). `cors`: the origins whose
        pages may read."""
        self._token, self._read_token = token, read_token
        self._own = origin_of(base)
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._cors = frozenset(cors)
        self._answered: set[str | None] = set()  # Host headers that were checked
        self.sign_ins = SignIns()

    @property
    def guarded(self) -> bool:
        """Whether writing needs the token."""
        return self._token is not None

    @property
    def closed(self) -> bool:
        """Whether reading needs a token, too."""
        return self._read_token is not None

    # ---- host names

    def check_host(self, host: str | None) -> None:
        """Raises Forbidden for a request under a host name that this server does not have: against DNS rebinding."""
        if self._hosts is None or host in self._answered:
            return
        name = _name(host)
        if not is_loopback(name) and name not in self._hosts:
            raise Forbidden(
                f"this server does not answer requests for {host or 'a host without a name'}: use localhost, "
                "or allow the name with --allowed-host NAME (or --base)"
            )
        if len(self._answered) >= _ANSWERED_MAX:
            self._answered.clear()
        self._answered.add(host)

    # ---- reading

    def check_read(self, caller: Caller, signed_in: bool) -> None:
        """`signed_in`: the request has the cookie of a sign-in. The cookie counts only for our own pages."""
        if not self.closed or (signed_in and self._is_own(caller)):
            return
        _, token = _credentials(caller.authorization, "reading needs a token of this server")
        if self.level(token) is None:
            raise Unauthorized("this is not a valid token of this server")

    def level(self, token: bytes) -> Level | None:
        """What this token allows; None: it is no token of this server."""
        if self._token is not None and hmac.compare_digest(token, self._token.encode()):
            return "write"
        if self._read_token is not None and hmac.compare_digest(token, self._read_token.encode()):
            return "read"
        return None

    # ---- writing

    def check_write(self, caller: Caller) -> None:
        is_let_in = not self._is_own(caller) and self._lets_in(caller.origin)
        if not is_let_in:
            self.check_page(caller)
        if self._token is None:
            if is_let_in:
                raise Forbidden(f"a page of {caller.origin} may write only with a token: start the server with --token")
            return
        kind, token = _credentials(caller.authorization, "writing needs the token of this server")
        if is_let_in and kind != "bearer":
            raise Forbidden(f"a page of {caller.origin} must send the token as a bearer token")
        level = self.level(token)
        if level is None:
            raise Unauthorized("this is not a valid token of this server")
        if level == "read":
            raise Unauthorized("this is the token for reading; writing needs the other token")

    def check_page(self, caller: Caller) -> None:
        """Raises Forbidden if the request comes from a page of another origin."""
        if not self._is_own(caller):
            where = "another origin" if caller.origin is None else caller.origin
            raise Forbidden(
                f"a page of {where} may not write here. Programs and pages of this server may, and, with the "
                "bearer token, pages of an origin that --cors allows"
            )

    def _is_own(self, caller: Caller) -> bool:
        if caller.origin is None:
            return caller.site in (None, "same-origin", "none")
        origin = caller.origin.lower()
        return origin == self._own or origin == f"{caller.scheme}://{caller.host or ''}".lower()

    # ---- pages of other origins

    def for_origin(self, origin: str | None) -> Sequence[tuple[bytes, bytes]]:
        """The CORS headers of an answer to a page of `origin`."""
        if not self._cors:
            return ()
        if origin is None or not self._lets_in(origin):
            return (_VARIES,)
        allowed = ANY if ANY in self._cors else origin
        return _VARIES, (b"access-control-allow-origin", allowed.encode()), _EXPOSED

    def for_preflight(self, origin: str | None) -> Sequence[tuple[bytes, bytes]]:
        """The headers that answer a preflight request: which methods and headers pages of `origin` may use."""
        return _PREFLIGHT if self._lets_in(origin) else ()

    def _lets_in(self, origin: str | None) -> bool:
        if origin is None:
            return False
        return origin in self._cors or (ANY in self._cors and origin.startswith(("http://", "https://")))


def _credentials(authorization: str | None, why: str) -> tuple[str, bytes]:
    """`bearer` or `basic`, and the token that the header has."""
    kind, _, given = (authorization or "").partition(" ")
    kind, given = kind.lower(), given.strip()
    if kind == "bearer" and given:
        return kind, given.encode()
    if kind == "basic" and given:
        try:
            _, _, password = base64.b64decode(given, validate=True).partition(b":")
        except (binascii.Error, ValueError):
            raise Unauthorized("Authorization: Basic must be the base64 form of USER:TOKEN") from None
        return kind, password
    raise Unauthorized(f"{why}: send `Authorization: Bearer TOKEN`, or Basic with it as the password")


def origin_of(url: str) -> str:
    """The origin of a URL as browsers write it; "" if it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")


_PORTS = {"http": 80, "https": 443}


def _name(host: str | None) -> str:
    """The host name in a Host header, without its port; "" if it is malformed."""
    found = _HOST.fullmatch(host or "")
    return found[1].strip("[]").lower() if found else ""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
