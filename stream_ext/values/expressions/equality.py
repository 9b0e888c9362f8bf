"""Equality decided on ids, as far as ids decide.

Equal ids are one term, and every term but NaN equals itself. Different ids are different terms; whether they are equal
values depends on what they are: two integers in their ids, a blank node, an IRI are equal to nothing else. What is left
(1 and 1.0, "a"@en and "a"@EN) is compared by value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, Mask
from hbase_store.layout import terms
from stream_ext.values import known_values
from stream_ext.values.expressions.nodes import Column, Fixed, Node
from stream_ext.values.expressions.rows import Rows, applied
from stream_ext.values.expressions.vectors import Terms, Truths, Vector
from stream_ext.values.functions import FUNCTIONS

_NANS = [f'"NaN"^^<http://www.w3.org/2001/XMLSchema#{name}>'.encode() for name in ("double", "float")]


@dataclass(frozen=True, slots=True)
class IdEquality:
    """`left = right`, or !=, of a variable and a variable or constant."""

    left: Column
    right: Column | Fixed
    negated: bool
    decides: bool  # different terms are never equal here (one is known to be no literal), or need not be told apart
    by_value: Node
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        left = rows.column(self.left.at)
        if not self.decides and left.are_inline and _is_number(self.right, rows):
            return self.by_value.evaluate(rows)
        if self.decides and isinstance(self.right, Fixed) and self.right.text not in _NANS:
            return Truths(self._is_that(left.of_rows, rows))
        a, b = left.of_rows, _ids(self.right, rows)
        unbound = (a == 0) | (b == 0)
        same = a == b
        different = ~same if self.decides else self._different(a, b, same)
        truths = np.zeros(rows.count, np.int8)
        truths[same & ~unbound] = 1
        truths[different & ~unbound] = -1
        self._except_nan(truths, same, a, rows)
        if self.negated:
            truths = -truths
        open_ = np.flatnonzero(~(same | different | unbound))
        if len(open_):
            some = rows if len(open_) == rows.count else rows.some(open_, self.used)
            truths[open_] = some.truths(self.by_value.evaluate(some))
        return Truths(truths)

    def _is_that(self, ids: Ids, rows: Rows) -> npt.NDArray[np.int8]:
        """Compared with a constant, where equal ids say all."""
        same = ids == _ids(self.right, rows)
        truths: npt.NDArray[np.int8] = 1 - 2 * same.view(np.int8) if self.negated else 2 * same.view(np.int8) - 1
        if not ids.all():
            truths[ids == 0] = 0
        return truths

    def _different(self, a: Ids, b: Ids, same: Mask) -> Mask:
        tags_a, tags_b = terms.tag_of(a), terms.tag_of(b)
        integers = (tags_a == terms.INTEGER) & (tags_b == terms.INTEGER)
        different: Mask = ~same & (integers | (tags_a == terms.BLANK) | (tags_b == terms.BLANK))
        return different

    def _except_nan(self, truths: npt.NDArray[np.int8], same: Mask, a: Ids, rows: Rows) -> None:
        """NaN is not even itself."""
        if isinstance(self.right, Fixed) and self.right.text not in _NANS:
            return
        if not (same & (terms.tag_of(a) != terms.INTEGER)).any():
            return
        truths[same & np.isin(a, rows.scope.vocabulary.encode(_NANS))] = -1


def _ids(node: Column | Fixed, rows: Rows) -> Ids:
    if isinstance(node, Column):
        return rows.column(node.at).of_rows
    assert node.text is not None
    return rows.scope.vocabulary.encode([node.text])


def _is_number(node: Column | Fixed, rows: Rows) -> bool:
    if isinstance(node, Column):
        return rows.column(node.at).are_inline
    return node.text is not None and terms.inline_id(node.text) != 0


@dataclass(frozen=True, slots=True)
class SameTerm:
    left: Node
    right: Node
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        if isinstance(self.left, (Column, Fixed)) and isinstance(self.right, (Column, Fixed)):
            a, b = _ids_of_any(self.left, rows), _ids_of_any(self.right, rows)
            truths = np.where(a == b, np.int8(1), np.int8(-1))
            return Truths(np.array(np.broadcast_to(np.where((a == 0) | (b == 0), np.int8(0), truths), rows.count)))
        arguments = [rows.factored(self.left.evaluate(rows)), rows.factored(self.right.evaluate(rows))]
        texts = [argument.pool.texts for argument in arguments]
        return applied(rows.scope.control, arguments, texts, FUNCTIONS["SAMETERM"])


def _ids_of_any(node: Column | Fixed, rows: Rows) -> Ids:
    return np.zeros(1, np.uint64) if isinstance(node, Fixed) and node.text is None else _ids(node, rows)


@dataclass(frozen=True, slots=True)
class OneOf:
    """`column IN (constants)`, of constants for which ids decide; `others` are the comparisons with all the rest."""

    column: Column
    constants: tuple[bytes, ...]
    others: tuple[Node, ...]
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        ids = rows.column(self.column.at).of_rows
        found = np.isin(ids, rows.scope.vocabulary.encode(self.constants))
        truths = np.where(found, np.int8(1), np.int8(-1))
        truths[ids == 0] = 0
        return Truths(_any_of(truths, self.others, rows))


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of several conditions; of none it is false."""

    nodes: tuple[Node, ...]
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        return Truths(_any_of(np.full(rows.count, -1, np.int8), self.nodes, rows))


def _any_of(truths: npt.NDArray[np.int8], nodes: tuple[Node, ...], rows: Rows) -> npt.NDArray[np.int8]:
    for node in nodes:
        truths = np.maximum(truths, rows.truths(node.evaluate(rows)))
    return truths


@dataclass(frozen=True, slots=True)
class TermTest:
    """isIRI, isBlank, isLiteral: integers and blank nodes say it in their ids."""

    column: Column
    of_iris: int
    of_blanks: int
    of_literals: int

    @property
    def used(self) -> frozenset[int]:
        return self.column.used

    def evaluate(self, rows: Rows) -> Vector:
        column: Terms = rows.column(self.column.at)
        tags = terms.tag_of(column.of_rows)
        truths = np.zeros(rows.count, np.int8)
        truths[tags == terms.INTEGER] = self.of_literals
        truths[tags == terms.BLANK] = self.of_blanks
        if not ((tags == terms.INTEGER) | (tags == terms.BLANK) | (column.of_rows == 0)).all():
            self._by_facts(column, truths)
        return Truths(truths)

    def _by_facts(self, column: Terms, truths: npt.NDArray[np.int8]) -> None:
        distinct, codes = column.factors()
        kinds = column.facts().kinds
        of_distinct = np.full(len(distinct), self.of_literals, np.int8)
        of_distinct[kinds == known_values.IRI] = self.of_iris
        of_distinct[kinds == known_values.BLANK] = self.of_blanks
        of_distinct[distinct == 0] = 0
        truths[:] = of_distinct[codes]
