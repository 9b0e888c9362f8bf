"""Times ahead of the clock: a wrong one would end a stream, because the time of a stream never goes back.

A stream rejects times further ahead than its option `ahead`. A number that in another unit would be a time of the last
ten years (replayed data is often old) or of the next year was probably meant in that unit. For seconds, which are legal
small times, a warning says so; for microseconds, the error does."""

from __future__ import annotations

from stream_ext.catalog.catalog import StreamDefinition
from stream_ext.errors import BadArgument
from stream_ext.times import date_of_ms
from stream_ext.writer.elements import Times

_YEAR_MS = 366 * 86_400_000
#: A clock before this one shows no time of day, but that of a test: nothing is near it by chance alone.
_HINTS_FROM_MS = 20 * _YEAR_MS
#: How far from now a time in another unit is still believed to be meant. Seconds are not looked for further back: as
#: milliseconds they are the days 17 to 21 of 1970, and times that begin at 0 should rarely come there.
_BEFORE_MS, _AFTER_MS = 10 * _YEAR_MS, _YEAR_MS
_FINER = {"microseconds": 1_000, "nanoseconds": 1_000_000}


def check_ahead(stream: StreamDefinition, times: Times, now_ms: int) -> list[str]:
    """The warnings about these times, of elements or of a heartbeat; raises if one is too far ahead."""
    if not len(times):
        return []
    at, allowed_ms = int(times.argmax()), stream.options.ahead_ms
    latest = int(times[at])
    finer = [f"{latest // parts} ({name})" for name, parts in _FINER.items() if _is_near(latest // parts, now_ms)]
    hint = f"times are milliseconds since 1970: was {' or '.join(finer)} meant?" if finer else ""
    if allowed_ms is not None and latest - now_ms > allowed_ms:
        where = f"element {at + 1}: " if len(times) > 1 else ""
        advice = hint or (
            "send it when that time has come; or, to replay data from the future, remove the limit by "
            'PATCH with {"ahead": "any"}'
        )
        raise BadArgument(
            f"{where}the time {latest} is {date_of_ms(latest)}, and the clock is at {date_of_ms(now_ms)}: "
            f"that is further ahead than the option ahead of stream {stream.name!r} allows ({allowed_ms} "
            f"ms); nothing was accepted; {advice}"
        )
    found = [f"the time {latest} is {date_of_ms(latest)}; {hint}"] if hint else []
    seconds = (times >= (now_ms - _BEFORE_MS) // 1000) & (times <= (now_ms + _AFTER_MS) // 1000)
    if now_ms >= _HINTS_FROM_MS and seconds.any():
        time = int(times[seconds][0])
        found.append(
            f"the time {time} is {date_of_ms(time)}, because times are milliseconds since 1970; as "
            f"seconds it would be {date_of_ms(time * 1000)}: if you mean that, send {time * 1000}"
        )
    return found


def _is_near(time_ms: int, now_ms: int) -> bool:
    return now_ms >= _HINTS_FROM_MS and now_ms - _BEFORE_MS <= time_ms <= now_ms + _AFTER_MS
