"""Property paths: what may stand in the place of a predicate.

A path of one IRI is that IRI, however many parentheses stand around it."""

from __future__ import annotations

from typing import Final

from hbase_store.layout import terms
from stream_ext.language.algebra.formulas import (
    Path,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
    Repeat,
)
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.literals import signed_number_here
from stream_ext.language.syntax.words import RDF

TYPE: Final = Constant(terms.iri(RDF + "type"))
_REPEATS: Final = {repeat.value: repeat for repeat in Repeat}


def path(cursor: Cursor) -> Path:
    parts = [_sequence(cursor)]
    while cursor.take("|"):
        parts.append(_sequence(cursor))
    return parts[0] if len(parts) == 1 else PathAlternative(tuple(parts))


def continues(cursor: Cursor) -> bool:
    """Whether what stands behind a predicate makes it a path."""
    return cursor.kind == "op" and cursor.raw in ("/", "|", "*", "+", "?") and not signed_number_here(cursor)


def path_after(cursor: Cursor, first: Constant) -> Path:
    """The path that begins with `first`, which has been read already."""
    sequence = _sequence(cursor, _repeated(cursor, first))
    if not (cursor.kind == "op" and cursor.raw == "|"):
        return sequence
    parts = [sequence]
    while cursor.take("|"):
        parts.append(_sequence(cursor))
    return PathAlternative(tuple(parts))


def _sequence(cursor: Cursor, first: Path | None = None) -> Path:
    parts = [_step(cursor) if first is None else first]
    while cursor.take("/"):
        parts.append(_step(cursor))
    return parts[0] if len(parts) == 1 else PathSequence(tuple(parts))


def _step(cursor: Cursor) -> Path:
    if cursor.take("^"):
        return PathInverse(_repeated(cursor, _primary(cursor)))
    return _repeated(cursor, _primary(cursor))


def _repeated(cursor: Cursor, inner: Path) -> Path:
    if cursor.kind == "op" and cursor.raw in _REPEATS and not signed_number_here(cursor):
        times = _REPEATS[cursor.raw]
        cursor.advance()
        return PathRepeat(inner, times)
    return inner


def _primary(cursor: Cursor) -> Path:
    """A predicate, a negated set `!(...)`, or a path in parentheses."""
    cursor.part()
    if cursor.take("!"):
        return _negated(cursor)
    if cursor.kind == "op" and cursor.raw == "(":
        with cursor.nested():
            cursor.advance()
            inner = path(cursor)
            cursor.require(")", "to close the path")
        return inner
    return _name(cursor)


def _name(cursor: Cursor) -> Constant:
    if cursor.kind in ("iri", "pname"):
        return cursor.constant()
    if cursor.kind == "word" and cursor.raw == "a":
        cursor.advance()
        return TYPE
    return cursor.expected("a predicate of the path (an IRI, a prefixed name or 'a'), '^', '!' or '('")


def _negated(cursor: Cursor) -> Path:
    forward: list[Constant] = []
    backward: list[Constant] = []
    bracket = cursor.take("(")
    if not (bracket and cursor.take(")")):
        _negated_name(cursor, forward, backward)
        while bracket and cursor.take("|"):
            _negated_name(cursor, forward, backward)
        if bracket:
            cursor.require(")", "to close the negated set (or '|')")
    return PathNegated(tuple(forward), tuple(backward))


def _negated_name(cursor: Cursor, forward: list[Constant], backward: list[Constant]) -> None:
    (backward if cursor.take("^") else forward).append(_name(cursor))
