"""What may follow a text at the cursor: found by asking the parser, so that the editor offers no word that is an error.

    SELECT * { ?s ?p ?o } |          GROUP, HAVING, LIMIT, OFFSET, ORDER, VALUES
    ... ON STREAM taxis [RANGE 10s | BOUNDS, EMIT, LATENESS, REPORT, STEP, ...
    SELECT * { ?s |                  a predicate

Each keyword is tried: it may follow if the parser stops behind it and not at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flask import Response, jsonify, request

from endpoint.console.room import Room
from stream_ext.errors import QuerySyntaxError, RilletError
from stream_ext.language.syntax import Check, parse
from stream_ext.language.syntax.words import KEYWORDS

#: After a longer text nothing is tried: each keyword reads it once.
_CHARACTERS_MAX = 4_000
_DEADLINE_S = 1.0
#: No keyword: where this may follow, any name may.
_NAME = "zzqxj"
_WORDS = (*KEYWORDS, "NOT EXISTS", "IN", "NOT IN", "SEPARATOR")
#: How the error at the end of the text begins, by what is missing there.
_WANTED = {
    "expected a predicate": "predicate",
    "expected an object": "object",
    "expected a triple": "group",
    "expected an operand": "expression",
    "expected a condition": "expression",
    "expected variables or expressions": "expression",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """`keywords`: those that may follow; None: that is not known. `wanted`: the kind of thing that is missing, if it is
    one of `_WANTED`, or `name`."""

    keywords: list[str] | None
    wanted: str = ""


def page(room: Room) -> Response:
    """`?before=`: the text before the word at the cursor."""
    before = request.args.get("before", "")
    try:
        found = expected(before, room.service.base, room.limits.control(_DEADLINE_S).check)
    except RilletError:  # it takes too long
        found = Expected(None)
    return jsonify({"keywords": found.keywords, "wanted": found.wanted})


def expected(before: str, base: str, check: Check) -> Expected:
    if len(before) > _CHARACTERS_MAX:
        return Expected(None)
    before += "\n"  # the word begins a line
    line = before.count("\n") + 1
    check()
    stop = _stop(before + _NAME, base)
    if stop is None or (stop[0] == line and stop[1] > 1):
        return Expected([], "name")
    if stop != (line, 1):
        return Expected(None)  # there is an error before
    return Expected(list(_may_follow(before, line, base, check)), _wanted(before, base))


def _may_follow(before: str, line: int, base: str, check: Check) -> Iterable[str]:
    for word in _WORDS:
        check()
        stop = _stop(before + word, base)
        if stop is None or (stop[0] == line and stop[1] > len(word.split(" ", 1)[0])):
            yield word


def _stop(text: str, base: str) -> tuple[int, int] | None:
    """Where the parser stops; None: the text is right."""
    try:
        parse(text, base)
    except QuerySyntaxError as error:
        return error.line, error.column
    return None


def _wanted(before: str, base: str) -> str:
    try:
        parse(before, base)
    except QuerySyntaxError as error:
        found = next((wanted for start, wanted in _WANTED.items() if error.message.startswith(start)), "")
        # Behind a semicolon the group may end, but a predicate is meant.
        return "predicate" if found == "group" and before.rstrip().endswith(";") else found
    return ""
