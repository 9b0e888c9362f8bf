"""Source writing: updates, and writes of whole graphs, that go to the source main in place of our own store.

One after the other: each is made of what both stores hold, checked against our own store, and sent as one request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Literal

from hbase_store import Store
from stream_ext.errors import BadArgument, NotFound, SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.statements import Update
from stream_ext.language.algebra.terms import Constant
from stream_ext.oneshot.evaluate import Asking
from stream_ext.rdf import Parsed
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import MAIN, Source
from stream_ext.remote.sources import Sources
from stream_ext.writer.derived_graphs import DerivedGraphs
from stream_ext.writer.graph_store import Document, GraphWriteOutcome, triples_of
from stream_ext.writer.updates import SourceRequest, Updated, request_to_source
from stream_ext.writer.updates.other_store import OwnAside, QuadInOtherStore, SourceAside
from stream_ext.writer.updates.to_source import data_operation, quads_of

UpdatesTo = Literal["source", "ours"]
Written = Callable[[SourceRequest], None]


def source_writing(store: Store, sources: Sources, updates: UpdatesTo | None, written: Written) -> SourceWriting | None:
    """None: updates go to our own store. BadArgument if they should go to a source that is not there. `written` is
    called after each request that the source has done."""
    source = sources.main
    if updates == "source" and source is None:
        raise BadArgument(f"--updates source: no source {MAIN} is attached (--attach URL)")
    if source is None or updates == "ours" or (updates is None and source.settings.update_url is None):
        return None
    return SourceWriting(store, source, written)


class SourceWriting:
    def __init__(self, store: Store, source: Source, written: Written) -> None:
        self._store, self._source, self._written = store, source, written
        self._turn = threading.Lock()

    @property
    def source(self) -> Source:
        return self._source

    def update(self, update: Update, text: str, asking: Asking, derived: DerivedGraphs) -> Updated:
        with self._turn:
            self._send(request_to_source(update, text, self._store, asking, derived))
        return Updated(derived.sn, None, None)

    # ---- whole graphs

    def replace(
        self, graph: bytes | None, documents: Sequence[Document], reading: ReadingBudget, sn: int
    ) -> GraphWriteOutcome:
        inserting = _inserting(graph, triples_of(graph, documents, reading))
        with self._turn:
            self._check_not_ours(graph, sn)
            existed = self._is_there(graph)
            parts = [_clear(graph), *([inserting.text] if inserting.text else [])]
            self._send(SourceRequest(" ;\n".join(parts), inserting.quads, clears=True))
        return GraphWriteOutcome(sn, bool(inserting.text) and not existed)

    def merge(
        self, graph: bytes | None, documents: Sequence[Document], reading: ReadingBudget, sn: int
    ) -> GraphWriteOutcome:
        inserting = _inserting(graph, triples_of(graph, documents, reading))
        with self._turn:
            existed = graph is None or self._is_there(graph)
            self._send(inserting)
        return GraphWriteOutcome(sn, bool(inserting.text) and not existed)

    def drop(self, graph: bytes | None, sn: int) -> GraphWriteOutcome:
        with self._turn:
            self._check_not_ours(graph, sn)
            if graph is not None and not self._is_there(graph):
                raise NotFound(f"there is no graph {graph.decode()}: it holds no triple")
            self._send(SourceRequest(_clear(graph), clears=True))
        return GraphWriteOutcome(sn)

    def add_quads(self, documents: Sequence[Document], reading: ReadingBudget, sn: int) -> GraphWriteOutcome:
        """Adds each statement to the graph that it names."""
        with self._turn:
            self._send(_inserting(None, [document.parsed(reading) for document in documents]))
        return GraphWriteOutcome(sn)

    def _check_not_ours(self, graph: bytes | None, sn: int) -> None:
        try:
            OwnAside(self._store.at(sn), self._store.ids).check_graph(None if graph is None else Constant(graph))
        except QuadInOtherStore as error:
            raise BadArgument(str(error)) from None

    def _is_there(self, graph: bytes | None) -> bool:
        try:
            SourceAside(self._source, Control.FREE).check_graph(None if graph is None else Constant(graph))
        except QuadInOtherStore:
            return True
        return False

    def _send(self, request: SourceRequest) -> None:
        """Returns when what is held of the source is right again."""
        if not request.text:
            return
        try:
            self._source.update(request.text)
        except CannotFetch as error:
            raise SourceFailed(str(error)) from None
        self._written(request)


def _inserting(graph: bytes | None, documents: Sequence[Parsed]) -> SourceRequest:
    quads = [quad for number, parsed in enumerate(documents) for quad in quads_of(parsed, graph, number)]
    return SourceRequest(data_operation("INSERT DATA", quads) if quads else "", quads)


def _clear(graph: bytes | None) -> str:
    return "CLEAR SILENT DEFAULT" if graph is None else f"CLEAR SILENT GRAPH {graph.decode()}"
