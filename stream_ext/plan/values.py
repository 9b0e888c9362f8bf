"""The values of terms, and what SPARQL's operators make of them (SPARQL 1.1, section 17).

    xsd:integer and its kin  int            xsd:string           str
    xsd:decimal              Decimal        xsd:boolean          bool
    xsd:float                numpy float32  xsd:dateTime, date   Timed
    xsd:double               float          "..."@en             Tagged

An IRI or blank node is a `Resource`; a literal whose datatype is not known, or whose text is none of its
datatype, is `Opaque`. None is SPARQL's error. Integers are exact; decimals are exact to 50 digits."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, NamedTuple

import numpy as np

from hbase_store.terms import parse_term
from stream_ext.plan.algebra import ArithmeticOp, CompareOp
from stream_ext.times import Moment, date_of, datetime_of


class Resource(NamedTuple):
    text: bytes


class Tagged(NamedTuple):
    lexical: str
    language: str


class Timed(NamedTuple):
    datatype: str
    moment: Moment


class Opaque(NamedTuple):
    text: bytes
    is_false: bool  # as a condition: a boolean or number whose text is none is false, all others are errors


Number = int | Decimal | np.float32 | float
Value = bool | Number | str | Tagged | Timed | Resource | Opaque

_XSD = "http://www.w3.org/2001/XMLSchema#"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
#: Python reads no longer integers (a guard against quadratic time); as decimals they are as exact.
_INTEGER_DIGITS_MAX = 4000
_DECIMALS = Context(prec=50, traps=[])
#: How far a time without a zone may be from any zone's.
_ZONE_SECONDS_MAX = 14 * 3600


# ---- from terms ------------------------------------------------------------------------------------------------


def value_of(text: bytes) -> Value:
    """The value of a term in canonical N-Triples bytes."""
    if text[:1] != b'"':
        return Resource(text)
    _, lexical, language, datatype = parse_term(text)
    if language is not None:
        return Tagged(lexical, language.lower())
    if datatype is None:
        return lexical
    reader = _READERS.get(datatype)
    if reader is None:
        return Opaque(text, is_false=False)
    value = reader(lexical)
    return Opaque(text, is_false=datatype not in _TIMED) if value is None else value


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
    return _to_single(float(lexical)) if _DOUBLE.fullmatch(lexical) else None


def _timed(datatype: str, reader: Callable[[str], Moment | None]) -> Callable[[str], Value | None]:
    def read(lexical: str) -> Value | None:
        moment = reader(lexical)
        return None if moment is None else Timed(datatype, moment)

    return read


_BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    **{name: (-(2**bits), 2**bits - 1) for name, bits in (("long", 63), ("int", 31), ("short", 15), ("byte", 7))},
    **{f"unsigned{name}": (0, 2**bits - 1) for name, bits in (("Long", 64), ("Int", 32), ("Short", 16), ("Byte", 8))},
}
_TIMED = {_XSD + "dateTime": datetime_of, _XSD + "date": date_of}
_READERS: dict[str, Callable[[str], Value | None]] = {
    **{_XSD + name: _integer(*bounds) for name, bounds in _BOUNDS.items()},
    **{datatype: _timed(datatype, reader) for datatype, reader in _TIMED.items()},
    _XSD + "decimal": _decimal,
    _XSD + "double": _double,
    _XSD + "float": _single,
    _XSD + "boolean": _BOOLEANS.get,
    _XSD + "string": str,
}


# ---- truth -----------------------------------------------------------------------------------------------------


def truth(value: Value | None) -> bool | None:
    """The effective boolean value."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value != ""
    if isinstance(value, (int, Decimal, float, np.float32)):
        return bool(value != 0 and value == value)  # NaN is false
    if isinstance(value, Tagged):
        return value.lexical != ""
    return False if isinstance(value, Opaque) and value.is_false else None


def and_(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def or_(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


# ---- numbers ---------------------------------------------------------------------------------------------------

_RANKS: dict[type, int] = {int: 0, Decimal: 1, np.float32: 2, float: 3}


def _to_double(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _to_single(value: float) -> np.float32:
    with np.errstate(all="ignore"):
        return np.float32(value)  # too great a number is infinite, as in XSD


def _promoted(left: Value, right: Value) -> tuple[Number, Number, int] | None:
    """Both in the wider of their types, and its rank; None unless both are numbers."""
    left_rank, right_rank = _RANKS.get(type(left)), _RANKS.get(type(right))
    if left_rank is None or right_rank is None:
        return None
    rank = max(left_rank, right_rank)
    if left_rank != right_rank:
        left, right = _CONVERTERS[rank](left), _CONVERTERS[rank](right)  # type: ignore[arg-type]  # ranks say numbers
    return left, right, rank  # type: ignore[return-value]


_CONVERTERS: tuple[Callable[[Number], Number], ...] = (
    lambda value: value,
    lambda value: value if isinstance(value, Decimal) else Decimal(value),  # type: ignore[arg-type]  # an int
    lambda value: _to_single(_to_double(value)),
    _to_double,
)

_EXACT: dict[ArithmeticOp, Callable[[int, int], int]] = {
    ArithmeticOp.ADD: operator.add,
    ArithmeticOp.SUBTRACT: operator.sub,
    ArithmeticOp.MULTIPLY: operator.mul,
}
_DECIMAL_OPS: dict[ArithmeticOp, Callable[[Decimal, Decimal], Decimal]] = {
    ArithmeticOp.ADD: _DECIMALS.add,
    ArithmeticOp.SUBTRACT: _DECIMALS.subtract,
    ArithmeticOp.MULTIPLY: _DECIMALS.multiply,
    ArithmeticOp.DIVIDE: _DECIMALS.divide,
}
_FLOAT_OPS: dict[ArithmeticOp, Callable[[Any, Any], Any]] = {
    ArithmeticOp.ADD: operator.add,
    ArithmeticOp.SUBTRACT: operator.sub,
    ArithmeticOp.MULTIPLY: operator.mul,
    ArithmeticOp.DIVIDE: operator.truediv,
}


def arithmetic(op: ArithmeticOp, left: Value | None, right: Value | None) -> Value | None:
    promoted = None if left is None or right is None else _promoted(left, right)
    if promoted is None:
        return None
    a, b, rank = promoted
    if rank >= _RANKS[np.float32]:
        return _float_arithmetic(op, a, b, np.float64 if rank == _RANKS[float] else np.float32)
    if op is not ArithmeticOp.DIVIDE and isinstance(a, int) and isinstance(b, int):
        return _EXACT[op](a, b)
    if op is ArithmeticOp.DIVIDE and b == 0:
        return None
    exact = _DECIMAL_OPS[op](Decimal(a), Decimal(b))  # type: ignore[arg-type]  # ints or decimals, by their rank
    return exact if exact.is_finite() else None


def _float_arithmetic(op: ArithmeticOp, left: Number, right: Number, width: type[np.float32 | np.float64]) -> Value:
    # numpy divides by zero as IEEE 754 and SPARQL do; Python's floats would raise.
    with np.errstate(all="ignore"):
        result = _FLOAT_OPS[op](width(left), width(right))
    return float(result) if width is np.float64 else np.float32(result)


def negated(value: Value | None) -> Value | None:
    if type(value) not in _RANKS:
        return None
    if isinstance(value, Decimal):
        return value.copy_negate()
    return -value  # type: ignore[operator]  # a number


# ---- comparison ------------------------------------------------------------------------------------------------

_ORDERINGS: dict[CompareOp, Callable[[Any, Any], bool]] = {
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}


def compare(op: CompareOp, left: Value | None, right: Value | None) -> bool | None:
    if left is None or right is None:
        return None
    if op is CompareOp.EQ:
        return _equal(left, right)
    if op is CompareOp.NE:
        equal = _equal(left, right)
        return None if equal is None else not equal
    return _ordered(_ORDERINGS[op], left, right)


def _equal(left: Value, right: Value) -> bool | None:
    """`=`: by value where both are known, else RDFterm-equal, for which two unequal literals are an error."""
    promoted = _promoted(left, right)
    if promoted is not None:
        return bool(promoted[0] == promoted[1])
    if isinstance(left, Resource) or isinstance(right, Resource):
        return type(left) is type(right) and left == right
    if isinstance(left, Tagged) or isinstance(right, Tagged):
        return type(left) is type(right) and left == right  # no datatype's values have a language
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        return True if type(left) is type(right) and left == right else None
    if type(left) is not type(right):
        return False  # two kinds of known values have none in common
    if isinstance(left, Timed) and isinstance(right, Timed):
        return _equal_times(left, right)
    return left == right


def _equal_times(left: Timed, right: Timed) -> bool | None:
    if left.datatype != right.datatype:
        return False
    if left.moment.zoned == right.moment.zoned:
        return left.moment.seconds == right.moment.seconds
    return None if abs(left.moment.seconds - right.moment.seconds) <= _ZONE_SECONDS_MAX else False


def _ordered(ordering: Callable[[Any, Any], bool], left: Value, right: Value) -> bool | None:
    promoted = _promoted(left, right)
    if promoted is not None:
        return bool(ordering(promoted[0], promoted[1]))
    if type(left) is not type(right):
        return None
    if isinstance(left, (str, bool)):
        return ordering(left, right)  # Python orders text by code points, as SPARQL does
    if isinstance(left, Timed) and isinstance(right, Timed):
        return _ordered_times(ordering, left, right)
    return None


def _ordered_times(ordering: Callable[[Any, Any], bool], left: Timed, right: Timed) -> bool | None:
    a, b = left.moment, right.moment
    if left.datatype != right.datatype:
        return None
    # With one zone missing the order is known only if no zone could turn it round.
    if a.zoned != b.zoned and abs(a.seconds - b.seconds) <= _ZONE_SECONDS_MAX:
        return None
    return ordering(a.seconds, b.seconds)
