"""+ - * / over all values: numbers by themselves, times and durations as XPath has them.

    time - time, date - date             a duration of days and seconds
    time + duration, duration + time     the time so much later
    duration + duration                  of one type
    duration * number, / number          of its type
    duration / duration                  of one type: a decimal

Times of which only one has a zone have no known distance: that is an error."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from stream_ext.language.algebra.formulas import ArithmeticOp
from stream_ext.times import DAY_SECONDS, Seconds, ZonedSeconds, civil_of, distance, moment_of, months_later
from stream_ext.values.values.kinds import (
    DATE,
    DAY_TIME,
    DIVISION,
    DURATION,
    TIME,
    YEAR_MONTH,
    Duration,
    Number,
    Timed,
    Value,
)
from stream_ext.values.values.numbers import is_number, number_arithmetic

#: Years that a text can write have nine digits; no duration is longer either.
_YEAR_MAX = 999_999_999
_MONTHS_MAX = 12 * _YEAR_MAX
_SECONDS_MAX = 366 * DAY_SECONDS * _YEAR_MAX
#: What does not end (a third of a second) is kept to so many decimals.
_SECOND_PARTS = 10**18


def arithmetic(op: ArithmeticOp, left: Value | None, right: Value | None) -> Value | None:
    """`left op right` for numbers, durations and times, as XPath defines it; None is an error, as in `1 + "a"`."""
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        return number_arithmetic(op, left, right)
    if isinstance(right, Duration):
        return _with_duration(op, left, right)
    if isinstance(left, Duration):
        return _duration_and(op, left, right)
    if isinstance(left, Timed) and isinstance(right, Timed) and op is ArithmeticOp.SUBTRACT:
        return _distance(left, right)
    return None


def _with_duration(op: ArithmeticOp, left: Value, right: Duration) -> Value | None:
    if isinstance(left, Duration):
        return _of_durations(op, left, right)
    if op is ArithmeticOp.MULTIPLY and is_number(left):
        return _scaled(right, left, divide=False)
    if isinstance(left, Timed) and op in (ArithmeticOp.ADD, ArithmeticOp.SUBTRACT):
        return _shifted(left, right, 1 if op is ArithmeticOp.ADD else -1)
    return None


def _duration_and(op: ArithmeticOp, left: Duration, right: Value) -> Value | None:
    if op is ArithmeticOp.ADD and isinstance(right, Timed):
        return _shifted(right, left, 1)
    if op in (ArithmeticOp.MULTIPLY, ArithmeticOp.DIVIDE) and is_number(right):
        return _scaled(left, right, divide=op is ArithmeticOp.DIVIDE)
    return None


def _distance(left: Timed, right: Timed) -> Duration | None:
    if left.datatype != right.datatype or left.moment.zoned != right.moment.zoned:
        return None
    return Duration(DAY_TIME, 0, left.moment.seconds - right.moment.seconds)


def _shifted(time: Timed, by: Duration, sign: int) -> Timed | None:
    moment = time.moment
    if by.months:
        if time.datatype == TIME:
            return None
        if abs(civil_of(moment).year) + abs(by.months) // 12 >= _YEAR_MAX:
            return None
        moment = months_later(moment, sign * by.months)
    local = moment.local + sign * by.seconds
    if time.datatype == DATE:
        local = local // DAY_SECONDS * DAY_SECONDS
    elif time.datatype == TIME:
        local %= DAY_SECONDS
    shifted = moment_of(local, moment.zone)
    return Timed(time.datatype, shifted) if _is_writable(shifted) else None


def _is_writable(moment: ZonedSeconds) -> bool:
    return distance(moment.seconds, 0) < _SECONDS_MAX and abs(civil_of(moment).year) <= _YEAR_MAX


def _of_durations(op: ArithmeticOp, left: Duration, right: Duration) -> Value | None:
    if left.datatype != right.datatype or left.datatype == DURATION:
        return None
    if op is ArithmeticOp.DIVIDE:
        return _ratio(left, right)
    if op is ArithmeticOp.MULTIPLY:
        return None
    sign = 1 if op is ArithmeticOp.ADD else -1
    return _bounded(Duration(left.datatype, left.months + sign * right.months, left.seconds + sign * right.seconds))


def _ratio(left: Duration, right: Duration) -> Decimal | None:
    a: Seconds = left.months if left.datatype == YEAR_MONTH else left.seconds
    b: Seconds = right.months if right.datatype == YEAR_MONTH else right.seconds
    if not b:
        return None
    ratio = Fraction(a) / Fraction(b)
    return DIVISION.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))


def _scaled(duration: Duration, by: Number, divide: bool) -> Duration | None:
    if duration.datatype == DURATION or not math.isfinite(by) or (divide and not by):
        return None
    factor = 1 / _fraction(by) if divide else _fraction(by)
    months = math.floor(duration.months * factor + Fraction(1, 2))  # halves go up, as in fn:round
    seconds = Fraction(round(duration.seconds * factor * _SECOND_PARTS), _SECOND_PARTS)
    return _bounded(Duration(duration.datatype, months, seconds))


def _fraction(number: Number) -> Fraction:
    return Fraction(number) if isinstance(number, (int, Decimal)) else Fraction(float(number))


def _bounded(duration: Duration) -> Duration | None:
    fits = abs(duration.months) <= _MONTHS_MAX and distance(duration.seconds, 0) <= _SECONDS_MAX
    return duration if fits else None
