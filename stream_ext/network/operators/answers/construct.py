"""Construct: the triples that a template makes of solutions, each once.

A blank node of the template is a function of its label and the solution, so the same solution makes the same triples
again. What would be no triple (an unbound variable, a literal as subject) is left out."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from hbase_store.layout import terms
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import QuadPattern
from stream_ext.language.algebra.terms import BlankLabel, Constant, TemplateNode, Variable
from stream_ext.network.operators.answers.distinct import first_of_each
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.instants.lives import hidden, shown
from stream_ext.plan.properties.result_columns import TRIPLE
from stream_ext.rows.zset import Ids, ZSet, concat
from stream_ext.values.decoding import decoded_within
from stream_ext.values.vocabulary import Vocabulary

Mask = npt.NDArray[np.bool_]
_TRIPLE, _BLANK = 6, 32
_AT_ONCE = 4096


class Construct:
    def __init__(self, inside: tuple[str, ...], template: Sequence[QuadPattern], salt: bytes = b"") -> None:
        """Hidden columns stay with the triples."""
        self._inside, self._shown = inside, [inside.index(name) for name in shown(inside)]
        self._hidden = [inside.index(name) for name in hidden(inside)]
        self.variables = (*TRIPLE, *hidden(inside))
        self._template = template
        self._salt = salt

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        """Weights and validities stay with the triples: a Distinct behind makes the graph of them."""
        labels: dict[str, Ids] = {}
        parts = []
        moment.control.room(change.count * len(self._template), _TRIPLE)
        for quad in self._template:
            nodes = (quad.subject, quad.predicate, quad.object)
            s, p, o = (self._column(node, change, moment, labels) for node in nodes)
            fits = is_triple(s, p, o, moment.vocabulary)
            triples = change.with_columns((s, p, o, *(change.stored[place] for place in self._hidden)))
            parts.append(triples if fits.all() else triples.take(fits))
        return concat(parts, len(self.variables))

    def graph(self, moment: Moment, rows: ZSet) -> tuple[Ids, Ids, Ids]:
        s, p, o = self.graph_of(moment, rows).columns
        return s, p, o

    def graph_of(self, moment: Moment, rows: ZSet) -> ZSet:
        """Of rows that are all there are, each triple once."""
        return first_of_each(self.step(moment, ZSet(rows.columns, rows.count)))

    def _column(self, node: TemplateNode, rows: ZSet, moment: Moment, labels: dict[str, Ids]) -> Ids:
        vocabulary = moment.vocabulary
        match node:
            case Variable(name):
                if name not in self._inside:
                    return np.zeros(rows.count, np.uint64)
                return rows.columns[self._inside.index(name)]
            case Constant(text):
                return np.full(rows.count, vocabulary.encode([text])[0], np.uint64)
            case BlankLabel(label):
                if label not in labels:
                    bytes_before = vocabulary.created_bytes
                    labels[label] = self._blanks(label, rows, moment)
                    moment.control.spend(vocabulary.created_bytes - bytes_before)
                return labels[label]

    def _blanks(self, label: str, rows: ZSet, moment: Moment) -> Ids:
        """Named by what the solution says, not by ids: another process makes the same."""
        if not rows.count:
            return np.empty(0, np.uint64)
        moment.control.room(rows.count, _BLANK)
        vocabulary = moment.vocabulary
        own = map(rows.column, self._shown)
        texts = [vocabulary_texts(column, vocabulary, moment.control) for column in own]
        solutions = zip(*texts, strict=True) if texts else [()] * rows.count
        names = []
        for solution in solutions:
            digest = blake2b(self._salt + label.encode(), digest_size=12)
            for text in solution:
                digest.update(b"\x00" + text)
            names.append(b"_:q" + digest.hexdigest().encode())
            if not len(names) % _AT_ONCE:
                moment.control.check()
        return vocabulary.encode(names)


def vocabulary_texts(column: Ids, vocabulary: Vocabulary, control: Control = Control.FREE) -> list[bytes]:
    """b"" where a solution leaves the variable unbound."""
    distinct, places = np.unique(column, return_inverse=True)
    known = decoded_within(vocabulary.decode, distinct[distinct != 0], control)
    texts = [b"", *known] if len(distinct) and distinct[0] == 0 else known
    return [texts[i] for i in places.reshape(-1).tolist()]


def is_triple(s: Ids, p: Ids, o: Ids, vocabulary: Vocabulary) -> Mask:
    fits: Mask = (s != 0) & (p != 0) & (o != 0)
    return fits & ~_starts(s, b'"', vocabulary) & _starts(p, b"<", vocabulary)


def _starts(column: Ids, with_: bytes, vocabulary: Vocabulary) -> Mask:
    """Which ids stand for an IRI (<) or a literal (\")."""
    tags = terms.tag_of(column)
    found = np.zeros(len(column), np.bool_)
    if with_ == b'"':
        found[tags == terms.INTEGER] = True
    unclear = np.flatnonzero(((tags == terms.DICTIONARY) & (column != 0)) | (tags == terms.LOCAL))
    if len(unclear):
        distinct, places = np.unique(column[unclear], return_inverse=True)
        starts = np.array([text.startswith(with_) for text in vocabulary.decode(distinct)], np.bool_)
        found[unclear] = starts[places.reshape(-1)]
    return found
