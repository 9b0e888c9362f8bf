"""`RilletStore`: the store behind an rdflib Graph or Dataset.

    graph = rdflib.Graph(store="rillet")
    graph.open("data")                      # a path, lmdb:PATH, hbase://host:9090/ns, or a running Service

Queries and updates are answered by our engine alone. What it does not run is refused: a foreign evaluator beside
it could give another answer to the same text."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from rdflib import BNode, Graph, URIRef, Variable
from rdflib.graph import DATASET_DEFAULT_GRAPH_ID
from rdflib.plugins.sparql.sparql import Query, Update
from rdflib.query import Result
from rdflib.store import VALID_STORE, Store
from rdflib.term import Identifier, Node

from plugin.attachment import Attachment, shared, store_url
from plugin.match import Quads
from plugin.terms import check_triple, to_node
from stream_ext.errors import BadArgument, TextError, Unsupported
from stream_ext.service import Service

Triple = tuple[Node, Node, Node]
TriplePattern = tuple[Node | None, Node | None, Node | None]
Match = tuple[Triple, Iterator[Graph]]


Answered = TypeVar("Answered")


class RilletStore(Store):
    context_aware = True
    graph_aware = True
    formula_aware = False
    transaction_aware = True

    def __init__(self, configuration: str | Service | None = None, identifier: Identifier | None = None) -> None:
        self._attachment: Attachment | None = None
        self._url: str | None = None
        self._bound: dict[str, str] = {}  # prefixes that were bound before there was a store
        super().__init__(None, identifier)
        if configuration is not None:
            self.open(configuration)

    # ---- life

    def open(self, configuration: str | tuple[str, str] | Service, create: bool = False) -> int:
        if self._attachment is not None:
            raise BadArgument("this store is open already; close it first")
        if isinstance(configuration, str):
            self._url = store_url(configuration)
            self._attachment = shared.open(self._url)
        elif isinstance(configuration, tuple):
            raise BadArgument(f"{configuration!r}: a store is opened by one address, a path or lmdb:PATH")
        else:
            self._attachment = shared.attach(configuration)
        self._attachment.namespaces.update(self._bound)
        return VALID_STORE

    def close(self, commit_pending_transaction: bool = False) -> None:
        """What was added is written, whatever the flag says (rdflib's own default is False): see `rollback`."""
        attachment, self._attachment = self._attachment, None
        if attachment is None:
            return
        attachment.write()
        url, self._url = self._url, None
        if url is not None:
            shared.close(url)

    def commit(self) -> None:
        self._open.write()

    def rollback(self) -> None:
        self._open.forget()

    @property
    def _open(self) -> Attachment:
        if self._attachment is None:
            raise BadArgument('this store is not open: graph.open("PATH"), or open it with a running Service')
        return self._attachment

    # ---- changes

    def add(self, triple: Triple, context: Graph, quoted: bool = False) -> None:
        if quoted:
            raise BadArgument("a quoted statement cannot be kept: this store knows RDF, not N3")
        check_triple(*triple)
        self._open.change((*triple, self._graph_of(context)), True)
        super().add(triple, context, quoted)

    def remove(self, triple: TriplePattern, context: Graph | None = None) -> None:
        attachment = self._open
        if context is not None and None not in triple:
            attachment.change((*triple, self._graph_of(context)), False)  # type: ignore[arg-type]  # no wildcard in it
        else:
            for quad in list(self._quads(triple, context)):
                attachment.change(quad, False)
        super().remove(triple, context)

    def add_graph(self, graph: Graph) -> None:
        """A graph is there while it holds a triple. One of a Dataset may have a blank node for its name."""
        if isinstance(graph.identifier, BNode):
            self._open.blank_graphs.add(graph.identifier)

    def remove_graph(self, graph: Graph) -> None:
        self.remove((None, None, None), graph)

    # ---- reading

    def triples(self, triple_pattern: TriplePattern, context: Graph | None = None) -> Iterator[Match]:
        found: dict[Triple, list[Graph]] = {}
        for s, p, o, g in self._quads(triple_pattern, context):
            found.setdefault((s, p, o), []).append(self._context(g) if context is None else context)
        for triple, contexts in found.items():
            yield triple, iter(contexts)

    def _quads(self, triple: TriplePattern, context: Graph | None) -> Iterator[tuple[Node, Node, Node, Node | None]]:
        attachment = self._open
        snapshot = attachment.snapshot()
        graph = None if context is None else self._graph_of(context)
        blocks = attachment.match(snapshot, triple, graph, everywhere=context is None)
        nodes: Mapping[int, Node] = attachment.nodes_of([column for block in blocks for column in _columns(block)])
        for block in blocks:
            for s, p, o, g in zip(*(column.tolist() for column in _columns(block)), strict=True):
                yield nodes[s], nodes[p], nodes[o], nodes.get(g)

    def __len__(self, context: Graph | None = None) -> int:
        snapshot = self._open.snapshot()
        if context is not None:
            graph = self._graph_of(context)
            return sum(map(len, self._open.match(snapshot, (None, None, None), graph, everywhere=False)))
        return sum(1 for _ in self.triples((None, None, None)))

    def contexts(self, triple: Triple | None = None) -> Generator[Graph, None, None]:
        pattern = triple or (None, None, None)
        blocks = self._open.match(self._open.snapshot(), pattern, None, everywhere=True)
        graphs = sorted({int(g) for block in blocks for g in np.unique(block.g).tolist()})
        nodes = self._open.nodes_of([np.array(graphs, np.uint64)])
        for graph in graphs:
            yield self._context(nodes.get(graph))

    def _graph_of(self, context: Graph | None) -> Node | None:
        """The graph's name, or None for the default graph.

        A Graph that nobody named has a made-up blank node for a name: its triples are those of the default graph.
        A blank node is a name where a Dataset gave it, or where the store has a graph that is named by it."""
        if context is None:
            return None
        name: Node = context.identifier if isinstance(context, Graph) else context
        if name == DATASET_DEFAULT_GRAPH_ID or (isinstance(name, BNode) and not self._open.is_graph(name)):
            return None
        return name

    def _context(self, graph: Node | None) -> Graph:
        identifier = DATASET_DEFAULT_GRAPH_ID if graph is None else graph
        return Graph(store=self, identifier=identifier)  # type: ignore[arg-type]  # an IRI or a blank node

    # ---- namespaces: of the process, they are no part of the data

    @property
    def _namespaces(self) -> dict[str, str]:
        return self._bound if self._attachment is None else self._attachment.namespaces

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
        for prefix, namespace in list(self._namespaces.items()):
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
        service = self._open.service
        answer = self._send(service.query, query, initNs, initBindings, queryGraph, kwargs)
        if answer.boolean is not None:
            result = Result("ASK")
            result.askAnswer = answer.boolean
            return result
        result = Result("SELECT")
        result.vars = [Variable(name) for name in answer.variables]
        memo: dict[bytes, Node] = {}
        rows = service.decode(answer)
        result.bindings = [self._binding(result.vars, row, memo) for row in rows]
        return result

    def _binding(
        self, variables: Iterable[Variable], row: tuple[bytes | None, ...], memo: dict[bytes, Node]
    ) -> Mapping[Variable, Any]:
        binding: dict[Variable, Node] = {}
        for variable, term in zip(variables, row, strict=True):
            if term is not None:
                node = memo.get(term)
                if node is None:
                    node = memo[term] = to_node(term, self._open.labels)
                binding[variable] = node
        return binding

    def update(
        self,
        update: Update | str,
        initNs: Mapping[str, Any],
        initBindings: Mapping[str, Identifier],
        queryGraph: str,
        **kwargs: Any,
    ) -> None:
        self._send(self._open.service.update, update, initNs, initBindings, queryGraph, kwargs)

    def _send(
        self,
        to: Callable[[str], Answered],
        query: Query | Update | str,
        namespaces: Mapping[str, Any],
        bindings: Mapping[str, Identifier],
        graph: str,
        others: Mapping[str, Any],
    ) -> Answered:
        """What was added is written first: a text sees all that was said before it."""
        head, text = _head_and_text(query, namespaces)
        _check(text, bindings, graph, others)
        self._open.write()
        with _places_as_written(head, text):
            return to(head + text)


def _columns(block: Quads) -> tuple[np.ndarray, ...]:
    return block.s, block.p, block.o, block.g


def _head_and_text(query: Query | Update | str, namespaces: Mapping[str, Any]) -> tuple[str, str]:
    """The graph's prefixes that the text uses and does not declare itself; and the text."""
    base = None
    if not isinstance(query, str):
        text, given, base = query._original_args
        namespaces = {**namespaces, **(given or {})}
    else:
        text = query
    used = {prefix for prefix in namespaces if re.search(rf"(?<![\w.-]){re.escape(prefix)}:", text)}
    declared = set(re.findall(r"\bPREFIX\s+([\w.-]*):", text, re.IGNORECASE))
    head = f"BASE <{base}> " if base else ""
    return head + "".join(f"PREFIX {name}: <{namespaces[name]}> " for name in sorted(used - declared)), text


@contextmanager
def _places_as_written(head: str, text: str) -> Iterator[None]:
    """An error names the place in the text that the user wrote, not in what stands before it on the first line."""
    try:
        yield
    except TextError as error:
        column = error.column - (len(head) if error.line == 1 else 0)
        raise type(error)(error.message, text, error.line, max(1, column)) from None


def _check(text: str, bindings: Mapping[str, Identifier], graph: str, others: Mapping[str, Any]) -> None:
    if bindings:
        raise Unsupported("initBindings is not built yet; write the terms into the text", text, 1, 1)
    if graph == "__UNION__":
        raise Unsupported("a union of all graphs as default graph is not built yet; use GRAPH ?g { ... }", text, 1, 1)
    if isinstance(graph, URIRef) and graph != DATASET_DEFAULT_GRAPH_ID:
        raise Unsupported(
            f"querying the graph <{graph}> alone is not built yet; use GRAPH <{graph}> {{ ... }}", text, 1, 1
        )
    if others:
        raise Unsupported(f"{', '.join(others)}: not known to this store", text, 1, 1)
