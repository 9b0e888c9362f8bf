"""Derived graphs: the latest answer of a registered CONSTRUCT, as a named graph of one-shot queries.

    SELECT ?s { GRAPH <http://ex/busy> { ?s ?p ?o } }      the query <http://ex/busy>, as its stream has it by then

At a snapshot it is the whole answer of the last evaluation that the query's stream knows of then, with or without an
emission. It is no graph of the store: a query that names it, or ranges over all graphs, gets it as the content of a
window. It cannot be written to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from hbase_store import Store
from hbase_store.layout.terms import iri
from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.catalog.registered import Registered
from stream_ext.emissions.emission import columns_of, decode_body
from stream_ext.errors import Gone, NameInUse
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S, Pattern, Query
from stream_ext.language.algebra.algebra import Graph as GraphPattern
from stream_ext.language.algebra.terms import Constant, Node, Variable
from stream_ext.language.algebra.walk import Part, query_parts, walk
from stream_ext.oneshot.answers import answer_at_last_evaluation
from stream_ext.oneshot.derived_graph import DerivedGraph
from stream_ext.oneshot.evaluate import Answer
from stream_ext.oneshot.rerun import Rerun
from stream_ext.plan.places import GraphsInScope
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.windows.query_state import LastEvaluation, QueryState
from stream_ext.writer.derived_streams import received_of, silence_of

#: The progress of a query by now.
StateOf = Callable[[int], QueryState | None]


@dataclass(frozen=True, slots=True)
class DerivedGraphs:
    """The derived graphs of a catalog at snapshot `sn`."""

    store: Store
    catalog: Catalog
    state: StateOf
    sn: int
    allowed_urls: AllowedUrls  # the endpoints that may be requested when an answer is evaluated again
    control: Control = Control.FREE  # the budget of that
    sources: Sources = NO_SOURCES

    def of_query(self, query: Query) -> tuple[DerivedGraph, ...]:
        """The derived graphs that a query may read."""
        return self._there(read_by(self.catalog, query))

    def of_pattern(self, pattern: Pattern, of: GraphsInScope) -> tuple[DerivedGraph, ...]:
        """The derived graphs that a bare pattern over such a dataset may read."""
        return self._there(self.meant(pattern, of))

    def meant(self, pattern: Pattern, of: GraphsInScope) -> Iterator[QueryDefinition]:
        named = {*(of.default.graphs or ()), *(of.listed or ())}
        return _meant(self.catalog, named, (pattern,), of.listed is None)

    def named(self, graph: bytes | None) -> DerivedGraph | None:
        """The derived graph of this name; None: there is none, or it has no triple."""
        owner = self._owner(graph)
        return None if owner is None else self._graph_of(owner)

    def all(self) -> tuple[DerivedGraph, ...]:
        return self._there(self.catalog.deriving)

    @property
    def names(self) -> list[bytes]:
        return [iri(query.iri) for query in self.catalog.deriving]

    def why_not(self, graph: bytes | None) -> str | None:
        """Why the graph cannot be written to; None: it can."""
        owner = self._owner(graph)
        if owner is None:
            return None
        return (
            f"the graph <{owner.iri}> is the latest answer of the registered query {owner.name!r}, so no "
            "request may write to it; use another graph, or drop the query first"
        )

    def check_writable(self, graph: bytes | None) -> None:
        if (why := self.why_not(graph)) is not None:
            raise NameInUse(why)

    def _owner(self, graph: bytes | None) -> QueryDefinition | None:
        return next((query for query in self.catalog.deriving if graph == iri(query.iri)), None)

    def _there(self, queries: Iterable[QueryDefinition]) -> tuple[DerivedGraph, ...]:
        found = [self._graph_of(query) for query in queries]
        return tuple(graph for graph in found if graph is not None)

    def _graph_of(self, definition: QueryDefinition) -> DerivedGraph | None:
        """The graph of a query; None: it has no triple."""
        position = self.store.vts(self.sn).get(definition.output or 0)
        number, at = received_of(position, definition.number), silence_of(position)
        is_whole = definition.r2s == R2S.RSTREAM.value
        if at is None:
            row = next(self.store.emissions.read(definition.number, number - 1, 1), None) if number else None
            if row is None and not number:
                return None
            if row is None or row.number != number:
                raise Gone(_GONE.format(definition.name, self.sn))
            body = decode_body(row.body)
            if is_whole:
                return _if_any(DerivedGraph(Constant(iri(definition.iri)), body.terms, columns_of(body)))
            assert body.at is not None, "every emission is stored with its evaluation"
            at = body.at
        elif is_whole:
            return None  # only an empty answer is not emitted
        answer = self._answer(definition, at)
        assert answer.graph is not None, "a CONSTRUCT makes a graph"
        ids, places = np.unique(np.concatenate(answer.graph), return_inverse=True)
        texts = answer.vocabulary.decode(ids) if len(ids) else []
        triples = np.split(places.reshape(-1).astype(np.int32), 3)
        return _if_any(DerivedGraph(Constant(iri(definition.iri)), texts, triples))

    def _answer(self, definition: QueryDefinition, at: LastEvaluation) -> Answer:
        """The whole answer of that evaluation."""
        state = self.state(definition.number)
        if state is not None and state.evaluated == at:
            return answer_at_last_evaluation(
                self.store, self.catalog, definition, state, self.allowed_urls, self.control, self.sources
            )
        registered = Registered.of(definition, self.catalog)
        has_ranks = state is not None and state.ranked is not None
        if has_ranks or definition.asks_source or registered.functions:
            raise Gone(_PASSED.format(definition.name, self.sn))
        windows = registered.windows_from(None if state is None else state.t0)
        rerun = Rerun(definition, registered.query, windows, self.store, self.allowed_urls, self.control, self.sources)
        return rerun.answer(at, self.sn)


def _if_any(graph: DerivedGraph) -> DerivedGraph | None:
    return graph if len(graph.triples[0]) else None


_GONE = "the answer of {!r} at snapshot {} is no longer retained; use a later snapshot"
#: What was asked of a source, and the order of first appearance, is known of the last evaluation only.
_PASSED = (
    "the answer of {!r} at snapshot {} cannot be made again, because the query was evaluated since; "
    "use a later snapshot"
)


def read_by(catalog: Catalog, query: Query) -> Iterator[QueryDefinition]:
    """The registered queries whose answers this query reads as graphs, by name or by ranging over all graphs."""
    clauses = query.shape.graphs
    return _meant(catalog, {clause.graph for clause in clauses}, query_parts(query), not clauses)


def _meant(
    catalog: Catalog, names: Set[Node | None], parts: Sequence[Part], has_all: bool
) -> Iterator[QueryDefinition]:
    """`names`: the graphs of the dataset; `has_all`: the dataset does not say which graphs GRAPH ranges over."""
    if not catalog.deriving:
        return
    nodes = {node.graph for part in parts for node in walk(part) if isinstance(node, GraphPattern)}
    all_of_them = has_all and any(isinstance(node, Variable) for node in nodes)
    for definition in catalog.deriving:
        if all_of_them or Constant(iri(definition.iri)) in names | nodes:
            yield definition
