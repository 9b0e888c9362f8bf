"""`Room`: what all pages of the console share, and who may see or change something there.

A browser cannot send a bearer token with a form. A user who enters a token on the sign-in page gets a cookie for
this console, valid in this process until the user signs out. Pages of other sites cannot make the browser send it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from flask import request, session

from endpoint.console.display import WELL_KNOWN, prefixes_of
from endpoint.console.figures import Figures
from endpoint.console.sessions import SIGNED_IN
from endpoint.console.statistics import Classes, Counts, Statistics
from endpoint.demo.in_process import DemoInProcess
from endpoint.errors import Unauthorized
from endpoint.http.access import Access, Caller, Level
from endpoint.limits import HttpLimits
from endpoint.monitoring.last_known import LastKnown
from endpoint.monitoring.rate_history import RateHistory
from endpoint.monitoring.settings_in_force import SettingInForce
from endpoint.monitoring.subscribers import Subscribers
from hbase_store.errors import StoreUnavailable
from stream_ext.errors import TooLarge
from stream_ext.service.service import READER

if TYPE_CHECKING:
    from stream_ext.evaluation_budget import Control
    from stream_ext.query_memory import QueryMemory
    from stream_ext.service.service import Service

#: Of each table on HBase, how many regions each region server has.
Regions = dict[str, dict[str, int]]

#: The first so many registered queries are searched for prefixes.
_PREFIXED_MAX = 500


def _on_hbase(url: str) -> bool:
    return url.startswith("hbase://")


def _regions_of(url: str) -> LastKnown[Regions] | None:
    if not _on_hbase(url):
        return None
    from hbase_store.provisioning import regions

    return LastKnown("regions of the tables", lambda: regions(url))


@dataclass(eq=False)
class Room:
    service: Service
    access: Access
    limits: HttpLimits
    memory: QueryMemory
    statistics: Statistics
    rates: RateHistory
    subscribers: Subscribers
    settings: Sequence[SettingInForce]
    http: str | None  # where browsers reach the HTTP routes; None: not at all; "..": one folder above the console
    counts: LastKnown[Counts] = field(init=False)
    figures: Figures = field(init=False)
    running: dict[str, Control] = field(default_factory=dict)  # by the names that pages gave to their queries
    classes: Classes = field(default_factory=Classes)
    demo: DemoInProcess = field(init=False)
    regions: LastKnown[Regions] | None = field(init=False)  # None: the store is not on HBase

    def __post_init__(self) -> None:
        self.regions = _regions_of(self.service.store.url)
        self.counts = LastKnown("counts", self.statistics.counts)
        self.figures = Figures(self.service, self.rates)
        self.demo = DemoInProcess(self.service)

    @property
    def guarded(self) -> bool:
        return self.access.guarded

    @property
    def signed_in(self) -> Level | None:
        """The level of the sign-in of this request; None: not signed in."""
        return self.access.sign_ins.level(session.get(SIGNED_IN))

    @property
    def may_read(self) -> bool:
        return not self.access.closed or self.signed_in is not None

    def sign_in(self, token: str) -> Level:
        level = self.access.level(token.encode())
        if level is None:
            raise Unauthorized("this is not a valid token of this server")
        session[SIGNED_IN] = self.access.sign_ins.begin(level)
        return level

    def sign_out(self) -> None:
        self.access.sign_ins.end(session.pop(SIGNED_IN, None))

    def check_page(self) -> None:
        """Raises Forbidden if the request comes from a page of another site."""
        headers = {name.lower(): value for name, value in request.headers}
        self.access.check_page(Caller.of(request.scheme, request.environ["SERVER_PORT"], headers))

    def check_may_write(self) -> None:
        """Raises Unauthorized. The origin of the request was checked before."""
        if self.guarded and self.signed_in != "write":
            raise Unauthorized("this changes the store: sign in with the token of this server first")

    def check_store(self) -> None:
        """Raises StoreUnavailable while the store does not answer: what needs it would occupy a thread."""
        if (wait := self.service.waits.hangs(READER)) is not None:
            raise StoreUnavailable(f"the store does not answer: {wait.why}; this page works again when it does")

    @contextmanager
    def control(self, timeout_s: float, what: str = "query", run: str = "") -> Iterator[Control]:
        """The budget of one query or update. `run`: the name by which its page may cancel it."""
        control = self.limits.control(timeout_s, what, self.memory)
        if run:
            self.running[run] = control
        try:
            yield control
        finally:
            self.running.pop(run, None)
            control.close()

    def checked_text(self, text: str) -> str:
        text = text.replace("\r\n", "\n")  # forms send CR LF for a line break
        if len(text) > self.limits.text_bytes:
            raise TooLarge(f"the text has {len(text)} characters; the limit is {self.limits.text_bytes}")
        return text

    def prefixes(self) -> dict[str, str]:
        """The well-known prefixes, and those that registered queries declare."""
        found = dict(WELL_KNOWN)
        for query in self.service.queries()[:_PREFIXED_MAX]:
            for prefix, space in prefixes_of(query.text).items():
                found.setdefault(prefix, space)
        return found

    def http_url(self, *segments: str) -> str | None:
        """The URL of a resource on the HTTP routes, for the browser."""
        if self.http is None:
            return None
        folder = request.script_root.rpartition("/")[0] + "/" if self.http == ".." else self.http
        return folder + "/".join(quote(segment, safe="") for segment in segments)
