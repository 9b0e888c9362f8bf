"""Rows: the input of an expression, and the conversion of vectors from one form to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from sys import getsizeof
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, Mask
from hbase_store.layout import terms
from stream_ext.evaluation_budget import Control
from stream_ext.values import known_values
from stream_ext.values.expressions.vectors import (
    FEW,
    Codes,
    Factored,
    NumericVector,
    Pool,
    Terms,
    Truths,
    Vector,
    constant_numbers,
    factorised,
    joined,
    numbers_of_values,
    pool_of_numbers,
)
from stream_ext.values.functions import ArgumentView, CustomFunction, Function, Makes
from stream_ext.values.values import Opaque, Resource, Tagged, Value, truth
from stream_ext.values.vocabulary import Vocabulary

_INLINE_MAX = 1 << 59
#: Results before the first look at what they take.
_AT_ONCE_LEAST = 64
Part = tuple[npt.NDArray[np.intp], Vector]


class ExpressionContext(msgspec.Struct, frozen=True, eq=False):
    """All that expressions depend on except their rows."""

    vocabulary: Vocabulary
    now_ms: int = 0
    seed: bytes = b""  # chance is a function of it: another one for each step
    base: str = ""
    functions: Mapping[str, CustomFunction] = msgspec.field(default_factory=dict)
    control: Control = Control.FREE


class Rows:
    """Some rows under the columns of an expression; each column is looked into once."""

    __slots__ = ("_columns", "_terms", "count", "numbers", "scope", "total")

    def __init__(
        self,
        columns: Sequence[Ids],
        scope: ExpressionContext,
        count: int,
        numbers: npt.NDArray[np.intp] | None = None,
        total: int | None = None,
    ) -> None:
        self._columns, self.scope, self.count = columns, scope, count
        self.numbers = numbers  # of each row among all; None: they are all
        self.total = count if total is None else total  # how many those are
        self._terms: dict[int, Terms] = {}

    def column(self, at: int) -> Terms:
        if at not in self._terms:
            self._terms[at] = Terms(self._columns[at], self.scope.vocabulary, self.scope.control)
        return self._terms[at]

    def some(self, which: npt.NDArray[np.intp], used: Iterable[int]) -> Rows:
        """Some of the rows; `used` are the columns that will be looked at."""
        columns: list[Ids] = [self._columns[0][:0]] * len(self._columns) if self._columns else []
        for at in used:
            columns[at] = self._columns[at][which]
        numbers = which if self.numbers is None else self.numbers[which]
        return Rows(columns, self.scope, len(which), numbers, self.total)

    # ---- from one form to another

    def truths(self, vector: Vector) -> npt.NDArray[np.int8]:
        if isinstance(vector, Truths):
            return vector.of_rows
        if isinstance(vector, Terms):
            if vector.are_inline:
                return signs(terms.inline_integers(vector.of_rows) != 0, self.count)
            vector = vector.factored()
        if isinstance(vector, NumericVector):
            booleans = (vector.of_rows != 0) & (vector.of_rows == vector.of_rows)  # NaN is false
            return signs(np.asarray(booleans), self.count)
        found = truths_of(vector.pool.values)
        return np.repeat(found, self.count) if vector.codes is None else found[vector.codes]

    def factored(self, vector: Vector) -> Factored:
        if isinstance(vector, Factored):
            return vector
        if isinstance(vector, Terms):
            return vector.factored()
        if isinstance(vector, Truths):
            return Factored(Pool([False, None, True]), (vector.of_rows + 1).astype(np.int32))
        if not vector.of_rows.ndim:
            return Factored(pool_of_numbers(vector, vector.of_rows[None]), None)
        distinct, codes = _bits_factorised(vector.of_rows)
        self.scope.control.spend(_OBJECT * len(distinct))
        return Factored(pool_of_numbers(vector, distinct), codes)

    def ids(self, vector: Vector) -> Ids:
        if isinstance(vector, Terms):
            return vector.of_rows
        if isinstance(vector, NumericVector) and vector.kind == known_values.INTEGER and vector.of_rows.ndim:
            whole = vector.of_rows.astype(np.int64, copy=False)
            if not len(whole) or (int(whole.min()) >= -_INLINE_MAX and int(whole.max()) < _INLINE_MAX):
                return terms.integer_ids(whole)
        factored = self.factored(vector)
        of_pool = _pool_ids(factored.pool, self.scope.vocabulary)
        return np.repeat(of_pool, self.count) if factored.codes is None else of_pool[factored.codes]

    def numbers_of(self, vector: Vector) -> NumericVector | None:
        """None where not all are numbers of one type, or not of a size that arrays hold."""
        if isinstance(vector, NumericVector):
            return vector
        if isinstance(vector, Terms):
            return vector.numbers()
        if not isinstance(vector, Factored):
            return None
        if vector.codes is None:
            return vector.numbers or constant_numbers(vector.pool.values[0])
        of_pool = numbers_of_values(vector.pool.values)
        return None if of_pool is None else NumericVector(of_pool.kind, of_pool.of_rows[vector.codes])

    def values_of_few(self, *vectors: Vector) -> list[list[Value | None]] | None:
        """Row by row, if the rows are few, and each vector is of terms or of one constant."""
        if self.count > FEW:
            return None
        found: list[list[Value | None]] = []
        for vector in vectors:
            if isinstance(vector, Terms):
                found.append(self.scope.vocabulary.values(vector.of_rows.tolist()))
            elif isinstance(vector, Factored) and vector.codes is None:
                found.append(vector.pool.values * self.count)
            else:
                return None
        return found

    def present(self, vector: Vector) -> Mask:
        """The rows in which it is no error."""
        match vector:
            case Terms():
                return np.asarray(vector.of_rows != 0)
            case Truths():
                return np.asarray(vector.of_rows != 0)
            case NumericVector():
                return np.ones(self.count, np.bool_)
            case Factored(pool, None):
                return np.repeat(pool.present(), self.count)
            case Factored(pool, codes):
                return pool.present()[codes]

    def assembled(self, parts: Sequence[Part]) -> Vector:
        """One vector from those of disjoint rows; a row in none of them is an error."""
        if len(parts) == 1 and len(parts[0][0]) == self.count:
            return parts[0][1]
        vectors = [vector for _, vector in parts]
        if vectors and all(isinstance(vector, Truths) for vector in vectors):
            truths = np.zeros(self.count, np.int8)
            for which, vector in parts:
                truths[which] = self.truths(vector)
            return Truths(truths)
        if vectors and all(map(_is_term, vectors)):
            ids = np.zeros(self.count, np.uint64)
            for which, vector in parts:
                ids[which] = self.ids(vector) if isinstance(vector, Terms) else self._constant_id(vector)
            return Terms(ids, self.scope.vocabulary, self.scope.control)
        return self._assembled_pools([(which, self.factored(vector)) for which, vector in parts])

    def _constant_id(self, vector: Vector) -> np.uint64:
        assert isinstance(vector, Factored)
        return np.uint64(_pool_ids(vector.pool, self.scope.vocabulary)[0])

    def _assembled_pools(self, parts: Sequence[tuple[npt.NDArray[np.intp], Factored]]) -> Factored:
        codes = np.zeros(self.count, np.int32)
        pools, size = [Pool([None])], 1
        for which, factored in parts:
            codes[which] = size if factored.codes is None else factored.codes + np.int32(size)
            pools.append(factored.pool)
            size += len(factored.pool)
        return Factored(joined(pools), codes)


# ---- functions over pools ----------------------------------------------------------------------------------------


def applied(
    control: Control,
    arguments: Sequence[Factored],
    lists: Sequence[list[Any]],
    function: Function,
    bound: Callable[[Any], Any] | None = None,
) -> Factored:
    """`function` once for each distinct combination of arguments (`lists`: their pools in the form it takes); `bound`:
    with the arguments behind the first."""
    combined, codes = _combined(arguments)
    columns: list[Any] = []
    count = 1
    for i, items in enumerate(lists):
        picks = combined[i]
        if arguments[i].codes is None:
            columns.append(items if codes is None else repeat(items[0]))
        else:
            columns.append(items if picks is None else [items[pick] for pick in picks])
            count = len(columns[-1])
    call: Callable[..., Any] = bound or (function.apply if function.within is None else function.within(control))
    if columns:
        results = _called(control, call, columns, count, function)
    else:
        results = [call()]
        control.spend(_SIZES[function.makes](results))
    return Factored(Pool(texts=results) if function.gives is ArgumentView.TEXTS else Pool(results), codes)


def _called(
    control: Control, call: Callable[..., Any], columns: Sequence[Any], count: int, function: Function
) -> list[Any]:
    """All results. After the first few, and then after more and more, it is looked whether there is time and room for
    the next."""
    size_of, at_once = _SIZES[function.makes], min(_AT_ONCE_LEAST, function.at_once_max)
    of_many = getattr(call, "of_many", None)  # one that has it is of one argument
    if count <= at_once:
        results = list(map(call, *columns))
        control.spend(size_of(results))
        return results
    results = []
    for start, end in _parts(count, at_once, function.at_once_max):
        some = [column[start:end] if isinstance(column, list) else column for column in columns]
        batch = list(map(call, *some)) if of_many is None else of_many(*some)
        control.spend(size_of(batch))
        control.check()
        results += batch
    return results


def _parts(count: int, at_once: int, most: int) -> Iterator[tuple[int, int]]:
    """Where each of the parts begins and ends; each is twice as long as the one before."""
    start = 0
    while start < count:
        end = min(count, start + at_once)
        yield start, end
        start, at_once = end, min(2 * at_once, most)


def _combined(arguments: Sequence[Factored]) -> tuple[list[list[int] | None], Codes | None]:
    """For each argument the places in its pool that make the combinations (None: as they are), and each row's."""
    varying = [i for i, argument in enumerate(arguments) if argument.codes is not None]
    none: list[list[int] | None] = [None] * len(arguments)
    if not varying:
        return none, None
    first = arguments[varying[0]].codes
    if all(arguments[i].codes is first for i in varying):
        return none, first
    distinct, codes = factorised([_codes_of(arguments[i]) for i in varying])
    for line, i in enumerate(varying):
        none[i] = distinct[line].tolist()
    return none, codes


def _codes_of(argument: Factored) -> Codes:
    assert argument.codes is not None
    return argument.codes


# ---- what results take in memory -------------------------------------------------------------------------------------

#: Of a Python object and of the reference to it.
_OBJECT = 64


def _of_terms(results: Sequence[Any]) -> int:
    try:
        size = sum(map(str.__len__, results))
    except TypeError:  # mostly they are strings
        size = sum(map(_size, results))
    return size + _OBJECT * len(results)


def _size(result: Any) -> int:
    if isinstance(result, Tagged):
        return len(result.lexical)
    if isinstance(result, (Resource, Opaque)):
        return len(result.text)
    return len(result) if isinstance(result, (str, bytes)) else getsizeof(result)


_SIZES: Mapping[Makes, Callable[[Sequence[Any]], int]] = {
    Makes.SMALL: lambda results: _OBJECT * len(results),
    Makes.NUMBERS: lambda results: sum(map(getsizeof, results)),
    Makes.TERMS: _of_terms,
}


# ---- small change ----------------------------------------------------------------------------------------------------


def signs(booleans: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.int8]:
    """Truths without errors; `booleans` may be a single one for all rows."""
    if not booleans.ndim:
        return np.full(count, 1 if booleans else -1, np.int8)
    truths = booleans.astype(np.int8)
    truths += truths
    truths -= 1
    return truths


def truths_of(values: list[Value | None]) -> npt.NDArray[np.int8]:
    """-1 for false, 0 for an error, 1 for true."""
    if len(values) <= FEW:
        return np.array([(booleans is True) - (booleans is False) for booleans in map(truth, values)], np.int8)
    if not set(map(type, values)) <= {bool, type(None)}:
        values = list(map(truth, values))
    booleans = np.array(values, np.object_)
    truths: npt.NDArray[np.int8] = (booleans == True).astype(np.int8)  # noqa: E712  # of arrays
    truths -= booleans == False  # noqa: E712
    return truths


def _is_term(vector: Vector) -> bool:
    return isinstance(vector, Terms) or (isinstance(vector, Factored) and vector.codes is None)


def _bits_factorised(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Codes]:
    """By their bits: -0.0 is not 0.0, and NaN is itself."""
    bits = numbers.view(np.uint32) if numbers.dtype == np.float32 else numbers.view(np.uint64)
    distinct, codes = factorised([bits])
    return distinct[0].astype(bits.dtype).view(numbers.dtype), codes


def _pool_ids(pool: Pool, vocabulary: Vocabulary) -> Ids:
    """All that have no id yet are encoded in one batch."""
    ids = np.zeros(len(pool), np.uint64) if pool.ids is None else pool.ids
    if pool.ids is None:
        texts = pool.texts
        there = [i for i, text in enumerate(texts) if text is not None]
        if there:
            ids[there] = vocabulary.encode([text for text in texts if text is not None])
        pool.ids = ids
    return ids
