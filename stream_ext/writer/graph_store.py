"""The graph store: whole graphs. Each write is one snapshot, or none if the request changes nothing.

    replace   what was in the graph goes, what the documents say comes
    merge     what the documents say comes beside what is there
    drop      what was in the graph goes

A graph is there while it holds a triple; the default graph is always there. Labels of blank nodes mean something
within one document only: every write makes fresh nodes for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hbase_store import Batch
from hbase_store.layout.terms import iri
from hbase_store.sorted.view import Room
from stream_ext.errors import BadArgument, BadData, NotFound
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.decoded import Decoded
from stream_ext.rdf import Parsed, parse_rdf
from stream_ext.rdf.iris import is_absolute
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.values.vocabulary import Decode, Vocabulary
from stream_ext.writer.change import Change, HeadView, Intent
from stream_ext.writer.charged import ChargedBatch, Writes, room_of
from stream_ext.writer.derived_graphs import DerivedGraphs
from stream_ext.writer.elements import Ids, check_terms, is_blank

DEFAULT_GRAPH = 0
#: A quad of an answer: four ids, once as they are read, once sorted, and their order.
_QUAD_BYTES = 9 * 8


@dataclass(frozen=True, slots=True)
class Document:
    """RDF as it was sent; relative IRIs in it resolve against `base`."""

    data: bytes
    media_type: str
    base: str

    def parsed(self, reading: ReadingBudget | None = None) -> Parsed:
        parsed = parse_rdf(self.data, self.media_type, self.base, reading)
        check_terms(parsed.terms)
        return parsed


@dataclass(frozen=True, slots=True)
class GraphWriteOutcome:
    """The snapshot of the write, and whether the write created the graph."""

    snapshot: int
    created: bool = False


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """The triples (s, p, o) of one graph at a snapshot, or the quads of all of them; 0 is the default graph."""

    columns: tuple[Ids, ...]
    sn: int
    decode: Decode
    more: Iterator[Decoded] = field(default_factory=lambda: iter(()))  # what a source has beside them; read once


def checked_graph(graph: str) -> bytes:
    """The term of a graph's IRI; one that is relative, or no IRI at all, is refused."""
    term = iri(graph)
    if not is_absolute(graph) or b"\\" in term:
        raise BadArgument(
            f"graph={graph[:200]}: the name of a graph must be an absolute IRI, such as http://example.org/g"
        )
    return term


# ---- reading ---------------------------------------------------------------------------------------------------


def _by_subject(*columns: Ids) -> tuple[Ids, ...]:
    """Rows sorted by subject, so that a writer writes each subject once; quads are sorted by graph first."""
    s, g = columns[0], columns[3] if len(columns) > 3 else None
    order = np.argsort(s, kind="stable") if g is None else np.lexsort((s, g))
    return tuple(column[order] for column in columns)


def _charged(control: Control) -> Room:
    """Charges the quads of an answer to its budget before they are read, for as long as the answer is sent."""

    def room(quads: int) -> None:
        control.check()
        control.spend(quads * _QUAD_BYTES)

    return room


def read_graph(derived: DerivedGraphs, graph: bytes | None) -> GraphAnswer:
    """A graph; None: the default graph. NotFound for a named graph without triples."""
    store, sn, room = derived.store, derived.sn, _charged(derived.control)
    if graph is None:
        return GraphAnswer(_by_subject(*store.at(sn).graph_quads(DEFAULT_GRAPH, room)), sn, store.terms)
    if (given := derived.named(graph)) is not None:
        vocabulary = Vocabulary(store.ids, store.terms)
        return GraphAnswer(_by_subject(*given.columns(vocabulary)), sn, vocabulary.decode)
    id = int(store.ids([graph])[0])
    columns = store.at(sn).graph_quads(id, room) if id else None
    if columns is None or not len(columns[0]):
        raise _no_graph(graph)
    return GraphAnswer(_by_subject(*columns), sn, store.terms)


def read_dataset(derived: DerivedGraphs) -> GraphAnswer:
    """The quads of the default graph and of all named ones."""
    store, sn = derived.store, derived.sn
    quads, given = store.at(sn).quads(_charged(derived.control)), derived.all()
    if not given:
        return GraphAnswer(_by_subject(*quads), sn, store.terms)
    vocabulary = Vocabulary(store.ids, store.terms)
    names = vocabulary.encode([graph.name.text for graph in given])
    seen = ~np.isin(quads[3], names)  # a graph of the store that has such a name is hidden
    parts = [tuple(column[seen] for column in quads)]
    for name, graph in zip(names, given, strict=True):
        s, p, o = graph.columns(vocabulary)
        parts.append((s, p, o, np.full(len(s), name)))
    columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    return GraphAnswer(_by_subject(*columns), sn, vocabulary.decode)


def _no_graph(graph: bytes) -> NotFound:
    return NotFound(f"there is no graph {graph.decode()}: it has no triples")


# ---- writing ---------------------------------------------------------------------------------------------------


def replace(
    graph: bytes | None,
    documents: Sequence[Document],
    reading: ReadingBudget | None = None,
    control: Control = Control.FREE,
) -> Change:
    parsed = triples_of(graph, documents, reading)

    def change(view: HeadView) -> Intent:
        check_writable(view, [graph])
        existed = _has_triples(view, graph)

        def write(batch: Batch) -> None:
            # Of operations on one quad the last wins: what goes and comes again has not changed.
            charged = ChargedBatch(batch, control)
            _empty(view, graph, charged, control)
            insert(charged, graph, parsed)
            charged.pack()

        has_triples = any(len(each.s) for each in parsed)
        created = has_triples and not existed
        return Intent(lambda sn: GraphWriteOutcome(sn, created), write=write if existed or has_triples else None)

    return change


def merge(
    graph: bytes | None,
    documents: Sequence[Document],
    reading: ReadingBudget | None = None,
    control: Control = Control.FREE,
) -> Change:
    parsed = triples_of(graph, documents, reading)

    def change(view: HeadView) -> Intent:
        check_writable(view, [graph])
        write = _inserting(graph, parsed, control)
        existed = graph is None or _has_triples(view, graph)
        created = write is not None and not existed
        return Intent(lambda sn: GraphWriteOutcome(sn, created), write=write)

    return change


def add_quads(
    documents: Sequence[Document], reading: ReadingBudget | None = None, control: Control = Control.FREE
) -> Change:
    """Adds each statement to the graph that it names."""
    parsed = [document.parsed(reading) for document in documents]
    graphs = {each.terms[place] for each in parsed for place in np.unique(each.g[each.g >= 0]).tolist()}

    def change(view: HeadView) -> Intent:
        check_writable(view, graphs)
        return Intent(GraphWriteOutcome, write=_inserting(None, parsed, control))

    return change


def drop(graph: bytes | None, control: Control = Control.FREE) -> Change:
    def change(view: HeadView) -> Intent:
        check_writable(view, [graph])
        if not _has_triples(view, graph):
            if graph is not None:
                raise _no_graph(graph)
            return Intent(GraphWriteOutcome)

        def write(batch: Batch) -> None:
            charged = ChargedBatch(batch, control)
            _empty(view, graph, charged, control)
            charged.pack()

        return Intent(GraphWriteOutcome, write=write)

    return change


def check_writable(view: HeadView, graphs: Iterable[bytes | None]) -> None:
    """NameInUse for a graph that is the answer of a registered query."""
    derived = DerivedGraphs(view.store, view.catalog, lambda _: None, view.head, NOTHING)
    for graph in graphs:
        derived.check_writable(graph)


def triples_of(graph: bytes | None, documents: Sequence[Document], reading: ReadingBudget | None) -> list[Parsed]:
    parsed = [document.parsed(reading) for document in documents]
    if any((each.g >= 0).any() for each in parsed):
        where = "the default graph" if graph is None else graph.decode()
        raise BadData(
            f"this document names graphs itself, but the request is for {where}: send it by POST without "
            "default and graph=, and each statement goes to the graph that it names"
        )
    return parsed


def _graph(view: HeadView, graph: bytes | None) -> int | None:
    """The id of a graph; None: the name was never used."""
    return DEFAULT_GRAPH if graph is None else int(view.store.ids([graph])[0]) or None


def _has_triples(view: HeadView, graph: bytes | None) -> bool:
    """Whether the graph has a triple."""
    id = _graph(view, graph)
    return id is not None and bool(len(view.store.at(view.head).predicates(id)))


def _empty(view: HeadView, graph: bytes | None, into: Writes, control: Control) -> None:
    id = _graph(view, graph)
    if id is not None:
        for p, (s, o) in view.store.at(view.head).by_predicate(id, room_of(control)):
            into.delete(s, p, o, id)


def _inserting(graph: bytes | None, parsed: Sequence[Parsed], control: Control) -> Callable[[Batch], None] | None:
    if not any(len(each.s) for each in parsed):
        return None

    def write(batch: Batch) -> None:
        charged = ChargedBatch(batch, control)
        insert(charged, graph, parsed)
        charged.pack()

    return write


def insert(into: Writes, graph: bytes | None, parsed: Sequence[Parsed]) -> None:
    """Inserts the statements of documents; `graph`: for statements that name none."""
    for each in parsed:
        if len(each.s):
            ids = encoded(into, each.terms)
            default = DEFAULT_GRAPH if graph is None else int(into.encode([graph])[0])
            graphs = np.where(each.g >= 0, ids[np.maximum(each.g, 0)], np.uint64(default))
            into.insert(ids[each.s], ids[each.p], ids[each.o], graphs)


def encoded(into: Writes, terms: Sequence[bytes]) -> Ids:
    """The ids of terms; each label of a blank node becomes a fresh node."""
    blank = np.fromiter(map(is_blank, terms), np.bool_, len(terms))
    ids = np.empty(len(terms), np.uint64)
    ids[~blank] = into.encode([term for term in terms if not is_blank(term)])
    if blank.any():
        ids[blank] = into.blanks(int(blank.sum()))
    return ids
