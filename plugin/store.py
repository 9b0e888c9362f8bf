"""`RilletStore`: the store behind an rdflib Graph or Dataset.

    graph = rdflib.Graph(store="rillet")
    graph.open("data")       # a path, lmdb:PATH, hbase://host:9090/ns, http://host:8000 (a server), a running Service

Queries and updates are answered by our own engine (`plugin.sparql`), never by rdflib's."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import product
from types import FrameType
from typing import Any

from rdflib import BNode, Graph, URIRef
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID, Dataset
from rdflib.plugins.sparql.sparql import Query, Update
from rdflib.query import Result
from rdflib.store import VALID_STORE, Store
from rdflib.term import Identifier, Node

from plugin.addresses import destroy, is_server, store_url
from plugin.backend import ANYTHING, Backend, Quad, TriplePattern
from plugin.server import Server
from plugin.sharing import shared
from plugin.sparql import SparqlRequest
from plugin.terms import check_triple
from stream_ext.errors import BadArgument
from stream_ext.service.service import Service

Triple = tuple[Node, Node, Node]
Match = tuple[Triple, Iterator[Graph]]


Choice = Node | None | list[Node]

#: rdflib's name for the union of all graphs.
_UNION = "__UNION__"

#: The module that passes calls on to the store of an attached dataset.
_WATCHED = "plugin.attached.watched_store"

#: A label that `BNode()` generates. Parsers and programs that name a graph use other labels.
_GENERATED_LABEL = re.compile(r"N[0-9a-f]{32}")


class RilletStore(Store):
    context_aware = True
    graph_aware = True
    formula_aware = False
    transaction_aware = True

    def __init__(self, configuration: str | Service | None = None, identifier: Identifier | None = None) -> None:
        self._backend: Backend | None = None
        self._url: str | None = None
        self._bound: dict[str, str] = {}  # prefixes that were bound before there was a store
        self._unnamed: BNode | None = None  # the generated name of the rdflib Graph that is our default graph
        self._in_dataset = False  # a Dataset uses this store: its graphs have names, the default graph too
        super().__init__(None, identifier)
        if configuration is not None:
            self.open(configuration)

    # ---- life

    def open(self, configuration: str | tuple[str, str] | Service, create: bool = False) -> int:
        """A store that does not exist is created, whatever `create` is: rdflib's own default is False."""
        if self._backend is not None:
            raise BadArgument("this store is already open; close it first")
        if isinstance(configuration, tuple):
            raise BadArgument(f"{configuration!r}: a store is opened by one address: a path, or lmdb:PATH")
        if isinstance(configuration, str) and is_server(configuration):
            self._backend = Server(configuration)
        elif isinstance(configuration, str):
            self._url = self._address(configuration)
            self._backend = shared.open(self._url)
        else:
            self._backend = shared.attach(configuration)
        self._backend.namespaces.update(self._bound)
        return VALID_STORE

    def _address(self, configuration: str) -> str:
        return store_url(configuration)

    def close(self, commit_pending_transaction: bool = False) -> None:
        """Pending changes are committed, whatever the flag is (rdflib's own default is False)."""
        backend, self._backend = self._backend, None
        if backend is None:
            return
        backend.commit()
        if isinstance(backend, Server):
            backend.close()
        url, self._url = self._url, None
        if url is not None:
            shared.close(url)

    def destroy(self, configuration: str) -> None:
        """Deletes the store and its contents; no one may have it open."""
        destroy(self._address(configuration))

    def commit(self) -> None:
        self._open.commit()

    def rollback(self) -> None:
        """Undoes what was added and removed since the last commit, even if it has been read meanwhile.

        A SPARQL update commits: the changes before it and its own stay."""
        self._open.rollback()

    @property
    def _open(self) -> Backend:
        if self._backend is None:
            raise BadArgument('this store is not open: graph.open("PATH"), or open it with a running Service')
        return self._backend

    # ---- changes

    def add(self, triple: Triple, context: Graph, quoted: bool = False) -> None:
        if quoted:
            raise BadArgument("a quoted statement cannot be stored: this store supports RDF, not N3")
        check_triple(*triple)
        self._open.change([(*triple, self._graph_of(context))], True)
        super().add(triple, context, quoted)

    def addN(self, quads: Iterable[tuple[Node, Node, Node, Graph]]) -> None:
        """Adds all quads or, if one of them is not RDF, none."""
        quads = list(quads)
        for *triple, context in quads:
            if context is None:
                raise BadArgument(f"{triple!r} has no graph to which it could be added")
            check_triple(*triple)
        self._open.change([(s, p, o, self._graph_of(context)) for s, p, o, context in quads], True)
        for s, p, o, context in quads:
            super().add((s, p, o), context)  # dispatches the events of rdflib's Store

    def remove(self, triple: TriplePattern, context: Graph | None = None) -> None:
        graph = None if context is None else self._graph_of(context)
        self._open.remove(triple, graph, everywhere=context is None)
        super().remove(triple, context)

    def add_graph(self, graph: Graph) -> None:
        """For this process the graph exists from now on, though it has no triple yet."""
        if graph.identifier == DATASET_DEFAULT_GRAPH_ID:
            self._in_dataset = True
        elif graph.identifier != self._unnamed:
            self._open.graphs[graph.identifier] = None

    def remove_graph(self, graph: Graph) -> None:
        reader = _n_quads_reader()
        if reader is not None:
            self._meet(reader)
            return
        self.remove(ANYTHING, graph)
        self._open.graphs.pop(graph.identifier, None)

    # ---- reading

    def triples(self, triple_pattern: TriplePattern, context: Graph | None = None) -> Iterator[Match]:
        yield from self._matches([triple_pattern], context)

    def triples_choices(
        self,
        triple: tuple[Choice, Choice, Choice],
        context: Graph | None = None,
    ) -> Generator[Match, None, None]:
        """One of the three may be a list of alternatives; an empty list is a wildcard. All at one snapshot."""
        if sum(isinstance(part, list) for part in triple) > 1:
            raise BadArgument("only one of subject, predicate and object may be a list of choices")
        s, p, o = map(_choices, triple)
        yield from self._matches(list(product(s, p, o)), context)

    def _matches(self, patterns: Sequence[TriplePattern], context: Graph | None) -> Iterator[Match]:
        found: dict[Triple, list[Graph]] = {}
        for s, p, o, g in self._quads(patterns, context):
            found.setdefault((s, p, o), []).append(self._context(g) if context is None else context)
        for triple, contexts in found.items():
            yield triple, iter(contexts)

    def _quads(self, patterns: Sequence[TriplePattern], context: Graph | None) -> Iterator[Quad]:
        backend = self._open
        graph = None if context is None else self._graph_of(context)
        return backend.quads(patterns, graph, everywhere=context is None)

    def __len__(self, context: Graph | None = None) -> int:
        backend = self._open
        graph = None if context is None else self._graph_of(context)
        return backend.count(graph, everywhere=context is None)

    def contexts(self, triple: Triple | None = None) -> Generator[Graph, None, None]:
        """The graphs with this triple; without a triple: all graphs, with those that this process created empty."""
        pattern = triple or ANYTHING
        found = self._open.graphs_with(pattern)
        for name in dict.fromkeys([*found, *(self._open.graphs if pattern == ANYTHING else ())]):
            yield self._context(name)

    # ---- graphs and their names

    def _graph_of(self, context: Graph | None) -> Node | None:
        """The graph's name, or None for the default graph.

        A Graph without a name has a generated blank node as its identifier: its triples are in the default graph.
        This holds for the first such graph, the one that this store was created for; other blank nodes are names."""
        if context is None:
            return None
        name: Node = context.identifier if isinstance(context, Graph) else context
        if name == DATASET_DEFAULT_GRAPH_ID:
            self._in_dataset = True
            return None
        if not isinstance(name, BNode):
            return name
        self._meet(name)
        return None if name == self._unnamed else name

    def _meet(self, graph: Graph | BNode) -> None:
        """Notes that this graph is the one without a name, if it can be."""
        if isinstance(graph, Dataset):
            self._in_dataset = True
            return
        name = graph.identifier if isinstance(graph, Graph) else graph
        free = self._unnamed is None and not self._in_dataset
        if free and isinstance(name, BNode) and _GENERATED_LABEL.fullmatch(name) and not self._open.is_graph(name):
            self._unnamed = name

    def _context(self, graph: Node | None) -> Graph:
        """rdflib's Graph for one of ours; the default graph has the identifier that rdflib uses for it here."""
        default = DATASET_DEFAULT_GRAPH_ID if self._in_dataset or self._unnamed is None else self._unnamed
        identifier = default if graph is None else graph
        return Graph(store=self, identifier=identifier)  # type: ignore[arg-type]  # an IRI or a blank node

    # ---- namespaces: they belong to the process and are not stored

    @property
    def _namespaces(self) -> dict[str, str]:
        return self._bound if self._backend is None else self._backend.namespaces

    def bind(self, prefix: str, namespace: URIRef, override: bool = True) -> None:
        names = self._namespaces
        bound = {uri: name for name, uri in names.items()}.get(str(namespace))
        if not override and (prefix in names or bound is not None):
            return
        if bound is not None:
            del names[bound]
        names[prefix] = str(namespace)

    def namespace(self, prefix: str) -> URIRef | None:
        found = self._namespaces.get(prefix)
        return None if found is None else URIRef(found)

    def prefix(self, namespace: URIRef) -> str | None:
        return next((name for name, uri in self._namespaces.items() if uri == str(namespace)), None)

    def namespaces(self) -> Iterator[tuple[str, URIRef]]:
        for prefix, namespace in dict(self._namespaces).items():
            yield prefix, URIRef(namespace)

    # ---- SPARQL

    def query(
        self,
        query: Query | str,
        initNs: Mapping[str, Any],
        initBindings: Mapping[str, Identifier],
        queryGraph: str,
        **kwargs: Any,
    ) -> Result:
        return self._open.query(self._request(query, initNs, initBindings, queryGraph, **kwargs))

    def update(
        self,
        update: Update | str,
        initNs: Mapping[str, Any],
        initBindings: Mapping[str, Identifier],
        queryGraph: str,
        **kwargs: Any,
    ) -> None:
        self._open.update(self._request(update, initNs, initBindings, queryGraph, **kwargs))

    def _request(
        self,
        text: Query | Update | str,
        namespaces: Mapping[str, Any],
        bindings: Mapping[str, Identifier],
        graph: str | Identifier | None,
        base: str | None = None,
        **others: Any,
    ) -> SparqlRequest:
        if others:
            raise BadArgument(f"{', '.join(others)}: this store does not know them")
        union = graph == _UNION
        name = None if union or graph is None else self._graph_of(Graph(store=self, identifier=graph))
        return SparqlRequest(text, namespaces, bindings, name, union, base)


class HBaseStore(RilletStore):
    """A RilletStore whose addresses are of HBase: `HOST:PORT/NAMESPACE` means `hbase://HOST:PORT/NAMESPACE`."""

    def _address(self, configuration: str) -> str:
        return configuration if "://" in configuration else store_url(f"hbase://{configuration}")


def _choices(part: Choice) -> list[Node | None]:
    return ([*part] or [None]) if isinstance(part, list) else [part]


def _n_quads_reader() -> Graph | None:
    """The graph that rdflib's N-Quads parser reads into, if this parser is the caller; otherwise None.

    The parser begins with `remove_graph` of the default graph, which it expects to be new and empty. This would
    delete the triples of the store, and only the caller distinguishes it from a program that wants to delete them."""
    dataset: FrameType | None = sys._getframe(2)  # behind this function and the store's
    while dataset is not None and dataset.f_globals.get("__name__") == _WATCHED:
        dataset = dataset.f_back
    caller = None if dataset is None else dataset.f_back
    if caller is None or caller.f_globals.get("__name__") != "rdflib.plugins.parsers.nquads":
        return None
    sink = caller.f_locals.get("sink")
    return sink if isinstance(sink, Graph) else None
