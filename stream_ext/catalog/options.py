"""The options of a stream.

An unknown option is rejected by name: if it were ignored, later answers would be wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from stream_ext.errors import BadArgument
from stream_ext.names import is_iri, meant

RETENTION_MS = 60_000
#: Times further ahead of the clock are rejected: a wrong one would end the stream, because its time never goes back.
AHEAD_MS = 86_400_000
#: As the option `ahead` is written where nothing is too far ahead.
ANY = "any"
#: Some 285,000 years: any sum of a time and a length stays far inside 64 bits.
DURATION_MS_MAX = 2**53

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SHORT = re.compile(r"(\d+)\s*(ms|s|min|m|h|d)?", re.IGNORECASE)
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class StreamOptions(msgspec.Struct, frozen=True, array_like=True):
    """`timeless`: the triples that the store absorbs: all, none, or those of these predicates. `ahead_ms`: how far
    ahead of the clock times may be; None: any."""

    timeless: bool | list[str] = False
    graph: str | None = None
    time: str | None = None
    lateness_ms: int = 0
    batch_ms: int | None = None
    idle_ms: int | None = None
    retention_ms: int = RETENTION_MS
    ahead_ms: int | None = AHEAD_MS

    def as_json(self) -> dict[str, Any]:
        """As they are sent, with durations in milliseconds."""
        return {
            "timeless": self.timeless,
            "graph": self.graph,
            "time": self.time,
            "lateness": self.lateness_ms,
            "batch": self.batch_ms,
            "idle": self.idle_ms,
            "retention": self.retention_ms,
            "ahead": ANY if self.ahead_ms is None else self.ahead_ms,
        }


def parse_duration(value: object, option: str) -> int:
    """Milliseconds: 5000, "5s", "100 ms", "PT5S"."""
    milliseconds = _milliseconds(value, option)
    if milliseconds > DURATION_MS_MAX:
        raise BadArgument(f"stream option {option!r}: {value!r} is longer than {DURATION_MS_MAX} ms")
    return milliseconds


def _milliseconds(value: object, option: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        if short := _SHORT.fullmatch(value.strip()):
            return int(short[1]) * _UNITS_MS[(short[2] or "ms").lower()]
        iso = _ISO.fullmatch(value.strip())
        if iso and any(iso.groups()):
            days, hours, minutes, seconds = iso.groups(default="0")
            exact = Fraction(seconds) * 1000 + int(minutes) * 60_000 + int(hours) * 3_600_000 + int(days) * 86_400_000
            if exact.denominator == 1:
                return int(exact)
    raise BadArgument(
        f"stream option {option!r}: {_shown(value)} is not a duration in whole milliseconds; "
        'write 5000, "5s", "100ms", "1h" or "PT5S"'
    )


def _iri(value: object, option: str) -> str:
    if isinstance(value, str) and is_iri(value):
        return value
    raise BadArgument(f"stream option {option!r}: {_shown(value)} is not an absolute IRI")


def _shown(value: object) -> str:
    """As JSON has it, for so it was mostly sent."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _timeless(value: object) -> bool | list[str]:
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return sorted({_iri(item, "timeless") for item in value})
    raise BadArgument(f"stream option 'timeless': {value!r} is neither true nor false nor a list of predicate IRIs")


def _idle(value: object) -> int | None:
    if value is None:
        return None
    idle_ms = parse_duration(value, "idle")
    if idle_ms == 0:
        raise BadArgument(
            "stream option 'idle': 0 would make the stream idle at once; write a duration, or null for never"
        )
    return idle_ms


def _ahead(value: object) -> int | None:
    if isinstance(value, str) and value.strip().lower() == ANY:
        return None
    try:
        return parse_duration(value, "ahead")
    except BadArgument as error:
        raise BadArgument(f"{error}, or {ANY!r}") from None


_READERS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "timeless": ("timeless", _timeless),
    "graph": ("graph", lambda value: None if value is None else _iri(value, "graph")),
    "time": ("time", lambda value: None if value is None else _iri(value, "time")),
    "lateness": ("lateness_ms", lambda value: parse_duration(value, "lateness")),
    "batch": ("batch_ms", lambda value: None if value is None else parse_duration(value, "batch")),
    "idle": ("idle_ms", _idle),
    "retention": ("retention_ms", lambda value: parse_duration(value, "retention")),
    "ahead": ("ahead_ms", _ahead),
}


#: The options that a stream may be given when it is there, with their fields. The others say what its elements mean.
CHANGEABLE = {"idle": "idle_ms", "retention": "retention_ms", "ahead": "ahead_ms"}


def parse_options(options: Mapping[str, object]) -> tuple[str | None, StreamOptions]:
    """The stream's own IRI, where one was given, and the options."""
    known = ["iri", *_READERS]
    for name in options:
        if name not in known:
            raise BadArgument(f"unknown stream option {name!r}{meant(name, known)}; the options are {', '.join(known)}")
    own = options.get("iri")
    fields: dict[str, Any] = {field: read(options[name]) for name, (field, read) in _READERS.items() if name in options}
    return None if own is None else _iri(own, "iri"), StreamOptions(**fields)
