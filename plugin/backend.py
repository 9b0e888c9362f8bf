"""The protocol behind `RilletStore`: a store that this process opened (`Attachment`), or one of a server (`Server`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from rdflib import BNode
from rdflib.query import Result
from rdflib.term import Node

if TYPE_CHECKING:
    from plugin.sparql import SparqlRequest

#: The graph None is the default graph.
Quad = tuple[Node, Node, Node, Node | None]
TriplePattern = tuple[Node | None, Node | None, Node | None]
ANYTHING: TriplePattern = (None, None, None)


class Backend(Protocol):
    """Changes are collected until the next read or commit. `everywhere`: in all graphs, otherwise in `graph`."""

    namespaces: dict[str, str]
    graphs: dict[Node, None]  #: graphs that this process created, empty ones too

    def change(self, quads: Iterable[Quad], inserted: bool) -> None:
        """Inserts the quads into the store, or deletes them from it."""
        ...

    def remove(self, pattern: TriplePattern, graph: Node | None, everywhere: bool) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def quads(self, patterns: Sequence[TriplePattern], graph: Node | None, everywhere: bool) -> Iterator[Quad]:
        """The quads that match one of the patterns, all at one snapshot."""
        ...

    def count(self, graph: Node | None, everywhere: bool) -> int:
        """The number of triples. Everywhere: a triple that is in several graphs counts once."""
        ...

    def graphs_with(self, pattern: TriplePattern) -> list[Node | None]:
        """The graphs with a triple that matches; None is the default graph."""
        ...

    def is_graph(self, name: BNode) -> bool:
        """Whether this blank node is the name of a graph."""
        ...

    def query(self, request: SparqlRequest) -> Result: ...

    def update(self, request: SparqlRequest) -> None: ...
