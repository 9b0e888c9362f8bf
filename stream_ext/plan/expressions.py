"""Conditions over columns of ids: which rows a filter keeps.

A condition is cut into leaves (comparisons and what else has a truth value) under &&, || and !. A leaf is worked
out on the ids themselves where all of them are inline integers, and else once for each distinct combination of
its variables' terms. Truth has three values, kept as -1 (false), 0 (error) and 1 (true): && is then the minimum,
|| the maximum and ! the negative, errors included."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hbase_store import terms
from hbase_store.arrays import Ids, Mask
from stream_ext.plan.algebra import (
    And,
    Arithmetic,
    ArithmeticOp,
    Compare,
    CompareOp,
    Constant,
    Expression,
    Negate,
    Not,
    Or,
    Variable,
)
from stream_ext.plan.values import Value, and_, arithmetic, compare, negated, or_, truth, value_of

Decode = Callable[[Ids], list[bytes]]
Truths = npt.NDArray[np.int8]
Integers = npt.NDArray[np.int64]


def compile_condition(expression: Expression, variables: tuple[str, ...]) -> Condition:
    """`variables` names the columns; a variable that is not among them is unbound, which is an error in SPARQL."""
    return Condition(_node(expression, {name: i for i, name in enumerate(variables)}))


class Condition:
    __slots__ = ("_root",)

    def __init__(self, root: _Node) -> None:
        self._root = root

    def mask(self, columns: Sequence[Ids], decode: Decode, count: int | None = None) -> Mask:
        """The rows for which the condition is true. `count` says how many there are where there is no column."""
        if count is None:
            count = len(columns[0]) if columns else 0
        if not count:
            return np.zeros(0, dtype=np.bool_)
        return self._root.truths(_Rows(columns, decode, count)) > 0


# ---- rows: what the leaves of one condition share -----------------------------------------------------------


class _Rows:
    """The columns of one call, with the values of the ids and the distinct combinations worked out once."""

    def __init__(self, columns: Sequence[Ids], decode: Decode, count: int) -> None:
        self.columns, self.count = columns, count
        self._decode = decode
        self._values: dict[int, Value | None] = {0: None}
        self._integer: dict[int, Mask] = {}
        self._combinations: dict[tuple[int, ...], _Combinations] = {}

    def are_integers(self, used: Sequence[int]) -> Mask:
        """The rows in which all columns of `used` hold inline integers."""
        for column in used:
            if column not in self._integer:
                self._integer[column] = terms.tag_of(self.columns[column]) == terms.INTEGER
        mask = self._integer[used[0]]
        for column in used[1:]:
            mask = mask & self._integer[column]
        return mask

    def combinations(self, used: tuple[int, ...]) -> _Combinations:
        if used not in self._combinations:
            self._combinations[used] = self.combinations_of([self.columns[i] for i in used])
        return self._combinations[used]

    def combinations_of(self, columns: Sequence[Ids]) -> _Combinations:
        if len(columns) == 1:
            distinct, row_of = np.unique(columns[0], return_inverse=True)
            return _Combinations([self._values_of(distinct)], row_of)
        distincts, codes = zip(*(np.unique(column, return_inverse=True) for column in columns), strict=True)
        _, first, row_of = np.unique(
            _combined(codes, [len(d) for d in distincts]), return_index=True, return_inverse=True
        )
        values: list[Sequence[Value | None]] = []
        for distinct, code in zip(distincts, codes, strict=True):
            known = self._values_of(distinct)
            values.append([known[i] for i in code[first].tolist()])
        return _Combinations(values, row_of)

    def _values_of(self, ids: Ids) -> list[Value | None]:
        listed = ids.tolist()
        unknown = np.array([id for id in listed if id not in self._values], dtype=np.uint64)
        if len(unknown):
            inline = terms.tag_of(unknown) == terms.INTEGER
            integers, others = unknown[inline], unknown[~inline]
            self._values.update(zip(integers.tolist(), terms.inline_integers(integers).tolist(), strict=True))
            if len(others):
                self._values.update(zip(others.tolist(), map(value_of, self._decode(others)), strict=True))
        return [self._values[id] for id in listed]


@dataclass(frozen=True, slots=True)
class _Combinations:
    values: list[Sequence[Value | None]]  # for each variable, its value in each combination
    row_of: npt.NDArray[np.intp]  # for each row, its combination


def _combined(codes: Sequence[npt.NDArray[np.intp]], sizes: Sequence[int]) -> npt.NDArray[np.intp]:
    """One number for each row, equal where all codes are."""
    combined, size = codes[0], sizes[0]
    for code, more in zip(codes[1:], sizes[1:], strict=True):
        if size * more >= 1 << 62:
            _, combined = np.unique(combined, return_inverse=True)
            size = int(combined.max()) + 1
        combined, size = combined * more + code, size * more
    return combined


# ---- the tree --------------------------------------------------------------------------------------------------


class _Node(Protocol):
    def truths(self, rows: _Rows) -> Truths: ...


@dataclass(frozen=True, slots=True)
class _Both:
    left: _Node
    right: _Node

    def truths(self, rows: _Rows) -> Truths:
        return np.minimum(self.left.truths(rows), self.right.truths(rows))


@dataclass(frozen=True, slots=True)
class _Either:
    left: _Node
    right: _Node

    def truths(self, rows: _Rows) -> Truths:
        return np.maximum(self.left.truths(rows), self.right.truths(rows))


@dataclass(frozen=True, slots=True)
class _Opposite:
    inner: _Node

    def truths(self, rows: _Rows) -> Truths:
        return -self.inner.truths(rows)


@dataclass(frozen=True, slots=True)
class _Leaf:
    used: tuple[int, ...]  # the columns that it reads, ascending
    scalar: _Scalar
    integers: _IntegerLeaf | None  # how to do it on integers, where that is possible

    def truths(self, rows: _Rows) -> Truths:
        if not self.used:
            return np.full(rows.count, _as_truth(self.scalar(())), dtype=np.int8)
        if self.integers is None:
            return self._by_combination(rows.combinations(self.used))
        inline = rows.are_integers(self.used)
        if not inline.any():
            return self._by_combination(rows.combinations(self.used))
        if inline.all():
            truths = self.integers.truths([terms.inline_integers(rows.columns[i]) for i in self.used])
            return self._by_combination(rows.combinations(self.used)) if truths is None else truths
        return self._split(rows, inline)

    def _split(self, rows: _Rows, inline: Mask) -> Truths:
        assert self.integers is not None
        truths = np.empty(rows.count, dtype=np.int8)
        chosen = [rows.columns[i][inline] for i in self.used]
        by_integer = self.integers.truths([terms.inline_integers(column) for column in chosen])
        truths[inline] = self._by_combination(rows.combinations_of(chosen)) if by_integer is None else by_integer
        others = rows.combinations_of([rows.columns[i][~inline] for i in self.used])
        truths[~inline] = self._by_combination(others)
        return truths

    def _by_combination(self, combinations: _Combinations) -> Truths:
        found = [_as_truth(self.scalar(values)) for values in zip(*combinations.values, strict=True)]
        return np.array(found, dtype=np.int8)[combinations.row_of]


def _as_truth(value: Value | None) -> int:
    held = truth(value)
    return 0 if held is None else 1 if held else -1


def _node(expression: Expression, columns: Mapping[str, int]) -> _Node:
    if isinstance(expression, And):
        return _Both(_node(expression.left, columns), _node(expression.right, columns))
    if isinstance(expression, Or):
        return _Either(_node(expression.left, columns), _node(expression.right, columns))
    if isinstance(expression, Not):
        return _Opposite(_node(expression.inner, columns))
    used = tuple(sorted({columns[name] for name in _variables(expression) if name in columns}))
    slots = {name: used.index(column) for name, column in columns.items() if column in used}
    return _Leaf(used, _scalar(expression, slots), _integer_leaf(expression, slots))


def _variables(expression: Expression) -> Iterable[str]:
    pending: list[Expression] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Variable):
            yield node.name
        elif isinstance(node, (Not, Negate)):
            pending.append(node.inner)
        elif isinstance(node, (Compare, Arithmetic, And, Or)):
            pending += (node.left, node.right)


# ---- one combination at a time ---------------------------------------------------------------------------------

_Scalar = Callable[[Sequence[Value | None]], Value | None]


def _scalar(expression: Expression, slots: Mapping[str, int]) -> _Scalar:
    """The expression as a function of its variables' values."""
    if isinstance(expression, Variable):
        if expression.name not in slots:
            return lambda values: None
        return operator.itemgetter(slots[expression.name])
    if isinstance(expression, Constant):
        constant = value_of(expression.text)
        return lambda values: constant
    if isinstance(expression, (Not, Negate)):
        return _scalar_unary(expression, _scalar(expression.inner, slots))
    assert isinstance(expression, (Compare, Arithmetic, And, Or)), "what is not built was refused before"
    return _scalar_binary(expression, _scalar(expression.left, slots), _scalar(expression.right, slots))


def _scalar_unary(expression: Not | Negate, inner: _Scalar) -> _Scalar:
    if isinstance(expression, Negate):
        return lambda values: negated(inner(values))

    def not_(values: Sequence[Value | None]) -> Value | None:
        held = truth(inner(values))
        return None if held is None else not held

    return not_


def _scalar_binary(expression: Compare | Arithmetic | And | Or, left: _Scalar, right: _Scalar) -> _Scalar:
    if isinstance(expression, Compare):
        comparison = expression.op
        return lambda values: compare(comparison, left(values), right(values))
    if isinstance(expression, Arithmetic):
        op = expression.op
        return lambda values: arithmetic(op, left(values), right(values))
    connective = and_ if isinstance(expression, And) else or_
    return lambda values: connective(truth(left(values)), truth(right(values)))


# ---- all rows at once, where all is integers -------------------------------------------------------------------

#: No inline integer is further from zero.
_INLINE_MAX = 1 << 59
_INT64_MAX = (1 << 63) - 1


class _TooWide(Exception):
    """An intermediate result might not fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class _Bounded:
    values: Integers | np.int64
    bound: int  # no value is further from zero


_Integral = Callable[[Sequence[Integers]], _Bounded]

_COMPARISONS: dict[CompareOp, Callable[[Any, Any], Mask]] = {
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class _IntegerLeaf:
    """`left op right` over integers; a number that stands alone is compared with 0."""

    op: CompareOp
    left: _Integral
    right: _Integral

    def truths(self, columns: Sequence[Integers]) -> Truths | None:
        """None if a number might become too wide."""
        try:
            left, right = self.left(columns), self.right(columns)
        except _TooWide:
            return None
        held = np.broadcast_to(_COMPARISONS[self.op](left.values, right.values), columns[0].shape)
        return np.where(held, np.int8(1), np.int8(-1))


def _integer_leaf(expression: Expression, slots: Mapping[str, int]) -> _IntegerLeaf | None:
    if isinstance(expression, Compare):
        left, right = _integral(expression.left, slots), _integral(expression.right, slots)
        return None if left is None or right is None else _IntegerLeaf(expression.op, left, right)
    alone = _integral(expression, slots)
    zero = _Bounded(np.int64(0), 0)
    return None if alone is None else _IntegerLeaf(CompareOp.NE, alone, lambda columns: zero)


def _integral(expression: Expression, slots: Mapping[str, int]) -> _Integral | None:
    """The expression over columns of integers; None if integers are not all that it can meet."""
    if isinstance(expression, Variable):
        return _column(slots[expression.name]) if expression.name in slots else None
    if isinstance(expression, Constant):
        return _constant(expression)
    if isinstance(expression, Negate):
        inner = _integral(expression.inner, slots)
        return None if inner is None else lambda columns: _negated(inner(columns))
    if isinstance(expression, Arithmetic) and expression.op is not ArithmeticOp.DIVIDE:
        left, right = _integral(expression.left, slots), _integral(expression.right, slots)
        if left is not None and right is not None:
            operate = _OPERATIONS[expression.op]
            return lambda columns: operate(left(columns), right(columns))
    return None


def _column(slot: int) -> _Integral:
    return lambda columns: _Bounded(columns[slot], _INLINE_MAX)


def _constant(expression: Constant) -> _Integral | None:
    value = value_of(expression.text)
    if type(value) is not int or abs(value) > _INT64_MAX:
        return None
    bounded = _Bounded(np.int64(value), abs(value))
    return lambda columns: bounded


def _negated(inner: _Bounded) -> _Bounded:
    return _Bounded(-inner.values, inner.bound)


def _added(left: _Bounded, right: _Bounded) -> _Bounded:
    return _Bounded(left.values + right.values, _checked(left.bound + right.bound))


def _subtracted(left: _Bounded, right: _Bounded) -> _Bounded:
    return _Bounded(left.values - right.values, _checked(left.bound + right.bound))


def _multiplied(left: _Bounded, right: _Bounded) -> _Bounded:
    # The widths that columns could have are of no use here; those that they have often are.
    bound = _checked(_width(left.values) * _width(right.values))
    return _Bounded(left.values * right.values, bound)


def _width(values: Integers | np.int64) -> int:
    return max(abs(int(np.min(values))), abs(int(np.max(values))))


def _checked(bound: int) -> int:
    if bound > _INT64_MAX:
        raise _TooWide
    return bound


_OPERATIONS: dict[ArithmeticOp, Callable[[_Bounded, _Bounded], _Bounded]] = {
    ArithmeticOp.ADD: _added,
    ArithmeticOp.SUBTRACT: _subtracted,
    ArithmeticOp.MULTIPLY: _multiplied,
}
