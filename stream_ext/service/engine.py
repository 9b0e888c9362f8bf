"""The engine: what happens to a snapshot once it is published. Runners, merge, subscribers, and closes by the clock.

The engine is the listener of the injector. It also follows the schedules of all queries at the head: these say which
elements are late, and when a stream that runs by the clock needs a heartbeat."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from hbase_store import EmissionRow, Store
from stream_ext.catalog.catalog import Catalog, CatalogStep, Failure, QueryDefinition, StreamDefinition
from stream_ext.catalog.registered import Handed, Registered
from stream_ext.clock import Clock, MonotonicClock
from stream_ext.continuous.assignment import all_assigned, divides_none, grouped_query, may_divide
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.faults import failure_of
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.part_merger import InJson
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.subscriptions import Emissions, Subscriptions
from stream_ext.errors import RilletError
from stream_ext.network.range_summation import RangeSummation
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.runners.inline import InlineRunner
from stream_ext.runners.quarantine import Quarantine
from stream_ext.runners.replays.by_processes import ReplayProcesses
from stream_ext.runners.replays.replays import QueryReplays
from stream_ext.runners.slowing import PushLag
from stream_ext.runners.spark.replays_on_spark import ReplaysOnSpark
from stream_ext.runners.spark.runner import SparkRunner
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.trial import Process
from stream_ext.service.arrived_elements import ArrivedElements
from stream_ext.service.far_behind import FarBehind
from stream_ext.service.inline_queries import InlineQueries
from stream_ext.service.past_faults import PastFaults
from stream_ext.service.stream_alarms import StreamAlarms
from stream_ext.sources.source_times import SourceTimes
from stream_ext.upkeep.alarms import Alarms
from stream_ext.upkeep.catch_up import CatchUpLimit
from stream_ext.upkeep.evaluation_lag import Lag
from stream_ext.upkeep.late_log import LateLog
from stream_ext.upkeep.lateness import Lateness
from stream_ext.upkeep.retention import Retain, Retention
from stream_ext.upkeep.saving import Saving
from stream_ext.upkeep.since_states import SinceStates
from stream_ext.waits import Waits
from stream_ext.windows.arrivals import last_times
from stream_ext.writer.catalog_changes import fail_query
from stream_ext.writer.change import HeadView, Intent
from stream_ext.writer.derived_streams import Derived
from stream_ext.writer.gathering import Accepted
from stream_ext.writer.injector import Injector
from stream_ext.writer.published import PublishedBatch
from stream_ext.writer.refusal import resumes_after

log = logging.getLogger("rillet.queries")


class Engine:
    """One for each service; the injector's listener."""

    def __init__(
        self,
        store: Store,
        base: str,
        clock: Clock,
        injector: Injector,
        spark: SparkSettings | None,
        retain: Retain,
        allowed_urls: AllowedUrls,
        waits: Waits,
        budget: Budget,
        catch_up_ms: int,
        subscriptions: Subscriptions | None = None,
        on_fault: Callable[[BaseException], None] = lambda _: None,
        pace: TurnLimits = TurnLimits(),  # noqa: B008  it never changes
        sources: Sources = NO_SOURCES,
        replay_processes: int = 0,
    ) -> None:
        """`subscriptions`: those of the engine before. `on_fault` is called when nothing is evaluated any more.
        `replay_processes`: without Spark so many replay a long past."""
        self._store, self.clock, self._injector, self.waits = store, clock, injector, waits
        self._base, self._pace, self._budget, self._sources = base, pace, budget, sources
        self._allowed_urls, self._spark, self._on_fault = allowed_urls, spark, on_fault
        self.alarms, self._lag = Alarms(clock, self.stopped), Lag()
        self.lateness = Lateness(
            injector.positions, LateLog(store.kv), lambda window, time: last_times(store, store.head(), window, time)
        )
        self._stream_alarms = StreamAlarms(self.alarms, clock, injector, self.lateness.next_due_ms)
        self.elements = ArrivedElements(store, clock)
        self._handed, self.past_faults = Handed(), PastFaults()
        self._source_times = SourceTimes(store)
        merge = self.merge = self._new_merge()
        self._inline_queries = InlineQueries(store, self.merge, self._source_times)
        self.derived = Derived(injector, self.merge.last, self.merge.silence, self._room_again)
        self.emissions = Emissions(store.emissions, merge.last, merge.memberships, lambda n: self._queries.get(n))
        self.retention = Retention(
            store, clock, self.alarms, merge.stored, retain, injector.change, self._collect_emissions, merge.saved,
        )  # fmt: skip
        self.saving = Saving(
            store, clock, self.alarms, merge, injector.own_change, lambda: injector.numbers.new("query")
        )
        self.subscriptions = subscriptions or Subscriptions(self.emissions, self.merge.last, self.merge.memberships)
        self.quarantine = self._new_quarantine(spark or SparkSettings())
        self.inline = self._new_inline()
        self.spark = None if spark is None else self._new_spark(spark)
        jobs = ReplayProcesses(replay_processes) if self.spark is None else ReplaysOnSpark(self.spark.tasks)
        self.replays = self.inline.replays = QueryReplays(
            store, jobs, budget, self.inline.owner_changed, self.merge.accounts.add,
            lambda query, why: self._park(query, why, injector.head),
        )  # fmt: skip
        self._far_behind = FarBehind(clock, self.alarms, merge, injector, self.replays)
        self._catch_up = CatchUpLimit(
            clock, self.alarms, self.merge.catching_up, lambda: self._queries,
            lambda sn: store.row(sn).published_ms, self.fail, catch_up_ms, lambda: injector.head,
        )  # fmt: skip

    @property
    def _queries(self) -> Mapping[int, QueryDefinition]:
        """Those that exist now, by number."""
        return self._injector.catalog.queries

    # ---- its parts

    def _new_merge(self) -> Merge:
        store, injector = self._store, self._injector
        return Merge(
            store.emissions, self.clock, lambda: self._queries, store.terms, lambda: injector.numbers.new("query"),
            on_owner_change=lambda: self.inline.owner_changed(), on_emissions=self._announce,
            on_silence=lambda times: self.derived.silent(times),
            on_unstored=lambda by_ms: self.alarms.set("flush", by_ms, self.merge.flush),
            on_fault=self._failed, waits=self.waits, sources=self._source_times.at,
            plan=ShardPlan() if self._spark is None else ShardPlan.of(self._spark.shard_count()),
            may_divide=lambda query: may_divide(query, injector.catalog),
            sum_ranges=RangeSummation(store.ids, store.terms, lambda query: grouped_query(query, injector.catalog)),
        )  # fmt: skip

    def _new_quarantine(self, spark: SparkSettings) -> Quarantine:
        return Quarantine(
            self.merge, Process(self._store.url, self._base, self._allowed_urls, self._budget, spark), park=self._park,
            all_queries=self._on_spark, publish=self._publish_nothing, on_change=self._suspended_changed,
        )  # fmt: skip

    def _new_inline(self) -> InlineRunner:
        return InlineRunner(
            self.merge, self._shard, self._notify_spark, lambda: self.quarantine.suspended, self._look_at_fault,
            MonotonicClock(self.clock), self._lag.stepped, lambda: self.derived.has_room, self.lag_ms,
        )  # fmt: skip

    def _new_spark(self, settings: SparkSettings) -> SparkRunner:
        return SparkRunner(
            settings, self.merge, self._store.url, self._base, self.clock, quarantine=self.quarantine,
            allowed_urls=self._allowed_urls, budget=self._budget, on_silence=self._spark_is_silent,
            on_step=self._lag.stepped, on_fault=self._look_at_fault, has_room=lambda: self.derived.has_room,
            subscribed=self.subscriptions.subscribed, push_lag=PushLag(self.lag_ms, self._pace.share),
        )  # fmt: skip

    def start(self) -> None:
        """The queries continue after their last emissions."""
        states, catalog = self.merge.states(), self._injector.catalog
        since = SinceStates(self._store, self.merge.position, self._injector.head)
        for query in catalog.queries.values():
            if query.is_evaluated:
                registered = Registered.of(query, catalog)
                state = query.current_state(states.get(query.number))
                self.lateness.follow(query.number, registered, state, catalog, since.of(query, state, registered))
                self._hold(query.number, registered)
        for stream in catalog.streams:
            self._stream_alarms.set_close(stream)
            self._stream_alarms.set_idle(stream)
        self.retention.start(catalog)
        self._inline_queries.find(self._injector.head)
        self.derived.start(self._store.emissions, {n: each.evaluated for n, each in states.items() if each.evaluated})
        self._stream_alarms.look_at_clock()
        self._catch_up.start()
        self.saving.start()
        self.alarms.start()
        self.inline.start()
        if self.spark is not None:
            self.spark.start()
            self._far_behind.start()
        self._head_moved(self._injector.head)
        self.subscriptions.serve(self.emissions, self.merge.last, self.merge.memberships, self._subscription_changed)
        self.subscriptions.resume(catalog.queries)

    # ---- the injector's listener: in the writer's thread -------------------------------------------------------

    def published(self, news: PublishedBatch) -> None:
        for accepted in news.accepted:
            self.elements.add(accepted)
        if any(step.kind == "source" for step in news.steps):
            self._source_times.changed(news.sn, news.catalog.sources)
        for step in news.steps:
            self._follow(step, news)
            self._inline_queries.follow(step)
        self.merge.publish(news.sn, bool(self._inline_queries))
        view = HeadView(self._store, news.sn, news.catalog, news.positions, self._injector.numbers.new)
        self.retention.published(news.sn, view)
        self._lag.published(news.sn, self.clock.now_ms(), self.merge.position)
        if not news.is_followed:  # runners are woken once for snapshots that come together
            self._head_moved(news.sn)
        if any(step.kind == "query" for step in news.steps):
            for stream in news.catalog.streams:
                self._stream_alarms.set_close(stream)
        for step in news.steps:
            if isinstance(step.definition, StreamDefinition):
                self._stream_alarms.set_idle(step.number)

    def late_in(self, accepted: Accepted) -> int:
        late = self.lateness.take(accepted, self._injector.head)
        self._stream_alarms.set_close(accepted.stream)
        self._stream_alarms.set_idle(accepted.stream)
        return late

    def _room_again(self) -> None:
        self.inline.owner_changed()
        self._notify_spark()

    def _notify_spark(self) -> None:
        if self.spark is not None:
            self.spark.merged()

    def stopped(self, error: BaseException) -> None:
        """A server that cannot write any more does not run queries either: another process may do it."""
        self.merge.fail(error)

    def _failed(self, error: BaseException) -> None:
        if resumes_after(error):
            self._injector.halt(error)  # both begin anew, together
        self._on_fault(error)

    def _shard(self, role: Runner) -> Shard:
        is_assigned, ranges_of = (all_assigned, divides_none) if role is Runner.INLINE else self.merge.inline_queries()
        return Shard(
            self._store, is_assigned, self._allowed_urls, budget=self._budget, pace=self._pace,
            interrupted=lambda: self.inline.is_closed, sources=self._sources, handed=self._handed,
            clock_ms=self.clock.now_ms, ranges_of=ranges_of,
        )  # fmt: skip

    def await_evaluated(self, sn: int, deadline_s: float, for_all: bool = True) -> None:
        """Waits until every query is evaluated up to this snapshot; then the same for queries over derived streams, up
        to the snapshots that have their emissions.

        `for_all` False: does not wait for queries that are behind."""
        self.merge.wait(sn, deadline_s, for_all)
        if for_all:
            self.merge.wait(self.quarantine.wait_until_empty(deadline_s), deadline_s, for_all)
        for _ in range(self.derived.depth()):
            later = self.derived.wait_until_pushed(deadline_s)
            if later <= sn:
                return
            self.merge.wait(later, deadline_s, for_all)
            sn = later

    def fail(self, query: int, failure: Failure, since: int) -> Future[bool]:
        """The query is not evaluated again until it is resumed, also not after a restart. Nothing is done if the query
        was resumed already, and so does not run `since` that snapshot. Any thread may call, and is not blocked: the
        future has the result, whether the query has failed by this."""
        return self._injector.own_change(fail_query(query, failure, since))

    # ---- queries that may have killed a worker of Spark

    def _on_spark(self) -> list[int]:
        return [query.number for query in self._queries.values() if query.is_evaluated and query.home is None]

    def _park(self, query: int, why: str, sn: int) -> bool:
        """False if the query was resumed after the snapshot in which its step killed a worker: then it is not
        parked."""
        definition = self._queries.get(query)
        if definition is None or definition.since > sn:
            return False
        return self.fail(query, Failure("worker", why), definition.since).result()

    def _publish_nothing(self) -> int:
        """Publishes an empty snapshot: queries that are behind catch up when a snapshot is stepped."""
        return int(self._injector.own_change(lambda view: Intent(result=int, write=lambda batch: None)).result())

    def _suspended_changed(self) -> None:
        if self.spark is not None:
            self.spark.suspended_changed()

    def _spark_is_silent(self, what: str) -> None:
        self.waits.begin("spark", what) if what else self.waits.end("spark")

    def _look_at_fault(self, query: int, fault: str, since: int) -> None:
        """Any thread may call. A query that exceeded its budget fails: it would exceed it again, also after a
        restart."""
        if (failure := failure_of(fault)) is None:
            self.past_faults.add(query, self.clock.now_ms(), fault)
        else:
            name = str(query) if (known := self._queries.get(query)) is None else known.name
            log.warning("a query has exceeded its budget", extra={"fields": {"query": name, "why": failure.message}})
            self.fail(query, failure, since)

    def lag_ms(self) -> int:
        """For how long the oldest snapshot that is not evaluated has waited. Any thread may call."""
        return self._lag.ms(self.clock.now_ms(), self.merge.position)

    def ahead_ms(self, limit_ms: int) -> int:
        """The expected time until a snapshot that is published now is evaluated; `limit_ms` is the longest that is
        allowed. Any thread may call."""
        under_way_ms = self.inline.under_way_ms()
        if self.spark is not None and self.merge.owner is Runner.SPARK:
            under_way_ms = max(under_way_ms, self.spark.under_way_ms())
        return self._lag.ahead_ms(self.merge.position, under_way_ms, limit_ms)

    def _announce(self, rows: Sequence[EmissionRow], in_json: InJson) -> None:
        self.emissions.remember(rows, in_json)
        self.derived.emitted(rows)
        numbers = {row.query for row in rows}
        queries = numbers & self._queries.keys()
        self.subscriptions.announce(queries, numbers - queries)

    def _subscription_changed(self, query: int, has_some: bool) -> None:
        if self.spark is not None:
            self.spark.subscription_changed(query, has_some)

    def _collect_emissions(self, before_ms: int) -> None:
        retained = self.derived.retained_after() | self.merge.saves_retained_after()
        self.emissions.collect(before_ms, retained)
        self.merge.collected(self._store.emissions.oldest)

    def _head_moved(self, sn: int) -> None:
        self.inline.head_moved(sn)
        if self.spark is not None:
            self.spark.head_moved(sn)

    def _follow(self, step: CatalogStep, news: PublishedBatch) -> None:
        was = news.before.queries.get(step.number) if step.kind == "query" else None
        if step.kind == "query":
            self.merge.accounts.changed(was, news.catalog.queries.get(step.number))
        if was is not None and was.failure is not None:
            self.quarantine.forget(step.number)
        if was is not None and isinstance(step.definition, QueryDefinition) and was.home != step.definition.home:
            return  # only its runner changed
        if isinstance(step.definition, QueryDefinition) and not step.definition.is_evaluated:
            self.lateness.forget(step.number)
            self.retention.forget(step.number, news.sn)
            self.saving.forget(step.number)
        elif isinstance(step.definition, QueryDefinition):
            if was is not None:
                self.lateness.forget(step.number)  # it begins anew
            self._follow_evaluated(step.definition, step.registered, news.catalog)
        elif step.kind == "query":
            self.lateness.forget(step.number)
            self.retention.forget(step.number, news.sn)
            self.saving.forget(step.number)
            self.merge.dropped(step.number)
            self.past_faults.forget(step.number)
            self.derived.dropped(step.number)
            self.subscriptions.end(step.number)
        elif step.kind == "stream" and step.definition is None:
            self.lateness.forget_stream(step.number)
            self.elements.forget(step.number)
        elif step.kind == "stream" and step.number not in news.before.streams:
            self._widen(news.catalog)
        elif step.kind == "stream":
            self.lateness.stream_changed(step.number, news.catalog)

    def _follow_evaluated(self, query: QueryDefinition, read: Registered | None, catalog: Catalog) -> None:
        """A query that begins. `read`: what its text means, made with the change of the catalog."""
        registered = Registered.of(query, catalog) if read is None else read.within(query, catalog)
        self._handed.put(query, registered)
        self.lateness.follow(query.number, registered, query.state, catalog)
        self._hold(query.number, registered)

    def _hold(self, query: int, registered: Registered) -> None:
        """What the query's windows contain is retained from now on, or saved."""
        self.retention.follow(query, registered)
        self.saving.follow(query, registered)

    def _widen(self, catalog: Catalog) -> None:
        """A stream is new: queries with a window on every stream read it."""
        for query in catalog.queries.values():
            if query.any_stream and query.is_evaluated:
                registered = Registered.of(query, catalog)
                self.lateness.widen(query.number, registered, catalog)
                self._hold(query.number, registered)

    # ---- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Call it when the injector is closed. What is evaluated is stored."""
        self.alarms.close()
        self.saving.close()
        self.quarantine.close()
        # The inline runner first: when Spark is closed, it would begin to build.
        self.inline.close()
        self.replays.close()
        if self.spark is not None:
            self.spark.close()
        self.merge.flush()
        self.merge.fail(RilletError("the service is being closed"))
