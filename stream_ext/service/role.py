"""The role of this process: it writes to the store, or it reads what another process writes.

    writer   the injector publishes, the engine evaluates the registered queries and stores their emissions
    reader   an injector and an engine that write and evaluate nothing: catalog, positions and emissions are read from
             the store as they come, so that queries and subscribers are answered here, too

A process that loses the lease becomes a reader, a reader that gets it becomes the writer (`standby`), and each change
begins with a new injector and a new engine. Only the subscriptions survive: each continues after its last number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hbase_store import purpose
from hbase_store.errors import AnotherWriter
from stream_ext.emissions.subscriptions import Subscriptions
from stream_ext.errors import NotWriter
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.engine import Engine
from stream_ext.service.following import Following
from stream_ext.service.opened import OpenedStore
from stream_ext.service.sources import AttachedSources
from stream_ext.service.standby import Standby
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.catalog_changes import drop_query
from stream_ext.writer.injector import Injector
from stream_ext.writer.refusal import resumes_after
from stream_ext.writer.write_queue import PublishingPace


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """What a writer needs to know. `forwards`: while this process reads, its caller forwards writes to the writer."""

    pace: PublishingPace
    spark: SparkSettings | None
    retain: Retain
    forwards: bool = False


class Role:
    """One for each service."""

    def __init__(
        self, opened: OpenedStore, settings: WriterSettings, attached: AttachedSources, reads: AnotherWriter | None
    ) -> None:
        """`reads`: another process is the writer; None: this one has the lease."""
        self._opened, self._settings, self._attached = opened, settings, attached
        self._subscriptions: Subscriptions | None = None
        self._changing = threading.RLock()  # of changes between writing and reading, and of following
        self._following: Following | None = None  # while this process reads
        self._is_closed = False
        self._ended_by: BaseException = reads or NotWriter("this server does not write yet", 1)
        self._standby = Standby(opened.store, opened.clock, opened.waits, self, reads, settings.forwards)
        if reads is None:
            self.begin()
        else:
            opened.store.resign()
            self._begin_reading(reads)
        opened.follow = self.follow
        self._standby.start()

    # ---- any thread may ask ------------------------------------------------------------------------------------

    @property
    def name(self) -> Literal["writer", "reader"]:
        return "writer" if self._standby.writes else "reader"

    @property
    def writer_address(self) -> str | None:
        """Where the writer answers, if that is another process ('': it is no server); None: it is this process, or it
        is not known now."""
        holder = self._standby.holder
        return None if holder is None or self._standby.writes else holder.address

    def hurry(self) -> None:
        """The writer does not answer: if its lease is over, this process takes it at once."""
        self._standby.hurry()

    def catch_up(self, snapshot: int, commit: int) -> bool:
        """Reads what is new, unless this snapshot and the emissions of this commit can be read here already; whether
        they can be read now."""
        if not self._has(snapshot, commit):
            with self._changing:
                if not self._has(snapshot, commit):  # another thread has not read it meanwhile
                    self.follow()
        return self._has(snapshot, commit)

    def _has(self, snapshot: int, commit: int) -> bool:
        following = self._following
        if following is not None:
            return following.has(snapshot, commit)
        return self._opened.head() >= snapshot and self._opened.store.emissions.commits >= commit

    def hear(self, snapshot: int, commit: int) -> None:
        """At a reader: the writer has told that it has this snapshot, and this commit of emissions."""
        following = self._following
        if following is not None:
            self._standby.followed(not following.has(snapshot, commit))

    def status(self) -> dict[str, Any]:
        """`holder`: of a reader, the process that writes, if it is known."""
        if self.name == "writer":
            return {"role": "writer", "holder": None}
        holder = self._standby.holder
        shown = None if holder is None else {"address": holder.address or None, "pid": holder.pid}
        return {"role": "reader", "holder": shown, "why": "another process writes, and evaluates the queries"}

    def close(self) -> None:
        self._is_closed = True
        self._standby.close()

    # ---- the standby calls these -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts an injector and an engine from the present state of the store."""
        opened = self._opened
        if self._settings.forwards:
            opened.store.share_base(opened.base)
        injector = Injector(opened.store, opened.clock, self._settings.pace, opened.waits)
        opened.clock.continue_from(_last_time(injector))
        engine = self._new_engine(injector, self._settings.spark, self._failed)
        try:
            engine.start()
        except BaseException as error:
            engine.stopped(error)  # else subscribers would get the error that it closes
            engine.close()
            raise
        is_first, self._subscriptions = self._subscriptions is None, engine.subscriptions
        with self._changing:
            before, self._following = self._following, None
            opened.injector, opened.engine = injector, engine
        if before is not None:
            before.engine.stopped(NotWriter("this server has just become the writer; send the request again", 1))
        try:
            self._begin_to_write(injector, engine, is_first)
        except BaseException as error:
            self.end(error)
            raise

    def _begin_to_write(self, injector: Injector, engine: Engine, is_first: bool) -> None:
        injector.start(engine)
        self._attached.hold_main()
        # The listeners of live queries were connected to a process that has ended.
        queries = list(injector.catalog.queries.values())
        left = [query for query in queries if query.live and not engine.subscriptions.has(query.number)]
        for dropped in [injector.own_change(drop_query(query.name)) for query in left]:
            if is_first:
                dropped.result()

    def end(self, error: BaseException) -> None:
        self._opened.injector.halt(error)
        self._attached.end_holding()
        self._opened.engine.stopped(error)
        self._opened.injector.close()
        self._opened.engine.close()
        self._ended_by = error

    def follow(self) -> bool:
        """At a reader: reads what others have published; whether there was anything."""
        with self._changing:
            if self._standby.writes:
                return False
            if self._following is None:
                self._begin_reading(self._ended_by)
                return True
            with purpose("follow"):
                return self._following.follow()

    def give_up(self, error: BaseException) -> None:
        if self._subscriptions is not None:
            self._subscriptions.end_all(error)

    def _begin_reading(self, error: BaseException) -> None:
        opened = self._opened
        injector = Injector(opened.store, opened.clock, self._settings.pace, opened.waits)
        injector.halt(error)
        engine = self._new_engine(injector, None, lambda error: None)
        following = Following(opened.store, injector, engine)
        if not self._settings.forwards:
            engine.stopped(error)  # who waits here for an evaluation waits in vain
        self._subscriptions = engine.subscriptions
        opened.injector, opened.engine, self._following = injector, engine, following

    def _new_engine(
        self, injector: Injector, spark: SparkSettings | None, on_fault: Callable[[BaseException], None]
    ) -> Engine:
        opened = self._opened
        return Engine(
            opened.store, opened.base, opened.clock, injector, spark, self._settings.retain, opened.allowed_urls,
            opened.waits, opened.budget, opened.limits.catch_up_ms, self._subscriptions, on_fault,
            sources=opened.sources, pace=opened.limits.pace, replay_processes=opened.limits.push_readers,
        )  # fmt: skip

    def _failed(self, error: BaseException) -> None:
        if resumes_after(error) and not self._is_closed:
            self._standby.lost(error)
        else:
            self.give_up(error)


def _last_time(injector: Injector) -> int:
    """The latest time of the clock that the store has."""
    by_clock = [n for n, stream in injector.catalog.streams.items() if stream.runs_by == "clock"]
    latest = [at.latest for n in by_clock if (at := injector.positions.get(n)) is not None and at.latest is not None]
    return max([injector.published_ms, *latest])
