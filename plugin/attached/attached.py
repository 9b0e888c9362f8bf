"""`attach(dataset)`: streams and registered queries over a Graph or Dataset of rdflib, in the same process.

    fleet = attach(dataset)
    fleet.register("... WINDOW ex:last { ?taxi ex:in ?zone } ?zone ex:partOf ?city ...")
    fleet.dataset.add((EX.z1, EX.partOf, EX.bern))       # write here, and registered queries know it
    fleet.push("taxis", "ex:taxi7 ex:in ex:z1 .", timestamp=1000)
    for emission in fleet.subscribe("near"):
        ...

The dataset stays where it is. The streams, and what they absorb, are in a store of ours beside it; queries read both as
one dataset."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from rdflib import Dataset, Graph
from rdflib.plugins.sparql.sparql import Query, Update
from rdflib.query import Processor, Result
from rdflib.term import Identifier

from hbase_store.cache import RecentlyUsed
from plugin.attached.held import HeldQuad
from plugin.attached.own_sparql import queried_by_store, updated_by_store
from plugin.attached.python_functions import CustomEval, Function, PythonFunctions
from plugin.attached.quads import QuadReader, WindowReader
from plugin.attached.rdflib_source import RdflibSource
from plugin.attached.taking_over import TakingOver
from plugin.attached.view import From, View
from plugin.attached.watched_graphs import WatchedConjunctiveGraph, WatchedDataset, WatchedGraph, handle, watched
from plugin.attached.watched_store import WatchedStore
from plugin.attached.whole_evaluation import WholeEvaluation
from plugin.attached.whole_queries import ROWS_MAX, WholeQueries
from plugin.attached.windows_as_graphs import window_graphs, windowed_query
from plugin.sharing import shared
from plugin.sparql import Sparql, SparqlRequest
from plugin.store import RilletStore
from stream_ext.clock import SystemClock
from stream_ext.errors import RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.language.printing import to_sparql
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.source import MAIN
from stream_ext.service.service import PushReceipt, Service, Wait

BASE = "urn:rillet:local:"
#: The ASGI application is above this package, and asked for by name.
_APPLICATION = "endpoint.app"
#: Texts whose algebra is remembered: rdflib parses a short one in some ten milliseconds.
_PREPARED_MAX = 128


class Attached:
    def __init__(
        self,
        graph: Graph,
        *,
        store: str | None = None,
        base: str = BASE,
        functions: Mapping[str, Function] | None = None,
        custom_eval: CustomEval | None = None,
        allowed_urls: AllowedUrls = NOTHING,
        refresh_s: float | None = None,
    ) -> None:
        """Use `attach`."""
        self.graph, self._base, self._allowed = graph, base, allowed_urls
        self.functions = PythonFunctions(graph, functions, custom_eval)
        self.whole = WholeQueries(self.functions, allowed_urls)
        self._address = store
        self._remove_temporary: Callable[[], object] = lambda: None
        self._service: Service | None = None
        self._opening = threading.Lock()
        self._prepared: RecentlyUsed[tuple[str, frozenset[tuple[str, str]]], Query] = RecentlyUsed(_PREPARED_MAX)
        self._taking_over = TakingOver(lambda: self._watched.take_over())
        self._watched = WatchedStore(graph, self, handle, self._taking_over.soon, self._updated)
        self._dataset = watched(graph, self._watched)
        evaluation = WholeEvaluation(graph, self.functions, self.whole)
        self._source = RdflibSource(
            self._watched.reader, self._result, self._changed_by_engine, self._watched.still, evaluation, refresh_s
        )

    @property
    def dataset(self) -> WatchedGraph | WatchedConjunctiveGraph | WatchedDataset:
        """What was attached, to write to: whatever it gives out writes through it, too."""
        return self._dataset

    @property
    def service(self) -> Service:
        """Our own store with its streams and queries, opened when it is first used."""
        with self._opening:
            if self._service is None:
                self._service = Service.open(
                    self._address or self._temporary(),
                    base=self._base,
                    clock=SystemClock(),
                    engine="inline",
                    allowed_urls=self._allowed,
                    sources=[self._source],
                )
            return self._service

    def _temporary(self) -> str:
        """The address of a store in a folder that is removed at the end, also of a process that forgets to close."""
        folder = tempfile.mkdtemp(prefix="rillet-attached-")
        self._remove_temporary = weakref.finalize(self, _remove, folder)
        return f"lmdb:{folder}"

    def close(self) -> None:
        """Ends the streams and queries. The dataset stays open: whoever opened it closes it."""
        self._taking_over.close()
        with self._opening:
            if self._service is not None:
                self._service.close()
                self._service = None
        self._remove_temporary()

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- streams and registered queries

    def stream(self, name: str, **options: Any) -> dict[str, Any]:
        """Creates a stream, with the options of `PUT /streams/{stream}`; its definition."""
        definition, _ = self.service.create_stream(name, options)
        return self.service.stream_status(definition.name)

    def push(
        self,
        stream: str,
        data: str | bytes | Graph,
        *,
        media_type: str = "text/turtle",
        timestamp: int | None = None,
        wait: Wait = "published",
    ) -> PushReceipt:
        """One element, in Turtle or `media_type`, or as a Graph. What was written to the dataset before is known to
        the evaluations that it causes."""
        self._watched.take_over()
        if isinstance(data, Graph):
            data, media_type = data.serialize(format="nt"), "application/n-triples"
        body = data.encode() if isinstance(data, str) else data
        return self.service.push(stream, body, media_type, timestamp=timestamp, wait=wait)

    def heartbeat(self, stream: str, timestamp: int, *, wait: Wait = "published") -> PushReceipt:
        """Advances the time of the stream without an element."""
        self._watched.take_over()
        return self.service.heartbeat(stream, timestamp, wait)

    def register(self, text: str, name: str | None = None) -> dict[str, Any]:
        """Registers a query; its name and warnings. `name` is for a text without a name."""
        definition, created, warnings = self.service.register(text, name)
        return {"query": definition.name, "created": created, "warnings": warnings}

    def subscribe(self, query: str, since: int = 0, *, follow: bool = True) -> Iterator[dict[str, Any]]:
        """The emissions after number `since`, as objects of the wire format, in order. Ends when the query is dropped;
        with `follow=False`, when all that there are have been given."""
        news = threading.Event()
        subscription = self.service.subscribe(query, since, news.set)
        try:
            while True:
                news.clear()
                while found := subscription.take():
                    yield from (json.loads(emission.json) for emission in found)
                if subscription.fault is not None:
                    raise RilletError(f"{query}: no more emissions ({subscription.fault})") from subscription.fault
                if subscription.ended or not follow:
                    return
                news.wait()
        finally:
            subscription.close()

    def app(self, **settings: Any) -> Any:
        """The ASGI application of these streams and queries; `settings` are those of `endpoint.app.create_app`."""
        return import_module(_APPLICATION).create_app(self.service, **settings)

    # ---- what registered queries hold of the dataset (`HeldCopy`)

    @property
    def patterns(self) -> Sequence[HeldQuad]:
        service = self._service
        if service is None:
            return ()
        return [(*pattern.terms, pattern.graph) for pattern in service.held_patterns()]

    def apply(self, inserted: Sequence[HeldQuad], deleted: Sequence[HeldQuad]) -> None:
        self.service.source_changed(inserted, deleted)

    def refresh(self) -> None:
        """Finds what was changed in the dataset by others than `.dataset`. It is also done each `refresh_s`."""
        self.service.refresh_source(MAIN)

    # ---- queries once

    def query(
        self,
        text: str,
        *,
        initNs: Mapping[str, Any] | None = None,
        initBindings: Mapping[str, Identifier] | None = None,
        at: int | None = None,
        clauses: From | None = None,
        processor: str | Processor = "sparql",
        control: Control = Control.FREE,
        rows_max: int = ROWS_MAX,
    ) -> Result:
        """The answer over the dataset and our own store as one, whole. `at`: the time at which windows
        are read. `clauses` replace FROM of the text."""
        namespaces = {**dict(self.graph.namespaces()), **(initNs or {})}
        windowed = windowed_query(text, namespaces, self._base)
        query = self._prepared_query(text if windowed is None else to_sparql(windowed), namespaces)
        self._watched.settle()
        uses_functions = self.functions.may_be_used_by(query.algebra)
        is_plain = clauses is None and processor == "sparql" and not uses_functions
        if is_plain and windowed is None and self._ours_is_empty:
            result = queried_by_store(self.graph, text, namespaces, initBindings)
            if result is not None:
                return result
        elif is_plain:
            request = SparqlRequest(text, namespaces, initBindings or {}, None, False, None, at, control)
            return Sparql(shared.attach(self.service), request).query()
        view = self.view(control, None if windowed is None else window_graphs(windowed, self.service, at))
        if processor != "sparql":
            return (view if clauses is None else view.with_clauses(clauses)).query(query, processor)
        return self.whole.query(query, view, initBindings, clauses, control, rows_max)

    def view(self, control: Control = Control.FREE, more: Dataset | None = None) -> View:
        """The dataset and our own store, as one dataset for reading."""
        readers = [QuadReader(self.graph)]
        if more is not None:
            readers.append(WindowReader(more))
        if not self._ours_is_empty:
            readers.append(QuadReader(Dataset(store=RilletStore(self.service))))
        return View(readers, self.graph.namespace_manager, control=control)

    def _prepared_query(self, text: str, namespaces: Mapping[str, Any]) -> Query:
        key = (text, frozenset((prefix, str(name)) for prefix, name in namespaces.items()))
        query = self._prepared.get(key)
        if query is None:
            query = self.whole.prepared(text, namespaces)
            self._prepared.put(key, query)
        return query

    @property
    def _ours_is_empty(self) -> bool:
        if self._service is None and self._address is None:
            return True
        snapshot = self.service.store.at()
        return not snapshot.count_all() and not len(snapshot.graphs())

    def _result(self, text: str, control: Control) -> Result:
        """The answer of the dataset alone, for the engine."""
        with self.whole.exclusive():
            is_for_us = self._watched.reader.is_single and "GRAPH" in text.upper()
            result = None if is_for_us else queried_by_store(self.graph, text, {})
            if result is not None:
                return result
            view = View([QuadReader(self.graph)], self.graph.namespace_manager, control=control)
            return self.whole.query(self.whole.prepared(text, {}), view, control=control)

    # ---- updates

    def update(self, text: str, *, initNs: Mapping[str, Any] | None = None) -> None:
        """Changes the dataset, and commits; its patterns read our own store, too, but a triple of ours is not deleted.
        Nothing is fetched for LOAD and SERVICE that is not allowed."""
        namespaces = {**dict(self.graph.namespaces()), **(initNs or {})}
        update = self.whole.prepared_update(text, namespaces)
        uses_functions = self.functions.may_be_used_by(update.algebra)
        if uses_functions or self._ours_is_empty:
            self._change(text, update, namespaces, uses_functions)
        else:
            self.service.update("".join(SparqlRequest(text, namespaces, {}, None, False).head_and_text()))

    def _changed_by_engine(self, text: str) -> None:
        self._change(text, self.whole.prepared_update(text, {}), {}, False)

    def _change(self, text: str, update: Update, namespaces: Mapping[str, Any], uses_functions: bool) -> None:
        with self._watched.lock:
            plain = self._dataset.plain()
            if uses_functions or not updated_by_store(plain, text, namespaces):
                self.whole.update(update, plain)
        self._watched.commit()

    def _updated(self, plain: Graph, update: Any, *args: Any, **more: Any) -> None:
        """`update` of the dataset: as rdflib does it, with the functions of the graph that was attached."""
        text = update if isinstance(update, str) else None
        if text is not None and self.functions.are_any:
            prepared = self.whole.read_update(text, {**dict(plain.namespaces()), **more.get("initNs", {})})
            if self.functions.may_be_used_by(prepared.algebra):
                self.whole.update(prepared, plain, more.get("initBindings"))
                return
        Graph.update(plain, update, *args, **more)


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # others may have been quicker: /tmp is cleaned


def attach(graph: Graph, **settings: Any) -> Attached:
    """Streams and registered queries over this Graph, ConjunctiveGraph or Dataset, which stays where it is.

    `store`: the address of our own store (`lmdb:PATH`), which keeps streams and queries when the process ends; without
    it they end with the process. `functions`, `custom_eval`: in Python, as for rdflib. `allowed_urls`: what SERVICE and
    LOAD may fetch. `refresh_s`: how often the dataset is compared with what is held; None: each minute if it is on
    a server, otherwise each hour, since a dataset in this process is usually written through `.dataset`."""
    return Attached(graph, **settings)
