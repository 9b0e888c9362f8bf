"""The room: what every page of one console needs at hand, and who may change things from it.

A browser cannot send a bearer token with a form. Whoever gives the token on the sign-in page gets a cookie that is good
for this console, in this process, and that no page of another site can make the browser send."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from flask import request, session

from endpoint.access import Access
from endpoint.console.statistics import Counts, Statistics
from endpoint.errors import Forbidden, Unauthorized
from endpoint.last_known import LastKnown
from endpoint.limits import HttpLimits
from stream_ext.errors import TooLarge

if TYPE_CHECKING:
    from stream_ext.service import Service

_SIGNED_IN = "rillet"


@dataclass(eq=False)
class Room:
    service: Service
    access: Access
    limits: HttpLimits
    statistics: Statistics
    http: str | None  # where browsers reach the HTTP routes; None: nowhere; "..": one folder above the console
    counts: LastKnown[Counts] = field(init=False)
    _mark: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        self.counts = LastKnown("counts", self.statistics.counts)

    @property
    def guarded(self) -> bool:
        return self.access.guarded

    @property
    def signed_in(self) -> bool:
        return bool(session.get(_SIGNED_IN) == self._mark)

    def sign_in(self, token: str) -> None:
        self.access.check(f"Bearer {token}", None)
        session[_SIGNED_IN] = self._mark

    def sign_out(self) -> None:
        session.pop(_SIGNED_IN, None)

    def check_may_write(self) -> None:
        """Raises Unauthorized or Forbidden."""
        origin = request.headers.get("Origin")
        if not self.guarded:
            self.access.check(None, origin)
        elif not self.signed_in:
            raise Unauthorized("this changes the store: sign in with the token of this server first")
        elif origin is not None and urlsplit(origin).netloc != request.host:
            raise Forbidden(f"a page of {origin} may not write here")

    def checked_text(self, text: str) -> str:
        text = text.replace("\r\n", "\n")  # forms send other line ends than were typed
        if len(text) > self.limits.text_bytes:
            raise TooLarge(f"the text has {len(text)} characters; the limit is {self.limits.text_bytes}")
        return text

    def http_url(self, *segments: str) -> str | None:
        """The address of something on the HTTP routes, for the browser."""
        if self.http is None:
            return None
        folder = request.script_root.rpartition("/")[0] + "/" if self.http == ".." else self.http
        return folder + "/".join(quote(segment, safe="") for segment in segments)
