"""ABS, ROUND, CEIL, FLOOR (SPARQL 1.1, 17.4.4): each keeps the type of its argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np

from stream_ext.values.values import Number, Value, is_number
from stream_ext.values.values.kinds import EXACT

_HALF, _ONE = Decimal("0.5"), Decimal(1)


def absolute(value: Value | None) -> Number | None:
    if not is_number(value):
        return None
    if isinstance(value, Decimal):
        return value.copy_abs()
    return np.float32(abs(value)) if isinstance(value, np.float32) else abs(value)


def _to_whole(decimal: Callable[[Decimal], Decimal], double: Callable[[float], float]) -> Callable[..., Number | None]:
    def rounded(value: Value | None) -> Number | None:
        if not is_number(value):
            return None
        if isinstance(value, Decimal):
            return decimal(value)
        if isinstance(value, int) or not math.isfinite(value):
            return value
        # Zero keeps the sign of what it came from.
        whole = math.copysign(double(float(value)), float(value))
        return np.float32(whole) if isinstance(value, np.float32) else whole

    return rounded


def _ceiling(value: Decimal) -> Decimal:
    return value.quantize(_ONE, rounding=ROUND_CEILING, context=EXACT)


def _floor(value: Decimal) -> Decimal:
    return value.quantize(_ONE, rounding=ROUND_FLOOR, context=EXACT)


def _half_up(value: float) -> float:
    """A half goes towards positive infinity; adding 0.5 first would round a number just below a half up, too."""
    below = float(math.floor(value))
    return below + 1 if value - below >= 0.5 else below


ceil = _to_whole(_ceiling, lambda value: float(math.ceil(value)))
floor = _to_whole(_floor, lambda value: float(math.floor(value)))
round_half_up = _to_whole(lambda value: _floor(EXACT.add(value, _HALF)), _half_up)
