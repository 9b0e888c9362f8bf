"""FROM NAMED WINDOW: the window's name, its stream, its lengths and its policy."""

from __future__ import annotations

import re
from fractions import Fraction

from stream_ext.errors import BadArgument
from stream_ext.plan.algebra import StreamRef, WindowClause
from stream_ext.syntax.cursor import Cursor
from stream_ext.syntax.literals import STRINGS
from stream_ext.syntax.tokens import string_value
from stream_ext.syntax.words import NO_NAMES, XSD
from stream_ext.times import parse_time

_UNIT_MS = {"MS": 1, "S": 1000, "M": 60_000, "MIN": 60_000, "H": 3_600_000, "D": 86_400_000}
_COUNTS = frozenset({"TRIPLES", "COUNT", "ELEMENTS", "ROWS"})
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


def window_clause(cursor: Cursor) -> None:
    """Reads what follows FROM NAMED WINDOW and declares it."""
    offset = cursor.offset
    if cursor.word() == "ON":
        cursor.refuse("FROM NAMED WINDOW ON ... AS (the form of 2014)")
    if cursor.kind not in ("iri", "pname"):
        cursor.expected("the IRI of the window after FROM NAMED WINDOW")
    name = cursor.iri()
    if name in cursor.windows:
        first = cursor.windows[name].position
        cursor.fail(f"the window <{name}> is declared twice (first in line {first.line})", offset)
    cursor.require_word("ON", "and the stream after the name of the window")
    stream = stream_reference(cursor)
    bracket = cursor.take("[")
    range_ms, step_ms = _lengths(cursor)
    t0_ms = _policy(cursor, None)
    if bracket:
        cursor.require("]", "to close the window (or STEP, T0, REPORT)")
        t0_ms = _policy(cursor, t0_ms)
    cursor.windows[name] = WindowClause(name, stream, range_ms, step_ms, t0_ms, cursor.position(offset))


def stream_reference(cursor: Cursor) -> StreamRef:
    if cursor.word() == "STREAM" and cursor.peek()[0] in ("iri", "pname", "var", "word"):
        cursor.advance()
    position = cursor.position()
    if cursor.kind == "var":
        cursor.refuse("a stream named by a variable")
    if cursor.kind in ("iri", "pname"):
        return StreamRef(cursor.iri(), None, position)
    if cursor.kind == "word" and cursor.word() not in NO_NAMES:
        return StreamRef(None, cursor.bare_name(), position)
    return cursor.expected("a stream: its IRI, a prefixed name or a bare name")


def _lengths(cursor: Cursor) -> tuple[int, int]:
    """Range and step in milliseconds."""
    word = cursor.word()
    _refuse_shape(cursor, word)
    if word not in ("RANGE", "TUMBLING", "SLIDING"):
        cursor.expected("the extent of the window: RANGE 10s STEP 1s, or TUMBLING 10s")
    start = cursor.offset
    cursor.advance()
    range_ms = _duration(cursor, word)
    while word == "RANGE" and _duration_begins(cursor):
        range_ms += _duration(cursor, word)  # 1h 30m
    if cursor.kind in ("lang",) or cursor.raw == "@" or cursor.word() == "ON":
        cursor.refuse("RANGE ... ON a predicate for the time")
    if cursor.word() in ("STEP", "SLIDE"):
        step = cursor.word()
        at = cursor.offset
        cursor.advance()
        step_ms = _duration(cursor, step)
        if word == "TUMBLING" and step_ms != range_ms:
            cursor.refuse("a TUMBLING window whose STEP is not its length", at)
        return range_ms, step_ms
    if word == "SLIDING":
        cursor.refuse("SLIDING without STEP", start)
    if word == "RANGE":
        cursor.take_word("TUMBLING")
    return range_ms, range_ms


def _refuse_shape(cursor: Cursor, word: str) -> None:
    """Raises for the shapes of windows that are known and not run."""
    if word == "RANGE" and cursor.peek_word() in _COUNTS:
        word = cursor.peek_word()
    if word in _COUNTS:
        cursor.refuse(f"{_article(word)} {word} (count) window")
    if word in ("NOW", "ALL"):
        cursor.refuse(f"{_article(word)} {word} window")
    if word == "FROM" and cursor.peek_word() == "NOW":
        cursor.refuse("a FROM NOW - ... window")
    if word == "START":
        cursor.refuse("a START ... END window")


def _article(word: str) -> str:
    return "an" if word[0] in "AE" else "a"


# ---- lengths of time -----------------------------------------------------------------------------------------


def _duration_begins(cursor: Cursor) -> bool:
    if cursor.kind == "integer" or cursor.kind in STRINGS:
        return True
    return cursor.kind == "word" and _ISO.match(cursor.source.text, cursor.offset) is not None


def _duration(cursor: Cursor, owner: str) -> int:
    """The length after `owner` (RANGE, STEP, ...) in milliseconds, above zero."""
    offset = cursor.offset
    if cursor.kind == "op" and cursor.raw == "-":
        cursor.fail(f"{owner} cannot be negative")
    milliseconds = _any_duration(cursor, owner)
    if milliseconds <= 0:
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
    count = int(cursor.raw)
    cursor.advance()
    if cursor.kind == "word" and cursor.word() in _UNIT_MS:
        unit = _UNIT_MS[cursor.word()]
        cursor.advance()
        return count * unit
    if cursor.kind in ("word", "pname") and cursor.offset == end:
        cursor.fail(f"'{cursor.raw}' is no unit of time; those there are: ms, s, m or min, h, d")
    return count


def _iso(cursor: Cursor, match: re.Match[str]) -> int:
    years, months, *rest = match.groups()
    if years or months:
        cursor.fail("years and months have no fixed length; write days, hours, minutes, seconds")
    exact = sum((Fraction(part) * unit for part, unit in zip(rest, _ISO_MS, strict=True) if part), Fraction(0))
    if exact.denominator != 1:
        cursor.refuse("a length that is no whole number of milliseconds")
    return int(exact)


def _duration_literal(cursor: Cursor) -> int:
    offset = cursor.offset
    lexical, datatype = _typed_string(cursor)
    if datatype not in _DURATION_TYPES:
        cursor.fail('a length in quotes wants its datatype: "PT5S"^^xsd:duration', offset)
    if lexical.startswith("-"):
        cursor.fail("a length cannot be negative", offset)
    match = _ISO.fullmatch(lexical)
    if match is None or lexical != lexical.upper():
        cursor.fail(f"'{lexical}' is no xsd:duration, as PT5S is one", offset)
    return _iso(cursor, match)


def _typed_string(cursor: Cursor) -> tuple[str, str | None]:
    lexical = string_value(cursor.source, cursor.kind, cursor.raw, cursor.offset)
    cursor.advance()
    if not cursor.take("^^"):
        return lexical, None
    if cursor.kind not in ("iri", "pname"):
        cursor.expected("the IRI of a datatype after '^^'")
    return lexical, cursor.iri()


# ---- policy --------------------------------------------------------------------------------------------------


def _policy(cursor: Cursor, t0_ms: int | None) -> int | None:
    """Reads what may stand behind the lengths; gives T0, which `t0_ms` is if it was written before."""
    while True:
        word = cursor.word()
        if word == "REPORT":
            _report(cursor)
        elif word == "EMIT":
            _emit(cursor)
        elif word == "T0":
            if t0_ms is not None:
                cursor.fail("T0 is written twice")
            cursor.advance()
            t0_ms = _time(cursor)
        elif word in ("LATENESS", "MAXDELAY", "BOUNDS"):
            cursor.refuse(word)
        elif word == "WITH" and cursor.peek_word() == "POLICY":
            cursor.refuse("WITH POLICY")
        elif word == "TICK":
            cursor.refuse("TICK")
        else:
            return t0_ms


def _report(cursor: Cursor) -> None:
    """REPORT WINDOW_CLOSE says what holds anyway."""
    cursor.advance()
    while True:
        word = cursor.word()
        if word in ("CONTENT_CHANGE", "NON_EMPTY_CONTENT", "PERIODIC"):
            cursor.refuse(f"REPORT {word}")
        cursor.require_word("WINDOW_CLOSE", "after REPORT")
        if not cursor.take(","):
            return


def _emit(cursor: Cursor) -> None:
    cursor.advance()
    if cursor.word() == "ON_UPDATE":
        cursor.refuse("EMIT ON_UPDATE")
    cursor.require_word("ON_CLOSE", "after EMIT")


def _time(cursor: Cursor) -> int:
    offset = cursor.offset
    if cursor.kind == "integer":
        written = cursor.raw
        cursor.advance()
    elif cursor.kind in STRINGS:
        written, datatype = _typed_string(cursor)
        if datatype not in (None, XSD + "dateTime"):
            cursor.fail("T0 is milliseconds or an xsd:dateTime", offset)
    else:
        cursor.expected('a time after T0: milliseconds since the epoch, or "2024-01-31T12:00:00Z"')
    try:
        time_ms = parse_time(written)
    except BadArgument as error:
        cursor.fail(str(error), offset)
    if abs(time_ms) > LENGTH_MS_MAX:
        cursor.fail(f"T0 is further from 1970 than {LENGTH_MS_MAX} ms", offset)
    return time_ms
