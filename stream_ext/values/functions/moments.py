"""Functions on dates and times (SPARQL 1.1, 17.4.5), on xsd:date and xsd:time too where they have the part."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from stream_ext.times import Civil, Seconds, ZonedSeconds, civil_of, clock_of, seconds_text, zone_text
from stream_ext.values.values import Duration, Timed, Value
from stream_ext.values.values.kinds import DATE, DATETIME, DAY_TIME, TIME


def _civil(value: Value | None) -> Civil | None:
    return civil_of(value.moment) if isinstance(value, Timed) and value.datatype != TIME else None


def _clock(value: Value | None) -> tuple[int, int, Seconds] | None:
    return clock_of(value.moment) if isinstance(value, Timed) and value.datatype != DATE else None


def year(value: Value | None) -> int | None:
    civil = _civil(value)
    return None if civil is None else civil.year


def month(value: Value | None) -> int | None:
    civil = _civil(value)
    return None if civil is None else civil.month


def day(value: Value | None) -> int | None:
    civil = _civil(value)
    return None if civil is None else civil.day


def hours(value: Value | None) -> int | None:
    clock = _clock(value)
    return None if clock is None else clock[0]


def minutes(value: Value | None) -> int | None:
    clock = _clock(value)
    return None if clock is None else clock[1]


def seconds(value: Value | None) -> Decimal | None:
    clock = _clock(value)
    return None if clock is None else Decimal(seconds_text(clock[2]))


def timezone(value: Value | None) -> Duration | None:
    """Without a zone it is an error; TZ then is the empty string."""
    zone = _moment_zone(value)
    return None if zone is None else Duration(DAY_TIME, 0, zone * 60)


def tz(value: Value | None) -> str | None:
    return zone_text(_moment_zone(value)) if isinstance(value, Timed) else None


def _moment_zone(value: Value | None) -> int | None:
    return value.moment.zone if isinstance(value, Timed) else None


def now(now_ms: int) -> Timed:
    return Timed(DATETIME, ZonedSeconds(Fraction(now_ms, 1000), 0))
