"""Truth, equality and order of values, with SPARQL's third answer: None is an error."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from stream_ext.language.algebra.formulas import CompareOp
from stream_ext.times import distance
from stream_ext.values.values.kinds import DURATION, Duration, Opaque, Resource, Tagged, Timed, Value
from stream_ext.values.values.numbers import promoted

#: How far a time without a zone may be from any zone's.
_ZONE_SECONDS_MAX = 14 * 3600

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
        return equal(left, right)
    if op is CompareOp.NE:
        same = equal(left, right)
        return None if same is None else not same
    return _ordered(_ORDERINGS[op], left, right)


def equal(left: Value, right: Value) -> bool | None:
    """`=`: by value where both are known, else RDFterm-equal, for which two unequal literals are an error."""
    if type(left) is str and type(right) is str:  # by far the most frequent
        return left == right
    both = promoted(left, right)
    if both is not None:
        return bool(both[0] == both[1])
    if isinstance(left, Resource) or isinstance(right, Resource):
        return type(left) is type(right) and left == right
    if isinstance(left, Tagged) or isinstance(right, Tagged):
        return _equal_tagged(left, right)
    if isinstance(left, Opaque) or isinstance(right, Opaque):
        return True if type(left) is type(right) and left == right else None
    if type(left) is not type(right):
        return False  # two kinds of known values have none in common
    if isinstance(left, Timed) and isinstance(right, Timed):
        return _equal_times(left, right)
    if isinstance(left, Duration) and isinstance(right, Duration):
        return left[1:] == right[1:]
    return left == right


def _equal_tagged(left: Value, right: Value) -> bool:
    """No datatype's values have a language."""
    if not isinstance(left, Tagged) or not isinstance(right, Tagged):
        return False
    return left.lexical == right.lexical and left.language == right.language


def _equal_times(left: Timed, right: Timed) -> bool | None:
    if left.datatype != right.datatype:
        return False
    if left.moment.zoned == right.moment.zoned:
        return left.moment.seconds == right.moment.seconds
    return None if distance(left.moment.seconds, right.moment.seconds) <= _ZONE_SECONDS_MAX else False


def _ordered(ordering: Callable[[Any, Any], bool], left: Value, right: Value) -> bool | None:
    if type(left) is str and type(right) is str:
        return ordering(left, right)  # Python orders text by code points, as SPARQL does
    both = promoted(left, right)
    if both is not None:
        return bool(ordering(both[0], both[1]))
    if type(left) is not type(right):
        return None
    if isinstance(left, bool):
        return ordering(left, right)
    if isinstance(left, Timed) and isinstance(right, Timed):
        return _ordered_times(ordering, left, right)
    if isinstance(left, Duration) and isinstance(right, Duration):
        return _ordered_durations(ordering, left, right)
    return None


def _ordered_times(ordering: Callable[[Any, Any], bool], left: Timed, right: Timed) -> bool | None:
    a, b = left.moment, right.moment
    if left.datatype != right.datatype:
        return None
    # With one zone missing the order is known only if no zone could turn it round.
    if a.zoned != b.zoned and distance(a.seconds, b.seconds) <= _ZONE_SECONDS_MAX:
        return None
    return ordering(a.seconds, b.seconds)


def _ordered_durations(ordering: Callable[[Any, Any], bool], left: Duration, right: Duration) -> bool | None:
    """Months have no fixed number of days: only durations of one type, and not of the mixed one, have an order."""
    if left.datatype != right.datatype or left.datatype == DURATION:
        return None
    return ordering(left[1:], right[1:])
