"""Durations: months and seconds, two lengths that no calendar-free rule turns into each other."""

from __future__ import annotations

import re
from fractions import Fraction

from stream_ext.times import DAY_SECONDS, Seconds, distance, seconds_text
from stream_ext.values.values.kinds import DAY_TIME, YEAR_MONTH, Duration

_DURATION = re.compile(
    r"(-)?P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
#: Python reads no longer integers; a duration of that length is none that anyone means.
_TEXT_MAX = 1000
_MONTHS, _DAYS = slice(1, 3), slice(3, 7)


def duration_of(datatype: str, lexical: str) -> Duration | None:
    """The value of an xsd:duration, or of one of the two types derived from it; None if the text is no duration."""
    match = _DURATION.fullmatch(lexical) if len(lexical) <= _TEXT_MAX else None
    if match is None:
        return None
    parts = match.groups()
    if (datatype == YEAR_MONTH and any(parts[_DAYS])) or (datatype == DAY_TIME and any(parts[_MONTHS])):
        return None
    years, months, days, hours, minutes = (int(part or 0) for part in parts[1:6])
    written = parts[6] or "0"
    seconds: Seconds = Fraction(written) if "." in written else int(written)
    seconds += days * DAY_SECONDS + hours * 3600 + minutes * 60
    sign = -1 if parts[0] else 1
    return Duration(datatype, sign * (years * 12 + months), sign * seconds)


def duration_text(duration: Duration) -> str:
    """Canonical: P1Y2M, P3DT4H5M6.7S; nothing is PT0S, or P0M where only months could be."""
    if not duration.months and not duration.seconds:
        return "P0M" if duration.datatype == YEAR_MONTH else "PT0S"
    sign = "-" if duration.months < 0 or duration.seconds < 0 else ""
    years, months = divmod(abs(duration.months), 12)
    days, rest = divmod(distance(duration.seconds, 0), DAY_SECONDS)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    date = _written((years, "Y"), (months, "M"), (days, "D"))
    clock = _written((hours, "H"), (minutes, "M"), (seconds, "S"))
    return f"{sign}P{date}T{clock}" if clock else f"{sign}P{date}"


def _written(*parts: tuple[Seconds, str]) -> str:
    return "".join(seconds_text(count) + unit for count, unit in parts if count)
