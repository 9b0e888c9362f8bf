"""The parameters of a request: the code that knows a parameter reads it; parameters that nobody read are rejected by
name.

Nothing is ignored, except what SPARQLWrapper always sends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import unquote_to_bytes

import numpy as np

from stream_ext.errors import BadArgument
from stream_ext.names import meant
from stream_ext.times import parse_time

#: SPARQLWrapper repeats its Accept header under every parameter name that some server once used.
SPARQLWRAPPER = ("format", "output", "results")

_PARAMETERS_MAX = 10_000

Wait = Literal["published", "evaluated"]

_NAMED_MAX = 10  # of unknown names in an error
_SHORT_BYTES = 1 << 12
_NUMBER_SHOWN = 60  # of an unknown value in an error
#: The value of each byte as a hexadecimal digit; -1: it is no digit.
_DIGITS = np.full(256, -1, np.int16)
for _digit in b"0123456789abcdefABCDEF":
    _DIGITS[_digit] = int(chr(_digit), 16)

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)?", re.IGNORECASE)
_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


def parse_pairs(encoded: bytes) -> list[tuple[str, str]]:
    """`a=b&c=d` as decoded pairs, in order."""
    pairs = []
    parts = encoded.split(b"&", _PARAMETERS_MAX)
    if len(parts) > _PARAMETERS_MAX:
        raise BadArgument(f"more than {_PARAMETERS_MAX} parameters: no request needs that many")
    for part in parts:
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((_decoded(name), _decoded(value)))
    return pairs


def _decoded(text: bytes) -> str:
    if b"%" not in text and b"+" not in text and text.isascii():
        return text.decode()
    try:
        return unescaped(text.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise BadArgument("a parameter is not UTF-8") from None


def unescaped(text: bytes) -> bytes:
    """The text without percent-encoding. All escapes of a long text are decoded at once: one by one they would block
    the event loop for seconds."""
    if len(text) <= _SHORT_BYTES:
        return unquote_to_bytes(text)
    signs = np.frombuffer(text, np.uint8)
    at = np.flatnonzero(signs[:-2] == ord("%"))
    high, low = _DIGITS[signs[at + 1]], _DIGITS[signs[at + 2]]
    is_escape = (high >= 0) & (low >= 0)
    at, found = at[is_escape], signs.copy()
    found[at] = (high * 16 + low)[is_escape]
    retained = np.ones(len(signs), bool)
    retained[at + 1] = retained[at + 2] = False
    return found[retained].tobytes()


def parse_duration(text: str, name: str) -> float:
    """Seconds, from `30s`, `500ms`, `2m`, `1h`, `PT30S`, or a whole number of milliseconds."""
    plain = _DURATION.fullmatch(text.strip())
    if plain and (plain[2] or "." not in plain[1]):
        return float(plain[1]) * _UNITS_MS[(plain[2] or "ms").lower()] / 1000
    iso = _ISO_DURATION.fullmatch(text.strip())
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    raise BadArgument(f"{name}={text}: write a duration as 30s, 500ms, 2m, 1h or PT30S")


def whole_number(name: str, text: str) -> int:
    """A whole number; its digits are limited so that it fits into 64 bits."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise BadArgument(f"{name}{text[:_NUMBER_SHOWN]}: a whole number is expected, 0 or more, of at most 18 digits")
    return int(text)


class Parameters:
    """A method that reads a parameter removes it; `done` rejects those that are left."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        self.add(pairs)

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        values = self._values.pop(name, None)
        if values is None:
            return None
        if len(values) > 1:
            raise BadArgument(f"{name}= is given {len(values)} times: give it once")
        return values[0]

    def texts(self, name: str) -> tuple[str, ...]:
        """The values of a parameter that may be given several times."""
        return tuple(self._values.pop(name, ()))

    def integer(self, name: str) -> int | None:
        text = self.text(name)
        return None if text is None else whole_number(f"{name}=", text)

    def time(self, name: str) -> int | None:
        text = self.text(name)
        return None if text is None else parse_time(text)

    def duration_s(self, name: str) -> float | None:
        text = self.text(name)
        return None if text is None else parse_duration(text, name)

    def timeout_s(self, most_s: float) -> float:
        """The time limit of the request; the parameter is not removed."""
        given = self._values.get("timeout", ())
        if len(given) > 1:
            self.text("timeout")  # which complains
        return min(parse_duration(given[0], "timeout") or most_s, most_s) if given else most_s

    def flag(self, name: str) -> bool:
        return self.choice(name, ("false", "true"), "false") == "true"

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        text = self.text(name)
        if text is None:
            return default
        if text not in allowed:
            raise BadArgument(f"{name}={text}: the value is one of {', '.join(allowed)}")
        return text

    def wait(self) -> Wait:
        """When a change is acknowledged: when it is readable (published), or when the queries have evaluated it."""
        wait = self.choice("wait", ("published", "evaluated"), "published")
        return "evaluated" if wait == "evaluated" else "published"

    def ignore(self, names: Iterable[str]) -> None:
        for name in names:
            self._values.pop(name, None)

    def refuse(self, reasons: Mapping[str, str]) -> None:
        for name, reason in reasons.items():
            if name in self._values:
                raise BadArgument(f"{name}=: {reason}")

    def done(self, known: str) -> None:
        """Rejects what is left; `known`: the names that the request could have had."""
        if self._values:
            names = re.findall(r"[\w-]+", known.partition(";")[0].partition("(")[0])
            unknown = [name[:60] for name in list(self._values)[:_NAMED_MAX]]
            left = ", ".join(f"{name}={_why(name, names)}" for name in unknown)
            raise BadArgument(f"unknown for this request: {left}; known: {known}")


def _why(name: str, known: list[str]) -> str:
    """A parameter may be known and not belong to this text, such as `at` to a registration."""
    return " (it does not belong to this kind of text)" if name in known else meant(name, known)
