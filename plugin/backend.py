"""What an rdflib store of ours is opened on: a store of this process (`Attachment`), or a server's (`Server`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from rdflib import BNode
from rdflib.query import Result
from rdflib.term import Node

if TYPE_CHECKING:
    from plugin.sparql import Asked

#: The graph None is the default graph.
Quad = tuple[Node, Node, Node, Node | None]
TriplePattern = tuple[Node | None, Node | None, Node | None]
ANYTHING: TriplePattern = (None, None, None)


class Held(Protocol):
    """Changes gather until someone reads or commits. `everywhere`: in all graphs, else in `graph`."""

    namespaces: dict[str, str]
    graphs: dict[Node, None]  #: graphs that programs of this process made, empty ones too

    def change(self, quads: Iterable[Quad], inserted: bool) -> None: ...

    def remove(self, pattern: TriplePattern, graph: Node | None, everywhere: bool) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def quads(self, patterns: Sequence[TriplePattern], graph: Node | None, everywhere: bool) -> Iterator[Quad]:
        """What fits one of the patterns, all at one snapshot."""
        ...

    def count(self, graph: Node | None, everywhere: bool) -> int:
        """Of all graphs together, a triple that several of them have counts once."""
        ...

    def names(self, pattern: TriplePattern) -> list[Node | None]:
        """The graphs that hold something that fits."""
        ...

    def is_graph(self, name: BNode) -> bool:
        """Whether a blank node is known as the name of a graph."""
        ...

    def query(self, asked: Asked) -> Result: ...

    def update(self, asked: Asked) -> None: ...
