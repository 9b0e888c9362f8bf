"""The service: one store with its streams and registered queries, as endpoint, plugin and command line use it.

    push, update, register ... --> injector (one writer) --> snapshot --> runner --> merge --> subscribers

Its methods are those of its sections, a module each: streams, pushes, statements, graphs, registrations, results,
sources. All methods may be called by any thread, and block until they are done. The service has no state that must
survive beside the store: opened again, it continues from the catalog and the emission log, and no emission is
repeated."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from hbase_store import Store
from hbase_store import open as open_store
from hbase_store.cache import CACHE_BYTES
from hbase_store.errors import AnotherWriter
from stream_ext.catalog.catalog import StreamDefinition
from stream_ext.clock import Clock
from stream_ext.continuous.query_budget import USUAL, Budget
from stream_ext.errors import BadArgument, RilletError
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.source import Source
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.costs import costs_of
from stream_ext.service.engine import Engine
from stream_ext.service.graphs import Graphs
from stream_ext.service.opened import Limits, OpenedStore, Wait
from stream_ext.service.pushes import PushReceipt, StreamPushes
from stream_ext.service.registrations import Registrations
from stream_ext.service.results import Results
from stream_ext.service.role import Role, WriterSettings
from stream_ext.service.source_writing import UpdatesTo
from stream_ext.service.sources import AttachedSources
from stream_ext.service.statements import Statements
from stream_ext.service.status import at_once, service_status
from stream_ext.service.streams import Streams
from stream_ext.upkeep.reading_ahead import ReadingAhead
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.injector import Injector
from stream_ext.writer.write_queue import PublishingPace

#: What users of the service name: its parameters and its results, too.
__all__ = [
    "READER",
    "Budget",
    "Limits",
    "PushReceipt",
    "Retain",
    "Service",
    "SparkSettings",
    "StreamDefinition",
    "Wait",
]

#: What waits while the store does not answer a read.
READER = "readers of the store"

#: The time between two batches of pushes, unless publishing takes longer: then more of them gather by themselves.
_SPACING_MS = 5


class Service:
    def __init__(
        self,
        store: Store,
        base: str,
        clock: Clock,
        pace: PublishingPace,
        limits: Limits,
        spark: SparkSettings | None,
        retain: Retain,
        allowed_urls: AllowedUrls,
        budget: Budget = USUAL,
        sources: Sources = NO_SOURCES,
        updates: UpdatesTo | None = None,
        absorb: UpdatesTo | None = None,
        reads: AnotherWriter | None = None,
        forwards: bool = False,
        read_ahead: int = 0,
    ) -> None:
        """Use `Service.open`. `reads`: another process is the writer."""
        self._ahead = ReadingAhead(store, read_ahead)
        self._opened = opened = OpenedStore(store, base, clock, limits, allowed_urls, budget, sources)
        self.store, self.base, self.allowed_urls, self.sources = store, base, allowed_urls, sources
        self.clock, self.waits, self.head = opened.clock, opened.waits, opened.head
        self._make_sections(updates, absorb)
        self._closing = threading.Lock()
        self._closed = False
        self._role = Role(opened, WriterSettings(pace, spark, retain, forwards), self._attached, reads)
        self.catch_up, self.look_for_writer, self.hear = self._role.catch_up, self._role.hurry, self._role.hear
        self._attached.start()

    def _make_sections(self, updates: UpdatesTo | None, absorb: UpdatesTo | None) -> None:
        """The methods of the service: what they do is said in their sections."""
        opened = self._opened
        self.is_evaluated_in_time = opened.is_evaluated_in_time

        streams = Streams(opened)
        self.create_stream, self.change_stream = streams.create_stream, streams.change_stream
        self.streams, self.stream, self.drop_stream = streams.streams, streams.stream, streams.drop_stream
        self.stream_status, self.stream_figures = streams.stream_status, streams.stream_figures
        self.late_elements = streams.late_elements

        pushes = StreamPushes(opened)
        self.push, self.heartbeat = pushes.push, pushes.heartbeat

        self._attached = attached = AttachedSources(opened, updates, absorb)
        self.sources_status, self.source_status = attached.sources_status, attached.source_status
        self.sources_away = attached.sources_away
        self.held_patterns, self.refresh_source = attached.held_patterns, attached.refresh_source
        self.source_changed, self.source_written = attached.source_changed, attached.source_written

        statements = Statements(opened, attached)
        self.question, self.explain, self.analyze = statements.question, statements.explain, statements.analyze
        self.check_supported = statements.check_supported
        self.query, self.update = statements.query, statements.update
        self.rows_expected, self.reads_derived = statements.rows_expected, statements.reads_derived
        self.is_divided, self.is_ready = statements.is_divided, statements.is_ready
        self.decode, self.decoded = statements.decode, statements.decoded

        graphs = Graphs(opened, attached)
        self.read_graph, self.read_dataset = graphs.read_graph, graphs.read_dataset
        self.replace_graph, self.merge_graph = graphs.replace_graph, graphs.merge_graph
        self.add_quads, self.drop_graph = graphs.add_quads, graphs.drop_graph
        self.load, self.load_reading, self.loads = graphs.load, graphs.load_reading, graphs.loads
        self.change = graphs.change

        registrations = Registrations(opened, attached)
        self.register, self.register_all = registrations.register, registrations.register_all
        self.register_live = registrations.register_live
        self.queries, self.query_definition = registrations.queries, registrations.query_definition
        self.query_status, self.query_figures = registrations.query_status, registrations.query_figures
        self.query_operators, self.query_past = registrations.query_operators, registrations.query_past
        self.why_not_evaluated, self.move_query = registrations.why_not_evaluated, registrations.move_query
        self.pause_query, self.resume_query = registrations.pause_query, registrations.resume_query
        self.drop_query = registrations.drop_query

        results = Results(opened)
        self.latest, self.emissions, self.emission_again = results.latest, results.emissions, results.emission_again
        self.subscribe, self.check_retained = results.subscribe, results.check_retained

    @property
    def limits(self) -> Limits:
        return self._opened.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._opened.limits = limits

    @property
    def has_spark(self) -> bool:
        """Whether the service was started with the Spark engine."""
        return self._opened.has_spark

    @property
    def updated_source(self) -> Source | None:
        """The source that updates go to; None: they go to our own store."""
        return self._attached.updated_source

    @property
    def _injector(self) -> Injector:
        return self._opened.injector

    @property
    def _engine(self) -> Engine:
        return self._opened.engine

    @property
    def role(self) -> Literal["writer", "reader"]:
        """Of this process: a store has one writer and any number of readers."""
        return self._role.name

    @property
    def writer_address(self) -> str | None:
        """At a reader: where the writer answers ('': it is no server); None: it is this process, or it is not known."""
        return self._role.writer_address

    @property
    def commits(self) -> int:
        """The number of the last commit of emissions that can be read here."""
        return self.store.emissions.commits

    @classmethod
    def open(
        cls,
        url: str,
        *,
        base: str,
        clock: Clock,
        engine: Literal["spark", "inline"] = "spark",
        spark: SparkSettings | None = None,
        batch_ms: int = 100,
        limits: Limits | None = None,
        address: str = "",
        durability: Literal["process", "power"] = "process",
        cache_bytes: int = CACHE_BYTES,
        retain: Retain | None = None,
        allowed_urls: AllowedUrls = NOTHING,
        budget: Budget = USUAL,
        sources: Sequence[Source] = (),
        updates: UpdatesTo | None = None,
        absorb: UpdatesTo | None = None,
        shared: bool = False,
        own_base: bool = True,
        read_ahead: int = 0,
    ) -> Service:
        """Takes the writer's lease, and continues after the last writer. `shared`: if another process has the lease,
        this one reads, and the caller forwards writes to it (otherwise this raises AnotherWriter); unless `own_base`
        it has the base of the writer then. `sources` are closed with the service; what
        registered queries need of the one that is called `main` is held. `updates` says where updates go; if it does
        not, to the source main if that takes any, else to our own store. `absorb`: the same of what streams absorb; if
        it does not say, that stays in our own store. `read_ahead`: of a store of another process, so many bytes are
        read into memory when the service has started."""
        if engine not in ("spark", "inline"):
            raise BadArgument(f"--engine {engine}: this version has spark and inline")
        limits = limits or Limits()
        store = open_store(url, clock=clock, durability=durability, cache_bytes=cache_bytes)
        try:
            reads = None
            try:
                store.take_lease(address)
                store.emissions.take_over()
            except AnotherWriter as error:
                if not shared:
                    raise
                reads, base = error, base if own_base else store.base() or base
            pace = PublishingPace(_SPACING_MS, batch_ms, limits.queue_bytes)
            if store.kv.is_remote:
                pace = replace(pace, gathering_share=1)  # a publish that is saved is round trips that are saved
            settings = (spark or SparkSettings()) if engine == "spark" else None
            retain, attached = retain or Retain(), Sources(sources, base)
            return cls(
                store, base, clock, pace, limits, settings, retain, allowed_urls, budget, attached, updates,
                absorb, reads, shared, read_ahead,
            )  # fmt: skip
        except BaseException:
            store.close()
            raise

    # ---- operations --------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        return service_status(self.store, self._injector, self._engine) | self._role.status()

    def costs(self) -> dict[str, Any]:
        """What the registered queries took, by stream and by class of timing. It goes through all of them."""
        return costs_of(self._engine, self._injector.catalog)

    def status_at_once(self) -> dict[str, Any]:
        """The part of `status` that waits for nothing, whatever hangs."""
        return at_once(self.store.url, self._injector, self._engine) | self._role.status()

    def spark_epochs(self) -> int:
        """The number of Spark epochs that have begun; 0 without Spark."""
        spark = self._engine.spark
        return 0 if spark is None else int(spark.status()["epochs"])

    def probe(self) -> None:
        """Reads from the store; `waits` shows it while the store does not answer."""
        with self.waits.during("store", READER):
            self.store.kv.get_many("meta", [b"probe"])

    def collect(self) -> None:
        """Saves what windows hold for ever, and deletes what is not retained, now; both are also done regularly."""
        self._engine.saving.look()
        self._engine.retention.look()
        self.store.collect()

    def close(self) -> None:
        """Writes what is queued, and stores what is evaluated, unless the store does not answer; then releases the
        store for another writer."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._ahead.close()
            self._role.close()
            self._attached.close()
            self._opened.push_readers.close()
            if self._opened.loaders is not None:
                self._opened.loaders.close()
            self._engine.merge.give_up()  # a store that does not answer now is not waited for
            self._injector.close()
            self._engine.close()
            self._role.give_up(RilletError("the service is being closed"))
            self.store.close()
            for source in self.sources:
                source.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
