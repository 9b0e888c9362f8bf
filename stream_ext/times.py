"""Points in time as texts write them: xsd:dateTime, xsd:date and xsd:time, exactly, for any year.

Python's `datetime` knows the years 1 to 9999 and whole microseconds; XSD knows neither bound. A moment here is a
fraction of seconds since 1970, and the zone that was written: without one it is a local time of nowhere. A time of
day is a moment of 1970-01-01."""

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
_TIME_ONLY = re.compile(_CLOCK + _ZONE)
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,40}")
#: Further from 1970 no sum of a time and some lengths is safe in 64 bits.
TIME_MS_MAX = 10**18
#: From the first of March of the year 0 to 1970-01-01.
_EPOCH_DAYS = 719468
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


DAY_SECONDS = 86400

Seconds = int | Fraction


def distance(left: Seconds, right: Seconds) -> Seconds:
    return left - right if left > right else right - left


class ZonedSeconds(NamedTuple):
    seconds: Seconds  # since 1970-01-01T00:00:00, in UTC if there is a zone
    zone: int | None  # minutes east of UTC; None: none was written

    @property
    def zoned(self) -> bool:
        return self.zone is not None

    @property
    def local(self) -> Seconds:
        """What the clocks of its zone show, as seconds since their 1970-01-01T00:00:00."""
        return self.seconds + (self.zone or 0) * 60


def moment_of(local: Seconds, zone: int | None) -> ZonedSeconds:
    """The moment at which the clocks of `zone` show `local`."""
    return ZonedSeconds(local - (zone or 0) * 60, zone)


class Civil(NamedTuple):
    """A day of the proleptic Gregorian calendar; the year before 1 is 0, as in XSD 1.1."""

    year: int
    month: int
    day: int


def datetime_of(lexical: str) -> ZonedSeconds | None:
    """The value of an xsd:dateTime; None where the text is none."""
    match = _DATETIME.fullmatch(lexical)
    days = _days(match)
    if match is None or days is None:
        return None
    clock = _clock(match)
    return None if clock is None else _moment(days * DAY_SECONDS + clock, match["zone"])


def date_of(lexical: str) -> ZonedSeconds | None:
    """The start of an xsd:date; None where the text is none."""
    match = _DATE_ONLY.fullmatch(lexical)
    days = _days(match)
    return None if match is None or days is None else _moment(days * DAY_SECONDS, match["zone"])


def time_of(lexical: str) -> ZonedSeconds | None:
    """An xsd:time, on 1970-01-01 (24:00:00 is 00:00:00); None where the text is none."""
    match = _TIME_ONLY.fullmatch(lexical)
    clock = None if match is None else _clock(match)
    return None if match is None or clock is None else _moment(clock % DAY_SECONDS, match["zone"])


# ---- from moments to texts -----------------------------------------------------------------------------------------


def datetime_text(moment: ZonedSeconds) -> str:
    """Canonical, but for the zone, which stays: it can be asked for."""
    return f"{_date_text(civil_of(moment))}T{_clock_text(moment)}{zone_text(moment.zone)}"


def date_of_ms(time_ms: int) -> str:
    """A time as people read it, to the second."""
    return datetime_text(ZonedSeconds(time_ms // 1000, 0))


def date_text(moment: ZonedSeconds) -> str:
    return _date_text(civil_of(moment)) + zone_text(moment.zone)


def time_text(moment: ZonedSeconds) -> str:
    return _clock_text(moment) + zone_text(moment.zone)


def zone_text(zone: int | None) -> str:
    if not zone:
        return "" if zone is None else "Z"
    return f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02}:{abs(zone) % 60:02}"


def seconds_text(seconds: Seconds) -> str:
    """Seconds without a sign, with as many decimals as they have, at most 18."""
    whole, part = divmod(seconds, 1)
    if not part:
        return str(whole)
    decimals = f"{int(part * 10**18):018}".rstrip("0")
    return f"{whole}.{decimals}" if decimals else str(whole)


def _date_text(civil: Civil) -> str:
    sign = "-" if civil.year < 0 else ""
    return f"{sign}{abs(civil.year):04}-{civil.month:02}-{civil.day:02}"


def _clock_text(moment: ZonedSeconds) -> str:
    hour, minute, second = clock_of(moment)
    text = seconds_text(second)
    return f"{hour:02}:{minute:02}:{text if second >= 10 else '0' + text}"


# ---- the calendar --------------------------------------------------------------------------------------------------


def civil_of(moment: ZonedSeconds) -> Civil:
    """The day that the moment's own calendar shows."""
    days = int(moment.local // DAY_SECONDS) + _EPOCH_DAYS
    era, day_of_era = divmod(days, 146097)  # of 400 years, each beginning in March
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    return Civil(era * 400 + year_of_era + (month <= 2), month, day)


def clock_of(moment: ZonedSeconds) -> tuple[int, int, Seconds]:
    """Hours, minutes and seconds that the moment's own clock shows."""
    minutes, second = divmod(moment.local % DAY_SECONDS, 60)
    hour, minute = divmod(int(minutes), 60)
    return hour, minute, second


def months_later(moment: ZonedSeconds, months: int) -> ZonedSeconds:
    """The same day and time so many months on; where that month is too short its last day (XSD, appendix E)."""
    civil = civil_of(moment)
    carried, month = divmod(civil.year * 12 + civil.month - 1 + months, 12)
    day = min(civil.day, _month_days(carried, month + 1))
    days = days_since_epoch(Civil(carried, month + 1, day))
    return moment_of(days * DAY_SECONDS + moment.local % DAY_SECONDS, moment.zone)


def parse_time(text: str) -> int:
    """Milliseconds since the epoch from an integer of them or an xsd:dateTime (UTC where it names no zone).

    What is finer than a millisecond is cut off: elements are ordered by whole milliseconds."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return checked_time(int(text))
    moment = datetime_of(text)
    if moment is None:
        raise BadArgument(
            f"{text[:80]!r} is not a time: write milliseconds since the epoch (1700000000000) or an "
            "xsd:dateTime (2024-01-31T12:00:00Z)"
        )
    return checked_time(int(moment.seconds * 1000 // 1))


def checked_time(time_ms: int) -> int:
    if abs(time_ms) > TIME_MS_MAX:
        nanoseconds = time_ms // 1_000_000
        hint = f"; as nanoseconds it would be {date_of_ms(nanoseconds)}: if you mean that, send {nanoseconds}"
        raise BadArgument(
            f"the time {time_ms} is out of range: it counts milliseconds since 1970, at most {TIME_MS_MAX}"
            + hint * (abs(time_ms) < 2**63)
        )
    return time_ms


def _days(match: re.Match[str] | None) -> int | None:
    """Days since 1970-01-01 (proleptic Gregorian); None for a day that the month has not."""
    if match is None:
        return None
    civil = Civil(int(match["year"]), int(match["month"]), int(match["day"]))
    return None if civil.day > _month_days(civil.year, civil.month) else days_since_epoch(civil)


def _month_days(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _MONTH_DAYS[month - 1] + (leap and month == 2)


def days_since_epoch(civil: Civil) -> int:
    year, month, day = civil
    # Years that begin in March end with the leap day, so that days before a month need no table.
    shifted = year - (month <= 2)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + day_of_year - _EPOCH_DAYS


def _clock(match: re.Match[str]) -> Seconds | None:
    """Seconds since midnight; None for what is later than the midnight that ends the day."""
    written = match["second"]
    second: Seconds = Fraction(written) if "." in written else int(written)
    hour, minute = int(match["hour"]), int(match["minute"])
    if hour == 24 and (minute or second):
        return None
    return hour * 3600 + minute * 60 + second


def _moment(local: Seconds, zone: str | None) -> ZonedSeconds:
    if zone is None or zone == "Z":
        return ZonedSeconds(local, None if zone is None else 0)
    offset = int(zone[1:3]) * 60 + int(zone[4:6])
    return moment_of(local, offset if zone[0] == "+" else -offset)
