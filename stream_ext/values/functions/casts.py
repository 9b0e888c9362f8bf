"""Casts: functions named by the IRI of a datatype (SPARQL 1.1, 17.1; F&O 17.1 for the table in full).

A cast goes by way of the value: xsd:string of "01"^^xsd:integer is "1". What has no such value is an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import numpy as np

from hbase_store.layout.terms import literal, parse_term
from stream_ext.times import DAY_SECONDS, moment_of
from stream_ext.values.functions.function import ArgumentView, Function, Makes
from stream_ext.values.values import XSD, Duration, Resource, Timed, Value, is_number, text_of
from stream_ext.values.values.kinds import DATE, DATETIME, DAY_TIME, DURATION, TIME, YEAR_MONTH
from stream_ext.values.values.numbers import to_double, to_single
from stream_ext.values.values.reading import INTEGER_BOUNDS, READERS
from stream_ext.values.values.writing import lexical_decimal, lexical_float, lexical_integer

_BLANKS = " \t\n\r"
_Argument = Value | None


def _read(datatype: str, text: str) -> Value | None:
    return READERS[datatype](text.strip(_BLANKS))


def to_string(value: _Argument) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, Resource):
        return parse_term(value.text).value if value.text.startswith(b"<") else None
    if isinstance(value, (float, np.float32)):
        return _plain_float(value)
    if isinstance(value, (bool, int, Decimal, Timed, Duration)):
        return parse_term(text_of(value)).value
    return None


def _plain_float(value: float | np.float32) -> str:
    """Numbers from a millionth to a million are written without an exponent (F&O 17.1.2)."""
    text = lexical_float(value)
    if value == 0:
        return text.removesuffix(".0E0")
    return lexical_decimal(Decimal(text)) if 1e-6 <= abs(float(value)) < 1e6 else text


def to_boolean(value: _Argument) -> bool | None:
    if isinstance(value, bool):
        return value
    if is_number(value):
        return bool(value != 0 and value == value)
    read = _read(XSD + "boolean", value) if isinstance(value, str) else None
    return read if isinstance(read, bool) else None


def to_integer(value: _Argument) -> int | None:
    """Towards zero; a number that is not finite is an error."""
    if isinstance(value, bool):
        return int(value)
    if is_number(value):
        return int(value) if math.isfinite(value) else None
    read = _read(XSD + "integer", value) if isinstance(value, str) else None
    return read if isinstance(read, int) else None


def to_decimal(value: _Argument) -> Decimal | None:
    if isinstance(value, bool):
        return Decimal(int(value))
    if is_number(value):
        if isinstance(value, (int, Decimal)):
            return Decimal(value)
        return Decimal(float(value)) if math.isfinite(value) else None
    read = _read(XSD + "decimal", value) if isinstance(value, str) else None
    return read if isinstance(read, Decimal) else None


def to_double_value(value: _Argument) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if is_number(value):
        return to_double(value)
    read = _read(XSD + "double", value) if isinstance(value, str) else None
    return read if isinstance(read, float) else None


def to_float_value(value: _Argument) -> np.float32 | None:
    double = to_double_value(value)
    return None if double is None else to_single(double)


def to_derived_integer(name: str, value: _Argument) -> bytes | None:
    """The result of a cast such as xsd:byte. It is a term and no value: values have one type for all integers."""
    whole = to_integer(value)
    low, high = INTEGER_BOUNDS[name]
    if whole is None or (low is not None and whole < low) or (high is not None and whole > high):
        return None
    return literal(lexical_integer(whole), datatype=XSD + name)


# ---- times ---------------------------------------------------------------------------------------------------------


def to_timed(datatype: str, value: _Argument) -> Timed | None:
    """Between dateTime, date and time as far as the one has what the other needs."""
    if isinstance(value, str):
        read = _read(datatype, value)
        return read if isinstance(read, Timed) else None
    if not isinstance(value, Timed):
        return None
    if value.datatype == datatype:
        return value
    if TIME in (value.datatype, datatype):
        return _time_of_day(value) if value.datatype == DATETIME else None
    moment = value.moment
    return Timed(datatype, moment_of(moment.local // DAY_SECONDS * DAY_SECONDS, moment.zone))


def _time_of_day(value: Timed) -> Timed:
    return Timed(TIME, moment_of(value.moment.local % DAY_SECONDS, value.moment.zone))


def to_duration(datatype: str, value: _Argument) -> Duration | None:
    """What the narrower type has no place for is left out."""
    if isinstance(value, str):
        read = _read(datatype, value)
        return read if isinstance(read, Duration) else None
    if not isinstance(value, Duration):
        return None
    months = 0 if datatype == DAY_TIME else value.months
    return Duration(datatype, months, 0 if datatype == YEAR_MONTH else value.seconds)


def _derived() -> dict[str, Function]:
    names = [name for name in INTEGER_BOUNDS if name != "integer"]
    return {XSD + name: Function(partial(to_derived_integer, name), gives=ArgumentView.TEXTS) for name in names}


_PLAIN: dict[str, Callable[[_Argument], _Argument]] = {
    "string": to_string,
    "boolean": to_boolean,
    "integer": to_integer,
    "decimal": to_decimal,
    "double": to_double_value,
    "float": to_float_value,
}
CASTS: dict[str, Function] = {
    **{XSD + name: Function(cast, makes=Makes.TERMS) for name, cast in _PLAIN.items()},
    **_derived(),
    **{datatype: Function(partial(to_timed, datatype)) for datatype in (DATETIME, DATE, TIME)},
    **{datatype: Function(partial(to_duration, datatype)) for datatype in (DURATION, DAY_TIME, YEAR_MONTH)},
}
