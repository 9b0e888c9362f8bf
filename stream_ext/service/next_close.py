"""What the next evaluation of a query waits for: its next close, and each of its streams.

stream taxis: its time is 2000, and the next close is at 3000; the last element came 5 min ago; push elements or a
heartbeat"""

from __future__ import annotations

from typing import Any

from stream_ext.catalog.catalog import QueryDefinition, StreamDefinition
from stream_ext.service.engine import Engine
from stream_ext.times import date_of_ms
from stream_ext.writer.injector import Injector

#: A stream is stalled if its queries wait for it, and nothing came for so long.
_STALLED_MS = 30_000
#: Smaller times are not of this century: they are shown as numbers.
_DATE_MS, _DATE_MS_MAX = 100_000_000_000, 253_402_300_800_000


def next_close(query: QueryDefinition, injector: Injector, engine: Engine) -> dict[str, Any]:
    """`next_close`, and of each stream its time, when its last element came, and why the query waits for it."""
    catalog, awaited = injector.catalog, engine.lateness.awaited(query.number)
    numbers = [number for number in dict.fromkeys(catalog.streams_of(query)) if number in catalog.streams]
    found = []
    for number in numbers:
        stream, position = catalog.streams[number], injector.positions.get(number)
        last_ms, time = engine.elements.last_ms(position), None if position is None else position.time
        silent_ms = None if last_ms is None else max(0, engine.clock.now_ms() - last_ms)
        came = _came(silent_ms) if position is not None and position.last else "no element has come yet"
        awaits = f"{_times(time, awaited.close)}; {came}; {_remedy(stream, time, len(numbers), engine)}"
        is_awaited, follows_clock = number in awaited.streams, stream.runs_by == "clock" and time is not None
        is_silent = silent_ms is None or silent_ms >= _STALLED_MS
        found.append(
            {
                "stream": stream.name,
                "time": time,
                "last_element_at": last_ms,
                "silent_ms": silent_ms,
                "awaits": f"stream {stream.name}: {awaits}" if is_awaited else None,
                "stalled": is_awaited and is_silent and not follows_clock,
            }
        )
    return {"next_close": awaited.close, "stream_times": found}


def _times(time: int | None, close: int | None) -> str:
    own = "it has no time yet" if time is None else f"its time is {_shown(time)}"
    return own if close is None else f"{own}, and the next close is at {_shown(close)}"


def _shown(time_ms: int) -> str:
    return date_of_ms(time_ms) if _DATE_MS <= time_ms < _DATE_MS_MAX else str(time_ms)


def _came(silent_ms: int | None) -> str:
    if silent_ms is None:
        return "its last element came before the server started"
    for unit, worth in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if silent_ms >= 2 * worth:
            return f"the last element came {silent_ms // worth} {unit} ago"
    return f"the last element came {silent_ms // 1000} s ago"


def _remedy(stream: StreamDefinition, time: int | None, streams: int, engine: Engine) -> str:
    """What advances the time of the stream. A single stream cannot be left out, so `idle` does nothing for it."""
    if stream.of_query is not None:
        return "it has the emissions of a query: see what that one waits for"
    if stream.runs_by == "clock" and time is not None:
        return "its time follows the clock"
    idle = ", or give the stream the option idle" if streams > 1 and stream.options.idle_ms is None else ""
    return f"push elements or a heartbeat{idle}"
