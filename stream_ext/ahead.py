"""Times ahead of the clock: one that is wrong would end a stream, for its time never goes back.

A stream refuses what is further ahead than its option `ahead`. A number that would be about now in another unit was
probably meant in that: of seconds, which are legal small times, a warning says so; of microseconds the error."""

from __future__ import annotations

import numpy as np

from stream_ext.adaptor import Times
from stream_ext.catalog import StreamDefinition
from stream_ext.errors import BadArgument
from stream_ext.times import date_of_ms

_YEAR_MS = 366 * 86_400_000
_FINER = {"microseconds": 1_000, "nanoseconds": 1_000_000}


def check_ahead(stream: StreamDefinition, times: Times, now_ms: int) -> list[str]:
    """What is to be said of these times, of elements or of a heartbeat; raises where one is too far ahead."""
    if not len(times):
        return []
    at, allowed_ms = int(times.argmax()), stream.options.ahead_ms
    latest = int(times[at])
    finer = [f"{latest // parts} ({name})" for name, parts in _FINER.items() if _is_near(latest // parts, now_ms)]
    hint = f"times are milliseconds since 1970: was {' or '.join(finer)} meant?" if finer else ""
    if allowed_ms is not None and latest - now_ms > allowed_ms:
        where = f"element {at + 1}: " if len(times) > 1 else ""
        advice = hint or 'send it in time; or let it be any, with PATCH and {"ahead": "any"}, if the future is replayed'
        raise BadArgument(
            f"{where}the time {latest} is {date_of_ms(latest)}, and the clock says {date_of_ms(now_ms)}: it is further "
            f"ahead than the option ahead of stream {stream.name!r} allows ({allowed_ms} ms), and nothing was taken; "
            f"{advice}"
        )
    found = [f"the time {latest} is {date_of_ms(latest)}; {hint}"] if hint else []
    for time in times[np.abs(times - now_ms // 1000) <= _YEAR_MS // 1000].tolist()[:1]:
        found.append(
            f"the time {time} is {date_of_ms(time)}, for times are milliseconds since 1970; as seconds it would be "
            f"{date_of_ms(time * 1000)}: if that was meant, send {time * 1000}"
        )
    return found


def _is_near(time_ms: int, now_ms: int) -> bool:
    return abs(time_ms - now_ms) <= _YEAR_MS
