"""Arithmetic and comparison of whole arrays of numbers, where that is exact.

Integers and decimals are 64-bit integers (decimals with a common scale); doubles and floats are IEEE 754 as XPath
wants them. Whatever might not be exact here (64 bits are too few, a quotient of decimals) is None: then it is worked
out value by value."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from stream_ext.language.algebra.formulas import ArithmeticOp, CompareOp
from stream_ext.values.expressions.vectors import NumericVector
from stream_ext.values.known_values import DECIMAL, DOUBLE, FLOAT, INTEGER, ZONED

_INT64_MAX = (1 << 63) - 1
#: Doubles hold every integer up to here, and every power of ten up to the other.
_DOUBLE_INTEGER_MAX, _DOUBLE_POWER_MAX = 1 << 53, 22

_COMPARISONS: dict[CompareOp, Callable[[Any, Any], Any]] = {
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}
_OPERATIONS: dict[ArithmeticOp, Callable[[Any, Any], Any]] = {
    ArithmeticOp.ADD: operator.add,
    ArithmeticOp.SUBTRACT: operator.sub,
    ArithmeticOp.MULTIPLY: operator.mul,
    ArithmeticOp.DIVIDE: operator.truediv,
}


def compare_arrays(op: CompareOp, left: NumericVector, right: NumericVector) -> npt.NDArray[np.bool_] | None:
    pair = _paired(left, right)
    if pair is None:
        return None
    a, b, _, _ = pair
    return np.asarray(_COMPARISONS[op](a, b))


def calculate_arrays(op: ArithmeticOp, left: NumericVector, right: NumericVector) -> NumericVector | None:
    if max(left.kind, right.kind) >= ZONED:
        return None
    if max(left.kind, right.kind) >= FLOAT:
        return _calculate_floats(op, left, right)
    if op is ArithmeticOp.DIVIDE:
        return None
    if op is ArithmeticOp.MULTIPLY:
        return _multiplied(left, right)
    pair = _paired(left, right)
    if pair is None or _width(pair[0]) + _width(pair[1]) > _INT64_MAX:
        return None
    a, b, kind, scale = pair
    return NumericVector(kind, np.asarray(_OPERATIONS[op](a, b)), scale)


def negate_array(numbers: NumericVector) -> NumericVector | None:
    return None if numbers.kind >= ZONED else NumericVector(numbers.kind, np.asarray(-numbers.of_rows), numbers.scale)


def _calculate_floats(op: ArithmeticOp, left: NumericVector, right: NumericVector) -> NumericVector | None:
    pair = _paired(left, right)
    if pair is None:
        return None
    a, b, kind, _ = pair
    with np.errstate(all="ignore"):  # infinities and NaN are results
        return NumericVector(kind, np.asarray(_OPERATIONS[op](a, b)))


def _multiplied(left: NumericVector, right: NumericVector) -> NumericVector | None:
    if _width(left.of_rows) * _width(right.of_rows) > _INT64_MAX:
        return None
    product = np.asarray(left.of_rows * right.of_rows)
    return NumericVector(max(left.kind, right.kind), product, left.scale + right.scale)


def _paired(left: NumericVector, right: NumericVector) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int, int] | None:
    """Both in the wider of their types: arrays, kind and scale."""
    kind = max(left.kind, right.kind)
    if kind >= ZONED:
        return (left.of_rows, right.of_rows, kind, 0) if left.kind == right.kind else None
    if kind >= FLOAT:
        a, b = _as_floats(left, kind), _as_floats(right, kind)
        return None if a is None or b is None else (a, b, kind, 0)
    scale = max(left.scale, right.scale)
    a, b = _rescaled(left, scale), _rescaled(right, scale)
    return None if a is None or b is None else (a, b, kind, scale)


def _as_floats(numbers: NumericVector, kind: int) -> npt.NDArray[Any] | None:
    values: npt.NDArray[Any] = numbers.of_rows
    if numbers.kind in (INTEGER, DECIMAL):
        if numbers.kind == DECIMAL and (_width(values) > _DOUBLE_INTEGER_MAX or numbers.scale > _DOUBLE_POWER_MAX):
            return None
        # One rounding of two exact doubles is the rounding of the exact quotient.
        values = values.astype(np.float64)
        if numbers.scale:
            values = values / 10.0**numbers.scale
    with np.errstate(all="ignore"):
        return np.asarray(values, np.float64 if kind == DOUBLE else np.float32)


def _rescaled(numbers: NumericVector, scale: int) -> npt.NDArray[Any] | None:
    if numbers.scale == scale:
        return numbers.of_rows
    factor = 10 ** (scale - numbers.scale)
    if factor > _INT64_MAX or _width(numbers.of_rows) * factor > _INT64_MAX:
        return None
    return np.asarray(numbers.of_rows * factor)


def _width(values: npt.NDArray[Any]) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0
