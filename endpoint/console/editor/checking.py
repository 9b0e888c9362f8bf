"""What the editor asks while somebody types: whether the text is right, what it means, and how it looks formatted.

A text that is checked is parsed, and neither run nor registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, jsonify, request

from endpoint.console.editor.formatting import formatted
from endpoint.console.editor.in_words import sentences, warnings
from endpoint.console.room import Room
from endpoint.errors import describe
from hbase_store.errors import StoreError
from stream_ext.errors import RilletError
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.statements import Explain, Unit, Update
from stream_ext.language.algebra.walk import reads_store
from stream_ext.language.printing import to_canonical
from stream_ext.language.syntax import Check, parse
from stream_ext.oneshot.question import Question

#: A longer text is checked when it is run.
_CHARACTERS_MAX = 100_000
_DEADLINE_S = 2.0


def check(room: Room) -> Response:
    """`kind` of the text, its `problems` with their places, its `warnings`; of a continuous query what it `means`, and
    the `times` at which it can be evaluated."""
    text = request.values.get("query", "")
    try:
        question = room.service.question(_checked(room, text), _control(room))
        room.service.check_supported(question)
        return jsonify({"problems": [], **_meaning(room, question)})
    except (RilletError, StoreError) as error:
        problem = describe(error)
        at = {"line": problem.line, "column": problem.column} if problem.line else {"line": 1, "column": 1}
        return jsonify({"kind": None, "problems": [{"message": _sentence(problem.detail), **at}]})


def _meaning(room: Room, question: Question) -> dict[str, Any]:
    unit = question.unit
    kind = _kind(unit)
    is_registered = kind in ("continuous query", "registration")
    explained = room.service.explain(question) if is_registered else {}
    query = unit.query if isinstance(unit, Register) else unit
    return {
        "kind": kind,
        "warnings": warnings(explained) if is_registered else list(question.warnings),
        "means": sentences(explained, reads_store(query)) if isinstance(query, Query) and is_registered else [],
        "name": explained.get("query"),
        "times": _times(room, explained["windows"]) if is_registered else None,
    }


def _times(room: Room, windows: Sequence[Mapping[str, Any]]) -> dict[str, int] | None:
    """From when until when all its streams have the elements of its windows; None: one of them has none."""
    retained = room.service.status()["retention"]["streams"]
    oldest, reached = [], []
    for window in windows:
        try:
            definition = room.service.stream(window["stream"] or "")
        except RilletError:
            return None
        since, now = (
            retained.get(definition.name, {}).get("oldest_time"),
            room.service.stream_status(definition.iri)["time"],
        )
        if since is None or now is None:
            return None
        oldest.append(since + (window["range_ms"] or 0))
        reached.append(now)
    if not reached:
        return None
    until, steps = min(reached), [window["step_ms"] for window in windows if window["step_ms"]]
    return {"from": min(max(oldest), until), "until": until, "step_ms": min(steps, default=1)}


def _kind(unit: Unit) -> str:
    if isinstance(unit, Explain):
        return "explanation"
    if isinstance(unit, Register):
        return "registration"
    if isinstance(unit, Query):
        return "continuous query" if unit.windows else "query"
    return "update" if isinstance(unit, Update) else "statement"


def layout(room: Room) -> tuple[Response, int] | Response:
    """The text with line breaks and indents; the same meaning."""
    text = request.form.get("query", "")
    try:
        before = parse(_checked(room, text), room.service.base, check=_control(room))
        after = formatted(text)
        same = to_canonical(parse(after, room.service.base, check=_control(room))) == to_canonical(before)
    except RilletError as error:
        problem = describe(error)
        return jsonify({"problem": problem.detail}), problem.status
    return jsonify({"text": after if same else text})


def _checked(room: Room, text: str) -> str:
    return room.checked_text(text[:_CHARACTERS_MAX] if len(text) > _CHARACTERS_MAX else text)


def _control(room: Room) -> Check:
    return room.limits.control(_DEADLINE_S).check


def _sentence(detail: str) -> str:
    """The message without the lines of the text that it quotes."""
    return detail.split("\n", 1)[0]
