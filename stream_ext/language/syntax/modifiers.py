"""Modifiers: what stands after the pattern of a query: GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET, VALUES."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Assigned, Ordering
from stream_ext.language.syntax import groups
from stream_ext.language.syntax.calls import call_by_iri, call_by_word
from stream_ext.language.syntax.conditions import bracketed, constraint, expression
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.depth import DEPTH_MAX, check_depth
from stream_ext.language.syntax.grouping import check_grouping
from stream_ext.language.syntax.query_draft import QueryDraft
from stream_ext.language.syntax.words import AGGREGATES, FUNCTIONS

_COUNT_MAX = 2**63 - 1


def allow_aggregates(cursor: Cursor) -> tuple[list[str], list[str] | None]:
    """Allows aggregates from here on: returns the list of those that occur, and the value to restore at the end."""
    before, found = cursor.aggregates, list[str]()
    cursor.aggregates = found
    return found, before


def modifiers(cursor: Cursor, draft: QueryDraft) -> None:
    if cursor.word() == "GROUP":
        _group_by(cursor, draft)
    if cursor.word() == "HAVING":
        draft.places.append(("HAVING", cursor.position()))
        cursor.advance()
        found, before = allow_aggregates(cursor)
        draft.having.append(constraint(cursor, "HAVING"))
        while _constraint_begins(cursor):
            draft.having.append(constraint(cursor, "HAVING"))
        cursor.aggregates = before
        note_aggregates(cursor, draft, found)
    if cursor.word() == "ORDER":
        _order_by(cursor, draft)
    _limits(cursor, draft)
    if draft.places:
        check_grouping(cursor, draft.star, draft.variables, draft.expressions, draft.group_by, draft.places)
    if cursor.index > DEPTH_MAX:
        _check_depths(cursor, draft)
    if cursor.word() == "VALUES":
        draft.places.append(("VALUES", cursor.position()))
        draft.values = groups.values(cursor)
        if draft.star:
            cursor.visible.update(dict.fromkeys(draft.values.variables))


def _check_depths(cursor: Cursor, draft: QueryDraft) -> None:
    found = [*draft.having, *(key.expression for key in draft.group_by), *(by.expression for by in draft.order_by)]
    for each in (*found, *(assigned.expression for assigned in draft.expressions)):
        check_depth(cursor, each, None, "an expression")


def note_aggregates(cursor: Cursor, draft: QueryDraft, found: list[str]) -> None:
    if found:
        draft.places.append(("aggregate", cursor.position()))


def _constraint_begins(cursor: Cursor) -> bool:
    if cursor.raw == "(" and cursor.kind == "op":
        return True
    if cursor.kind == "word":
        word = cursor.word()
        return word in FUNCTIONS or word in AGGREGATES or "EXISTS" in (word, cursor.peek_word() * (word == "NOT"))
    return cursor.kind in ("iri", "pname") and cursor.peek()[1] == "("


def _group_by(cursor: Cursor, draft: QueryDraft) -> None:
    draft.places.append(("GROUP BY", cursor.position()))
    cursor.advance()
    cursor.require_word("BY", "after GROUP")
    while cursor.kind == "var" or _constraint_begins(cursor):
        draft.group_by.append(_group_key(cursor))
    if not draft.group_by:
        cursor.expected("variables or expressions after GROUP BY")


def _group_key(cursor: Cursor) -> Assigned:
    position = cursor.position()
    cursor.part()
    if cursor.kind == "var":
        return Assigned(None, cursor.variable(), position)
    if cursor.kind == "word":
        return Assigned(None, call_by_word(cursor), position)
    if cursor.kind in ("iri", "pname"):
        return Assigned(None, call_by_iri(cursor), position)
    with cursor.nested():
        cursor.advance()
        value = expression(cursor)
        variable = alias(cursor) if cursor.take_word("AS") else None
        cursor.require(")", "to close the expression")
    return Assigned(variable, value, position)


def alias(cursor: Cursor) -> str:
    name = cursor.variable_name
    if cursor.kind != "var":
        cursor.expected("a variable after AS")
    if name in cursor.visible:
        cursor.fail(f"?{name} has a value in the pattern already; AS takes a new variable")
    cursor.visible[name] = None
    cursor.advance()
    return name


def _order_by(cursor: Cursor, draft: QueryDraft) -> None:
    draft.places.append(("ORDER BY", cursor.position()))
    cursor.advance()
    cursor.require_word("BY", "after ORDER")
    found, before = allow_aggregates(cursor)
    while (key := _ordering(cursor)) is not None:
        draft.order_by.append(key)
    cursor.aggregates = before
    note_aggregates(cursor, draft, found)
    if not draft.order_by:
        cursor.expected("variables or expressions after ORDER BY")


def _ordering(cursor: Cursor) -> Ordering | None:
    word = cursor.word()
    cursor.part()
    if word in ("ASC", "DESC"):
        cursor.advance()
        if cursor.raw != "(":
            cursor.expected(f"an expression in parentheses after {word}, as in {word}(?x)")
        return Ordering(bracketed(cursor), word == "DESC")
    if cursor.kind == "var":
        return Ordering(cursor.variable(), False)
    return Ordering(constraint(cursor, "ORDER BY"), False) if _constraint_begins(cursor) else None


def _limits(cursor: Cursor, draft: QueryDraft) -> None:
    """OFFSET and LIMIT, which may stand in either order, once each."""
    while (word := cursor.word()) in ("LIMIT", "OFFSET"):
        if word in draft.counts:
            cursor.fail(f"{word} is written twice")
        cursor.advance()
        if cursor.kind != "integer":
            cursor.expected(f"a whole number after {word}")
        draft.counts[word] = int(cursor.raw) if len(cursor.raw) < 19 else _COUNT_MAX
        cursor.advance()
