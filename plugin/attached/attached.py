"""`attach(dataset)`: streams and registered queries over a Graph or Dataset of rdflib, in the same process.

    fleet = attach(dataset)
    fleet.dataset.add((taxi, IN, zone))     # write here: what registered queries read of it is taken over
    fleet.push("positions", ...)

The streams, and what they absorb, are in a store of ours beside the dataset; queries read both as one dataset."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from rdflib import Dataset, Graph
from rdflib.plugins.sparql.sparql import Query
from rdflib.query import Processor, Result
from rdflib.term import Identifier

from plugin.attached.own_sparql import queried_by_store, updated_by_store
from plugin.attached.python_functions import CustomEval, Function, PythonFunctions
from plugin.attached.quads import QuadReader
from plugin.attached.view import From, View
from plugin.attached.whole_queries import ROWS_MAX, WholeQueries
from plugin.store import RilletStore
from stream_ext.clock import SystemClock
from stream_ext.evaluation_budget import Control
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.service.service import Service

BASE = "urn:rillet:local:"
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
    ) -> None:
        """Use `attach`."""
        self.graph, self._base, self._allowed = graph, base, allowed_urls
        self.functions = PythonFunctions(graph, functions, custom_eval)
        self.whole = WholeQueries(self.functions, allowed_urls)
        self._store, self._folder = store, None if store is not None else tempfile.mkdtemp(prefix="rillet-attached-")
        self._service: Service | None = None
        self._opening = threading.Lock()
        self._prepared: OrderedDict[tuple[str, frozenset[tuple[str, str]]], Query] = OrderedDict()

    # ---- our own store, opened when it is first used

    @property
    def service(self) -> Service:
        with self._opening:
            if self._service is None:
                self._service = Service.open(
                    self._store or f"lmdb:{self._folder}",
                    base=self._base,
                    clock=SystemClock(),
                    engine="inline",
                    allowed_urls=self._allowed,
                )
            return self._service

    @property
    def _ours_is_empty(self) -> bool:
        if self._service is None and self._folder is not None:
            return True
        snapshot = self.service.store.at()
        return not snapshot.count_all() and not len(snapshot.graphs())

    def close(self) -> None:
        """Ends the streams and queries. The dataset stays open: whoever opened it closes it."""
        with self._opening:
            if self._service is not None:
                self._service.close()
                self._service = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # ---- queries once

    def query(
        self,
        text: str,
        *,
        initNs: Mapping[str, Any] | None = None,
        initBindings: Mapping[str, Identifier] | None = None,
        clauses: From | None = None,
        processor: str | Processor = "sparql",
        control: Control = Control.FREE,
        rows_max: int = ROWS_MAX,
    ) -> Result:
        """The answer over the dataset and our own store as one, whole. `clauses` replace FROM of the text."""
        namespaces = {**dict(self.graph.namespaces()), **(initNs or {})}
        query = self.prepared(text, namespaces)
        needs_us = clauses is not None or self.functions.may_be_used_by(query.algebra) or not self._ours_is_empty
        result = None if needs_us else queried_by_store(self.graph, text, namespaces, initBindings)
        if result is not None:
            return result
        view = self.view(control)
        if processor != "sparql":
            return (view if clauses is None else view.with_clauses(clauses)).query(query, processor)
        return self.whole.query(query, view, initBindings, clauses, control, rows_max)

    def prepared(self, text: str, namespaces: Mapping[str, Any]) -> Query:
        key = (text, frozenset((prefix, str(name)) for prefix, name in namespaces.items()))
        query = self._prepared.get(key)
        if query is None:
            query = self._prepared[key] = self.whole.prepared(text, namespaces)
            if len(self._prepared) > _PREPARED_MAX:
                self._prepared.popitem(last=False)
        return query

    def view(self, control: Control = Control.FREE) -> View:
        """The dataset and our own store, as one dataset for reading."""
        readers = [QuadReader(self.graph)]
        if not self._ours_is_empty:
            readers.append(QuadReader(Dataset(store=RilletStore(self.service))))
        return View(readers, self.graph.namespace_manager, control=control)

    def update(self, text: str, *, initNs: Mapping[str, Any] | None = None) -> None:
        """Changes the dataset."""
        namespaces = {**dict(self.graph.namespaces()), **(initNs or {})}
        update = self.whole.prepared_update(text, namespaces)
        uses_functions = self.functions.may_be_used_by(update.algebra)
        if uses_functions or not updated_by_store(self.graph, text, namespaces):
            self.whole.update(update, self.graph)
