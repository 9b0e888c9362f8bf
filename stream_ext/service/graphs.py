"""The section of whole graphs: reading, replacing, merging and dropping them, and loads. None is the default graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

from hbase_store import Loading, Sn
from hbase_store.writing.divided_loading import DividedLoading
from hbase_store.writing.load_files import FolderFailed
from stream_ext.errors import BadArgument, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.terms import Constant
from stream_ext.plan.logic import GraphScope
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.service.opened import OpenedStore, Wait, check_wait, graph_term_of
from stream_ext.service.sources import AttachedSources
from stream_ext.service.whole_graphs import of_both
from stream_ext.writer import graph_store
from stream_ext.writer.change import Change, HeadView, Intent
from stream_ext.writer.derived_graphs import DerivedGraphs
from stream_ext.writer.graph_store import Document, GraphAnswer, GraphWriteOutcome
from stream_ext.writer.load_parts import load_failed
from stream_ext.writer.load_reading import LoadReading
from stream_ext.writer.load_records import Loaded, graph_term, loaded
from stream_ext.writer.updates.other_store import QuadInOtherStore, SourceAside


class Graphs:
    """One for each service. Writes go to the source main if updates do."""

    def __init__(self, opened: OpenedStore, sources: AttachedSources) -> None:
        self._opened, self._sources = opened, sources

    def read_graph(self, graph: str | None, snapshot: int | None = None, control: Control | None = None) -> GraphAnswer:
        """NotFound for a named graph without triples. The quads are charged to `control` until the answer is sent."""
        term = graph_term_of(graph)
        scope = GraphScope() if term is None else GraphScope(Constant(term))
        return self._with_source(scope, snapshot, control, lambda own: graph_store.read_graph(own, term))

    def read_dataset(self, snapshot: int | None = None, control: Control | None = None) -> GraphAnswer:
        return self._with_source(None, snapshot, control, graph_store.read_dataset)

    def replace_graph(
        self,
        graph: str | None,
        documents: Sequence[Document],
        wait: Wait = "published",
        control: Control = Control.FREE,
    ) -> GraphWriteOutcome:
        """`control` may end the request until it is published, as all writes of graphs; then nothing is changed."""
        reading = self._reading_of(documents)
        if self._sources.writing is not None:
            return self._sources.writing.replace(graph_term_of(graph), documents, reading, self._opened.head())
        self._check_only_ours(graph, control)
        return self._write(graph_store.replace(graph_term_of(graph), documents, reading, control), wait)

    def merge_graph(
        self,
        graph: str | None,
        documents: Sequence[Document],
        wait: Wait = "published",
        control: Control = Control.FREE,
    ) -> GraphWriteOutcome:
        reading = self._reading_of(documents)
        if self._sources.writing is not None:
            return self._sources.writing.merge(graph_term_of(graph), documents, reading, self._opened.head())
        return self._write(graph_store.merge(graph_term_of(graph), documents, reading, control), wait)

    def add_quads(
        self, documents: Sequence[Document], wait: Wait = "published", control: Control = Control.FREE
    ) -> GraphWriteOutcome:
        """Adds each statement to the graph that it names."""
        reading = self._reading_of(documents)
        if self._sources.writing is not None:
            return self._sources.writing.add_quads(documents, reading, self._opened.head())
        return self._write(graph_store.add_quads(documents, reading, control), wait)

    def drop_graph(
        self, graph: str | None, wait: Wait = "published", control: Control = Control.FREE
    ) -> GraphWriteOutcome:
        if self._sources.writing is not None:
            return self._sources.writing.drop(graph_term_of(graph), self._opened.head())
        self._check_only_ours(graph, control)
        return self._write(graph_store.drop(graph_term_of(graph), control), wait)

    def loads(self) -> list[Loaded]:
        """The records of files that were loaded into the store."""
        return loaded(self._opened.store)

    def load_reading(self, quads: bool, go_on: bool) -> LoadReading:
        """What reads the lines of a load: long ones in processes beside this one."""
        return LoadReading(quads, go_on, self._opened.loaders)

    def load(self, loading: Loading | DividedLoading, graph: str | None, what: Loaded | None) -> int:
        """Publishes a load as one snapshot, in the order of all other changes; `what`: the record of the load."""
        name = b"" if what is None else what.packed()
        meant = loading.graphs() if self._opened.catalog.deriving else []
        turn = partial(self._load_turn, [*meant, graph_term(graph)])
        try:
            return int(self._opened.store.load(loading, graph=graph_term(graph), name=name, turn=turn))
        except FolderFailed as error:
            raise load_failed(error) from error

    def change(self, change: Change, wait: Wait = "published") -> Any:
        """A change of encoded terms, as a snapshot of its own; returns the `result` of its intent."""
        result = self._opened.change(change)
        self._opened.wait_for(self._opened.head(), wait)
        return result

    def _load_turn(self, graphs: Iterable[bytes | None], publish: Callable[[], Sn | None]) -> Sn | None:
        found: list[Sn | None] = []

        def change(view: HeadView) -> Intent:
            graph_store.check_writable(view, graphs)
            # `found` is empty if the outcome was not known at once: then the snapshot is the head.
            return Intent(result=lambda sn: found[0] if found else Sn(sn), publish=lambda: found.append(publish()))

        return cast("Sn | None", self._opened.change(change))

    def _with_source(
        self,
        scope: GraphScope | None,
        snapshot: int | None,
        control: Control | None,
        read: Callable[[DerivedGraphs], GraphAnswer],
    ) -> GraphAnswer:
        """What our own store has, and what the source main has beside it."""
        own = self._opened.derived_graphs(self._opened.retained(snapshot), control)
        if self._opened.sources.main is None:
            return read(own)
        return of_both(own, scope, snapshot is not None, self._opened.sources, control or Control.FREE, read)

    def _check_only_ours(self, graph: str | None, control: Control) -> None:
        """BadArgument if the source main holds triples of a graph that is to be emptied: they would stay there."""
        if (source := self._opened.sources.main) is None:
            return
        term = graph_term_of(graph)
        try:
            SourceAside(source, control).check_graph(None if term is None else Constant(term))
        except QuadInOtherStore as error:
            raise BadArgument(str(error)) from None

    def _reading_of(self, documents: Sequence[Document]) -> ReadingBudget:
        return self._opened.reading("document", sum(len(document.data) for document in documents))

    def _write(self, change: Change, wait: Wait) -> GraphWriteOutcome:
        check_wait(wait)
        try:
            written = cast("GraphWriteOutcome", self._opened.change(change))
        except MemoryError as error:  # nothing of it was done
            raise QueryTooLarge(
                f"the request needs more memory than is available ({error}): send it in parts"
            ) from error
        self._opened.wait_for(written.snapshot, wait)
        return written
