"""Calls: functions by name and by IRI, aggregates, EXISTS."""

from __future__ import annotations

from stream_ext.language.algebra.formulas import Aggregate, Exists, Expression, FunctionCall
from stream_ext.language.algebra.terms import Variable
from stream_ext.language.syntax import (
    conditions,
    groups,  # they import this one: a condition holds calls, a call conditions
)
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.literals import STRINGS
from stream_ext.language.syntax.tokens import string_value
from stream_ext.language.syntax.words import AGGREGATES, FUNCTIONS, SYNONYMS, meant


def call_by_word(cursor: Cursor) -> Expression:
    word = cursor.word()
    if word == "EXISTS" or (word == "NOT" and cursor.peek_word() == "EXISTS"):
        return _exists(cursor)
    if word in AGGREGATES:
        return _aggregate(cursor, word)
    if word not in FUNCTIONS:
        cursor.fail(f"there is no function {cursor.raw}{meant(cursor.raw, (*FUNCTIONS, *AGGREGATES))}")
    _require_arguments(cursor, word)
    position, start = cursor.position(), cursor.offset
    cursor.advance()
    given = arguments(cursor, word)
    _check_count(cursor, word, len(given), start)
    if word == "BOUND" and not isinstance(given[0], Variable):
        cursor.fail("BOUND takes a variable: BOUND(?x)", start)
    name = SYNONYMS.get(word, word)
    return FunctionCall(name, given, False, position, cursor.base if name == "IRI" else None)


def _check_count(cursor: Cursor, word: str, given: int, start: int) -> None:
    least, most = FUNCTIONS[word]
    if not least <= given <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        cursor.fail(f"{word} takes {wanted} argument{'s' * (most != 1)}, not {given}", start)


def _require_arguments(cursor: Cursor, word: str) -> None:
    if cursor.peek()[1] != "(":
        cursor.fail(f"{word} is a function; its arguments in parentheses are missing")


def call_by_iri(cursor: Cursor) -> Expression:
    position = cursor.position()
    name = cursor.constant().text.decode()
    distinct = cursor.peek_word() == "DISTINCT"
    if distinct:
        cursor.advance()
    return FunctionCall(name, arguments(cursor, name, distinct), distinct, position)


def arguments(cursor: Cursor, owner: str, opened: bool = False) -> tuple[Expression, ...]:
    """The list in parentheses; `opened`: its first word is where the parenthesis was."""
    with cursor.nested():
        if opened:
            cursor.advance()
        else:
            cursor.require("(", f"and a list after {owner}")
            if cursor.take(")"):
                return ()
        found = [conditions.expression(cursor)]
        while cursor.take(","):
            found.append(conditions.expression(cursor))
        cursor.require(")", f"to close the arguments of {owner} (or ',')")
    return tuple(found)


def _exists(cursor: Cursor) -> Expression:
    position = cursor.position()
    negated = cursor.take_word("NOT")
    cursor.advance()
    return Exists(groups.hidden_group(cursor), negated, position)


# ---- aggregates ----------------------------------------------------------------------------------------------


def _aggregate(cursor: Cursor, word: str) -> Expression:
    _require_arguments(cursor, word)
    allowed = cursor.aggregates
    if allowed is None:
        cursor.fail(
            f"{word} is an aggregate: it is allowed in SELECT, HAVING and ORDER BY, but not inside another aggregate"
        )
    position = cursor.position()
    cursor.aggregates = None
    with cursor.nested():
        cursor.advance()
        cursor.advance()
        distinct = cursor.take_word("DISTINCT")
        all_rows = word == "COUNT" and cursor.take("*")
        argument = None if all_rows else conditions.expression(cursor)
        separator = _separator(cursor) if word == "GROUP_CONCAT" and cursor.take(";") else None
        cursor.require(")", f"to close the argument of {word}")
    allowed.append(word)
    cursor.aggregates = allowed
    return Aggregate(word, argument, distinct, separator, position)


def _separator(cursor: Cursor) -> str:
    cursor.require_word("SEPARATOR", "after ';' in GROUP_CONCAT")
    cursor.require("=", "after SEPARATOR")
    if cursor.kind not in STRINGS:
        cursor.expected("a string after SEPARATOR =")
    value = string_value(cursor.source, cursor.kind, cursor.raw, cursor.offset)
    cursor.advance()
    return value
