"""Templates: quads with variables, filled in by solutions, a column at a time.

A quad that is no RDF is left out: one with an unbound variable, with a literal for its subject, or with anything but
an IRI for its predicate. What is deleted need not be looked at like that, for no such quad is in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store.layout.terms import BLANK, DICTIONARY, LOCAL, tag_of
from stream_ext.language.algebra.algebra import QuadPattern
from stream_ext.language.algebra.terms import BlankLabel, Constant, Node, TemplateNode, Variable
from stream_ext.network.operators.remote.source_join import OF_SOURCE
from stream_ext.remote.source import MAIN
from stream_ext.rows.zset import Ids
from stream_ext.values.vocabulary import Vocabulary, is_local
from stream_ext.writer.charged import QUAD
from stream_ext.writer.graph_store import encoded
from stream_ext.writer.updates.other_store import SourceAside
from stream_ext.writer.updates.working import CannotUpdate, Working

Mask = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.uint8]
Quads = tuple[Ids, Ids, Ids, Ids]
QuadNodes = tuple[TemplateNode, Node, TemplateNode, Node | None]
#: What stands for each node of a template: a column, or one value for all solutions.
Filling = dict[TemplateNode, Ids]

_LITERAL, _IRI, _BLANK = 0, 1, 2
_KIND_OF = np.full(256, _LITERAL, np.uint8)
_KIND_OF[ord("<")], _KIND_OF[ord("_")] = _IRI, _BLANK
#: What may stand as subject, predicate, object and graph; (): anything.
_PLACES: tuple[tuple[int, ...], ...] = ((_IRI, _BLANK), (_IRI,), (), (_IRI, _BLANK))
_NO_GRAPH = np.zeros(1, np.uint64)


@dataclass(frozen=True, slots=True)
class Solved:
    """The solutions of a pattern: a column a variable, in ids of the vocabulary (0 = unbound)."""

    columns: dict[str, Ids]
    count: int
    vocabulary: Vocabulary


def variables_of(*templates: Iterable[QuadPattern]) -> tuple[str, ...]:
    """Those that the templates name, each once."""
    nodes = (node for quads in templates for q in quads for node in (q.subject, q.predicate, q.object, q.graph))
    return tuple(dict.fromkeys(node.name for node in nodes if isinstance(node, Variable)))


class QuadTemplate:
    """The quads of one template. `graph` is the graph of those that name none: the default graph, or that of WITH."""

    def __init__(self, quads: Sequence[QuadPattern], graph: Constant | None, solved: Solved, working: Working) -> None:
        self._quads = [(each.subject, each.predicate, each.object, each.graph or graph) for each in quads]
        self._solved, self._working = solved, working
        nodes = [node for quad in self._quads for node in quad]
        self._constants = [node for node in dict.fromkeys(nodes) if isinstance(node, Constant)]
        self._labels = [node for node in dict.fromkeys(nodes) if isinstance(node, BlankLabel)]
        self._closed = self._ids_of_closed()

    def _ids_of_closed(self) -> Ids:
        """Graphs that nobody writes to, where solutions may name them."""
        names = self._working.derived.names
        if not names or not any(isinstance(nodes[3], Variable) for nodes in self._quads):
            return np.empty(0, np.uint64)
        return self._solved.vocabulary.encode(names)

    def _check_open(self, graphs: Ids) -> None:
        closed = graphs[np.isin(graphs, self._closed)][:1] if len(self._closed) else graphs[:0]
        if len(closed):
            self._working.check_writable(Constant(self._solved.vocabulary.decode(closed)[0]))

    def deleted(self) -> Iterator[Quads]:
        """Quads that may be in the store."""
        self._check_room()
        if self._working.aside is not None:
            self._check_aside(self._working.aside)
        known = self._filling(self._working.preview.ids)
        for nodes in self._quads:
            columns, there = self._filled(nodes, known)
            self._check_open(columns[3][there])
            for column in columns:
                there &= ~is_local(column)  # nobody but this query knows the term, so no quad has it
            yield _where(columns, there)

    def _check_aside(self, aside: SourceAside) -> None:
        """What the source holds stays there, so it cannot be deleted. It may have terms that our own store has not."""
        vocabulary = self._solved.vocabulary
        filling = self._filling(vocabulary.encode)
        for nodes in self._quads:
            quads = np.unique(np.stack(_where(*self._filled(nodes, filling))), axis=1)
            used = np.unique(quads[quads != 0])
            texts = dict(zip(used.tolist(), vocabulary.decode(used), strict=True)) if len(used) else {}
            rows = zip(*(column.tolist() for column in quads), strict=True)
            aside.check_quads((texts[s], texts[p], texts[o], texts.get(g)) for s, p, o, g in rows)

    def inserted(self) -> Iterator[Quads]:
        """Each solution has nodes of its own for the blank nodes."""
        count = self._solved.count
        if not count:
            return
        self._check_room()
        filling = self._filling(self._working.batch.encode)
        filling.update((label, self._working.batch.blanks(count)) for label in self._labels)
        adopt = _Adoption(self._solved.vocabulary, self._working)
        for nodes in self._quads:
            columns, there = self._filled(nodes, filling)
            quads = _where(columns, there)
            s, p, o, g = _where(quads, self._is_rdf(nodes, quads))
            self._check_open(g)
            yield adopt(s), adopt(p), adopt(o), adopt(g)

    def _check_room(self) -> None:
        """For all quads that there may be, and for the nodes of their labels."""
        control, count = self._working.asking.control, self._solved.count
        control.room(count * (len(self._quads) + len(self._labels)), QUAD)

    def _filling(self, encode: Callable[[list[bytes]], Ids]) -> Filling:
        """A column for each variable, one value for each constant, looked up at once."""
        ids = encode([node.text for node in self._constants])
        filling: Filling = {Variable(name): column for name, column in self._solved.columns.items()}
        filling.update((node, ids[i : i + 1]) for i, node in enumerate(self._constants))
        return filling

    def _filled(self, nodes: QuadNodes, filling: Filling) -> tuple[Quads, Mask]:
        """The quads, and which of them are bound throughout."""
        there = np.ones(self._solved.count, np.bool_)
        columns: list[Ids] = []
        for node in nodes:
            column = _NO_GRAPH if node is None else filling[node]
            columns.append(np.broadcast_to(column, there.shape))
            if node is not None:
                there &= column != 0
        s, p, o, g = columns
        return (s, p, o, g), there

    def _is_rdf(self, nodes: QuadNodes, quads: Quads) -> Mask:
        """Only what a variable stands for can be of a kind that has no place there."""
        fits = np.ones(len(quads[0]), np.bool_)
        for node, column, kinds in zip(nodes, quads, _PLACES, strict=True):
            if isinstance(node, Variable) and kinds:
                fits &= np.isin(_kinds(column, self._solved.vocabulary), kinds)
        return fits


class _Adoption:
    """Ids of terms that a query made as ids of the batch; a blank node that it made is one node in all quads."""

    def __init__(self, vocabulary: Vocabulary, working: Working) -> None:
        self._vocabulary, self._working = vocabulary, working
        self._adopted: dict[int, int] = {}

    def __call__(self, ids: Ids) -> Ids:
        local = is_local(ids)
        if not local.any():
            return ids
        distinct, places = np.unique(ids[local], return_inverse=True)
        new = distinct[[id not in self._adopted for id in distinct.tolist()]]
        if len(new):
            self._adopt(new)
        adopted = ids.copy()
        adopted[local] = np.array([self._adopted[id] for id in distinct.tolist()], np.uint64)[places]
        return adopted

    def _adopt(self, ids: Ids) -> None:
        texts = self._vocabulary.decode(ids)
        if any(text.startswith(OF_SOURCE) for text in texts):
            raise CannotUpdate(
                f"a blank node of the source {MAIN} would be inserted here, where it would be another node: give it an "
                "IRI"
            )
        adopted = encoded(self._working.batch, texts)
        self._adopted.update(zip(ids.tolist(), adopted.tolist(), strict=True))


def _where(quads: Quads, there: Mask) -> Quads:
    if there.all():
        return quads
    s, p, o, g = (column[there] for column in quads)
    return s, p, o, g


def _kinds(ids: Ids, vocabulary: Vocabulary) -> Kinds:
    """Of inline ids the tag says it; of others the first byte of the text."""
    tags = tag_of(ids)
    kinds = np.full(len(ids), _LITERAL, np.uint8)
    kinds[tags == BLANK] = _BLANK
    in_dictionary = (tags == DICTIONARY) | (tags == LOCAL)
    if in_dictionary.any():
        distinct, places = np.unique(ids[in_dictionary], return_inverse=True)
        first = np.array([text[0] for text in vocabulary.decode(distinct)], np.uint8)
        kinds[in_dictionary] = _KIND_OF[first][places]
    return kinds
