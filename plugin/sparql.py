"""`Graph.query` and `Graph.update` of rdflib, run by our engine: text, bindings and graph in, rdflib's result out.

Only our engine answers them. What it does not support is rejected, and not given to rdflib's evaluator, which could
answer the same text differently."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

from rdflib import BNode, Graph, Variable
from rdflib.plugins.sparql.sparql import Query as PreparedQuery
from rdflib.plugins.sparql.sparql import Update as PreparedUpdate
from rdflib.query import Result
from rdflib.term import Identifier, Node

from hbase_store.layout.terms import iri
from plugin.bindings import BoundDataset
from plugin.terms import to_bytes, to_node
from stream_ext.errors import BadArgument, TextError
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.language.algebra.terms import Constant

if TYPE_CHECKING:
    from plugin.attachment import Attachment
    from stream_ext.oneshot.evaluate import Answer

Text = str | PreparedQuery | PreparedUpdate

#: For a blank node that is not in the store: a label that no node of the store has, and an IRI that no graph has.
_STRANGER, _NO_GRAPH = b"_:qstranger%d", Constant(iri("urn:rillet:no-graph"))


@dataclass(frozen=True, slots=True)
class SparqlRequest:
    """The arguments of one call of rdflib's `query` or `update`. `graph`: the queried graph (None: the default graph);
    `union`: the union of all graphs is queried."""

    text: Text
    namespaces: Mapping[str, Any]
    bindings: Mapping[str, Identifier]
    graph: Node | None
    union: bool
    base: str | None = None
    at: int | None = None  # the time at which windows are read
    control: Control = Control.FREE

    def head_and_text(self) -> tuple[str, str]:
        """BASE and PREFIX declarations that the text needs and lacks; and the text."""
        text, namespaces, base = self.text, {**_known_to_rdflib(), **self.namespaces}, self.base
        if not isinstance(text, str):
            text, given, prepared_base = text._original_args
            namespaces |= given or {}
            base = base or prepared_base
        used = {prefix for prefix in namespaces if re.search(rf"(?<![\w.-]){re.escape(prefix)}:", text)}
        declared = set(re.findall(r"\bPREFIX\s+([\w.-]*):", text, re.IGNORECASE))
        head = f"BASE <{base}> " if base else ""
        return head + "".join(f"PREFIX {name}: <{namespaces[name]}> " for name in sorted(used - declared)), text


@cache
def _known_to_rdflib() -> dict[str, Any]:
    """Prefixes that rdflib declares for every text: rdf, rdfs, xsd, foaf, ..."""
    return dict(Graph().namespaces())


class Sparql:
    """Runs one request. Its blank nodes that are not in the store have labels for this request only."""

    def __init__(self, attachment: Attachment, request: SparqlRequest) -> None:
        self._attachment, self._request = attachment, request
        self._nodes: dict[bytes, Node] = {}

    def query(self) -> Result:
        head, text = self._request.head_and_text()
        service = self._attachment.service
        self._attachment.write()  # a query sees all changes before it
        with places_as_written(head, text):
            question = service.question(head + text)
            request = self._request
            answer = service.query(question, at=request.at, dataset=self._dataset(), control=request.control)
        unit = question.outline
        form = unit.form if isinstance(unit, Query) else Form.SELECT
        result = Result(form.value)
        if answer.boolean is not None:
            result.askAnswer = answer.boolean
        elif answer.graph is not None:
            result.graph = self._graph(answer)
        else:
            result.vars = [Variable(name) for name in answer.variables]
            result.bindings = list(self._bindings(answer, result.vars))
        return result

    def update(self) -> None:
        head, text = self._request.head_and_text()
        into = self._request.graph
        self._attachment.write()
        if isinstance(into, BNode) and self._attachment.number_of(into) is None:
            raise BadArgument(f"the graph {into.n3()} has no triples yet; add one, then update the graph")
        with places_as_written(head, text):
            self._attachment.service.update(head + text, dataset=self._dataset())
        self._attachment.commit()

    # ---- bindings and graph of the request

    def _dataset(self) -> BoundDataset | None:
        request = self._request
        bindings = {str(Variable(name)): self._constant(node) for name, node in request.bindings.items()}
        graph = None if request.graph is None else self._graph_constant(request.graph)
        if not bindings and graph is None and not request.union:
            return None
        return BoundDataset(bindings, graph, request.union, self._attachment.graph_names)

    def _constant(self, node: Identifier) -> Constant:
        if not isinstance(node, BNode):
            return Constant(to_bytes(node))
        number = self._attachment.number_of(node)
        text = _STRANGER % len(self._nodes) if number is None else b"_:b%d" % number
        self._nodes[text] = node
        return Constant(text)

    def _graph_constant(self, name: Node) -> Constant:
        """The graph's name; for a graph that is not in the store, the name of an empty one."""
        if not isinstance(name, BNode):
            return Constant(to_bytes(name))
        number = self._attachment.number_of(name)
        return _NO_GRAPH if number is None else Constant(b"_:b%d" % number)

    # ---- results

    def _bindings(self, answer: Answer, variables: Sequence[Variable]) -> Iterator[Mapping[Variable, Any]]:
        for texts, columns, count in self._attachment.service.decoded(answer.columns, answer):
            nodes = [None if text is None else self._node(text) for text in texts]
            for row in zip(*columns, strict=True) if columns else repeat((), count):
                found = ((variable, nodes[place]) for variable, place in zip(variables, row, strict=True))
                yield {variable: node for variable, node in found if node is not None}

    def _graph(self, answer: Answer) -> Graph:
        graph = Graph()
        for prefix, namespace in self._request.namespaces.items():
            graph.bind(prefix, namespace)
        for texts, columns, _ in self._attachment.service.decoded(answer.graph or (), answer):
            nodes = [self._node(text or b"") for text in texts]
            for s, p, o in zip(*columns, strict=True):
                graph.add((nodes[s], nodes[p], nodes[o]))
        return graph

    def _node(self, text: bytes) -> Node:
        node = self._nodes.get(text)
        if node is None:
            node = self._nodes[text] = to_node(text, self._attachment.labels)
        return node


@contextmanager
def places_as_written(head: str, text: str) -> Iterator[None]:
    """An error names the place in the text that the user wrote, not counting `head`, which is put before it."""
    try:
        yield
    except TextError as error:
        column = error.column - (len(head) if error.line == 1 else 0)
        raise type(error)(error.message, text, error.line, max(1, column)) from None
