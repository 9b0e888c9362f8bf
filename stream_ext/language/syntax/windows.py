"""A window: its lengths, in every way that one may be written, and its policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stream_ext.language.algebra.algebra import DIALECTS
from stream_ext.language.algebra.windows import (
    Bounds,
    ClauseInText,
    Declared,
    Dialect,
    Extent,
    Report,
    StreamRef,
    Trigger,
    WindowClause,
)
from stream_ext.language.syntax import (
    datasets,  # it imports this one: STREAM [..] ?s names the stream behind the window
)
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.durations import duration, duration_begins, point_in_time
from stream_ext.language.syntax.literals import STRINGS
from stream_ext.language.syntax.tokens import string_value

_COUNTS: Final = {
    "TRIPLES": Extent.TRIPLES,
    "COUNT": Extent.TRIPLES,
    "ELEMENTS": Extent.ELEMENTS,
    "ROWS": Extent.ELEMENTS,
}
_COUNT_DIGITS_MAX: Final = 15
_BOUNDS: Final = {bounds.value: bounds for bounds in Bounds}
_TRIGGERS: Final = {trigger.value: trigger for trigger in Trigger}
_EMIT: Final = {"ON_UPDATE": Trigger.CONTENT_CHANGE, "ON_CLOSE": Trigger.WINDOW_CLOSE}


@dataclass(slots=True)
class _WindowDraft:
    """A window's clause while it is read."""

    extent: Extent = Extent.RANGE
    range_ms: int = 0
    step_ms: int = 0
    step_written: bool = False
    count: int = 0
    count_step: int = 0
    until_ms: int = 0
    start_ms: int = 0
    end_ms: int = 0
    time_predicate: str | None = None
    t0_ms: int | None = None
    bounds: Bounds | None = None
    lateness_ms: int | None = None
    reports: list[Report] = field(default_factory=list)
    written: list[ClauseInText] = field(default_factory=list)


def window(cursor: Cursor, name: str, stream: StreamRef | None, declared: Declared) -> WindowClause:
    """The window that begins with a bracket (RSP-QL also without). Without `stream`, the stream follows the window."""
    draft = _WindowDraft()
    position = cursor.position()
    bracket = cursor.take("[")
    if not bracket and declared is not Declared.WINDOW:
        cursor.expected("'[' and the extent of the window, as in [RANGE 10s STEP 1s]")
    _lengths(cursor, draft, DIALECTS[declared])
    _policy(cursor, draft)
    if bracket:
        cursor.require("]", "to close the window (or STEP, T0, REPORT; a length is 5s, 2m, 1h or PT5S)")
        if declared is Declared.WINDOW:
            _policy(cursor, draft)
    slides = declared is Declared.PATTERN and draft.extent is not Extent.HISTORY
    if not draft.step_ms and draft.range_ms and not slides:
        draft.step_ms = draft.range_ms - draft.until_ms  # so that each element is in one instance
    without_unit = tuple(cursor.without_unit)  # with that of a COMPUTED EVERY before it
    cursor.without_unit.clear()
    return WindowClause(
        name=name,
        stream=stream or datasets.stream_reference(cursor),
        range_ms=draft.range_ms,
        step_ms=draft.step_ms,
        t0_ms=draft.t0_ms,
        position=position,
        extent=draft.extent,
        step_written=draft.step_written,
        count=draft.count,
        count_step=draft.count_step,
        until_ms=draft.until_ms,
        start_ms=draft.start_ms,
        end_ms=draft.end_ms,
        time_predicate=draft.time_predicate,
        bounds=draft.bounds,
        lateness_ms=draft.lateness_ms,
        reports=tuple(draft.reports),
        declared=declared,
        written=tuple(draft.written),
        without_unit=without_unit,
    )


# ---- lengths -------------------------------------------------------------------------------------------------


def _lengths(cursor: Cursor, draft: _WindowDraft, dialect: Dialect) -> None:
    word, start = cursor.word(), cursor.offset
    draft.written.append(ClauseInText("extent", cursor.position()))
    if word == "RANGE" and cursor.peek_word() in _COUNTS:
        cursor.advance()
        word = cursor.word()
    if word in _COUNTS:
        _count(cursor, draft, word)
    elif word == "ALL" or (word == "NOW" and cursor.peek()[1] != "-"):
        draft.extent = Extent(word)
        cursor.advance()
    elif word in ("FROM", "NOW"):
        _span(cursor, draft)
    elif word == "START":
        _history(cursor, draft)
    elif word == "RANGE":
        _range(cursor, draft)
    elif word in ("TUMBLING", "SLIDING"):
        _tumbling_or_sliding(cursor, draft, word)
        if word == "SLIDING" and not draft.step_ms and dialect is not Dialect.CQELS:
            cursor.refuse("SLIDING without STEP", start)
    else:
        cursor.expected("the extent of the window: RANGE 10s STEP 1s, or TUMBLING 10s")


def _range(cursor: Cursor, draft: _WindowDraft) -> None:
    cursor.advance()
    draft.range_ms = duration(cursor, "RANGE")
    while duration_begins(cursor):
        draft.range_ms += duration(cursor, "RANGE")  # 1h 30m
    _time_predicate(cursor, draft)
    if not _step(cursor, draft) and cursor.take_word("TUMBLING"):
        draft.step_ms, draft.step_written = draft.range_ms, True


def _time_predicate(cursor: Cursor, draft: _WindowDraft) -> None:
    """ON predicate, or @predicate."""
    position = cursor.position()
    if cursor.kind == "lang" and cursor.peek()[0] == "pname":
        cursor.split_lang()  # @ex:time was read as a language and :time
    elif not cursor.take("@") and not cursor.take_word("ON"):
        return
    draft.written.append(ClauseInText("RANGE ... ON a predicate for the time", position))
    if cursor.kind not in ("iri", "pname"):
        cursor.expected("the IRI of the predicate that has the time")
    draft.time_predicate = cursor.iri()


def _step(cursor: Cursor, draft: _WindowDraft) -> bool:
    word = cursor.word()
    if word not in ("STEP", "SLIDE"):
        return False
    cursor.advance()
    draft.step_ms, draft.step_written = duration(cursor, word), True
    return True


def _tumbling_or_sliding(cursor: Cursor, draft: _WindowDraft, word: str) -> None:
    cursor.advance()
    draft.range_ms = duration(cursor, word)
    at = cursor.offset
    stepped = _step(cursor, draft)
    if word == "TUMBLING":
        if stepped and draft.step_ms != draft.range_ms:
            cursor.refuse("a TUMBLING window whose STEP is not its length", at)
        draft.step_ms, draft.step_written = draft.range_ms, True


def _count(cursor: Cursor, draft: _WindowDraft, word: str) -> None:
    if word != _COUNTS[word].value:
        draft.written.append(ClauseInText(word, cursor.position()))  # another name of it, which a refusal repeats
    cursor.advance()
    draft.extent = _COUNTS[word]
    draft.count = _how_many(cursor, word)
    step = cursor.word()
    if step in ("STEP", "SLIDE"):
        cursor.advance()
        draft.count_step = _how_many(cursor, step)


def _how_many(cursor: Cursor, owner: str) -> int:
    if cursor.kind != "integer" or not int(cursor.raw[:_COUNT_DIGITS_MAX]) or len(cursor.raw) > _COUNT_DIGITS_MAX:
        cursor.expected(f"a whole number above 0, of {_COUNT_DIGITS_MAX} digits at most, after {owner}")
    count = int(cursor.raw)
    cursor.advance()
    return count


def _span(cursor: Cursor, draft: _WindowDraft) -> None:
    """FROM NOW - 10s TO NOW - 2s."""
    draft.extent = Extent.SPAN
    cursor.take_word("FROM")
    start = cursor.offset
    cursor.require_word("NOW", "after FROM, as in FROM NOW - 10s TO NOW")
    cursor.require("-", "and a length after NOW")
    draft.range_ms = duration(cursor, "NOW -")
    if cursor.take_word("TO"):
        cursor.require_word("NOW", "after TO")
        if cursor.take("-"):
            draft.until_ms = duration(cursor, "NOW -")
    if draft.until_ms >= draft.range_ms:
        cursor.fail("this window ends before it begins", start)
    _step(cursor, draft)


def _history(cursor: Cursor, draft: _WindowDraft) -> None:
    """START a END b STEP d: the closes from a to b, replayed."""
    draft.extent = Extent.HISTORY
    start = cursor.offset
    cursor.advance()
    draft.start_ms = point_in_time(cursor, "START")
    cursor.require_word("END", "and a time after START")
    draft.end_ms = point_in_time(cursor, "END")
    if draft.end_ms <= draft.start_ms:
        cursor.fail("END is not later than START", start)
    draft.range_ms = draft.end_ms - draft.start_ms
    _step(cursor, draft)


# ---- policy --------------------------------------------------------------------------------------------------


def _policy(cursor: Cursor, draft: _WindowDraft) -> None:
    """Reads what may stand behind the lengths."""
    while True:
        word = cursor.word()
        if word == "REPORT":
            _report(cursor, draft)
        elif word == "EMIT":
            _emit(cursor, draft)
        elif word == "T0":
            _once(cursor, draft, draft.t0_ms)
            draft.t0_ms = point_in_time(cursor, "T0")
        elif word in ("LATENESS", "MAXDELAY"):
            _once(cursor, draft, draft.lateness_ms)
            draft.lateness_ms = duration(cursor, word, least=0)
        elif word == "BOUNDS":
            _once(cursor, draft, draft.bounds)
            draft.bounds = _bounds(cursor)
        elif word == "WITH" and cursor.peek_word() == "POLICY":
            cursor.refuse("WITH POLICY")
        elif word == "TICK":
            cursor.refuse("TICK")
        else:
            return


def _once(cursor: Cursor, draft: _WindowDraft, before: object) -> None:
    word = cursor.word()
    if before is not None:
        cursor.fail(f"{word} is written twice")
    draft.written.append(ClauseInText(word, cursor.position()))
    cursor.advance()


def _bounds(cursor: Cursor) -> Bounds:
    if cursor.kind in STRINGS:
        shown = string_value(cursor.source, cursor.kind, cursor.raw, cursor.offset)
        found = _BOUNDS.get(shown)
    else:
        found = _BOUNDS.get(cursor.raw + cursor.peek()[1])
        if found is not None:
            cursor.advance()
    if found is None:
        cursor.expected("'[)', '(]' or '[]' after BOUNDS")
    cursor.advance()
    return found


def _report(cursor: Cursor, draft: _WindowDraft) -> None:
    cursor.advance()
    while True:
        word = cursor.word()
        if word not in _TRIGGERS:
            cursor.expected(f"one of {', '.join(_TRIGGERS)} after REPORT")
        draft.written.append(ClauseInText(f"REPORT {word}", cursor.position()))
        cursor.advance()
        every_ms = duration(cursor, "PERIODIC") if word == "PERIODIC" else 0
        _add_report(draft, Report(_TRIGGERS[word], every_ms))
        if not cursor.take(","):
            return


def _emit(cursor: Cursor, draft: _WindowDraft) -> None:
    """EMIT ON_UPDATE and ON_CLOSE are other names of REPORT CONTENT_CHANGE and WINDOW_CLOSE."""
    cursor.advance()
    word = cursor.word()
    if word not in _EMIT:
        cursor.expected("ON_UPDATE or ON_CLOSE after EMIT")
    draft.written.append(ClauseInText(f"EMIT {word}", cursor.position()))
    cursor.advance()
    _add_report(draft, Report(_EMIT[word]))


def _add_report(draft: _WindowDraft, report: Report) -> None:
    if report not in draft.reports:
        draft.reports.append(report)
