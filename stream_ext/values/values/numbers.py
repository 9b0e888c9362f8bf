"""Numbers: SPARQL's four types, their promotion, and arithmetic as XPath says it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from math import log10
from typing import Any, TypeGuard

import numpy as np

from stream_ext.language.algebra.formulas import ArithmeticOp
from stream_ext.values.values.kinds import DIGITS_MAX, DIVISION, EXACT, Number, Value

#: Of an integer; and of a decimal, which has 19 digits in 8 bytes.
_BITS_MAX, _BYTES_MAX = int(DIGITS_MAX / log10(2)), 200 + DIGITS_MAX * 8 // 19
#: A number of a lower rank is promoted to the higher one of the two that meet.
RANKS: dict[type, int] = {int: 0, Decimal: 1, np.float32: 2, float: 3}


def is_number(value: Value | None) -> TypeGuard[Number]:
    return type(value) in RANKS


def to_double(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def to_single(value: float) -> np.float32:
    with np.errstate(all="ignore"):
        return np.float32(value)  # too great a number is infinite, as in XSD


def promoted(left: Value, right: Value) -> tuple[Number, Number, int] | None:
    """Both in the wider of their types, and its rank; None unless both are numbers."""
    left_rank, right_rank = RANKS.get(type(left)), RANKS.get(type(right))
    if left_rank is None or right_rank is None:
        return None
    rank = max(left_rank, right_rank)
    if left_rank != right_rank:
        left, right = _CONVERTERS[rank](left), _CONVERTERS[rank](right)  # type: ignore[arg-type]  # ranks say numbers
    return left, right, rank  # type: ignore[return-value]


_CONVERTERS: tuple[Callable[[Number], Number], ...] = (
    lambda value: value,
    lambda value: value if isinstance(value, Decimal) else Decimal(value),  # type: ignore[arg-type]  # an int
    lambda value: to_single(to_double(value)),
    to_double,
)

_INTEGER_OPS: dict[ArithmeticOp, Callable[[int, int], int]] = {
    ArithmeticOp.ADD: operator.add,
    ArithmeticOp.SUBTRACT: operator.sub,
    ArithmeticOp.MULTIPLY: operator.mul,
}
_DECIMAL_OPS: dict[ArithmeticOp, Callable[[Decimal, Decimal], Decimal]] = {
    ArithmeticOp.ADD: EXACT.add,
    ArithmeticOp.SUBTRACT: EXACT.subtract,
    ArithmeticOp.MULTIPLY: EXACT.multiply,
    ArithmeticOp.DIVIDE: DIVISION.divide,
}
_FLOAT_OPS: dict[ArithmeticOp, Callable[[Any, Any], Any]] = {
    ArithmeticOp.ADD: operator.add,
    ArithmeticOp.SUBTRACT: operator.sub,
    ArithmeticOp.MULTIPLY: operator.mul,
    ArithmeticOp.DIVIDE: operator.truediv,
}


def number_arithmetic(op: ArithmeticOp, left: Value, right: Value) -> Number | None:
    """None where the two are not both numbers, and for an exact number divided by zero."""
    both = promoted(left, right)
    if both is None:
        return None
    a, b, rank = both
    if rank >= RANKS[np.float32]:
        return _float_arithmetic(op, a, b, np.float64 if rank == RANKS[float] else np.float32)
    if op is not ArithmeticOp.DIVIDE and isinstance(a, int) and isinstance(b, int):
        whole = _INTEGER_OPS[op](a, b)
        return whole if whole.bit_length() <= _BITS_MAX else None
    if op is ArithmeticOp.DIVIDE and b == 0:
        return None
    exact = _DECIMAL_OPS[op](Decimal(a), Decimal(b))  # type: ignore[arg-type]  # ints or decimals, by their rank
    return exact if exact.is_finite() and _is_short(exact) else None


def _is_short(number: Decimal) -> bool:
    """By the memory that it takes, and by where its first digit stands: its digits need not be counted."""
    return number.__sizeof__() <= _BYTES_MAX and abs(number.adjusted()) <= DIGITS_MAX


def _float_arithmetic(op: ArithmeticOp, left: Number, right: Number, width: type[np.float32 | np.float64]) -> Number:
    # numpy divides by zero as IEEE 754 and SPARQL do; Python's floats would raise.
    with np.errstate(all="ignore"):
        result = _FLOAT_OPS[op](width(left), width(right))
    return float(result) if width is np.float64 else np.float32(result)


def negated(value: Value | None) -> Value | None:
    if not is_number(value):
        return None
    if isinstance(value, Decimal):
        return value.copy_negate()
    return -value
