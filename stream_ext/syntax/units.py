"""Whole texts: queries, registrations, updates."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.plan.algebra import (
    R2S,
    BlankLabel,
    Constant,
    DeleteData,
    Form,
    InsertData,
    Quad,
    Query,
    Register,
    Unit,
    Update,
    Variable,
)
from stream_ext.syntax.conditions import expression
from stream_ext.syntax.cursor import Cursor
from stream_ext.syntax.depth import DEPTH_MAX, is_too_deep
from stream_ext.syntax.groups import group
from stream_ext.syntax.triples import Triples
from stream_ext.syntax.windows import window_clause
from stream_ext.syntax.words import MODIFIERS, NO_NAMES, UNITS

_COUNT_MAX = 2**63 - 1


def unit(cursor: Cursor) -> Unit:
    cursor.prologue()
    word = cursor.word()
    if word in ("SELECT", "ASK"):
        result: Unit = _query(cursor)
    elif word == "REGISTER":
        result = _register(cursor)
    elif word in ("INSERT", "DELETE") or cursor.kind == "end":
        result = _update(cursor)  # an update of no operations is one, says SPARQL
    else:
        _refuse_unit(cursor, word)
        cursor.expected("SELECT, ASK, REGISTER, INSERT DATA or DELETE DATA")
    if cursor.kind != "end":
        cursor.expected("the end of the text")
    return result


def _refuse_unit(cursor: Cursor, word: str) -> None:
    following = cursor.peek_word()
    if word in ("CREATE", "DROP"):
        kinds = ("STREAM", "QUERY") if word == "DROP" else ("STREAM",)
        cursor.refuse(f"{word} {following}" if following in kinds else f"{word} GRAPH")
    if word == "INSERT":
        cursor.refuse("INSERT ... WHERE")
    if word == "DELETE":
        cursor.refuse("DELETE WHERE" if following == "WHERE" else "DELETE ... WHERE")
    if word in UNITS:
        cursor.refuse(UNITS[word])


# ---- queries -------------------------------------------------------------------------------------------------


def _query(cursor: Cursor) -> Query:
    form = Form(cursor.word())
    cursor.advance()
    r2s = _r2s(cursor)
    distinct = form is Form.SELECT and _distinct(cursor)
    projected = cursor.offset
    written = _projection(cursor) if form is Form.SELECT else ()
    while cursor.word() == "FROM":
        _dataset_clause(cursor)
    cursor.take_word("WHERE")
    start = cursor.offset
    pattern = group(cursor)
    if is_too_deep(pattern):
        cursor.fail(f"the pattern that begins here is nested too deep: more than {DEPTH_MAX} operators", start)
    offset, limit = _modifiers(cursor)
    variables = tuple(cursor.visible) if written is None else written
    if form is Form.SELECT and not variables:
        cursor.refuse("SELECT * over a pattern without variables (ASK says whether it holds)", projected)
    return Query(form, pattern, variables, distinct, offset, limit, tuple(cursor.windows.values()), r2s)


def _r2s(cursor: Cursor) -> R2S | None:
    word = cursor.word()
    if word == "DSTREAM":
        cursor.refuse("DSTREAM")
    if word not in ("ISTREAM", "RSTREAM"):
        return None
    cursor.advance()
    return R2S(word)


def _distinct(cursor: Cursor) -> bool:
    if cursor.word() == "REDUCED":
        cursor.refuse("REDUCED")
    return cursor.take_word("DISTINCT")


def _projection(cursor: Cursor) -> tuple[str, ...] | None:
    """The variables that are written; None for `*`."""
    if cursor.take("*"):
        return None
    names: dict[str, None] = {}
    while cursor.kind == "var":
        names[cursor.raw[1:]] = None
        cursor.advance()
    if cursor.kind == "op" and cursor.raw == "(":
        _refuse_projected_expression(cursor)
    if cursor.kind == "op" and cursor.raw == "," and names:
        cursor.fail("variables are separated by blanks, not by commas: SELECT ?x ?y")
    if not names:
        cursor.expected("variables or '*' after SELECT")
    return tuple(names)


def _refuse_projected_expression(cursor: Cursor) -> None:
    start = cursor.offset
    cursor.advance()
    expression(cursor)  # names a function or an aggregate, if it begins with one
    cursor.require_word("AS", "and a variable after the expression")
    cursor.refuse("SELECT (expression AS ?variable)", start)


def _dataset_clause(cursor: Cursor) -> None:
    start = cursor.offset
    cursor.advance()
    named = cursor.take_word("NAMED")
    said = "FROM NAMED" if named else "FROM"
    word = cursor.word()
    if named and word == "WINDOW":
        cursor.advance()
        window_clause(cursor)
        return
    if word == "STREAM":
        cursor.refuse(f"{said} STREAM (C-SPARQL)", start)
    if word == "GRAPH" or (word in ("STATIC", "DEFAULT") and not named):
        cursor.refuse(f"{said} {word}", start)
    if cursor.kind in ("iri", "pname"):
        cursor.iri()  # a prefix that is not declared is the graver fault
        cursor.refuse(said + " with a graph" if named else said, start)
    if word == "WINDOW":
        cursor.fail("a window is declared by FROM NAMED WINDOW", start)
    if word and word not in NO_NAMES and not named:
        cursor.refuse("FROM with a bare name", start)
    cursor.expected(f"WINDOW or the IRI of a graph after {said}")


def _modifiers(cursor: Cursor) -> tuple[int, int | None]:
    """OFFSET and LIMIT, which may stand in either order, once each."""
    found: dict[str, int] = {}
    while (word := cursor.word()) in MODIFIERS or word in ("LIMIT", "OFFSET"):
        if word in MODIFIERS:
            cursor.refuse(MODIFIERS[word])
        if word in found:
            cursor.fail(f"{word} is written twice")
        cursor.advance()
        if cursor.kind != "integer":
            cursor.expected(f"a whole number after {word}")
        found[word] = int(cursor.raw) if len(cursor.raw) < 19 else _COUNT_MAX
        cursor.advance()
    return found.get("OFFSET", 0), found.get("LIMIT")


def _register(cursor: Cursor) -> Register:
    position = cursor.position()
    start = cursor.offset
    cursor.advance()
    kind = cursor.word()
    if kind == "DSTREAM":
        cursor.refuse("REGISTER DSTREAM")
    if kind not in ("QUERY", "STREAM", "RSTREAM", "ISTREAM"):
        cursor.expected("QUERY, STREAM, RSTREAM or ISTREAM after REGISTER")
    cursor.advance()
    iri = cursor.iri() if cursor.kind in ("iri", "pname") else None
    name = _bare_name(cursor) if iri is None else None
    if cursor.word() == "COMPUTED":
        cursor.refuse("COMPUTED EVERY")
    cursor.take_word("AS")
    cursor.prologue()
    if cursor.word() not in ("SELECT", "ASK"):
        _refuse_unit(cursor, cursor.word())
        cursor.expected("SELECT or ASK after the name of the query")
    at = cursor.offset
    query = _query(cursor)
    if not query.windows:
        cursor.refuse("a registered query without windows", start)
    if kind in ("RSTREAM", "ISTREAM"):
        if query.r2s not in (None, R2S(kind)):
            cursor.fail(f"REGISTER says {kind}, the query says {query.r2s}", at)
        query = replace(query, r2s=R2S(kind))
    return Register(name, iri, query, position)


def _bare_name(cursor: Cursor) -> str:
    if cursor.kind != "word" or cursor.word() in NO_NAMES:
        cursor.expected("the name of the query: a bare name, an IRI or a prefixed name")
    return cursor.bare_name()


# ---- updates -------------------------------------------------------------------------------------------------


def _update(cursor: Cursor) -> Update:
    operations: list[InsertData | DeleteData] = []
    while cursor.kind != "end":
        word = cursor.word()
        if word not in ("INSERT", "DELETE") or cursor.peek_word() != "DATA":
            _refuse_unit(cursor, word)
            cursor.expected("INSERT DATA or DELETE DATA")
        cursor.advance()
        cursor.advance()
        quads = _Quads(cursor, word).read()
        operations.append(InsertData(quads) if word == "INSERT" else DeleteData(quads))
        if not cursor.take(";"):
            break
        cursor.prologue()
    return Update(tuple(operations))


class _Quads:
    """The braces of INSERT DATA and DELETE DATA: triples, and GRAPH blocks of triples."""

    def __init__(self, cursor: Cursor, word: str) -> None:
        self._cursor = cursor
        self._quads: list[Quad] = []
        self._graph: Constant | None = None
        self._triples: Triples[BlankLabel] = Triples(
            cursor,
            BlankLabel,
            self._emit,
            refuse_variables=f"{word} DATA holds data only; a variable has no place in it",
            refuse_blanks="DELETE DATA cannot name a blank node" if word == "DELETE" else None,
        )

    def read(self) -> tuple[Quad, ...]:
        cursor = self._cursor
        cursor.scope += 1
        cursor.require("{", "to begin the data")
        self._triples.block()
        while not cursor.take("}"):
            if cursor.word() != "GRAPH":
                cursor.expected("a triple, GRAPH or '}'")
            self._graph_block()
            cursor.take(".")
            self._triples.block()
        return tuple(self._quads)

    def _graph_block(self) -> None:
        cursor = self._cursor
        cursor.advance()
        if cursor.kind not in ("iri", "pname"):
            cursor.expected("the IRI of a graph after GRAPH")
        self._graph = cursor.constant()
        cursor.require("{", "to begin the data of the graph")
        self._triples.block()
        cursor.require("}", "to close the data of the graph")
        self._graph = None

    def _emit(
        self,
        subject: Variable | Constant | BlankLabel,
        predicate: Variable | Constant,
        target: Variable | Constant | BlankLabel,
        offset: int,
    ) -> None:
        if isinstance(subject, Constant) and subject.text[:1] == b'"':
            self._cursor.fail("a literal cannot be the subject of a triple", offset)
        # Variables were refused where they stood.
        self._quads.append(Quad(subject, predicate, target, self._graph))  # type: ignore[arg-type]
