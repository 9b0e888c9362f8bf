"""From values to terms: the canonical text of each.

Whole decimals have no point (XSD 1.1). Doubles and floats are written as XSD says, 1.0E0, with as few digits as tell
them from their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from hbase_store.layout.terms import literal
from stream_ext.times import date_text, datetime_text, time_text
from stream_ext.values.values.durations import duration_text
from stream_ext.values.values.kinds import DATE, DATETIME, TIME, XSD, Duration, Opaque, Resource, Tagged, Timed, Value

#: Python writes no integer of more digits (a guard against quadratic time); as decimals it does.
_INTEGER_BITS_MAX = 13_000
_DECIMAL_SUFFIX = f'"^^<{XSD}decimal>'
_MOMENT_TEXTS = {DATETIME: datetime_text, DATE: date_text, TIME: time_text}


def text_of(value: Value) -> bytes:
    """Canonical N-Triples bytes."""
    return _WRITERS[type(value)](value)


def lexical_integer(value: int) -> str:
    return str(value) if value.bit_length() <= _INTEGER_BITS_MAX else format(Decimal(value), "f")


def lexical_decimal(value: Decimal) -> str:
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text == "-0" else text


def decimal_text(whole: int, scale: int) -> bytes:
    """The term of `whole` divided by ten to the power of `scale`."""
    digits = str(abs(whole)).rjust(scale + 1, "0")
    at = len(digits) - scale
    text = f"{digits[:at]}.{digits[at:]}".rstrip("0").removesuffix(".") if scale else digits
    sign = "-" if whole < 0 else ""
    return f'"{sign}{text}{_DECIMAL_SUFFIX}'.encode()


def lexical_float(value: float | np.float32) -> str:
    """Mantissa with a point, E, exponent."""
    if value != value:
        return "NaN"
    if abs(value) == np.inf:
        return "INF" if value > 0 else "-INF"
    # Both find the shortest digits that tell the number from its neighbours, numpy for either width.
    text = repr(value) if type(value) is float else np.format_float_scientific(value, trim="0")
    mantissa, _, written = text.partition("e")
    exponent = int(written or 0)
    sign, mantissa = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    if not digits:
        return sign + "0.0E0"
    exponent += len(whole) - 1 - (len(whole + part) - len(digits))
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{exponent}"


def lexical_timed(value: Timed) -> str:
    return _MOMENT_TEXTS[value.datatype](value.moment)


def _typed(name: str, lexical: Callable[[Any], str]) -> Callable[[Any], bytes]:
    suffix = f'"^^<{XSD}{name}>'
    return lambda value: f'"{lexical(value)}{suffix}'.encode()


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    bool: _typed("boolean", lambda value: "true" if value else "false"),
    int: _typed("integer", lexical_integer),
    Decimal: _typed("decimal", lexical_decimal),
    np.float32: _typed("float", lexical_float),
    float: _typed("double", lexical_float),
    str: literal,
    Tagged: lambda value: literal(value.lexical, value.written),
    Timed: lambda value: literal(lexical_timed(value), datatype=value.datatype),
    Duration: lambda value: literal(duration_text(value), datatype=value.datatype),
    Resource: lambda value: value.text,
    Opaque: lambda value: value.text,
}
