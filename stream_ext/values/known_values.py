"""Known values: a cache of the values of ids, from one evaluation to the next.

To work on the value of a term, its text is decoded and read, which costs a microsecond or two. A query that runs again,
or a stream that brings the same terms again, should not pay that twice. So values stay, by id, together with what
lets whole columns of numbers and times be worked on at once: the number itself in an array. What is kept is bounded;
when there is too much of it, all is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids
from hbase_store.memory_only import ShortLock, must_not_wait
from stream_ext.evaluation_budget import Control
from stream_ext.rows.key_table import KeyTable, fitted
from stream_ext.values.decoding import decoded_within
from stream_ext.values.values import Resource, Timed, Value, value_of
from stream_ext.values.values.kinds import DATETIME

Decode = Callable[[Ids], list[bytes]]
Objects = npt.NDArray[np.object_]

#: Kinds. Numbers have the rank that promotion gives them (`plan.values.numbers`), plus one.
OTHER, INTEGER, DECIMAL, FLOAT, DOUBLE, ZONED, LOCAL, IRI, BLANK = range(9)
#: Times are counted in microseconds; those that are finer have only their value.
_TICKS = 10**6

_ENTRIES_MAX: Final = 1 << 18
_BYTES_MAX: Final = 32 << 20
_EXACT_MAX = 1 << 62
_SCALE_MAX = 18


@dataclass(frozen=True, slots=True)
class Facts:
    """Types and values of some ids, in parallel arrays."""

    kinds: npt.NDArray[np.uint8]
    exact: npt.NDArray[np.int64]  # of INTEGER, ZONED and LOCAL; of DECIMAL times 10 to the power of its scale
    scales: npt.NDArray[np.uint8]
    doubles: npt.NDArray[np.float64]  # of FLOAT and DOUBLE
    values: Objects
    texts: Objects

    def take(self, picks: npt.NDArray[Any]) -> Facts:
        return Facts(*(array[picks] for array in self._arrays()))

    def put(self, where: npt.NDArray[Any], other: Facts) -> None:
        for mine, given in zip(self._arrays(), other._arrays(), strict=True):
            mine[where] = given

    def fitted(self, capacity: int) -> Facts:
        return Facts(*(fitted(array, capacity) for array in self._arrays()))

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return (self.kinds, self.exact, self.scales, self.doubles, self.values, self.texts)


def no_facts(count: int) -> Facts:
    return Facts(
        np.zeros(count, np.uint8),
        np.zeros(count, np.int64),
        np.zeros(count, np.uint8),
        np.zeros(count, np.float64),
        np.full(count, None, np.object_),
        np.full(count, None, np.object_),
    )


class KnownValues:
    """Safe to use from several threads. An id means the same term for as long as this lives."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._lock = ShortLock()
        self._forget()

    def _forget(self) -> None:
        # Made when it is needed: many a vocabulary is never asked.
        self._slots: KeyTable | None = None
        self._facts: Facts | None = None
        self._by_id: dict[int, Value] = {}
        self._bytes = 0

    def facts(self, ids: Ids, control: Control = Control.FREE) -> Facts:
        """None of `ids` is 0, and there is at least one."""
        if must_not_wait():
            self._decode(ids)  # before they are numbered: what cannot be read now would make all be forgotten
        with self._lock:
            if self._slots is None:
                self._slots = KeyTable(1)
            table, known = self._slots, self._slots.used
            slots = table.number(np.ascontiguousarray(ids)[None, :])
            if table.used > known:
                self._facts = self._learned(table, known, control)
            assert self._facts is not None  # ids are not empty, so that some were learned
            found = self._facts.take(slots)
            if table.used > _ENTRIES_MAX or self._bytes > _BYTES_MAX:
                self._forget()
            return found

    def values(self, ids: list[int], control: Control = Control.FREE) -> list[Value]:
        """The values of a few ids, none of them 0, looked up one by one: for few that is faster than arrays."""
        found = list(map(self._by_id.get, ids))
        if None not in found:
            return cast(list[Value], found)
        missing = [id for id, value in zip(ids, found, strict=True) if value is None]
        texts = decoded_within(self._decode, np.array(missing, np.uint64), control)
        learned = dict(zip(missing, map(value_of, texts), strict=True))
        with self._lock:
            if len(self._by_id) > _ENTRIES_MAX or self._bytes > _BYTES_MAX:
                self._forget()
            self._by_id.update(learned)
            self._bytes += sum(map(len, texts))
        return [learned[id] if value is None else value for id, value in zip(ids, found, strict=True)]

    def _learned(self, table: KeyTable, known: int, control: Control) -> Facts:
        """All that is known, with the terms whose slots are new."""
        new = table.cells[known : table.used, 0].astype(np.uint64)
        try:
            texts = decoded_within(self._decode, new, control)
        except BaseException:
            self._forget()  # their slots are numbered, and there is nothing in them
            raise
        values = list(map(value_of, texts))
        learned = no_facts(len(new))
        learned.values[:] = values
        learned.texts[:] = texts
        for i, value in enumerate(values):
            classify(learned, i, value)
        self._bytes += sum(map(len, texts))
        facts = (no_facts(0) if self._facts is None else self._facts).fitted(table.capacity)
        facts.put(np.arange(known, table.used), learned)
        return facts


def classify(facts: Facts, i: int, value: Value) -> None:
    if isinstance(value, np.float32):  # a type with parameters is no class for `case`
        facts.kinds[i], facts.doubles[i] = FLOAT, value
        return
    match value:
        case str() | bool():
            return
        case Resource():
            facts.kinds[i] = BLANK if value.text.startswith(b"_:") else IRI
        case int():
            if abs(value) < _EXACT_MAX:
                facts.kinds[i], facts.exact[i] = INTEGER, value
        case float():
            facts.kinds[i], facts.doubles[i] = DOUBLE, value
        case Decimal():
            _classify_decimal(facts, i, value)
        case Timed(datatype, moment) if datatype == DATETIME:
            ticks = moment.seconds * _TICKS
            if abs(int(ticks)) < _EXACT_MAX and ticks == int(ticks):
                facts.kinds[i], facts.exact[i] = ZONED if moment.zoned else LOCAL, int(ticks)


def _classify_decimal(facts: Facts, i: int, value: Decimal) -> None:
    numerator_scale = exact_decimal(value)
    if numerator_scale is not None:
        facts.kinds[i] = DECIMAL
        facts.exact[i], facts.scales[i] = numerator_scale


def exact_decimal(value: Decimal) -> tuple[int, int] | None:
    """A whole number and the power of ten that it is divided by, if both are small enough for arrays."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not -_SCALE_MAX <= exponent <= 0:
        return None
    whole = int(value.scaleb(-exponent)) if value.adjusted() < _SCALE_MAX else _EXACT_MAX
    return (whole, -exponent) if abs(whole) < _EXACT_MAX else None
