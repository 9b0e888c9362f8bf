"""The quads of a Graph, ConjunctiveGraph or Dataset of rdflib, as quads of one RDF dataset. The graph None is its
default graph:

    Graph()              its triples are the default graph, whatever it is called; it has no named graphs
    Dataset()            <urn:x-rdflib:default> is the default graph; all others are named
    ConjunctiveGraph()   its default context is the default graph, and a query's default graph is the union of all"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rdflib import BNode, Graph, URIRef
from rdflib.graph import ConjunctiveGraph, Dataset
from rdflib.store import Store
from rdflib.term import Node

from plugin.backend import ANYTHING, Quad, TriplePattern

Triple = tuple[Node, Node, Node]


class QuadReader:
    """Reads the quads of `graph` from `store`, which is that of the graph or a wrapper of it."""

    def __init__(self, graph: Graph, store: Store | None = None) -> None:
        self.store = graph.store if store is None else store
        self.is_single = not isinstance(graph, ConjunctiveGraph)
        #: Whether the default graph of a query is the union of all graphs.
        self.is_union = not self.is_single and bool(graph.default_union)
        self.default: Node = default_graph(graph).identifier

    # ---- names

    def name(self, context: Any) -> Node | None:
        """The name of the graph that rdflib calls `context`, a Graph or its identifier; None: the default graph."""
        identifier = context.identifier if isinstance(context, Graph) else context
        return None if identifier == self.default else identifier

    def is_inside(self, name: Node | None) -> bool:
        """Whether the graph belongs to the dataset: of a plain Graph, others in the same store do not."""
        return not self.is_single or name is None

    def context(self, name: Node | None) -> Graph:
        identifier = self.default if name is None else name
        assert isinstance(identifier, URIRef | BNode), f"{identifier!r} names no graph"
        return Graph(store=self.store, identifier=identifier)

    def graphs(self) -> Iterator[Node]:
        """The named graphs. One without a triple is among them if rdflib lists it."""
        if not self.is_single:
            names = (self.name(context) for context in self.store.contexts())
            yield from dict.fromkeys(name for name in names if name is not None)

    # ---- quads

    def triples(self, pattern: TriplePattern, name: Node | None) -> Iterator[Triple]:
        """The triples of a graph of a query, none twice: of the default graph, or a named one."""
        if self.is_single and name is not None:
            return
        if name is None and self.is_union:
            yield from self._anywhere(pattern)
        else:
            for triple, _ in self.store.triples(pattern, self.context(name)):
                yield triple

    def has(self, triple: Triple, name: Node | None) -> bool:
        return any(True for _ in self.triples(triple, name))

    def quads(self, pattern: TriplePattern) -> Iterator[Quad]:
        """The quads of all graphs that match, each in the graph that it was added to, none twice."""
        for name in (None, *self.graphs()):
            for s, p, o in self.store_triples(pattern, name):
                yield s, p, o, name

    def store_triples(self, pattern: TriplePattern, name: Node | None) -> Iterator[Triple]:
        """As `triples`, but of the default graph only what was added to it, if it is a union, too."""
        for triple, _ in self.store.triples(pattern, self.context(name)):
            yield triple

    def is_empty(self) -> bool:
        return not any(True for name in (None, *self.graphs()) for _ in self.store_triples(ANYTHING, name))

    def _anywhere(self, pattern: TriplePattern) -> Iterator[Triple]:
        found = set()
        for triple, _ in self.store.triples(pattern, None):
            if triple not in found:
                found.add(triple)
                yield triple


class WindowReader(QuadReader):
    """Windows, each a graph of its name: GRAPH ?g ranges over the graphs of the dataset, which they are not."""

    def graphs(self) -> Iterator[Node]:
        yield from ()


def default_graph(graph: Graph) -> Graph:
    """The graph itself, or the default graph of a dataset."""
    if not isinstance(graph, ConjunctiveGraph):
        return graph
    found: Graph = graph.default_graph if isinstance(graph, Dataset) else graph.default_context
    return found
