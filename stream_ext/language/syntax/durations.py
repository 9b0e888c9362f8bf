"""Lengths of time and points in time, as windows write them."""

from __future__ import annotations

import re
from fractions import Fraction

from stream_ext.errors import BadArgument
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.literals import STRINGS
from stream_ext.language.syntax.tokens import string_value
from stream_ext.language.syntax.words import XSD
from stream_ext.times import parse_time

_UNIT_MS = {"MS": 1, "S": 1000, "M": 60_000, "MIN": 60_000, "H": 3_600_000, "D": 86_400_000}
_NS_PER_MS = 1_000_000
_DURATION_TYPES = frozenset({XSD + "duration", XSD + "dayTimeDuration"})
_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_ISO = re.compile(
    rf"P(?=[0-9T])(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?=[0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?(?![\w.])",
    re.IGNORECASE,
)
_ISO_MS = (604_800_000, 86_400_000, 3_600_000, 60_000, 1000)  # weeks, days, hours, minutes, seconds
#: Some 285,000 years: any sum of a time and a length stays far inside 64 bits.
LENGTH_MS_MAX = 2**53


def duration_begins(cursor: Cursor) -> bool:
    if cursor.kind == "integer" or cursor.kind in STRINGS:
        return True
    return cursor.kind == "word" and _ISO.match(cursor.source.text, cursor.offset) is not None


def duration(cursor: Cursor, owner: str, least: int = 1) -> int:
    """The length after `owner` (RANGE, STEP, ...) in milliseconds."""
    offset = cursor.offset
    if cursor.kind == "op" and cursor.raw == "-":
        cursor.fail(f"{owner} cannot be negative")
    is_number, index = cursor.kind == "integer", cursor.index
    milliseconds = _any_duration(cursor, owner)
    if is_number and cursor.index == index + 1 and milliseconds:
        cursor.without_unit.append(f"{owner} {milliseconds}")
    if milliseconds < least:
        cursor.fail(f"{owner} must be longer than 0", offset)
    if milliseconds > LENGTH_MS_MAX:
        cursor.fail(f"{owner} is longer than {LENGTH_MS_MAX} ms", offset)
    return milliseconds


def _any_duration(cursor: Cursor, owner: str) -> int:
    if cursor.kind == "integer":
        return _with_unit(cursor)
    if cursor.kind == "word":
        match = _ISO.match(cursor.source.text, cursor.offset)
        if match:
            milliseconds = _iso(cursor, match)
            cursor.skip_to(match.end())
            return milliseconds
    if cursor.kind in STRINGS:
        return _duration_literal(cursor)
    if cursor.kind in ("decimal", "double"):
        cursor.fail("a length is a whole number with its unit (1500ms), or ISO 8601 (PT1.5S)")
    return cursor.expected(f"a length after {owner}, as in {owner} 5s or {owner} PT5S")


def _with_unit(cursor: Cursor) -> int:
    end = cursor.offset + len(cursor.raw)
    if len(cursor.raw) > 18:
        cursor.fail(f"a length of more than {LENGTH_MS_MAX} ms")
    count, offset = int(cursor.raw), cursor.offset
    cursor.advance()
    if cursor.kind == "word" and cursor.word() == "NS":
        if count % _NS_PER_MS:
            cursor.refuse("a length that is not a whole number of milliseconds", offset)
        cursor.advance()
        return count // _NS_PER_MS
    if cursor.kind == "word" and cursor.word() in _UNIT_MS:
        unit = _UNIT_MS[cursor.word()]
        cursor.advance()
        return count * unit
    if cursor.kind in ("word", "pname") and cursor.offset == end:
        cursor.fail(f"'{cursor.raw}' is not a unit of time; the units are ns, ms, s, m or min, h, d")
    return count


def _iso(cursor: Cursor, match: re.Match[str]) -> int:
    years, months, *rest = match.groups()
    if years or months:
        cursor.fail("years and months have no fixed length; write days, hours, minutes, seconds")
    exact = sum((Fraction(part) * unit for part, unit in zip(rest, _ISO_MS, strict=True) if part), Fraction(0))
    if exact.denominator != 1:
        cursor.refuse("a length that is not a whole number of milliseconds")
    return int(exact)


def _duration_literal(cursor: Cursor) -> int:
    offset = cursor.offset
    lexical, datatype = typed_string(cursor)
    if datatype not in _DURATION_TYPES:
        cursor.fail('a length in quotes needs its datatype: "PT5S"^^xsd:duration', offset)
    if lexical.startswith("-"):
        cursor.fail("a length cannot be negative", offset)
    match = _ISO.fullmatch(lexical)
    if match is None or lexical != lexical.upper():
        cursor.fail(f"'{lexical}' is not an xsd:duration, such as PT5S", offset)
    return _iso(cursor, match)


def typed_string(cursor: Cursor) -> tuple[str, str | None]:
    lexical = string_value(cursor.source, cursor.kind, cursor.raw, cursor.offset)
    cursor.advance()
    if not cursor.take("^^"):
        return lexical, None
    if cursor.kind not in ("iri", "pname"):
        cursor.expected("the IRI of a datatype after '^^'")
    return lexical, cursor.iri()


def point_in_time(cursor: Cursor, owner: str) -> int:
    """The time after `owner` (T0, START, END) in milliseconds since 1970."""
    offset = cursor.offset
    sign = "-" if cursor.take("-") else ""
    if cursor.kind == "integer":
        written = sign + cursor.raw
        cursor.advance()
    elif not sign and cursor.kind in STRINGS:
        written, datatype = typed_string(cursor)
        if datatype not in (None, XSD + "dateTime"):
            cursor.fail(f"{owner} must be milliseconds or an xsd:dateTime", offset)
    else:
        cursor.expected(f'a time after {owner}: milliseconds since the epoch, or "2024-01-31T12:00:00Z"')
    try:
        time_ms = parse_time(written)
    except BadArgument as error:
        cursor.fail(str(error), offset)
    if abs(time_ms) > LENGTH_MS_MAX:
        cursor.fail(f"{owner} is further from 1970 than {LENGTH_MS_MAX} ms", offset)
    return time_ms
