"""Vectors: what an expression is for each row, in the form that is cheapest at hand.

Terms      a column of ids, as it came
Factored   the distinct results in a pool, and for each row its place there
Truths     -1 (false), 0 (error) and 1 (true): && is then the minimum, || the maximum and ! the negative
Numbers    one array of numbers of one type; none is an error"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, Mask, frozen
from hbase_store.layout import terms
from stream_ext.evaluation_budget import Control
from stream_ext.rows.key_table import KeyTable
from stream_ext.values import known_values
from stream_ext.values.known_values import Facts, no_facts
from stream_ext.values.values import Opaque, Resource, Tagged, Value, text_of, value_of
from stream_ext.values.values.writing import decimal_text
from stream_ext.values.vocabulary import Vocabulary

Codes = npt.NDArray[np.int32]
#: Kinds whose numbers stand in arrays.
NUMERIC = frozenset(range(known_values.INTEGER, known_values.LOCAL + 1))
Picks = npt.NDArray[np.intp] | Codes | Mask
Values = list[Value | None]
Texts = list[bytes | None]


class Pool:
    """Distinct results, as values or as texts, whichever is asked for; None is an error in both."""

    __slots__ = ("_make_texts", "_texts", "_values", "ids")

    def __init__(
        self,
        values: Values | None = None,
        texts: Texts | None = None,
        make_texts: Callable[[], Texts] | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._values, self._texts, self._make_texts = values, texts, make_texts
        self.ids = ids  # where they are known; 0 for an error

    def __len__(self) -> int:
        return len(self.values if self._texts is None else self._texts)

    @property
    def values(self) -> Values:
        if self._values is None:
            self._values = [None if text is None else value_of(text) for text in self.texts]
        return self._values

    @property
    def texts(self) -> Texts:
        if self._texts is None:
            if self._make_texts is not None:
                self._texts = self._make_texts()
            else:
                self._texts = [None if value is None else text_of(value) for value in self.values]
        return self._texts

    def present(self) -> Mask:
        """Which are no errors."""
        either: Sequence[object] = self.values if self._texts is None else self._texts
        return np.fromiter((item is not None for item in either), np.bool_, len(either))


def joined(pools: Sequence[Pool]) -> Pool:
    """All of them in a row; values that are known stay exactly as they are."""
    values = [value for pool in pools for value in pool.values]
    return Pool(values, make_texts=lambda: [text for pool in pools for text in pool.texts])


@dataclass(frozen=True, slots=True)
class Factored:
    pool: Pool
    codes: Codes | None  # None: the pool has one result, for all rows
    numbers: NumericVector | None = None  # that one result, where it is known to be a number


@dataclass(frozen=True, slots=True)
class Truths:
    of_rows: npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class NumericVector:
    kind: int  # known_values.INTEGER, DECIMAL, FLOAT, DOUBLE; ZONED and LOCAL times only to be compared
    of_rows: npt.NDArray[Any]  # int64, float32 or float64; without an axis: one for all rows
    scale: int = 0  # DECIMAL: they stand for themselves divided by 10 ** scale


#: So few rows go value by value: arrays of a few numbers take longer.
FEW = 8
_EACH = [frozen(np.arange(count, dtype=np.int32)) for count in range(FEW + 1)]


class Terms:
    """A column of ids; what is computed about it is remembered."""

    __slots__ = (
        "_control",
        "_factored",
        "_facts",
        "_inline",
        "_numbers",
        "_vocabulary",
        "codes",
        "distinct",
        "of_rows",
    )

    def __init__(self, ids: Ids, vocabulary: Vocabulary, control: Control = Control.FREE) -> None:
        self.of_rows, self._vocabulary, self._control = ids, vocabulary, control
        self._inline: bool | None = None
        self.distinct: Ids | None = None
        self.codes: Codes | None = None
        self._facts: Facts | None = None
        self._factored: Factored | None = None
        self._numbers: NumericVector | bool | None = False  # False: not looked for yet

    @property
    def are_inline(self) -> bool:
        """Whether all are integers that stand in their ids."""
        if self._inline is None:
            self._inline = bool((terms.tag_of(self.of_rows) == terms.INTEGER).all())
        return self._inline

    def factors(self) -> tuple[Ids, Codes]:
        if self.distinct is None or self.codes is None:
            keys, self.codes = factorised([self.of_rows])
            self.distinct = keys[0]
        return self.distinct, self.codes

    def facts(self) -> Facts:
        """Of the distinct ids."""
        if self._facts is None:
            distinct, _ = self.factors()
            self._facts = _facts_of(distinct, self._vocabulary, self._control)
        return self._facts

    def factored(self) -> Factored:
        if self._factored is None and len(self.of_rows) <= FEW:
            self._factored = Factored(self._each(), _EACH[len(self.of_rows)])
        if self._factored is None:
            distinct, codes = self.factors()
            facts = self.facts()
            self._factored = Factored(
                Pool(facts.values.tolist(), make_texts=lambda: _texts_of(distinct, facts), ids=distinct), codes
            )
        return self._factored

    def _each(self) -> Pool:
        """One by one, whether or not they are distinct."""
        ids, decode = self.of_rows, self._vocabulary.decode
        listed = ids.tolist()
        return Pool(
            self._vocabulary.values(listed),
            make_texts=lambda: [None if not id else decode(ids[i : i + 1])[0] for i, id in enumerate(listed)],
            ids=ids,
        )

    def numbers(self) -> NumericVector | None:
        """If they are all of one kind of numbers."""
        if self._numbers is False:
            self._numbers = self._read_numbers()
        return self._numbers  # type: ignore[return-value]  # no longer False

    def kinds(self) -> npt.NDArray[np.uint8] | int:
        """Of each row, or the one of all rows."""
        if self.are_inline:
            return known_values.INTEGER
        of_distinct = self.facts().kinds
        first = int(of_distinct[0])
        return first if bool((of_distinct == first).all()) else of_distinct[self.factors()[1]]

    def _read_numbers(self) -> NumericVector | None:
        if self.are_inline:
            return NumericVector(known_values.INTEGER, terms.inline_integers(self.of_rows))
        kind = self.kinds()
        if not isinstance(kind, int) or kind not in NUMERIC:
            return None
        facts, (_, codes) = self.facts(), self.factors()
        if kind == known_values.DOUBLE:
            return NumericVector(kind, facts.doubles[codes])
        if kind == known_values.FLOAT:
            return NumericVector(kind, facts.doubles.astype(np.float32)[codes])
        if kind != known_values.DECIMAL:
            return NumericVector(kind, facts.exact[codes])
        scale = int(facts.scales.max())
        factors = 10 ** (scale - facts.scales.astype(np.int64))
        if (np.abs(facts.exact) > (1 << 62) // factors).any():
            return None
        return NumericVector(kind, (facts.exact * factors)[codes], scale)


Vector = Terms | Factored | Truths | NumericVector


def factorised(columns: Sequence[npt.NDArray[np.generic]]) -> tuple[Ids, Codes]:
    """The distinct rows, a line for each column, and the number of each row among them."""
    width = len(columns)
    if width == 1:
        rows = np.ascontiguousarray(columns[0]).astype(np.uint64, copy=False)[None, :]
    else:
        rows = np.stack([column.astype(np.uint64) for column in columns])
    table = KeyTable(width)
    codes = table.number(rows)
    return np.ascontiguousarray(table.cells[: table.used].T).view(np.uint64), codes


def _facts_of(ids: Ids, vocabulary: Vocabulary, control: Control) -> Facts:
    """The facts of terms; integers are in their ids, and 0 has none."""
    inline = terms.tag_of(ids) == terms.INTEGER
    others = ~inline & (ids != 0)
    if others.all():
        return vocabulary.facts(ids, control)
    facts = no_facts(len(ids))
    integers = terms.inline_integers(ids[inline])
    facts.kinds[inline] = known_values.INTEGER
    facts.exact[inline] = integers
    facts.values[inline] = np.array(integers.tolist(), np.object_)
    if others.any():
        facts.put(others, vocabulary.facts(ids[others], control))
    return facts


def _texts_of(ids: Ids, facts: Facts) -> Texts:
    texts: Texts = facts.texts.tolist()
    for i in np.flatnonzero(terms.tag_of(ids) == terms.INTEGER).tolist():
        texts[i] = terms.inline_text(int(ids[i]))
    return texts


def constant_numbers(value: Value | None) -> NumericVector | None:
    """One number for all rows, if it is one that fits into an array."""
    if value is None or isinstance(value, (str, bool, Resource, Tagged, Opaque)):
        return None
    facts = no_facts(1)
    known_values.classify(facts, 0, value)
    kind = int(facts.kinds[0])
    if kind not in NUMERIC:
        return None
    if kind in (known_values.FLOAT, known_values.DOUBLE):
        width = np.float32 if kind == known_values.FLOAT else np.float64
        return NumericVector(kind, np.asarray(facts.doubles[0], width))
    return NumericVector(kind, np.asarray(facts.exact[0]), int(facts.scales[0]))


def pool_of_numbers(numbers: NumericVector, picked: npt.NDArray[np.generic]) -> Pool:
    """Some of its numbers."""
    listed = picked.tolist()
    if numbers.kind == known_values.DECIMAL:
        values: Values = [Decimal(number).scaleb(-numbers.scale) for number in listed]
        return Pool(values, make_texts=lambda: [decimal_text(number, numbers.scale) for number in listed])
    return Pool(list(map(np.float32, listed)) if numbers.kind == known_values.FLOAT else listed)


def numbers_of_values(values: Values) -> NumericVector | None:
    """If they are all integers or all doubles, of a size that arrays hold."""
    types = set(map(type, values))
    if types == {float}:
        return NumericVector(known_values.DOUBLE, np.array(values, np.float64))
    if types != {int}:
        return None
    try:
        return NumericVector(known_values.INTEGER, np.array(values, np.int64))
    except OverflowError:
        return None
