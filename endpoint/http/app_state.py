"""AppState: what the routes of one application share: service, access, limits, thread pools, last known status.

The application makes one and hands it to each exchange (`exchange.state`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from endpoint.formats.description import Description
from endpoint.formats.shown_queries import shown_query
from endpoint.formats.shown_streams import shown_stream, streams_listed
from endpoint.http.access import Access, Caller
from endpoint.http.answer_cache import AnswerCache
from endpoint.http.at_once import AtOnce
from endpoint.http.body import Bodies
from endpoint.http.connections import Connections
from endpoint.http.request_counts import Requests
from endpoint.http.sealed import Forwarding, Seal
from endpoint.http.underway import Underway
from endpoint.http.workers import Workers
from endpoint.limits import HttpLimits
from endpoint.monitoring import figures
from endpoint.monitoring.figures import MeasuredFigures
from endpoint.monitoring.last_known import PATIENCE_S, LastKnown, LastKnownOf
from endpoint.monitoring.lookout import Lookout
from endpoint.monitoring.rate_history import RateHistory
from endpoint.monitoring.subscribers import Subscribers
from endpoint.query_workers import QueryWorkers
from stream_ext.errors import Overload

if TYPE_CHECKING:
    from endpoint.http.exchange import Application
    from stream_ext.query_memory import QueryMemory
    from stream_ext.service.service import Service

_RETRY_AFTER_S = 1
#: The IRI of a stream or query, and its number: a later one of the same IRI has another number.
Name = tuple[str, int]
#: So many streams, and so many queries, are remembered for the time when the store does not answer.
_REMEMBERED_MOST = 1_000
#: How long a request for one of them waits for its present state; and how long if no earlier state is known.
_ONE_S, _FIRST_S = 1.0, 10.0


@dataclass(eq=False)
class AppState:
    service: Service
    base: str
    access: Access
    limits: HttpLimits
    memory: QueryMemory
    workers: Workers
    description: Description
    answer_cache: AnswerCache
    query_workers: QueryWorkers
    bodies: Bodies
    rates: RateHistory  # read while there is a console
    subscribers: Subscribers
    console: Application | None
    is_reader: Callable[[Caller], bool]  # by the console's cookie
    seal: Seal | None = None  # of requests between servers of one store; None: this one shares its store with none
    forwarding: Forwarding | None = None
    requests: Requests = field(default_factory=Requests)
    at_once: AtOnce = field(default_factory=AtOnce)
    underway: Underway = field(init=False)
    connections: Connections = field(init=False)
    status: LastKnown[dict[str, Any]] = field(init=False)
    figures: LastKnown[MeasuredFigures] = field(init=False)
    lookout: Lookout = field(init=False)
    is_local: bool = field(init=False)  # the store is on this machine
    listed: LastKnown[msgspec.Raw] = field(init=False)  # streams
    one_stream: LastKnownOf[Name, dict[str, Any]] = field(init=False)
    one_query: LastKnownOf[Name, dict[str, Any]] = field(init=False)
    stopping: bool = False
    live: int = 0  # open live queries
    followers: int = 0  # readers of the same store that follow this server
    _listeners: set[asyncio.Event] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits)
        self.underway = Underway(self.limits.slow_query_s, self.memory)
        self.lookout = Lookout(self.service)
        self.is_local = self.service.store.url.startswith("lmdb:")
        self.status = LastKnown("status", self.service.status)
        self.figures = LastKnown("figures", partial(figures.read, self.service))
        self.listed = LastKnown("streams", partial(streams_listed, self.service))
        self.one_stream = LastKnownOf("stream", partial(shown_stream, self.service), _REMEMBERED_MOST)
        self.one_query = LastKnownOf("query", partial(shown_query, self.service), _REMEMBERED_MOST)

    def head(self) -> int:
        """The latest snapshot that this process knows; every answer has it in a header."""
        return int(self.service.head())

    async def last_known(self, of: LastKnownOf[Name, dict[str, Any]], name: Name) -> dict[str, Any]:
        """The status of one stream or query, with its age: the present one if it can be read in time."""
        is_away = any(wait.kind == "store" for wait in self.service.waits.current())
        known = await (of.get(name, PATIENCE_S) if is_away else of.get(name, _ONE_S, _FIRST_S))
        return {**known.value, "age_ms": round(known.age_s * 1000)}

    def listen(self, wake: asyncio.Event) -> None:
        """`wake` is set when the server stops, so that a listener without news ends at once."""
        self._listeners.add(wake)

    def unlisten(self, wake: asyncio.Event) -> None:
        self._listeners.discard(wake)

    @contextmanager
    def room_to_listen(self) -> Iterator[None]:
        """Counts one live query; Overload if there are as many as allowed. On the event loop only."""
        if self.live >= self.limits.live:
            raise Overload(f"{self.live} live queries are open, the limit; try again later", _RETRY_AFTER_S)
        self.live += 1
        try:
            yield
        finally:
            self.live -= 1

    def start(self) -> None:
        """Called on the event loop, when the server listens."""
        self.query_workers.start()
        self.lookout.start()
        if self.console is not None:
            self.rates.start()
        if self.forwarding is not None:
            self.forwarding.start()

    def stop(self) -> None:
        """Called on the event loop, before the server waits for its open answers."""
        self.stopping = True
        for wake in list(self._listeners):
            wake.set()

    def close(self) -> None:
        """Called when the server has ended: the results of what still runs are not needed."""
        for each in (self.lookout, self.rates, self.status, self.figures, self.listed, self.one_stream, self.one_query):
            each.close()
        self.underway.cancel_all()
        self.query_workers.close()
        self.workers.close()
