"""Updates that go to the source main: one request of DATA operations, made here.

    DELETE { ?s :old ?o } INSERT { ?s :new ?o } WHERE { ?s :old ?o . ?s :local true }
    =>
    DELETE DATA { :a :old 1 . :b :old 2 } ; INSERT DATA { :a :new 1 . :b :new 2 }

The pattern is solved over both stores. What would be deleted from our own store fails the request before anything is
sent. An operation with a pattern must come first: those before it are not done yet when it is solved, for all are sent
together. Whether the source changes between the solving and the sending cannot be known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from hbase_store import Store
from stream_ext.language.algebra.algebra import QuadPattern
from stream_ext.language.algebra.statements import (
    DeleteData,
    DeleteWhere,
    InsertData,
    Load,
    Manage,
    Modify,
    Operation,
    Quad,
    Transfer,
    Update,
    Whole,
)
from stream_ext.language.algebra.terms import BlankLabel, Constant, TemplateNode, Variable
from stream_ext.language.printing.terms import portable
from stream_ext.network.operators.remote.remote_question import sendable
from stream_ext.network.operators.remote.service import check_services
from stream_ext.network.operators.remote.source_join import OF_SOURCE
from stream_ext.oneshot.evaluate import Asking
from stream_ext.rdf import Parsed
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import MAIN
from stream_ext.writer.derived_graphs import DerivedGraphs
from stream_ext.writer.updates.data import term_quad
from stream_ext.writer.updates.load import fetched
from stream_ext.writer.updates.modify import pattern_request
from stream_ext.writer.updates.other_store import OwnAside, TermQuad
from stream_ext.writer.updates.placing import placed_operation
from stream_ext.writer.updates.solving import solved_over_both
from stream_ext.writer.updates.targets import targets_of
from stream_ext.writer.updates.templates import Solved
from stream_ext.writer.updates.working import CannotUpdate

#: The most that is sent in one request.
_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What is sent, "" for nothing; the quads that it inserts or deletes, and whether it empties graphs besides."""

    text: str
    quads: Sequence[TermQuad] = ()
    clears: bool = False


def request_to_source(update: Update, text: str, store: Store, asking: Asking, derived: DerivedGraphs) -> SourceRequest:
    """Raises the errors of updates, with their places in the text."""
    return _Operations(update.operations, text, store, asking, derived).request()


class _Operations:
    def __init__(
        self, operations: Sequence[Operation], text: str, store: Store, asking: Asking, derived: DerivedGraphs
    ) -> None:
        self._operations, self._text, self._asking, self._derived = operations, text, asking, derived
        self._store = store
        self._aside = OwnAside(store.at(derived.sn), lambda texts: store.ids(texts))
        self._parts: list[str] = []
        self._size = 0
        self._quads: list[TermQuad] = []

    def request(self) -> SourceRequest:
        patterns = [operation.pattern for operation in self._operations if isinstance(operation, Modify)]
        check_services(patterns, self._asking.allowed_urls, self._text, self._asking.sources)
        for number, operation in enumerate(self._operations, 1):
            self._asking.control.check()
            with placed_operation(number, len(self._operations), operation, self._text):
                for graph in targets_of(operation):
                    if (why := self._derived.why_not(graph.text)) is not None:
                        raise CannotUpdate(why)
                self._add(number, operation)
        clears = any(part.startswith("CLEAR") for part in self._parts)
        return SourceRequest(" ;\n".join(self._parts), self._quads, clears)

    def _add(self, number: int, operation: Operation) -> None:
        match operation:
            case InsertData(quads):
                self._insert(_data_quad(quad, number) for quad in quads)
            case DeleteData(quads):
                self._delete(map(term_quad, quads))
            case Modify() | DeleteWhere():
                self._modify(number, operation)
            case Manage("CREATE"):
                pass  # a graph is there while it holds a triple
            case Manage():
                self._clear(operation)
            case Load(into=into):
                document = fetched(operation, self._asking.allowed_urls, self._asking.control)
                self._insert(quads_of(document, _graph(into), number) if document is not None else ())
            case Transfer(verb):
                raise CannotUpdate(f"{verb} is not sent to the source {MAIN}: write it as DELETE and INSERT ... WHERE")

    def _modify(self, number: int, operation: Modify | DeleteWhere) -> None:
        if self._parts:
            raise CannotUpdate(
                f"its pattern would have to see what the operations before it do in the source {MAIN}, and all are "
                "sent together: send it as a request of its own"
            )
        solved = solved_over_both(pattern_request(operation), self._store, self._asking, self._derived)
        if isinstance(operation, DeleteWhere):
            self._delete(_filled(operation.quads, None, solved, number, False))
            return
        self._delete(_filled(operation.deletes or (), operation.graph, solved, number, False))
        self._insert(_filled(operation.inserts or (), operation.graph, solved, number, True))

    def _clear(self, operation: Manage) -> None:
        target = operation.target
        if isinstance(target, Constant):
            self._aside.check_graph(target)
            self._append(f"CLEAR SILENT GRAPH {target.text.decode()}")
            return
        if target in (Whole.DEFAULT, Whole.ALL):
            self._aside.check_graph(None)
        if target in (Whole.NAMED, Whole.ALL):
            self._aside.check_named_graphs()
        self._append(f"CLEAR SILENT {target.value}")

    def _delete(self, quads: Iterable[TermQuad]) -> None:
        found = list(dict.fromkeys(map(_sendable, quads)))
        self._aside.check_quads(found)
        for quad in found:
            if any(term is not None and term.startswith(OF_SOURCE) for term in quad):
                raise CannotUpdate(
                    f"a triple with a blank node of the source {MAIN} would be deleted, and its label means something "
                    "within one answer only: delete it there, by a pattern"
                )
        # Nor is a blank node of our own store in the source.
        self._append_data("DELETE DATA", [quad for quad in found if not _has_blank(quad)])

    def _insert(self, quads: Iterable[TermQuad]) -> None:
        found = list(dict.fromkeys(map(_sendable, quads)))
        for quad in found:
            if (term := next((each for each in quad if each is not None and _is_bound_blank(each)), None)) is not None:
                where = f"the source {MAIN}" if term.startswith(OF_SOURCE) else "Rillet's own store"
                raise CannotUpdate(
                    f"a blank node of {where} would be inserted into the source, where it would be another node: give "
                    "it an IRI"
                )
        self._append_data("INSERT DATA", found)

    def _append_data(self, verb: str, quads: list[TermQuad]) -> None:
        if quads:
            self._append(data_operation(verb, quads))
            self._quads += quads

    def _append(self, part: str) -> None:
        self._size += len(part)
        self._asking.control.spend(len(part))
        if self._size > _BYTES_MAX:
            raise CannotUpdate(
                f"the request to the source {MAIN} would have more than {_BYTES_MAX} bytes: update in parts"
            )
        self._parts.append(part)


# ---- quads as texts --------------------------------------------------------------------------------------------


def data_operation(verb: str, quads: Iterable[TermQuad]) -> str:
    """INSERT DATA or DELETE DATA of some quads."""
    lines = []
    for graph, some in groupby(sorted(quads, key=lambda quad: quad[3] or b""), key=lambda quad: quad[3]):
        triples = [b" ".join(map(portable, quad[:3])).decode() + " ." for quad in some]
        lines += triples if graph is None else [f"GRAPH {graph.decode()} {{", *triples, "}"]
    return "\n".join([f"{verb} {{", *lines, "}"])


def _sendable(quad: TermQuad) -> TermQuad:
    try:
        for term in quad:
            sendable(term or b"")
    except CannotFetch as error:
        raise CannotUpdate(str(error)) from None
    return quad


def quads_of(document: Parsed, graph: bytes | None, number: int) -> Iterator[TermQuad]:
    """The quads of a document; its blank nodes get labels that no other document of a request has."""
    terms = [b"_:d%dx%d" % (number, i) if text.startswith(b"_:") else text for i, text in enumerate(document.terms)]
    for s, p, o, g in zip(
        *(column.tolist() for column in (document.s, document.p, document.o, document.g)), strict=True
    ):
        yield terms[s], terms[p], terms[o], terms[g] if g >= 0 else graph


def _data_quad(quad: Quad, number: int) -> TermQuad:
    graph = _graph(quad.graph)
    return _named(quad.subject, number), quad.predicate.text, _named(quad.object, number), graph


def _named(node: Constant | BlankLabel, number: int) -> bytes:
    """Labels mean something within one operation."""
    return node.text if isinstance(node, Constant) else f"_:o{number}x{node.label.encode().hex()}".encode()


def _graph(node: Constant | None) -> bytes | None:
    return None if node is None else node.text


def _filled(
    quads: Sequence[QuadPattern], graph: Constant | None, solved: Solved, number: int, makes_nodes: bool
) -> Iterator[TermQuad]:
    """The quads of a template that are RDF."""
    columns = {}
    for name, column in solved.columns.items():
        bound_ids = column[column != 0]
        texts = iter(solved.vocabulary.decode(bound_ids) if len(bound_ids) else ())
        columns[name] = [next(texts) if bound else None for bound in (column != 0).tolist()]

    def term(node: TemplateNode, row: int) -> bytes | None:
        match node:
            case Constant(text):
                return text
            case Variable(name):
                return columns[name][row]
            case BlankLabel(label):
                assert makes_nodes, "a template of DELETE has no blank nodes"
                return f"_:s{number}x{row}x{label.encode().hex()}".encode()

    for row in range(solved.count):
        for quad in quads:
            s, p, o = term(quad.subject, row), term(quad.predicate, row), term(quad.object, row)
            named = quad.graph or graph
            g = None if named is None else term(named, row)
            if s is None or p is None or o is None or (g is None and named is not None):
                continue
            if s[:1] != b'"' and p[:1] == b"<" and (g is None or g[:1] == b"<"):
                yield s, p, o, g


def _has_blank(quad: TermQuad) -> bool:
    return any(term is not None and term.startswith(b"_:") for term in quad)


def _is_bound_blank(term: bytes) -> bool:
    """Whether it is a blank node that is somewhere: of our own store, or of the source."""
    return term.startswith((OF_SOURCE, b"_:b"))
