"""Derived graphs: the latest answer of a registered CONSTRUCT, as a named graph of one-shot queries.

    SELECT ?s { GRAPH <http://ex/busy> { ?s ?p ?o } }      the query <http://ex/busy>, as its stream has it by then

At a snapshot it is the last emission that the query's stream has received. It is no graph of the store: a query that
names it, or ranges over all graphs, gets it as the content of a window. It cannot be written to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from hbase_store import Store
from hbase_store.layout.terms import iri
from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.catalog.registered import Registered
from stream_ext.emissions.emission import EmissionBody, columns_of, decode_body
from stream_ext.errors import Gone, NameInUse
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S, Pattern, Query
from stream_ext.language.algebra.algebra import Graph as GraphPattern
from stream_ext.language.algebra.terms import Constant, Node, Variable
from stream_ext.language.algebra.walk import Part, query_parts, walk
from stream_ext.network.operators.remote.service import placed
from stream_ext.oneshot.derived_graph import DerivedGraph
from stream_ext.oneshot.evaluate import Asking, evaluate
from stream_ext.oneshot.rerun import Rerun
from stream_ext.plan.places import GraphsInScope
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.writer.derived_streams import received_of

#: The origin of a query's closes, where its first push decided it.
Origin = Callable[[int], int | None]


@dataclass(frozen=True, slots=True)
class DerivedGraphs:
    """The derived graphs of a catalog at snapshot `sn`."""

    store: Store
    catalog: Catalog
    origin: Origin
    sn: int
    allowed_urls: AllowedUrls  # the endpoints that may be requested when an answer is evaluated again
    control: Control = Control.FREE  # the budget of that

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
        number = received_of(self.store.vts(self.sn).get(definition.output or 0), definition.number)
        row = next(self.store.emissions.read(definition.number, number - 1, 1), None) if number else None
        if row is None and not number:
            return None
        if row is None or row.number != number:
            raise Gone(
                f"the answer of {definition.name!r} at snapshot {self.sn} is no longer retained; use a later snapshot"
            )
        body = decode_body(row.body)
        if definition.r2s == R2S.RSTREAM.value:
            found = DerivedGraph(Constant(iri(definition.iri)), body.terms, columns_of(body))
        else:
            found = self._evaluated_again(definition, body)
        return found if len(found.triples[0]) else None

    def _evaluated_again(self, definition: QueryDefinition, body: EmissionBody) -> DerivedGraph:
        registered = Registered.of(definition, self.catalog)
        query = registered.query
        if not query.windows:  # it emits nothing if no row came or went
            with placed(definition.text):
                answer = evaluate(
                    self.store, query, self.sn, asking=Asking(allowed_urls=self.allowed_urls, control=self.control)
                )
        else:
            is_last = body.number == self.store.emissions.last(definition.number)
            windows = registered.windows_from(self.origin(definition.number))
            rerun = Rerun(definition, query, windows, self.store, self.allowed_urls, self.control)
            answer = rerun.answer(body, is_last)
        assert answer.graph is not None, "a CONSTRUCT makes a graph"
        ids, places = np.unique(np.concatenate(answer.graph), return_inverse=True)
        texts = answer.vocabulary.decode(ids) if len(ids) else []
        return DerivedGraph(Constant(iri(definition.iri)), texts, np.split(places.reshape(-1).astype(np.int32), 3))


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
