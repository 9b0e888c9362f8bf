"""What registered queries hold of an attached dataset: the interface through which changes of it are taken over.

A pattern of the held copy narrows what has to be looked at when the dataset changes:

    held:    ?s :partOf ?o
    change:  remove((:z1, None, None)) from everywhere
    needed:  :z1 :partOf ?o                               in the default graph"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from rdflib import BNode
from rdflib.term import Node

from plugin.attached.quads import QuadReader
from plugin.backend import Quad, TriplePattern
from plugin.terms import Labels, to_bytes, to_node
from stream_ext.errors import BadArgument

#: Subject, predicate, object and graph as N-Triples writes them; the graph is empty for the default graph.
HeldQuad = tuple[bytes, bytes, bytes, bytes]
#: As a graph: all named ones. An empty subject, predicate or object is any.
EVERY_GRAPH = b"*"


class HeldCopy(Protocol):
    @property
    def patterns(self) -> Sequence[HeldQuad]:
        """What is held: all quads that match one of these patterns."""
        ...

    def apply(self, inserted: Sequence[HeldQuad], deleted: Sequence[HeldQuad]) -> None:
        """Takes over a change, as one snapshot. The quads match the patterns; none is twice or in both."""
        ...

    def refresh(self) -> None:
        """Fetches everything anew, and takes over what is different."""
        ...


@dataclass(frozen=True, slots=True)
class Touched:
    """What an operation may change: the quads that match, in one graph (None: the default graph) or everywhere."""

    pattern: TriplePattern
    graph: Node | None = None
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """Quads of the dataset as queries read it. `every`: of all named graphs."""

    pattern: TriplePattern
    graph: Node | None = None
    every: bool = False

    def read(self, reader: QuadReader) -> Iterator[Quad]:
        for graph in reader.graphs() if self.every else (self.graph,):
            for s, p, o in reader.triples(self.pattern, graph):
                yield s, p, o, graph


def needed(patterns: Iterable[HeldQuad], touched: Iterable[Touched], is_union: bool) -> list[Region]:
    """The part of what was touched that is held. `is_union`: each graph is a part of the default graph of a query."""
    found = (
        region
        for held in map(_nodes, patterns)
        for each in touched
        if (region := _common(*held, each, is_union)) is not None
    )
    return list(dict.fromkeys(found))


def _common(held: TriplePattern, graph: Node | None, every: bool, touched: Touched, is_union: bool) -> Region | None:
    parts = []
    for mine, other in zip(held, touched.pattern, strict=True):
        if mine is not None and other is not None and mine != other:
            return None
        parts.append(other if mine is None else mine)
    pattern = (parts[0], parts[1], parts[2])
    if every:
        if touched.everywhere:
            return Region(pattern, every=True)
        return None if touched.graph is None else Region(pattern, touched.graph)
    is_touched = touched.everywhere or touched.graph == graph or (graph is None and is_union)
    return Region(pattern, graph) if is_touched else None


@lru_cache(maxsize=1024)
def _nodes(held: HeldQuad) -> tuple[TriplePattern, Node | None, bool]:
    """A pattern in rdflib's terms: triple, graph, and whether it is of all named graphs."""
    s, p, o = (_node(text) if text else None for text in held[:3])
    every = held[3] == EVERY_GRAPH
    return (s, p, o), (_node(held[3]) if held[3] and not every else None), every


def _node(text: bytes) -> Node:
    return BNode(text[2:].decode()) if text.startswith(b"_:") else to_node(text, Labels())


def to_held(quad: Quad) -> HeldQuad:
    s, p, o, g = quad
    return text_of(s), text_of(p), text_of(o), b"" if g is None else text_of(g)


def text_of(node: Node) -> bytes:
    """A term of the dataset; a blank node has the label that rdflib has for it."""
    if isinstance(node, BNode):
        return b"_:" + str(node).encode()
    try:
        return to_bytes(node)
    except ValueError as error:
        raise BadArgument(f"{node!r} cannot be stored as an RDF term: {error}") from None
