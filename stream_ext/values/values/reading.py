"""From terms to values."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial

from hbase_store.layout.terms import parse_term
from stream_ext.times import ZonedSeconds, date_of, datetime_of, time_of
from stream_ext.values.values.durations import duration_of
from stream_ext.values.values.kinds import (
    CHARACTERS_MAX,
    DATE,
    DATETIME,
    DAY_TIME,
    DURATION,
    TIME,
    XSD,
    YEAR_MONTH,
    Opaque,
    Resource,
    Tagged,
    Timed,
    Value,
)
from stream_ext.values.values.numbers import to_single

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
#: Python reads no longer integers (a guard against quadratic time); as decimals they are as exact.
_INTEGER_DIGITS_MAX = 4000


def value_of(text: bytes) -> Value:
    """The value of a term in canonical N-Triples bytes."""
    if text[:1] != b'"':
        return Resource(text)
    _, lexical, language, datatype = parse_term(text)
    if language is not None:
        return Tagged(lexical, language.lower(), language)
    if datatype is None:
        return lexical
    reader = READERS.get(datatype)
    if reader is None:
        return Opaque(text, is_false=False)
    value = reader(lexical) if len(lexical) <= CHARACTERS_MAX or datatype == _STRING else None
    return Opaque(text, is_false=datatype not in _OF_TIME) if value is None else value


def _integer(low: int | None, high: int | None) -> Callable[[str], Value | None]:
    def read(lexical: str) -> Value | None:
        if not _INTEGER.fullmatch(lexical):
            return None
        value = int(lexical) if len(lexical) <= _INTEGER_DIGITS_MAX else Decimal(lexical)
        return None if (low is not None and value < low) or (high is not None and value > high) else value

    return read


def _decimal(lexical: str) -> Value | None:
    return Decimal(lexical) if _DECIMAL.fullmatch(lexical) else None


def _double(lexical: str) -> Value | None:
    return float(lexical) if _DOUBLE.fullmatch(lexical) else None


def _single(lexical: str) -> Value | None:
    return to_single(float(lexical)) if _DOUBLE.fullmatch(lexical) else None


def _timed(datatype: str, reader: Callable[[str], ZonedSeconds | None]) -> Callable[[str], Value | None]:
    def read(lexical: str) -> Value | None:
        moment = reader(lexical)
        return None if moment is None else Timed(datatype, moment)

    return read


INTEGER_BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    **{name: (-(2**bits), 2**bits - 1) for name, bits in (("long", 63), ("int", 31), ("short", 15), ("byte", 7))},
    **{f"unsigned{name}": (0, 2**bits - 1) for name, bits in (("Long", 64), ("Int", 32), ("Short", 16), ("Byte", 8))},
}
_STRING = XSD + "string"
_OF_TIME: dict[str, Callable[[str], Value | None]] = {
    DATETIME: _timed(DATETIME, datetime_of),
    DATE: _timed(DATE, date_of),
    TIME: _timed(TIME, time_of),
    **{datatype: partial(duration_of, datatype) for datatype in (DURATION, DAY_TIME, YEAR_MONTH)},
}
READERS: dict[str, Callable[[str], Value | None]] = {
    **{XSD + name: _integer(*bounds) for name, bounds in INTEGER_BOUNDS.items()},
    **_OF_TIME,
    XSD + "decimal": _decimal,
    XSD + "double": _double,
    XSD + "float": _single,
    XSD + "boolean": _BOOLEANS.get,
    XSD + "string": str,
}
