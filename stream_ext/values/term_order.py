"""Order: ranks that sort terms as ORDER BY does (SPARQL 1.1, 15.1).

    unbound < blank nodes < IRIs < literals

SPARQL leaves open how literals of different kinds are ordered; here the order is total, so that an answer is the same
each time: numbers by value (NaN first), then strings, strings with a language, false and true, dateTimes, dates, times,
durations, and at last all others by their text. A local time counts as if it were UTC. Terms that are equal in value
(1 and 1.0) have equal ranks: nothing is between them, and what else the query orders by decides."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids
from hbase_store.layout import terms
from stream_ext.values.expressions.rows import ExpressionContext
from stream_ext.values.expressions.vectors import Terms
from stream_ext.values.values import Duration, Opaque, Resource, Tagged, Timed, Value
from stream_ext.values.values.kinds import DATE, DATETIME, TIME
from stream_ext.values.values.reading import value_of

Ranks = npt.NDArray[np.int64]

_UNBOUND, _BLANK, _IRI, _NAN, _NUMBER, _STRING, _TAGGED, _BOOLEAN, _TIMED, _DURATION, _OTHER = range(11)
_TIMES = {DATETIME: 0, DATE: 1, TIME: 2}
#: So few are looked at one by one.
_FEW = 64
#: No duration is compared with one of another type but by this: a month as 30.436875 days.
_MONTH_SECONDS = 2629746


def order_ranks(ids: Ids, scope: ExpressionContext) -> Ranks:
    """Comparable within one call only."""
    if not len(ids):
        return np.zeros(0, np.int64)
    if len(ids) <= _FEW:
        return _ranks_of(scope.vocabulary.values(ids.tolist()))
    column = Terms(ids, scope.vocabulary, scope.control)
    if column.are_inline:
        return terms.inline_integers(ids)
    numbers = column.numbers()
    if numbers is not None and not np.isnan(numbers.of_rows).any():
        return np.unique(numbers.of_rows, return_inverse=True)[1]
    _, codes = column.factors()
    return _ranks_of(column.factored().pool.values)[codes]


def ranks_of_texts(texts: Sequence[bytes]) -> Ranks:
    """Of terms as they are written, each another one: those that are equal in value are in the order of their texts."""
    texts_in_order = sorted(range(len(texts)), key=texts.__getitem__)
    by_text = np.empty(len(texts), np.int64)
    by_text[texts_in_order] = np.arange(len(texts))
    order = np.lexsort([by_text, _ranks_of([value_of(text) for text in texts])]) if texts else by_text
    ranks = np.empty(len(texts), np.int64)
    ranks[order] = np.arange(len(texts))
    return ranks


def leading(ids: Ids, scope: ExpressionContext, count: int, descending: bool) -> npt.NDArray[np.bool_]:
    """Which rows come first by this column alone: `count` of them, and those that are equal to the last of these."""
    column = Terms(ids, scope.vocabulary)
    if column.are_inline:
        return _leading_numbers(terms.inline_integers(ids), count, descending)
    values = scope.vocabulary.values(ids.tolist(), scope.control)
    types = set(map(type, values))
    keys: list[Any] = values if types == {str} or types <= {int, Decimal} else list(map(_key, values))
    last = (heapq.nlargest if descending else heapq.nsmallest)(count, keys)[-1]
    among = [last <= key for key in keys] if descending else [key <= last for key in keys]
    return np.array(among, np.bool_)


def _leading_numbers(numbers: npt.NDArray[np.int64], count: int, descending: bool) -> npt.NDArray[np.bool_]:
    if descending:
        numbers = -numbers
    return np.asarray(numbers <= np.partition(numbers, count - 1)[count - 1])


def _ranks_of(values: list[Value | None]) -> Ranks:
    """Each class is sorted by itself: its keys are then of one simple type, mostly."""
    of_class: dict[int, tuple[list[int], list[Any]]] = {}
    for i, value in enumerate(values):
        kind, key = _key(value)
        places, keys = of_class.setdefault(kind, ([], []))
        places.append(i)
        keys.append(key)
    ranks = np.zeros(len(values), np.int64)
    rank = 0
    for _, (places, keys) in sorted(of_class.items()):
        order = sorted(range(len(keys)), key=keys.__getitem__)
        ranks[places[order[0]]] = rank
        for before, here in pairwise(order):
            rank += keys[before] != keys[here]
            ranks[places[here]] = rank
        rank += 1
    return ranks


def _key(value: Value | None) -> tuple[int, Any]:
    if type(value) is str:  # mostly
        return _STRING, value
    match value:
        case None:
            return (_UNBOUND, 0)
        case Resource(text):
            # Without the closing bracket, which would come behind a slash.
            return (_BLANK, text) if text.startswith(b"_:") else (_IRI, text[:-1])
        case bool():
            return (_BOOLEAN, value)
        case str():
            return (_STRING, value)
        case int() | Decimal() | float():
            return _number_key(value)
        case Tagged(lexical, language):
            return (_TAGGED, (lexical, language))
        case Timed(datatype, moment):
            return (_TIMED, (_TIMES[datatype], moment.seconds))
        case Duration(_, months, seconds):
            return (_DURATION, (months * _MONTH_SECONDS + seconds, months))
        case Opaque(text):
            return (_OTHER, text)
        case _:
            return _number_key(float(value))  # a float is its own exact double


def _number_key(value: int | Decimal | float) -> tuple[int, Any]:
    # Python compares numbers of its types exactly, so that the order is total where SPARQL's promotion would not be.
    return (_NAN, 0) if value != value else (_NUMBER, value)
