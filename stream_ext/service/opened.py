"""The opened store: what all sections of the service work with.

store, clock, limits ...    the same as long as the service is open
injector, engine            those of the present writer epoch; the service replaces them when a new one begins"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.registered import Registered
from stream_ext.catalog.registered_text import RegisteredText
from stream_ext.clock import Clock, SteadyClock
from stream_ext.continuous.catching_up.fair_share import ShareLimit
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.query_budget import Budget
from stream_ext.errors import BadArgument, DeadlineExceeded, Gone, NotFound, TooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.rdf.reading import ReadingBudget, deadline
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.sources import Sources
from stream_ext.service.engine import Engine
from stream_ext.waits import Waits
from stream_ext.windows.query_state import QueryState
from stream_ext.writer.change import Change
from stream_ext.writer.derived_graphs import DerivedGraphs
from stream_ext.writer.graph_store import checked_graph
from stream_ext.writer.injector import Injector
from stream_ext.writer.load_processes import LoadProcesses
from stream_ext.writer.push_readers import PushReaders

#: Until when a write waits: until it is published, or until all queries are evaluated up to it.
Wait = Literal["published", "evaluated"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests and of registered queries."""

    push_bytes: int = 64 << 20
    queue_bytes: int = 64 << 20
    text_characters: int = 1 << 20
    queries: int = 100_000
    evaluated_s: float = 30.0  # how long wait=evaluated waits
    read_s: float = 300.0  # the longest time to read a body, or the text of a registration
    catch_up_ms: int = 600_000  # queries that stay behind the others for longer are parked
    lag_ms: int = 10_000  # while queries are further behind, pushes to their streams are rejected
    query_share: float = 0.25  # of the evaluation time, of queries that share a network, while pushes wait; 1: any
    push_readers: int = 0  # processes that read long pushes; so many that read and sort loads, or replay a long past

    @property
    def pace(self) -> TurnLimits:
        """Pushes wait for long if they have waited for a quarter of what is allowed."""
        return TurnLimits(share=ShareLimit(self.query_share, self.lag_ms // 4))


class OpenedStore:
    """One for each service, shared by its sections."""

    injector: Injector
    engine: Engine

    def __init__(
        self,
        store: Store,
        base: str,
        clock: Clock,
        limits: Limits,
        allowed_urls: AllowedUrls,
        budget: Budget,
        sources: Sources,
    ) -> None:
        self.store, self.base, self.limits, self.allowed_urls = store, base, limits, allowed_urls
        self.budget, self.sources = budget, sources
        self.push_readers = PushReaders(limits.push_readers)
        self.loaders = LoadProcesses(limits.push_readers, in_server=True) if limits.push_readers else None
        self.waits = Waits(clock.now_ms)
        self.clock = SteadyClock(clock, self.waits)
        #: At a reader, reads what others have published; whether there was anything.
        self.follow: Callable[[], bool] = lambda: False

    @property
    def catalog(self) -> Catalog:
        return self.injector.catalog

    def change(self, change: Change) -> Any:
        """Publishes a change; returns the `result` of its intent."""
        return self.injector.change(change).result()

    def head(self) -> int:
        return self.injector.head

    def retained(self, snapshot: int | None) -> int:
        """The snapshot to read: this one, or the head; Gone if there is none of this number."""
        head = self.head()
        sn = head if snapshot is None else snapshot
        if sn > head:
            self.follow()  # nothing new, if another thread has just read it: the head has moved all the same
            head = self.head()
        if not 0 <= sn <= head:
            raise Gone(f"there is no snapshot {sn}; the latest is {head}")
        return sn

    def derived_graphs(self, sn: int, control: Control | None = None) -> DerivedGraphs:
        control = control or self.budget.control()
        return DerivedGraphs(self.store, self.catalog, self.state_of, sn, self.allowed_urls, control, self.sources)

    def state_of(self, query: int) -> QueryState | None:
        """The progress of a query by now."""
        return self.engine.merge.state(query)

    @property
    def has_spark(self) -> bool:
        """Whether the service was started with the Spark engine."""
        return self.engine.spark is not None

    def explained_replay(self, text: RegisteredText) -> dict[str, Any] | None:
        """Who would replay the past of a query that is registered now; None: a stream of it is not there yet."""
        catalog = self.catalog
        try:
            registered = Registered.over(text, catalog, sorted(catalog.streams))
        except NotFound:
            return None
        return self.engine.replays.explained(registered, self.injector.head)

    def is_evaluated_in_time(self, sn: int) -> bool:
        """Waits until all queries are evaluated up to this snapshot, also those that are behind; False: it took too
        long."""
        try:
            self.engine.await_evaluated(sn, self.limits.evaluated_s)
        except DeadlineExceeded:
            return False
        return True

    def wait_for(self, sn: int, wait: Wait) -> None:
        """Waits until all queries are evaluated up to this snapshot, if `wait` asks for it."""
        if wait == "evaluated":
            self.engine.await_evaluated(sn, self.limits.evaluated_s)

    def check_text(self, text: str) -> None:
        if len(text) > self.limits.text_characters:
            raise TooLarge(f"a text of {len(text)} characters exceeds the limit of {self.limits.text_characters}")

    def deadline(self, what: str) -> Callable[[], None]:
        return deadline(self.limits.read_s, f"reading the {what}")

    def reading(self, what: str, size: int) -> ReadingBudget:
        """The budget for reading a body of `size` bytes, which may be larger than a push if it was compressed."""
        return ReadingBudget(self.deadline(what), max(self.limits.push_bytes, size))


def check_wait(wait: str) -> None:
    if wait not in ("published", "evaluated"):
        raise BadArgument(f"wait={wait}: the value is 'published' or 'evaluated'")


def graph_term_of(graph: str | None) -> bytes | None:
    return None if graph is None else checked_graph(graph)
