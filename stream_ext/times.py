"""Points in time as texts write them: xsd:dateTime and xsd:date, exactly, for any year.

Python's `datetime` knows the years 1 to 9999 and whole microseconds; XSD knows neither bound. A moment here is a
fraction of seconds since 1970, and whether its zone was written: without one it is a local time of nowhere."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from stream_ext.errors import BadArgument

_ZONE = r"(?P<zone>Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DATE = r"(?P<year>-?(?:[1-9][0-9]{3,8}|0[0-9]{3}))-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"(?P<hour>[01][0-9]|2[0-4]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9](?:\.[0-9]+)?)"
_DATETIME = re.compile(_DATE + "T" + _CLOCK + _ZONE)
_DATE_ONLY = re.compile(_DATE + _ZONE)
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,18}")
#: Further from 1970 no sum of a time and some lengths is safe in 64 bits.
TIME_MS_MAX = 10**18
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Moment(NamedTuple):
    seconds: Fraction  # since 1970-01-01T00:00:00, in UTC if `zoned`
    zoned: bool


def datetime_of(lexical: str) -> Moment | None:
    """The value of an xsd:dateTime; None where the text is none."""
    match = _DATETIME.fullmatch(lexical)
    days = _days(match)
    if match is None or days is None:
        return None
    hour, minute, second = int(match["hour"]), int(match["minute"]), Fraction(match["second"])
    if hour == 24 and (minute or second):
        return None
    return _moment(days * 86400 + hour * 3600 + minute * 60 + second, match["zone"])


def date_of(lexical: str) -> Moment | None:
    """The start of an xsd:date; None where the text is none."""
    match = _DATE_ONLY.fullmatch(lexical)
    days = _days(match)
    return None if match is None or days is None else _moment(Fraction(days * 86400), match["zone"])


def parse_time(text: str) -> int:
    """Milliseconds since the epoch from an integer of them or an xsd:dateTime (UTC where it names no zone).

    What is finer than a millisecond is cut off: elements are ordered by whole milliseconds."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    moment = datetime_of(text)
    if moment is None:
        raise BadArgument(
            f"{text[:80]!r} is no time: write milliseconds since the epoch (1700000000000) "
            "or an xsd:dateTime (2024-01-31T12:00:00Z)"
        )
    return checked_time(int(moment.seconds * 1000 // 1))


def checked_time(time_ms: int) -> int:
    if abs(time_ms) > TIME_MS_MAX:
        raise BadArgument(
            f"the time {time_ms} is out of range: it counts milliseconds since 1970, at most {TIME_MS_MAX}"
        )
    return time_ms


def _days(match: re.Match[str] | None) -> int | None:
    """Days since 1970-01-01 (proleptic Gregorian); None for a day that the month has not."""
    if match is None:
        return None
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _MONTH_DAYS[month - 1] + (leap and month == 2):
        return None
    # Years that begin in March end with the leap day, so that days before a month need no table.
    shifted = year - (month <= 2)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + day_of_year - 719468


def _moment(seconds: Fraction, zone: str | None) -> Moment:
    if zone is None or zone == "Z":
        return Moment(seconds, zone is not None)
    offset = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
    return Moment(seconds - (offset if zone[0] == "+" else -offset), True)
