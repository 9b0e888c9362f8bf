"""Values: read from terms, written as canonical terms, and what the operators of XPath make of times and durations."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from stream_ext.language.algebra.formulas import ArithmeticOp, CompareOp
from stream_ext.times import Civil, ZonedSeconds, civil_of, datetime_of, datetime_text, days_since_epoch
from stream_ext.values.values import XSD, arithmetic, compare, text_of, value_of


def typed(short: str) -> bytes:
    """`1^^integer` as a term."""
    lexical, _, name = short.rpartition("^^")
    return f'"{lexical}"^^<{XSD}{name}>'.encode()


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("+007^^integer", "7^^integer"),
        ("7^^unsignedByte", "7^^integer"),  # what is computed from a derived type is an integer
        ("-0^^integer", "0^^integer"),
        ("1.50^^decimal", "1.5^^decimal"),
        ("-0.0^^decimal", "0^^decimal"),
        ("100.^^decimal", "100^^decimal"),
        (".5^^decimal", "0.5^^decimal"),
        # XML Schema part 2, 3.2.5.2: one digit left of the point, at least one right of it, no leading zeros.
        ("1^^double", "1.0E0^^double"),
        ("100e0^^double", "1.0E2^^double"),
        ("0.00012^^double", "1.2E-4^^double"),
        ("-0^^double", "-0.0E0^^double"),
        ("+INF^^double", "INF^^double"),
        ("NaN^^float", "NaN^^float"),
        ("0.1^^float", "1.0E-1^^float"),
        ("16777217^^float", "1.6777216E7^^float"),
        ("1^^boolean", "true^^boolean"),
        ("2024-01-31T24:00:00.500^^dateTime", None),
        ("2024-01-31T24:00:00Z^^dateTime", "2024-02-01T00:00:00Z^^dateTime"),
        ("2024-01-31T10:00:05.250+02:00^^dateTime", "2024-01-31T10:00:05.25+02:00^^dateTime"),
        ("2024-01-31T10:00:00-00:00^^dateTime", "2024-01-31T10:00:00Z^^dateTime"),
        ("-0001-01-31+14:00^^date", "-0001-01-31+14:00^^date"),
        ("24:00:00^^time", "00:00:00^^time"),
        ("09:05:01.10-05:30^^time", "09:05:01.1-05:30^^time"),
        ("P13M^^yearMonthDuration", "P1Y1M^^yearMonthDuration"),
        ("P0Y^^yearMonthDuration", "P0M^^yearMonthDuration"),
        ("-PT36H^^dayTimeDuration", "-P1DT12H^^dayTimeDuration"),
        ("PT0.0S^^duration", "PT0S^^duration"),
        ("P1Y2M3DT4H5M6.70S^^duration", "P1Y2M3DT4H5M6.7S^^duration"),
        ("P1D^^yearMonthDuration", None),
        ("P1Y^^dayTimeDuration", None),
        ("P^^duration", None),
        ("P1DT^^duration", None),
    ],
)
def test_a_value_is_written_in_its_canonical_form(written: str, canonical: str | None) -> None:
    """What is no value of its datatype is written as it was read."""
    assert text_of(value_of(typed(written))) == typed(canonical or written)


@given(st.floats() | st.integers(-(10**30), 10**30) | st.decimals(allow_nan=False, allow_infinity=False, places=9))
@seed(1)
@settings(database=None)
def test_a_number_that_is_written_is_read_as_the_same_number(number: object) -> None:
    text = text_of(number)  # type: ignore[arg-type]  # hypothesis names no narrower type
    read = value_of(text)
    assert type(read) is type(number)
    assert read == number or (read != read and number != number)
    assert text_of(read) == text


@given(st.dates(), st.times(), st.integers(-840, 840) | st.none())
@seed(1)
@settings(database=None)
def test_days_and_clocks_are_those_of_another_calendar(
    day: datetime.date, time: datetime.time, zone: int | None
) -> None:
    zoned = None if zone is None else datetime.timezone(datetime.timedelta(minutes=zone))
    expected = datetime.datetime.combine(day, time, zoned)
    moment = datetime_of(expected.isoformat())
    assert moment is not None and moment.zone == zone
    assert civil_of(moment) == (day.year, day.month, day.day)
    assert datetime_of(datetime_text(moment)) == moment
    epoch = datetime.datetime(1970, 1, 1, tzinfo=None if zone is None else datetime.UTC)
    past = expected - epoch
    assert moment.seconds * 10**6 == (past.days * 86400 + past.seconds) * 10**6 + past.microseconds


def test_the_calendar_continues_before_its_invention_and_beyond_any_year_of_python() -> None:
    assert days_since_epoch(Civil(0, 3, 1)) - days_since_epoch(Civil(0, 2, 28)) == 2  # the year 0 is a leap year
    for days in (-800_000, -719_529, 4_000_000, 10**10):
        civil = civil_of(ZonedSeconds(days * 86400, None))
        assert days_since_epoch(civil) == days


# XQuery 1.0 and XPath 2.0 Functions and Operators, 10.6 to 10.8: its own examples, but for zones that are not written.
OPERATIONS = [
    ("P2Y11M^^yearMonthDuration", "+", "P3Y3M^^yearMonthDuration", "P6Y2M^^yearMonthDuration"),
    ("P2Y11M^^yearMonthDuration", "-", "P3Y3M^^yearMonthDuration", "-P4M^^yearMonthDuration"),
    ("P2Y11M^^yearMonthDuration", "*", "2.3^^decimal", "P6Y9M^^yearMonthDuration"),
    ("P2Y11M^^yearMonthDuration", "/", "1.5^^decimal", "P1Y11M^^yearMonthDuration"),
    ("P3Y4M^^yearMonthDuration", "/", "-P1Y4M^^yearMonthDuration", "-2.5^^decimal"),
    ("P2DT12H5M^^dayTimeDuration", "+", "P5DT12H^^dayTimeDuration", "P8DT5M^^dayTimeDuration"),
    ("P2DT12H^^dayTimeDuration", "-", "P1DT10H30M^^dayTimeDuration", "P1DT1H30M^^dayTimeDuration"),
    ("PT2H10M^^dayTimeDuration", "*", "2.1^^decimal", "PT4H33M^^dayTimeDuration"),
    ("P4D^^dayTimeDuration", "/", "2^^integer", "P2D^^dayTimeDuration"),
    ("P1DT2H30M^^dayTimeDuration", "/", "1.5^^decimal", "PT17H40M^^dayTimeDuration"),
    ("2000-10-30T06:12:00-05:00^^dateTime", "-", "1999-11-28T09:00:00Z^^dateTime", "P337DT2H12M^^dayTimeDuration"),
    ("2000-10-30^^date", "-", "1999-11-28^^date", "P337D^^dayTimeDuration"),
    ("2000-10-15-05:00^^date", "-", "2000-10-10+02:00^^date", "P5DT7H^^dayTimeDuration"),
    ("11:12:00Z^^time", "-", "04:00:00Z^^time", "PT7H12M^^dayTimeDuration"),
    ("11:00:00-05:00^^time", "-", "21:30:00+05:30^^time", "PT0S^^dayTimeDuration"),
    ("2000-10-30T11:12:00^^dateTime", "+", "P1Y2M^^yearMonthDuration", "2001-12-30T11:12:00^^dateTime"),
    ("2000-10-30T11:12:00^^dateTime", "+", "P3DT1H15M^^dayTimeDuration", "2000-11-02T12:27:00^^dateTime"),
    ("2000-10-30T11:12:00^^dateTime", "-", "P1Y2M^^yearMonthDuration", "1999-08-30T11:12:00^^dateTime"),
    ("2000-10-30T11:12:00^^dateTime", "-", "P3DT1H15M^^dayTimeDuration", "2000-10-27T09:57:00^^dateTime"),
    ("2000-10-30^^date", "+", "P1Y2M^^yearMonthDuration", "2001-12-30^^date"),
    ("2004-10-30Z^^date", "+", "P2DT2H30M0S^^dayTimeDuration", "2004-11-01Z^^date"),
    ("2000-10-30^^date", "-", "P1Y2M^^yearMonthDuration", "1999-08-30^^date"),
    ("2000-02-29Z^^date", "-", "P1Y^^yearMonthDuration", "1999-02-28Z^^date"),
    ("2000-10-30^^date", "-", "P3DT1H15M^^dayTimeDuration", "2000-10-26^^date"),
    ("11:12:00^^time", "+", "P3DT1H15M^^dayTimeDuration", "12:27:00^^time"),
    ("23:12:00+03:00^^time", "+", "P1DT3H15M^^dayTimeDuration", "02:27:00+03:00^^time"),
    ("08:20:00-05:00^^time", "-", "P23DT10H10M^^dayTimeDuration", "22:10:00-05:00^^time"),
    # And what has no answer.
    ("11:12:00^^time", "+", "P1M^^yearMonthDuration", None),
    ("2000-10-30T11:12:00Z^^dateTime", "-", "2000-10-30T11:12:00^^dateTime", None),
    ("2000-10-30^^date", "-", "2000-10-30T11:12:00^^dateTime", None),
    ("2000-10-30^^date", "*", "2^^integer", None),
    ("P1D^^dayTimeDuration", "+", "P1M^^yearMonthDuration", None),
    ("P1D^^dayTimeDuration", "/", "0^^integer", None),
    ("P1D^^dayTimeDuration", "*", "NaN^^double", None),
    ("P1D^^dayTimeDuration", "*", "INF^^double", None),
    ("999999999-12-31T00:00:00^^dateTime", "+", "P1D^^dayTimeDuration", None),
    ("1^^integer", "+", "P1D^^dayTimeDuration", None),
    # Numbers.
    ("1^^integer", "/", "3^^integer", f"0.{'3' * 50}^^decimal"),
    ("4^^integer", "/", "2^^integer", "2^^decimal"),
    (f"{'9' * 60}.5^^decimal", "+", "0.00001^^decimal", f"{'9' * 60}.50001^^decimal"),
    ("1.1^^float", "+", "1^^integer", "2.1E0^^float"),
    ("1.1^^float", "+", "1^^double", "2.100000023841858E0^^double"),
    ("1^^double", "/", "0^^integer", "INF^^double"),
    ("1^^decimal", "/", "0^^integer", None),
]


@pytest.mark.parametrize(("left", "op", "right", "expected"), OPERATIONS)
def test_xpath_s_operators(left: str, op: str, right: str, expected: str | None) -> None:
    found = arithmetic(ArithmeticOp(op), value_of(typed(left)), value_of(typed(right)))
    assert (found and text_of(found)) == (expected and typed(expected))


@pytest.mark.parametrize(
    ("left", "right", "equal", "less"),
    [
        ("P1Y^^yearMonthDuration", "P12M^^yearMonthDuration", True, False),
        ("P1Y^^yearMonthDuration", "P12M^^duration", True, None),
        ("PT24H^^dayTimeDuration", "P1D^^dayTimeDuration", True, False),
        ("PT36H^^dayTimeDuration", "P1D^^dayTimeDuration", False, False),
        ("P1M^^yearMonthDuration", "P1Y^^yearMonthDuration", False, True),
        ("P30D^^dayTimeDuration", "P1M^^yearMonthDuration", False, None),
        ("08:00:00+09:00^^time", "17:00:00-06:00^^time", False, True),
        ("11:12:00Z^^time", "11:12:00Z^^time", True, False),
    ],
)
def test_durations_and_times_of_day_are_compared(left: str, right: str, equal: bool, less: bool | None) -> None:
    values = value_of(typed(left)), value_of(typed(right))
    assert (compare(CompareOp.EQ, *values), compare(CompareOp.LT, *values)) == (equal, less)
