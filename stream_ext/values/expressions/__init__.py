"""Expressions over columns of ids (SPARQL 1.1, section 17): which rows a filter keeps, what BIND binds.

    compile_condition(expression, variables).mask(columns, scope)     the rows for which it is true
    compile_value(expression, variables).ids(columns, scope)          its value in each row, 0 for an error

A compiled expression is a tree of nodes; each gives a *vector* for the rows: the ids as they came, truth values, an
array of numbers, or the distinct results and which row has which. So work is done on ids and arrays where those
decide, and else once for each distinct term or combination of terms, not once for each row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from hbase_store.arrays import Ids, Mask
from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.algebra.volatile import is_of_the_moment
from stream_ext.values.expressions.compiling import compiled
from stream_ext.values.expressions.nodes import Node
from stream_ext.values.expressions.rows import ExpressionContext, Rows

__all__ = ["Columns", "Computed", "Condition", "ExpressionContext", "compile_condition", "compile_value"]

#: The names of the columns, in their order; or of those that are seen, each with its place.
Columns = tuple[str, ...] | Mapping[str, int]

#: Rows at once: what is decoded for them bounds the memory.
_CHUNK = 1 << 17


class Condition:
    """A compiled condition. `is_volatile`: for the same row, the result may be different at another time."""

    __slots__ = ("_root", "is_volatile")

    def __init__(self, root: Node, is_volatile: bool) -> None:
        self._root, self.is_volatile = root, is_volatile

    def mask(self, columns: Sequence[Ids], scope: ExpressionContext, count: int | None = None) -> Mask:
        """The rows for which the condition is true. `count` says how many there are where there is no column."""
        spent, parts = scope.control.spent, []
        for rows in _chunks(columns, scope, count):
            parts.append(rows.truths(self._root.evaluate(rows)) > 0)
            scope.control.return_to(spent)
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, np.bool_)


class Computed:
    """A compiled expression. `is_volatile`: the same row may have another value at another time."""

    __slots__ = ("_root", "is_volatile")

    def __init__(self, root: Node, is_volatile: bool) -> None:
        self._root, self.is_volatile = root, is_volatile

    def ids(self, columns: Sequence[Ids], scope: ExpressionContext, count: int | None = None) -> Ids:
        control, vocabulary = scope.control, scope.vocabulary
        spent, parts = control.spent, []
        for rows in _chunks(columns, scope, count):
            before = vocabulary.created_bytes
            parts.append(rows.ids(self._root.evaluate(rows)))
            spent += vocabulary.created_bytes - before
            control.return_to(spent)
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def compile_condition(expression: Expression, variables: Columns, resources: frozenset[str] = frozenset()) -> Condition:
    """`variables` names the columns; one that is not among them is unbound: an error in SPARQL.

    `resources` are variables that never are literals (subjects, predicates, graphs): these are compared by id."""
    columns = _columns(variables)
    root = compiled(expression, columns, _places(resources, columns), only_true=True)
    return Condition(root, is_of_the_moment(expression))


def compile_value(expression: Expression, variables: Columns, resources: frozenset[str] = frozenset()) -> Computed:
    columns = _columns(variables)
    return Computed(compiled(expression, columns, _places(resources, columns)), is_of_the_moment(expression))


def _columns(variables: Columns) -> Mapping[str, int]:
    return variables if isinstance(variables, Mapping) else {name: i for i, name in enumerate(variables)}


def _places(names: frozenset[str], columns: Mapping[str, int]) -> frozenset[int]:
    return frozenset(place for name, place in columns.items() if name in names)


def _chunks(columns: Sequence[Ids], scope: ExpressionContext, count: int | None) -> Iterable[Rows]:
    if count is None:
        count = len(columns[0]) if columns else 0
    if count <= _CHUNK:
        return [Rows(columns, scope, count)] if count else []
    return map(partial(_chunk, columns, scope, count), range(0, count, _CHUNK))


def _chunk(columns: Sequence[Ids], scope: ExpressionContext, count: int, start: int) -> Rows:
    scope.control.check()
    end = min(start + _CHUNK, count)
    return Rows([column[start:end] for column in columns], scope, end - start, np.arange(start, end), count)
