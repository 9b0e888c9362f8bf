"""One evaluation of a registered query that calls functions in Python: rdflib evaluates it as a whole.

    WINDOW :w { ?taxi :in ?zone } ?zone :near ?x BIND(<urn:f:twice>(?x) AS ?y)
    =>  GRAPH :w { ?taxi :in ?zone } ?zone :near ?x BIND(...)      over the dataset, our own store, and the windows

The dataset is read as it is then; our own store at the snapshot of the evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from rdflib import BNode, Dataset, Graph, URIRef
from rdflib.term import Node

from plugin.attached.python_functions import PythonFunctions
from plugin.attached.quads import QuadReader, Triple, WindowReader
from plugin.attached.view import Reader, View
from plugin.attached.whole_queries import WholeQueries
from plugin.backend import TriplePattern
from plugin.match import DEFAULT_GRAPH, Pattern, match
from plugin.terms import Labels, to_bytes, to_node
from stream_ext.errors import BadArgument, RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.walk import without_template
from stream_ext.language.printing import to_sparql
from stream_ext.remote.evaluating import FunctionsGone, OwnData, Texts, WholeQuestion
from stream_ext.remote.sparql_client import Solution

_PREPARED_MAX = 128
#: Terms whose rdflib object is remembered: to make one takes microseconds.
_NODES_MAX = 1 << 16
#: What rdflib calls the blank nodes of our own store. No label of a program begins so.
_OWN = "rillet-"


class WholeEvaluation:
    def __init__(self, graph: Graph, functions: PythonFunctions, whole: WholeQueries) -> None:
        self._graph, self._functions, self._whole = graph, functions, whole
        self._prepared = lru_cache(maxsize=_PREPARED_MAX)(lambda text: whole.prepared(text, {}))

    def functions_of(self, query: Query) -> list[str]:
        """BadArgument if rdflib cannot read what calls them."""
        if not self._functions.are_any:
            return []
        text = to_sparql(without_template(query))
        if not self._functions.may_be_called_in(text):
            return []
        try:
            algebra = self._prepared(text).algebra
        except RilletError:
            raise
        except Exception as error:  # noqa: BLE001  of its parser, or of what it makes of the text
            words = "rdflib, which evaluates queries with functions in Python, cannot read this one"
            raise BadArgument(f"{words}: {error}") from None
        return self._functions.called_by(algebra)

    def evaluate(self, question: WholeQuestion, control: Control) -> list[Solution]:
        """FunctionsGone if one of the functions is not here."""
        query = self._prepared(question.text)
        if missing := set(question.functions).difference(self._functions.called_by(query.algebra)):
            raise FunctionsGone(f"there is no <{min(missing)}> in this process")
        readers: list[Reader] = [QuadReader(self._graph), WindowReader(_graphs(question.windows))]
        snapshot = question.own.snapshot
        if snapshot.count_all() or len(snapshot.graphs()):
            readers.append(OwnReader(question.own))
        view = View(readers, self._graph.namespace_manager, control=control)
        now = datetime.fromtimestamp(question.now_ms / 1000, UTC)
        result = self._whole.query(query, view, control=control, now=now)
        if result.type == "ASK":
            return [{}] if result.askAnswer else []
        return [_solution(row) for row in result.bindings]


class OwnReader:
    """Our own store at a snapshot, as rdflib reads it."""

    def __init__(self, own: OwnData) -> None:
        self._own = own

    def triples(self, pattern: TriplePattern, name: Node | None) -> Iterator[Triple]:
        given = [node for node in (*pattern, name) if node is not None]
        ids = dict(zip(given, self._own.ids([_text(node) for node in given]).tolist(), strict=True)) if given else {}
        if not all(ids.values()):
            return
        s, p, o = (None if node is None else ids[node] for node in pattern)
        for block in match(self._own.snapshot, Pattern(s, p, o, DEFAULT_GRAPH if name is None else ids[name])):
            columns = [list(map(_node, self._own.terms(column))) for column in (block.s, block.p, block.o)]
            yield from zip(*columns, strict=True)

    def has(self, triple: Triple, name: Node | None) -> bool:
        return any(True for _ in self.triples(triple, name))

    def graphs(self) -> Iterator[Node]:
        yield from map(_node, self._own.terms(self._own.snapshot.graphs()))


def _graphs(windows: Mapping[str, Sequence[Texts]]) -> Dataset:
    contents = Dataset()
    for name, triples in windows.items():
        graph = contents.graph(URIRef(name))
        for s, p, o in triples:
            graph.add((_node(s), _node(p), _node(o)))
    return contents


@lru_cache(maxsize=_NODES_MAX)
def _node(text: bytes) -> Node:
    return BNode(_OWN + text[2:].decode()) if text.startswith(b"_:") else to_node(text, Labels())


def _text(node: Node) -> bytes:
    """As the engine writes it: a blank node of the dataset gets a label that depends on its own only."""
    if not isinstance(node, BNode):
        return to_bytes(node)
    if node.startswith(_OWN):
        return b"_:" + node.removeprefix(_OWN).encode()
    return b"_:q" + blake2b(str(node).encode(), digest_size=16).hexdigest().encode()


def _solution(row: Mapping[Any, Any]) -> Solution:
    return {str(variable): _text(term) for variable, term in row.items() if term is not None}
