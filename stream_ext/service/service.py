"""The service: one store with its streams and registered queries, as endpoint, plugin and command line use it.

    push, update, register ... --> injector (one writer) --> snapshot --> runner --> merge --> subscribers

All methods may be called by any thread, and block until they are done. The service has no state that must survive
beside the store: opened again, it continues from the catalog and the emission log, and no emission is repeated."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from os import urandom
from typing import Any, Literal, TypeVar, cast

import numpy as np

from hbase_store import Loading, Sn, Store
from hbase_store import open as open_store
from hbase_store.errors import WriterElsewhere
from hbase_store.layout.terms import iri
from stream_ext.attached.holding import Holding
from stream_ext.attached.patterns import needs_of
from stream_ext.attached.questions import Quad
from stream_ext.catalog.catalog import QueryDefinition, StreamDefinition
from stream_ext.catalog.registered import Registered, RegisteredText, reading_of
from stream_ext.catalog.sources import HeldPattern
from stream_ext.clock import Clock, SteadyClock
from stream_ext.continuous.query_budget import USUAL, Budget
from stream_ext.emissions.emission import Emission
from stream_ext.emissions.subscriptions import Subscription, Subscriptions
from stream_ext.errors import (
    BadArgument,
    DeadlineExceeded,
    Gone,
    NotFound,
    NotWriter,
    Overload,
    QueryTooLarge,
    RilletError,
    TooLarge,
)
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S, Admin, Query, Update
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.walk import query_parts
from stream_ext.network.operators.remote.service import asks_source, check_services
from stream_ext.oneshot.answers import (
    Decoded,
    answer_at_last_evaluation,
    answer_of,
    answer_once,
    decoded,
    no_answer,
    rows_expected,
    rows_of,
)
from stream_ext.oneshot.evaluate import Answer, Asking
from stream_ext.oneshot.explanation import explain, operators_of, query_in
from stream_ext.oneshot.question import Question, Questions
from stream_ext.oneshot.rerun import Rerun
from stream_ext.plan.dataset import DatasetOverride
from stream_ext.plan.logic import GraphScope
from stream_ext.rdf.reading import ReadingBudget, deadline
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.source import MAIN, Source
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.engine import Engine
from stream_ext.service.source_status import found_source, status_of
from stream_ext.service.source_watch import SourceWatch
from stream_ext.service.source_writing import UpdatesTo, source_writing
from stream_ext.service.standby import Standby
from stream_ext.service.status import (
    at_once,
    fault_of_query,
    has_failed,
    query_figures,
    query_status,
    service_status,
    stream_figures,
    stream_status,
)
from stream_ext.service.whole_graphs import of_both
from stream_ext.upkeep.late_elements import as_objects
from stream_ext.upkeep.retention import Retain
from stream_ext.values.known_values import KnownValues
from stream_ext.waits import Waits
from stream_ext.writer import graph_store
from stream_ext.writer.ahead import check_ahead
from stream_ext.writer.catalog_changes import (
    change_stream,
    create_stream,
    drop_query,
    drop_stream,
    move_query,
    pause_query,
    resume_query,
)
from stream_ext.writer.derived_graphs import DerivedGraphs, read_by
from stream_ext.writer.elements import Elements, Ids, read_push
from stream_ext.writer.gathering import Heartbeat, Push
from stream_ext.writer.graph_store import Document, GraphAnswer, GraphWriteOutcome, checked_graph
from stream_ext.writer.injector import (
    Change,
    HeadView,
    Injector,
    Intent,
    PublishingPace,
    Receipt,
    goes_on_after,
    refusal_of,
)
from stream_ext.writer.load_records import Loaded, graph_term, loaded
from stream_ext.writer.registration import Registration, RegistrationOutcome, read_registration
from stream_ext.writer.updates import SourceRequest, Updated, change_of, updated
from stream_ext.writer.updates.other_store import HeldElsewhere, SourceAside

Wait = Literal["published", "evaluated"]
#: What waits while the store does not answer a read.
READER = "readers of the store"
Result = TypeVar("Result")

#: LMDB publishes in about a millisecond, HBase in some ten.
_SPACING_MS = {"lmdb": 5, "hbase": 20}


#: The greatest number of texts that are read before the first of them is registered.
_REGISTERED_AHEAD = 256
#: The longest time after which a rejected push may be sent again.
_RETRY_AFTER_S_MAX = 10


@dataclass(frozen=True, slots=True)
class Limits:
    push_bytes: int = 64 << 20
    queue_bytes: int = 64 << 20
    text_characters: int = 1 << 20
    queries: int = 100_000
    evaluated_s: float = 30.0  # how long wait=evaluated waits
    read_s: float = 300.0  # the longest time to read a body, or the text of a registration
    catch_up_ms: int = 600_000  # queries that stay behind the others for longer are parked
    lag_ms: int = 10_000  # while queries are further behind, pushes to their streams are rejected


@dataclass(frozen=True, slots=True)
class PushReceipt:
    stream: str
    accepted: int
    late: int
    batch: int
    snapshot: int
    repeated: bool
    pending: bool = False  # the push is published, but was not evaluated in time
    warnings: Sequence[str] = ()


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
        reads: WriterElsewhere | None = None,
        forwards: bool = False,
    ) -> None:
        """Use `Service.open`. `reads`: another process is the writer."""
        self.sources, self._watch = sources, SourceWatch(sources)
        self._source_writing = source_writing(store, sources, updates, self._source_written)
        self.store, self.base, self.limits, self.allowed_urls = store, base, limits, allowed_urls
        self._questions, self._known = Questions(), KnownValues(store.terms)
        self.waits = Waits(clock.now_ms)
        self.clock = SteadyClock(clock, self.waits)
        self._pace, self._spark, self._retain, self._budget = pace, spark, retain, budget
        self._holding: Holding | None = None
        self._closing = threading.Lock()
        self._closed = False
        self._subscriptions: Subscriptions | None = None
        self._standby = Standby(store, self.clock, self.waits, self, reads, forwards)
        self._role = threading.RLock()  # of changes between writing and reading, and of following
        self._reads, self._forwards = False, forwards
        self._ended_by: BaseException = reads or _not_writer(store.url)
        self._injector: Injector
        self._engine: Engine
        if reads is None:
            self.begin()
        else:
            store.resign()
            self._begin_reading(reads)
        self._standby.start()
        self._watch.start()

    # ---- one writer epoch: the standby calls these -------------------------------------------------------------

    def begin(self) -> None:
        """Starts an injector and an engine from the present state of the store."""
        if self._forwards:
            self.store.share_base(self.base)
        injector = Injector(self.store, self.clock, self._pace, self.waits)
        self.clock.go_on_from(_last_time(injector))
        engine = self._new_engine(injector, self._spark, self._failed)
        try:
            engine.start()
        except BaseException as error:
            engine.stopped(error)  # else subscribers would get the error that it closes
            engine.close()
            raise
        is_first, self._subscriptions = self._subscriptions is None, engine.subscriptions
        with self._role:
            before, self._reads = self._engine if self._reads else None, False
            self._injector, self._engine = injector, engine
        if before is not None:
            before.stopped(NotWriter("this server is the writer now; send the request again", 1))
        try:
            self._go_on_writing(injector, engine, is_first)
        except BaseException as error:
            self.end(error)
            raise

    def _go_on_writing(self, injector: Injector, engine: Engine, is_first: bool) -> None:
        injector.start(engine)
        self._hold_main(injector)
        # The listeners of live queries were connected to a process that has ended.
        left = [query for query in self.queries() if query.live and not engine.subscriptions.has(query.number)]
        for dropped in [injector.own_change(drop_query(query.name)) for query in left]:
            if is_first:
                dropped.result()

    def _new_engine(
        self, injector: Injector, spark: SparkSettings | None, on_fault: Callable[[BaseException], None]
    ) -> Engine:
        return Engine(
            self.store, self.base, self.clock, injector, spark, self._retain, self.allowed_urls, self.waits,
            self._budget, self.limits.catch_up_ms, self._subscriptions, on_fault, sources=self.sources,
        )  # fmt: skip

    def end(self, error: BaseException) -> None:
        self._injector.halt(error)
        if self._holding is not None:
            self._holding.close()
        self._engine.stopped(error)
        self._injector.close()
        self._engine.close()
        self._ended_by = error

    def follow(self) -> bool:
        with self._role:
            if not self._reads:
                self._begin_reading(self._ended_by)
                return True
            head = self._injector.head
            self._injector.follow()
            self._engine.follow()
            return self._injector.head != head

    def _begin_reading(self, error: BaseException) -> None:
        """An injector and an engine that write and evaluate nothing: what others publish is read through them."""
        injector = Injector(self.store, self.clock, self._pace, self.waits)
        injector.halt(error)
        engine = self._new_engine(injector, None, lambda error: None)
        engine.read()
        self._subscriptions = engine.subscriptions
        self._injector, self._engine, self._reads = injector, engine, True

    @property
    def role(self) -> Literal["writer", "reader"]:
        """Of this server: there is one writer of a store, and any number of readers."""
        return "writer" if self._standby.writes else "reader"

    @property
    def writer_address(self) -> str | None:
        """Where the writer answers, if that is another server; None: it is this one, or it is not known now."""
        holder = self._standby.holder
        return None if holder is None or self._standby.writes else holder.address

    def look_for_writer(self) -> None:
        """The writer does not answer: if its lease is over, this process takes it at once."""
        self._standby.hurry()

    def catch_up(self, snapshot: int, commit: int = 0) -> bool:
        """At a reader: returns when this snapshot, and the emissions of this commit, can be read here. False: they
        cannot be read, although the store has been read just now."""
        if self.role == "reader":
            self.follow()
        return self.head() >= snapshot and self.store.emissions.commits >= commit

    @property
    def commits(self) -> int:
        """The number of the last commit of emissions that can be read here."""
        return self.store.emissions.commits

    def give_up(self, error: BaseException) -> None:
        if self._subscriptions is not None:
            self._subscriptions.end_all(error)

    def _failed(self, error: BaseException) -> None:
        if goes_on_after(error) and not self._closed:
            self._standby.lost(error)
        else:
            self.give_up(error)

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
        retain: Retain | None = None,
        allowed_urls: AllowedUrls = NOTHING,
        budget: Budget = USUAL,
        sources: Sequence[Source] = (),
        updates: UpdatesTo | None = None,
        shared: bool = False,
        own_base: bool = True,
    ) -> Service:
        """Takes the writer's lease, and continues after the last writer. `shared`: if another process has the lease,
        this one reads, and the caller forwards writes to it (otherwise this raises WriterElsewhere); unless `own_base`
        it has the base of the writer then. `sources` are closed with the service; what
        registered queries need of the one that is called `main` is held. `updates` says where updates go; if it does
        not, to the source main if that takes any, else to our own store."""
        if engine not in ("spark", "inline"):
            raise BadArgument(f"--engine {engine}: this version has spark and inline")
        limits = limits or Limits()
        store = open_store(url, clock=clock, durability=durability)
        try:
            reads = None
            try:
                store.take_lease(address)
                store.emissions.take_over()
            except WriterElsewhere as error:
                if not shared:
                    raise
                reads, base = error, base if own_base else store.base() or base
            pace = PublishingPace(_SPACING_MS.get(url.partition(":")[0], 20), batch_ms, limits.queue_bytes)
            settings = (spark or SparkSettings()) if engine == "spark" else None
            retain, attached = retain or Retain(), Sources(sources, base)
            return cls(
                store,
                base,
                clock,
                pace,
                limits,
                settings,
                retain,
                allowed_urls,
                budget,
                attached,
                updates,
                reads,
                shared,
            )
        except BaseException:
            store.close()
            raise

    # ---- streams -----------------------------------------------------------------------------------------------

    def create_stream(self, name_or_iri: str, options: Mapping[str, object]) -> tuple[StreamDefinition, bool]:
        change = create_stream(name_or_iri, options, self.base)
        return cast("tuple[StreamDefinition, bool]", self._injector.change(change).result())

    def change_stream(self, name_or_iri: str, options: Mapping[str, object]) -> StreamDefinition:
        """Sets options of a stream, of those that may be changed."""
        return cast("StreamDefinition", self._injector.change(change_stream(name_or_iri, options)).result())

    def streams(self) -> list[StreamDefinition]:
        return list(self._injector.catalog.streams.values())

    def stream(self, name_or_iri: str) -> StreamDefinition:
        return self._injector.catalog.stream(name_or_iri)

    def stream_status(self, name_or_iri: str) -> dict[str, Any]:
        return stream_status(self.stream(name_or_iri), self._injector, self._engine)

    def drop_stream(self, name_or_iri: str) -> None:
        self._injector.change(drop_stream(name_or_iri)).result()

    def push(
        self,
        stream: str,
        data: bytes,
        media_type: str,
        *,
        timestamp: int | None = None,
        wait: Wait = "published",
        source: str | None = None,
        seq: int | None = None,
    ) -> PushReceipt:
        definition = self.stream(stream)
        self._check_takes_pushes(definition)
        _check_wait(wait)
        if (source is None) != (seq is None):
            raise BadArgument("source and seq belong together: give both, or neither")
        if len(data) > self.limits.push_bytes:
            raise TooLarge(
                f"a push of {len(data)} bytes exceeds the limit of {self.limits.push_bytes}: send it in parts"
            )
        self._check_lag(definition)
        self._engine.retention.check_room(definition)
        elements = read_push(definition, data, media_type, timestamp, self.base, self._reading("push", len(data)))
        warnings = check_ahead(definition, elements.time, self.clock.now_ms()) if elements.timed else ()
        if self._injector.catalog.deriving:
            self._check_graphs(definition, elements)
        future = self._injector.push(
            lambda arrived_ms: Push(definition.number, elements, arrived_ms, source, seq),
            len(data),
            definition.options.batch_ms,
        )
        return self._receipt(definition, future, wait, warnings)

    def heartbeat(self, stream: str, timestamp: int, wait: Wait = "published") -> PushReceipt:
        definition = self.stream(stream)
        self._check_takes_pushes(definition)
        _check_wait(wait)
        warnings = check_ahead(definition, np.array([timestamp], np.int64), self.clock.now_ms())
        future = self._injector.heartbeat(Heartbeat(definition.number, timestamp))
        return self._receipt(definition, future, wait, warnings)

    def late_elements(self, stream: str, since: int = 0, limit: int | None = None) -> dict[str, Any]:
        """The number of late elements, and those of them that are retained, of snapshots after `since`."""
        definition, late = self.stream(stream), self._engine.lateness.elements
        names = {number: query.name for number, query in self._injector.catalog.queries.items()}
        retained = late.retained(definition.number, since)[:limit]
        found = as_objects(self.store, definition.number, retained, names)
        return {"stream": definition.name, "late": late.counted(definition.number), "elements": found}

    def _check_takes_pushes(self, stream: StreamDefinition) -> None:
        query = None if stream.of_query is None else self._injector.catalog.queries.get(stream.of_query)
        if query is not None:
            raise BadArgument(
                f"stream {stream.name!r} is the output of query {query.name!r}, so it accepts no pushes and "
                "no heartbeats; push to a stream that the query reads"
            )

    def _check_graphs(self, stream: StreamDefinition, elements: Elements) -> None:
        """NameInUse if absorbed triples would go to a graph that is the answer of a query."""
        if elements.absorbed is None or not elements.absorbed.any():
            return
        derived, terms = self._derived_graphs(self.head()), elements.parsed.terms
        if stream.options.graph is not None:
            derived.check_writable(iri(stream.options.graph))
        graphs = elements.parsed.g[elements.absorbed]
        for place in np.unique(graphs[graphs >= 0]).tolist():
            derived.check_writable(terms[place])

    def _check_lag(self, stream: StreamDefinition) -> None:
        if not self._engine.lateness.is_read(stream.number):
            return
        limit_ms, lag_ms = self.limits.lag_ms, self._engine.lag_ms()
        ahead_ms = self._engine.ahead_ms(limit_ms)
        if max(lag_ms, ahead_ms) <= limit_ms:
            return
        if (fault := self._engine.merge.fault) is not None:
            raise refusal_of(fault, self.store.url)
        how = f"are {lag_ms} ms behind" if lag_ms > limit_ms else f"have work for {ahead_ms} ms before this push"
        raise Overload(
            f"the queries over stream {stream.name!r} {how}, more than {limit_ms} ms (--max-lag); send this push later",
            min(max(1, (ahead_ms - limit_ms) // 1000), _RETRY_AFTER_S_MAX),
        )

    def _receipt(
        self, stream: StreamDefinition, future: Future[Receipt], wait: Wait, warnings: Sequence[str]
    ) -> PushReceipt:
        receipt = future.result()
        pending = wait == "evaluated" and not self.is_evaluated_in_time(receipt.snapshot)
        return PushReceipt(
            stream.name,
            receipt.accepted,
            receipt.late,
            receipt.batch,
            receipt.snapshot,
            receipt.repeated,
            pending,
            warnings,
        )

    def is_evaluated_in_time(self, sn: int) -> bool:
        """Waits until all queries are evaluated up to this snapshot, also those that are behind; False: it took too
        long."""
        try:
            self._engine.await_evaluated(sn, self.limits.evaluated_s)
        except DeadlineExceeded:
            return False
        return True

    def _await(self, sn: int, wait: Wait) -> None:
        if wait == "evaluated":
            self._engine.await_evaluated(sn, self.limits.evaluated_s)

    # ---- the store ---------------------------------------------------------------------------------------------

    def head(self) -> int:
        return self._injector.head

    def question(self, text: str, check: Callable[[], None] | None = None) -> Question:
        """The text, parsed, for a request. `check` is called again and again while a long text is parsed, and may raise
        to end it."""
        self._check_text(text)
        return self._questions.read(text, self.base, check or self._deadline("text"))

    def _question(self, asked: str | Question, control: Control) -> Question:
        return asked if isinstance(asked, Question) else self.question(asked, control.check)

    def update(
        self,
        asked: str | Question,
        wait: Wait = "published",
        dataset: DatasetOverride | None = None,
        control: Control = Control.FREE,
    ) -> Updated:
        """SPARQL 1.1 Update: all operations of the request, as one snapshot, or none of them.

        `control` may end the request until it is published; then no operation is done."""
        _check_wait(wait)
        question = self._question(asked, control)
        unit = question.over(dataset).supported()
        if isinstance(unit, Admin):
            raise BadArgument(
                "this statement administers streams or queries, it is not an update: send it to a server (POST /sparql)"
            )
        if not isinstance(unit, Update):
            raise BadArgument("this is a query, not an update: send it as a query (GET or POST /sparql?query=...)")
        if self._source_writing is not None:
            asking, derived = self._asking(control), self._derived_graphs(self.head(), control)
            return self._source_writing.update(unit, question.text, asking, derived)
        try:
            change = change_of(unit, question.text, self.store, self.head(), self._asking(control), self._origin)
            published = self._injector.change(change).result()
        except MemoryError as error:  # nothing of it was done
            raise QueryTooLarge(f"the update needs more memory than is available ({error}): ask for less") from error
        self._await(published.sn, wait)
        return updated(published, self.store)

    def loads(self) -> list[Loaded]:
        """The records of files that were loaded into the store."""
        return loaded(self.store)

    def load(self, loading: Loading, graph: str | None, what: Loaded | None) -> int:
        """Publishes a load as one snapshot, in the order of all other changes; `what`: the record of the load."""
        name = b"" if what is None else what.packed()
        meant = loading.graphs() if self._injector.catalog.deriving else []
        turn = partial(self._load_turn, [*meant, graph_term(graph)])
        return int(self.store.load(loading, graph=graph_term(graph), name=name, turn=turn))

    def _load_turn(self, graphs: Iterable[bytes | None], publish: Callable[[], Sn | None]) -> Sn | None:
        found: list[Sn | None] = []

        def change(view: HeadView) -> Intent:
            graph_store.check_writable(view, graphs)
            # `found` is empty if the outcome was not known at once: then the snapshot is the head.
            return Intent(result=lambda sn: found[0] if found else Sn(sn), publish=lambda: found.append(publish()))

        return cast("Sn | None", self._injector.change(change).result())

    def change(self, change: Change, wait: Wait = "published") -> Any:
        """A change of encoded terms, as a snapshot of its own; returns the `result` of its intent."""
        result = self._injector.change(change).result()
        self._await(self.head(), wait)
        return result

    def query(
        self,
        asked: str | Question,
        snapshot: int | None = None,
        at: int | None = None,
        dataset: DatasetOverride | None = None,
        control: Control = Control.FREE,
        streams: bool = False,
    ) -> Answer:
        """`dataset` replaces the dataset of the text; `control` may end the query early. `streams`: rows that a source
        answers and that are only passed on are read while they are decoded."""
        question = self._question(asked, control)
        asking = replace(self._asking(control), streams=streams, at_snapshot=snapshot is not None)
        try:
            sn = self._retained(snapshot)
            given = self._derived_graphs(sn, control).of_query
            return answer_once(self.store, question, sn, at, dataset, asking, given)
        except MemoryError as error:
            raise QueryTooLarge(f"the query needs more memory than is available ({error}): ask for less") from error

    def _derived_graphs(self, sn: int, control: Control | None = None) -> DerivedGraphs:
        return DerivedGraphs(
            self.store, self._injector.catalog, self._origin, sn, self.allowed_urls, control or self._again()
        )

    def _origin(self, query: int) -> int | None:
        """The origin of the closes of a query; None: its first push has not determined it yet."""
        state = self._engine.merge.state(query)
        return None if state is None else state.t0

    def reads_derived(self, query: Query, dataset: DatasetOverride | None = None) -> bool:
        """Whether the query may read the answer of a registered query, which is not a graph of the store."""
        if not self._injector.catalog.deriving:
            return False
        read = query if dataset is None else dataset.over(query)
        return isinstance(read, Query) and any(read_by(self._injector.catalog, read))

    def rows_expected(
        self,
        asked: str | Question,
        snapshot: int,
        at: int | None,
        dataset: DatasetOverride | None,
        control: Control = Control.FREE,
    ) -> float:
        """The expected work of a query, from its plan: the number of rows that its operators produce together.

        Planning may take long: `control` may end it."""
        question = self._question(asked, control)
        return rows_expected(self.store, question, self._retained(snapshot), at, dataset, self._asking(control))

    def _asking(self, control: Control) -> Asking:
        return Asking(
            self.base,
            self.clock.now_ms(),
            urandom(8),
            control,
            self.allowed_urls,
            self._known,
            self.sources,
        )

    def _retained(self, snapshot: int | None) -> int:
        head = self.head()
        sn = head if snapshot is None else snapshot
        if sn > head and self._reads:
            self.follow()
            head = self.head()
        if not 0 <= sn <= head:
            raise Gone(f"there is no snapshot {sn}; the latest is {head}")
        return sn

    def decode(self, answer: Answer) -> list[tuple[bytes | None, ...]]:
        return rows_of(answer)

    def decoded(self, columns: Sequence[Ids], answer: Answer | GraphAnswer) -> Iterator[Decoded]:
        """The columns of an answer as texts, some thousand rows at a time."""
        if isinstance(answer, GraphAnswer):
            return chain(decoded(columns, answer.decode), answer.more)
        if answer.streamed is not None:
            return answer.streamed
        return decoded(columns, answer.vocabulary.decode, answer.count)

    def explain(self, asked: str | Question) -> dict[str, Any]:
        check = self._deadline("text")
        question = asked if isinstance(asked, Question) else self.question(asked, check)
        found = explain(question) | operators_of(self.store, question, check, self.sources)
        query = query_in(question)
        if self._holding is not None and query is not None and "refused" not in found:
            needs = needs_of(RegisteredText.of(query, check))
            found["sources"] = [{"source": MAIN, **each} for each in self._holding.explained(needs)]
        return found

    # ---- graphs as wholes: None is the default graph -----------------------------------------------------------

    def read_graph(self, graph: str | None, snapshot: int | None = None, control: Control | None = None) -> GraphAnswer:
        """NotFound for a named graph without triples. The quads are charged to `control` until the answer is sent."""
        term = _graph_term(graph)
        scope = GraphScope() if term is None else GraphScope(Constant(term))
        return self._with_source(scope, snapshot, control, lambda own: graph_store.read_graph(own, term))

    def read_dataset(self, snapshot: int | None = None, control: Control | None = None) -> GraphAnswer:
        return self._with_source(None, snapshot, control, graph_store.read_dataset)

    def _with_source(
        self,
        scope: GraphScope | None,
        snapshot: int | None,
        control: Control | None,
        read: Callable[[DerivedGraphs], GraphAnswer],
    ) -> GraphAnswer:
        """What our own store has, and what the source main has beside it."""
        own = self._derived_graphs(self._retained(snapshot), control)
        if self.sources.main is None:
            return read(own)
        return of_both(own, scope, snapshot is not None, self.sources, control or Control.FREE, read)

    def replace_graph(
        self,
        graph: str | None,
        documents: Sequence[Document],
        wait: Wait = "published",
        control: Control = Control.FREE,
    ) -> GraphWriteOutcome:
        """`control` may end the request until it is published, as all writes of graphs; then nothing is changed."""
        reading = self._reading_of(documents)
        if self._source_writing is not None:
            return self._source_writing.replace(_graph_term(graph), documents, reading, self.head())
        self._check_only_ours(graph, control)
        return self._write(graph_store.replace(_graph_term(graph), documents, reading, control), wait)

    def merge_graph(
        self,
        graph: str | None,
        documents: Sequence[Document],
        wait: Wait = "published",
        control: Control = Control.FREE,
    ) -> GraphWriteOutcome:
        reading = self._reading_of(documents)
        if self._source_writing is not None:
            return self._source_writing.merge(_graph_term(graph), documents, reading, self.head())
        return self._write(graph_store.merge(_graph_term(graph), documents, reading, control), wait)

    def add_quads(
        self, documents: Sequence[Document], wait: Wait = "published", control: Control = Control.FREE
    ) -> GraphWriteOutcome:
        """Adds each statement to the graph that it names."""
        reading = self._reading_of(documents)
        if self._source_writing is not None:
            return self._source_writing.add_quads(documents, reading, self.head())
        return self._write(graph_store.add_quads(documents, reading, control), wait)

    def drop_graph(
        self, graph: str | None, wait: Wait = "published", control: Control = Control.FREE
    ) -> GraphWriteOutcome:
        if self._source_writing is not None:
            return self._source_writing.drop(_graph_term(graph), self.head())
        self._check_only_ours(graph, control)
        return self._write(graph_store.drop(_graph_term(graph), control), wait)

    def _check_only_ours(self, graph: str | None, control: Control) -> None:
        """BadArgument if the source main holds triples of a graph that is to be emptied: they would stay there."""
        if (source := self.sources.main) is None:
            return
        term = _graph_term(graph)
        try:
            SourceAside(source, control).check_graph(None if term is None else Constant(term))
        except HeldElsewhere as error:
            raise BadArgument(str(error)) from None

    def _reading_of(self, documents: Sequence[Document]) -> ReadingBudget:
        return self._reading("document", sum(len(document.data) for document in documents))

    def _reading(self, what: str, size: int) -> ReadingBudget:
        """The budget for reading a body of `size` bytes, which may be larger than a push if it was compressed."""
        return ReadingBudget(self._deadline(what), max(self.limits.push_bytes, size))

    def _deadline(self, what: str) -> Callable[[], None]:
        return deadline(self.limits.read_s, f"reading the {what}")

    def _write(self, change: Change, wait: Wait) -> GraphWriteOutcome:
        _check_wait(wait)
        try:
            written = cast("GraphWriteOutcome", self._injector.change(change).result())
        except MemoryError as error:  # nothing of it was done
            raise QueryTooLarge(
                f"the request needs more memory than is available ({error}): send it in parts"
            ) from error
        self._await(written.snapshot, wait)
        return written

    # ---- registered queries ------------------------------------------------------------------------------------

    def register(self, asked: str | Question, name: str | None = None) -> tuple[QueryDefinition, bool, list[str]]:
        registration = self._read_registration(asked, name)
        release = self._reserved(registration)
        try:
            return _registered(self._injector.change(registration))
        finally:
            release()

    def register_all(self, texts: Iterable[str]) -> Iterator[tuple[QueryDefinition, bool, list[str]]]:
        """As `register`, one text after the other, and many in one snapshot; ends at the first that is rejected."""
        waiting: deque[Future[Any]] = deque()
        for text in texts:
            registration = self._read_registration(text, None)
            release = self._reserved(registration)
            waiting.append(self._injector.change(registration))
            waiting[-1].add_done_callback(partial(_called, release))
            while len(waiting) > _REGISTERED_AHEAD or (waiting and waiting[0].done()):
                yield _registered(waiting.popleft())
        for future in waiting:
            yield _registered(future)

    def register_live(self, asked: str | Question, name: str) -> None:
        """Registers a query for one connection, which must drop it at its end."""
        registration = self._read_registration(asked, name)
        release = self._reserved(registration)
        try:
            self._injector.change(replace(registration, live=True)).result()
        finally:
            release()

    def _read_registration(self, asked: str | Question, name: str | None) -> Registration:
        check = self._deadline("text")
        if not isinstance(asked, Question):  # thousands of texts may be registered, each once: they are not remembered
            self._check_text(asked)
            asked = Question.read(asked, self.base, check)
        registration = read_registration(asked, name, self.limits.queries, check)
        check_services(query_parts(registration.query), self.allowed_urls, asked.text, self.sources)
        if self.has_spark and asks_source(query_parts(registration.query), self.sources):
            registration = replace(registration, home="inline")  # nobody else has the sources, and their secrets
        return registration

    # ---- attached stores ---------------------------------------------------------------------------------------

    def _hold_main(self, injector: Injector) -> None:
        """Begins to hold what registered queries need of the source `main`."""
        if self.sources.main is not None:
            catalog = lambda: injector.catalog  # noqa: E731
            self._holding = Holding(self.sources.main, self.store, self.clock, catalog, injector.own_change)
            self._holding.start()

    def _reserved(self, registration: Registration) -> Callable[[], None]:
        """Waits until what the query needs of the source is held; call what it returns when the query is registered."""
        if self._holding is None:
            return lambda: None
        return self._holding.reserve(needs_of(reading_of(registration.text, registration.base)))

    @property
    def updated_source(self) -> Source | None:
        """The source that updates go to; None: they go to our own store."""
        return None if self._source_writing is None else self._source_writing.source

    def sources_status(self) -> list[dict[str, Any]]:
        return [self._source_status(source) for source in self.sources]

    def source_status(self, name: str) -> dict[str, Any]:
        """With what is held of it, pattern by pattern."""
        source = found_source(self.sources, name)
        groups = {} if self._holding is None or source is not self.sources.main else {"groups": self._holding.groups()}
        return self._source_status(source) | groups

    def _source_status(self, source: Source) -> dict[str, Any]:
        """How it answers; of the source main also what is held."""
        held = {} if self._holding is None or source is not self.sources.main else self._holding.status()
        return status_of(source, held)

    def held_patterns(self) -> list[HeldPattern]:
        """What is held of the source `main`, or is being fetched: all quads that match one of these."""
        return [] if self._holding is None else self._holding.needed()

    def source_changed(self, inserted: Sequence[Quad], deleted: Sequence[Quad]) -> None:
        """A change of the source `main` that is known exactly: what is held follows, as one snapshot."""
        if self._holding is not None:
            self._holding.apply(inserted, deleted)

    def _held_of(self, name: str) -> Holding:
        if self._holding is None or name != MAIN:
            raise NotFound(f"of no source {name!r} anything is held here")
        return self._holding

    def refresh_source(self, name: str, wait: Wait = "published") -> int:
        """Fetches what is held of a source anew; returns a snapshot that has it."""
        _check_wait(wait)
        sn = self._held_of(name).refresh()
        self._await(sn, wait)
        return sn

    def _source_written(self, request: SourceRequest) -> None:
        if self._holding is not None and request.clears:
            self._holding.refresh()
        elif request.quads:
            self.source_written((s, p, o, g or b"") for s, p, o, g in request.quads)

    def source_written(self, quads: Iterable[Quad]) -> None:
        """An update has inserted or deleted these quads of the source `main`, texts of subject, predicate, object and
        graph: returns when what is held of them is right."""
        if self._holding is not None:
            self._holding.written(quads)

    # ---- what is registered ------------------------------------------------------------------------------------

    def queries(self) -> list[QueryDefinition]:
        return list(self._injector.catalog.queries.values())

    def query_definition(self, name: str) -> QueryDefinition:
        return self._injector.catalog.query(name)

    def why_failed(self, name: str) -> str | None:
        """Why the query has failed; None: it has not."""
        query = self._injector.catalog.find_query(name)
        return None if query is None else fault_of_query(query, self._engine)

    def pause_query(self, name: str) -> None:
        """Stops the evaluation of a query after this snapshot; its emissions stay."""
        sn = int(self._injector.change(pause_query(name)).result())
        self._engine.await_evaluated(sn, self.limits.evaluated_s, for_all=False)

    def resume_query(self, name: str) -> None:
        """Evaluates a paused or failed query again, from here on. The closes in between are left out, and the next
        emission has `gap`."""
        query = self.query_definition(name)
        state = self._engine.merge.state(query.number)
        t0, failed = None if state is None else state.t0, has_failed(query, self._engine)
        self._injector.change(resume_query(name, t0, failed)).result()

    @property
    def has_spark(self) -> bool:
        """Whether the service was started with the Spark engine."""
        return self._engine.spark is not None

    def move_query(self, name: str, runner: str) -> int:
        """Moves a query to another runner; returns the snapshot after which it is there."""
        if runner not in ("inline", "spark"):
            raise BadArgument(f"runner={runner}: the runner is 'inline' or 'spark'")
        if runner == "spark" and not self.has_spark:
            raise BadArgument("this service was started with the inline engine: there is no Spark to move a query to")
        home: Literal["inline"] | None = "inline" if runner == "inline" else None
        sn = int(self._injector.change(move_query(name, home, self._engine.merge.left)).result())
        self._engine.await_evaluated(sn, self.limits.evaluated_s, for_all=False)
        return sn

    def drop_query(self, name: str) -> None:
        self._injector.change(drop_query(name)).result()

    def latest(self, name: str) -> Answer:
        """The whole answer of the last evaluation; an empty one before the first."""
        definition, merge = self.query_definition(name), self._engine.merge
        state = merge.state(definition.number)
        if state is None or state.evaluated is None:
            return no_answer(definition, self.head())
        if definition.r2s == R2S.RSTREAM.value:
            body = self._engine.emissions.body(definition.number, merge.last(definition.number))
            if body is not None:
                return answer_of(body, self.store)
        return answer_at_last_evaluation(
            self.store, self._injector.catalog, definition, state, self.allowed_urls, self._again(), self.sources
        )

    def _again(self) -> Control:
        """The budget of an evaluation that is repeated to read its answer."""
        return self._budget.control()

    def check_retained(self, name: str, since: int, seen: bool = False) -> None:
        """Gone, if emissions after `since` are not retained any more; 0 means: from the oldest retained one. Also Gone
        if the client has `seen` the emission `since` and the query has not made it: then it was another query of the
        name."""
        query = self.query_definition(name)
        last = self._engine.merge.last(query.number)
        if seen and since > last:
            raise Gone(
                f"query {query.name!r} has {last} emissions, so there is no number {since}; if the number is "
                "from a dropped query of the same name, subscribe again without Last-Event-ID"
            )
        if 0 < since < last:
            oldest = self._engine.emissions.oldest(query.number)
            if since + 1 < oldest:
                raise Gone(f"emission {since + 1} of {query.name!r} is no longer retained; the oldest is {oldest}")

    def emissions(self, name: str, since: int = 0, limit: int | None = None) -> list[Emission]:
        self.check_retained(name, since)
        return self._engine.emissions.read(self.query_definition(name).number, since, limit)

    def emission_again(self, name: str, number: int) -> bytes:
        """One emission as JSON, evaluated again at its snapshot."""
        definition = self.query_definition(name)
        if not 0 < number <= self._engine.merge.last(definition.number):
            raise NotFound(f"query {definition.name!r} has no emission {number}")
        self.check_retained(name, number - 1)
        if (body := self._engine.emissions.body(definition.number, number)) is None:
            raise Gone(f"emission {number} of {definition.name!r} is no longer retained")
        catalog, state = self._injector.catalog, self._engine.merge.state(definition.number)
        registered = Registered.of(definition, catalog)
        windows = registered.windows_from(None if state is None else state.t0)
        return Rerun(
            definition, registered.query, windows, self.store, self.allowed_urls, self._again(), self.sources
        ).json(body)

    def subscribe(self, name: str, since: int, notify: Callable[[], None]) -> Subscription:
        """`notify` is called by any thread when `take` has emissions, or at the end; it must not block."""
        self.check_retained(name, since)
        return self._engine.subscriptions.add(self.query_definition(name).number, since, notify)

    # ---- operations --------------------------------------------------------------------------------------------

    def query_status(self, name: str) -> dict[str, Any]:
        return query_status(self.query_definition(name), self._injector, self._engine)

    def status(self) -> dict[str, Any]:
        return service_status(self.store.url, self._injector, self._engine) | self._role_status()

    def _role_status(self) -> dict[str, Any]:
        """The role of this server; of a reader also the writer, if it is known."""
        if self.role == "writer":
            return {"role": "writer", "holder": None}
        holder = self._standby.holder
        shown = None if holder is None else {"address": holder.address or None, "pid": holder.pid}
        return {"role": "reader", "holder": shown, "why": "another process writes, and evaluates the queries"}

    def status_at_once(self) -> dict[str, Any]:
        """The part of `status` that waits for nothing, whatever hangs."""
        return at_once(self.store.url, self._injector, self._engine) | self._role_status()

    def spark_epochs(self) -> int:
        """The number of Spark epochs that have begun; 0 without Spark."""
        spark = self._engine.spark
        return 0 if spark is None else int(spark.status()["epochs"])

    def query_figures(self, query: QueryDefinition) -> dict[str, Any]:
        return query_figures(query, self._engine)

    def stream_figures(self, stream: StreamDefinition) -> dict[str, Any]:
        return stream_figures(stream, self._injector, self._engine)

    def probe(self) -> None:
        """Reads from the store; `waits` shows it while the store does not answer."""
        with self.waits.during("store", READER):
            self.store.kv.get_many("meta", [b"probe"])

    def collect(self) -> None:
        """Deletes what is not retained, now; it is also done regularly."""
        self._engine.retention.look()
        self.store.collect()

    def close(self) -> None:
        """Writes what is queued, and stores what is evaluated, unless the store does not answer; then releases the
        store for another writer."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._standby.close()
            if self._reads:
                self.give_up(RilletError("the service is being closed"))
            self._watch.close()
            if self._holding is not None:
                self._holding.close()
            self._engine.merge.give_up()  # a store that does not answer now is not waited for
            self._injector.close()
            self._engine.close()
            self.store.close()
            for source in self.sources:
                source.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_text(self, text: str) -> None:
        if len(text) > self.limits.text_characters:
            raise TooLarge(f"a text of {len(text)} characters exceeds the limit of {self.limits.text_characters}")


def _not_writer(url: str) -> NotWriter:
    return NotWriter(f"this server does not write to {url} yet; send the request again later", 1)


def _called(release: Callable[[], None], done: Future[Any]) -> None:
    release()


def _registered(future: Future[Any]) -> tuple[QueryDefinition, bool, list[str]]:
    outcome = cast("RegistrationOutcome", future.result())
    return outcome.definition, outcome.created, outcome.warnings


def _last_time(injector: Injector) -> int:
    """The latest time of the clock that the store has."""
    by_clock = [n for n, stream in injector.catalog.streams.items() if stream.runs_by == "clock"]
    latest = [at.latest for n in by_clock if (at := injector.positions.get(n)) is not None and at.latest is not None]
    return max([injector.published_ms, *latest])


def _check_wait(wait: str) -> None:
    if wait not in ("published", "evaluated"):
        raise BadArgument(f"wait={wait}: the value is 'published' or 'evaluated'")


def _graph_term(graph: str | None) -> bytes | None:
    return None if graph is None else checked_graph(graph)
