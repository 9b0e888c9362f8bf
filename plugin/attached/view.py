"""A read-only dataset of rdflib over several: graph by graph the union of theirs, as sets.

A query over the view reads the default graphs of all as its default graph, and all graphs of one name as this graph.
Each read checks whether the query may go on."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rdflib import Graph, URIRef
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID, Dataset
from rdflib.namespace import NamespaceManager
from rdflib.store import Store
from rdflib.term import Node

from plugin.attached.quads import Triple
from plugin.backend import TriplePattern
from stream_ext.errors import BadArgument
from stream_ext.evaluation_budget import Control
from stream_ext.language.printing.units import DEFAULT_GRAPH


@dataclass(frozen=True, slots=True)
class From:
    """What FROM and FROM NAMED of a query name."""

    default: tuple[Node | None, ...]  # None: the default graph of the dataset
    named: tuple[Node, ...]

    @classmethod
    def of(cls, default: Sequence[str], named: Sequence[str]) -> From | None:
        """None if nothing is named: then the query reads the dataset as it is."""
        return cls(tuple(map(URIRef, default)), tuple(map(URIRef, named))) if default or named else None


class Reader(Protocol):
    """What a view is made of."""

    def triples(self, pattern: TriplePattern, name: Node | None) -> Iterator[Triple]:
        """The triples of a named graph, or of the default graph (None); none twice."""
        ...

    def has(self, triple: Triple, name: Node | None) -> bool: ...

    def graphs(self) -> Iterator[Node]: ...


class ViewStore(Store):
    context_aware = True
    graph_aware = True

    def __init__(self, readers: Sequence[Reader], clauses: From | None = None, control: Control = Control.FREE):
        super().__init__()
        self._readers, self._clauses, self._control = readers, clauses, control
        self._bound: dict[str, URIRef] = {}

    # ---- reading

    def triples(
        self, triple_pattern: TriplePattern, context: Graph | None = None
    ) -> Iterator[tuple[Triple, Iterator[Graph]]]:
        assert context is not None, "a view has no default union of its own"
        for triple in self._found(triple_pattern, context.identifier):
            self._control.check()
            yield triple, iter((context,))

    def _found(self, pattern: TriplePattern, identifier: Node) -> Iterator[Triple]:
        name = None if identifier == DATASET_DEFAULT_GRAPH_ID else identifier
        if self._clauses is None:
            yield from self._of_all(pattern, (name,))
        elif name is None:
            yield from self._of_all(pattern, self._clauses.default)
        elif name in self._clauses.named:
            yield from self._of_all(pattern, (name,))

    def _of_all(self, pattern: TriplePattern, names: Sequence[Node | None]) -> Iterator[Triple]:
        """The union over the readers and the names, as a set."""
        before: list[tuple[Reader, Node | None]] = []
        for name in names:
            for reader in self._readers:
                for triple in reader.triples(pattern, name):
                    if not any(other.has(triple, its_name) for other, its_name in before):
                        yield triple
                before.append((reader, name))

    def graphs(self) -> list[Node]:
        """The named graphs."""
        names = dict.fromkeys(name for reader in self._readers for name in reader.graphs())
        if self._clauses is not None:
            return [name for name in dict.fromkeys(self._clauses.named) if name in names]
        return list(names)

    def contexts(self, triple: Triple | None = None) -> Generator[Graph, None, None]:
        for name in self.graphs():
            if triple is None or any(True for _ in self._found(triple, name)):
                yield Graph(store=self, identifier=name)  # type: ignore[arg-type]  # an IRI or a blank node

    def __len__(self, context: Graph | None = None) -> int:
        identifier = DATASET_DEFAULT_GRAPH_ID if context is None else context.identifier
        return sum(1 for _ in self._found((None, None, None), identifier))

    # ---- prefixes: they belong to whom the view is made for

    def bind(self, prefix: str, namespace: URIRef, override: bool = True) -> None:
        self._bound.setdefault(prefix, namespace)

    def namespaces(self) -> Iterator[tuple[str, URIRef]]:
        yield from self._bound.items()

    def namespace(self, prefix: str) -> URIRef | None:
        return self._bound.get(prefix)

    def prefix(self, namespace: URIRef) -> str | None:
        return next((prefix for prefix, bound in self._bound.items() if bound == namespace), None)

    # ---- no writing

    def add(self, *_: Any, **__: Any) -> None:
        raise BadArgument("this is a view for reading; write to the dataset itself")

    addN = remove = add_graph = remove_graph = add  # all say so


class View(Dataset):
    """The dataset of a ViewStore, as rdflib's evaluator reads it."""

    def __init__(
        self,
        readers: Sequence[Reader],
        namespaces: NamespaceManager,
        clauses: From | None = None,
        control: Control = Control.FREE,
    ) -> None:
        self._view_store = ViewStore(readers, clauses, control)
        super().__init__(store=self._view_store)
        self._readers, self._control = readers, control
        self.namespace_manager = namespaces

    def with_clauses(self, clauses: From) -> View:
        return View(self._readers, self.namespace_manager, clauses, self._control)

    def named_graphs(self) -> list[Node]:
        return self._view_store.graphs()

    @property  # type: ignore[misc]  # nobody sets that of a view
    def default_context(self) -> Graph:
        """As in rdflib, whose evaluator asks for it by this name, and whose Dataset warns of it."""
        return self._default_context

    def contexts(self, triple: Triple | None = None) -> Generator[Graph, None, None]:
        yield from self._view_store.contexts(triple)


def clauses_of(algebra: Mapping[str, Any]) -> From | None:
    """The FROM and FROM NAMED of a query in rdflib's algebra."""
    found = algebra.get("datasetClause")
    if not found:
        return None
    default = (None if str(each.default) == DEFAULT_GRAPH else each.default for each in found if each.default)
    return From(tuple(default), tuple(each.named for each in found if each.named))
