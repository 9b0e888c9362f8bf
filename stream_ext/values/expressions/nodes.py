"""The nodes of a compiled expression: each gives a vector for some rows.

Arithmetic and comparison try whole arrays first (`arrays`), and go value by value, once for each distinct combination,
where that is not possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stream_ext.language.algebra.formulas import ArithmeticOp, CompareOp
from stream_ext.values.expressions.arrays import calculate_arrays, compare_arrays, negate_array
from stream_ext.values.expressions.rows import Part, Rows, applied, signs, truths_of
from stream_ext.values.expressions.vectors import (
    FEW,
    NUMERIC,
    Factored,
    NumericVector,
    Pool,
    Truths,
    Vector,
    constant_numbers,
)
from stream_ext.values.functions import ArgumentView, Function, Makes
from stream_ext.values.values import Value, arithmetic, compare, negated, value_of

Indices = npt.NDArray[np.intp]
#: Rows of mixed types are split by their types; of more types than this they go value by value.
_GROUPS_MAX = 6


class Node(Protocol):
    @property
    def used(self) -> frozenset[int]:
        """The columns that it looks at."""

    def evaluate(self, rows: Rows) -> Vector: ...


@dataclass(frozen=True, slots=True)
class Column:
    at: int

    @property
    def used(self) -> frozenset[int]:
        return frozenset((self.at,))

    def evaluate(self, rows: Rows) -> Vector:
        return rows.column(self.at)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant, or an error (None) in all rows."""

    text: bytes | None
    value: Value | None
    numbers: NumericVector | None
    used: frozenset[int] = frozenset()

    @classmethod
    def of(cls, text: bytes | None) -> Fixed:
        value = None if text is None else value_of(text)
        return cls(text, value, constant_numbers(value))

    def evaluate(self, rows: Rows) -> Vector:
        return Factored(Pool([self.value], [self.text]), None, self.numbers)


@dataclass(frozen=True, slots=True)
class Bound:
    at: int

    @property
    def used(self) -> frozenset[int]:
        return frozenset((self.at,))

    def evaluate(self, rows: Rows) -> Vector:
        return Truths(signs(rows.column(self.at).of_rows != 0, rows.count))


# ---- connectives -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Both:
    """&&. Where only truth matters, the right side is asked only of the rows that the left one leaves."""

    left: Node
    right: Node
    only_true: bool
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        left = rows.truths(self.left.evaluate(rows))
        if not self.only_true:
            return Truths(np.minimum(left, rows.truths(self.right.evaluate(rows))))
        which = np.flatnonzero(left > 0)
        if len(which) == rows.count:
            return Truths(rows.truths(self.right.evaluate(rows)))
        results = np.full(rows.count, -1, np.int8)
        if len(which):
            some = rows.some(which, self.right.used)
            results[which] = some.truths(self.right.evaluate(some))
        return Truths(results)


@dataclass(frozen=True, slots=True)
class Disjunction:
    left: Node
    right: Node
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        return Truths(np.maximum(rows.truths(self.left.evaluate(rows)), rows.truths(self.right.evaluate(rows))))


@dataclass(frozen=True, slots=True)
class Opposite:
    inner: Node

    @property
    def used(self) -> frozenset[int]:
        return self.inner.used

    def evaluate(self, rows: Rows) -> Vector:
        return Truths(-rows.truths(self.inner.evaluate(rows)))


# ---- operators on values ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    op: CompareOp
    left: Node
    right: Node
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        left, right = self.left.evaluate(rows), self.right.evaluate(rows)
        if (few := rows.values_of_few(left, right)) is not None:
            return Truths(truths_of(list(map(partial(compare, self.op), *few))))
        a = rows.numbers_of(left) if rows.count > FEW else None
        b = rows.numbers_of(right) if a is not None else None
        results = compare_arrays(self.op, a, b) if a is not None and b is not None else None
        if results is not None:
            return Truths(signs(results, rows.count))
        return _by_value(rows, Function(partial(compare, self.op)), left, right)


@dataclass(frozen=True, slots=True)
class Calculation:
    op: ArithmeticOp
    left: Node
    right: Node
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        left, right = self.left.evaluate(rows), self.right.evaluate(rows)
        a = rows.numbers_of(left)
        b = rows.numbers_of(right) if a is not None else None
        found = calculate_arrays(self.op, a, b) if a is not None and b is not None else None
        if found is not None:
            return found
        return _by_value(rows, Function(partial(arithmetic, self.op), makes=Makes.NUMBERS), left, right)


@dataclass(frozen=True, slots=True)
class Negative:
    inner: Node

    @property
    def used(self) -> frozenset[int]:
        return self.inner.used

    def evaluate(self, rows: Rows) -> Vector:
        inner = self.inner.evaluate(rows)
        numbers = rows.numbers_of(inner)
        found = None if numbers is None else negate_array(numbers)
        return _by_value(rows, Function(negated, makes=Makes.NUMBERS), inner) if found is None else found


def _by_value(rows: Rows, function: Function, *vectors: Vector) -> Vector:
    arguments = [rows.factored(vector) for vector in vectors]
    return applied(rows.scope.control, arguments, [argument.pool.values for argument in arguments], function)


@dataclass(frozen=True, slots=True)
class ByKind:
    """Works an operator out apart for rows of different types, so that each is an array of one type."""

    inner: Node
    numeric: tuple[int, ...]  # the columns that meet as numbers

    @property
    def used(self) -> frozenset[int]:
        return self.inner.used

    def evaluate(self, rows: Rows) -> Vector:
        kinds = self._kinds(rows) if rows.count > FEW else None
        if kinds is None:
            return self.inner.evaluate(rows)
        present = np.flatnonzero(np.bincount(kinds))
        if not 1 < len(present) <= _GROUPS_MAX:
            return self.inner.evaluate(rows)
        parts: list[Part] = []
        for kind in present.tolist():
            which = np.flatnonzero(kinds == kind)
            parts.append((which, self.inner.evaluate(rows.some(which, self.used))))
        return rows.assembled(parts)

    def _kinds(self, rows: Rows) -> npt.NDArray[np.int64] | None:
        """For each row, the types of its numbers as one number; 0 if a value is no number. None: it is the same for all
        rows."""
        combined: npt.NDArray[np.int64] | None = None
        others: npt.NDArray[np.bool_] | None = None
        for at in self.numeric:
            kinds = rows.column(at).kinds()
            if isinstance(kinds, int):
                if kinds not in NUMERIC:
                    return None  # all rows go value by value anyway
                continue
            no_number = _IS_NO_NUMBER[kinds]
            others = no_number if others is None else others | no_number
            wide = kinds.astype(np.int64)
            combined = wide if combined is None else combined * 16 + wide
        if combined is None or others is None:
            return None
        combined[others] = 0
        return combined


_IS_NO_NUMBER = ~np.isin(np.arange(16), list(NUMERIC))


# ---- functions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of its arguments and of nothing else."""

    function: Function
    arguments: tuple[Node, ...]
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        function, control = self.function, rows.scope.control
        arguments = [rows.factored(argument.evaluate(rows)) for argument in self.arguments]
        lists = _lists(arguments, function.takes)
        if function.bind is not None and all(argument.codes is None for argument in arguments[1:]):
            bound = function.bind(control, *(items[0] for items in lists[1:]))
            return applied(control, arguments[:1], lists[:1], function, bound)
        return applied(control, arguments, lists, function)


def _lists(arguments: Sequence[Factored], view: ArgumentView) -> list[list[Any]]:
    if view is ArgumentView.TEXTS:
        return [argument.pool.texts for argument in arguments]
    return [argument.pool.values for argument in arguments]


@dataclass(frozen=True, slots=True)
class ApplyInScope:
    """A function that the scope makes: with its base, or by the name of a custom function."""

    make: Callable[[Rows], Function]
    arguments: tuple[Node, ...]
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        return Apply(self.make(rows), self.arguments, self.used).evaluate(rows)


# ---- choices ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """IF: each branch is worked out only for its rows; where the condition is an error, so is the whole."""

    condition: Node
    then: Node
    otherwise: Node
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        results = rows.truths(self.condition.evaluate(rows))
        branches = ((self.then, np.flatnonzero(results > 0)), (self.otherwise, np.flatnonzero(results < 0)))
        return rows.assembled([(which, _evaluated(node, rows, which)) for node, which in branches if len(which)])


@dataclass(frozen=True, slots=True)
class FirstOf:
    """COALESCE: the first that is no error; each is asked only of the rows that none before has answered."""

    nodes: tuple[Node, ...]
    used: frozenset[int]

    def evaluate(self, rows: Rows) -> Vector:
        waiting: Indices = np.arange(rows.count)
        parts: list[Part] = []
        for node in self.nodes:
            if not len(waiting):
                break
            some = rows if len(waiting) == rows.count else rows.some(waiting, node.used)
            vector = node.evaluate(some)
            present = some.present(vector)
            parts.append((waiting, vector))
            waiting = waiting[~present]
        return rows.assembled(parts) if parts else Factored(Pool([None]), None)


def _evaluated(node: Node, rows: Rows, which: Indices) -> Vector:
    return node.evaluate(rows if len(which) == rows.count else rows.some(which, node.used))
