"""Whole texts: queries, registrations, updates, administration."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.language.algebra.algebra import Register
from stream_ext.language.algebra.statements import Admin, CreateStream, Drop, Explain, Named, Show, Unit
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.windows import R2S
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.durations import duration
from stream_ext.language.syntax.literals import literal_here
from stream_ext.language.syntax.queries import FORMS, query
from stream_ext.language.syntax.updates import VERBS, update
from stream_ext.language.syntax.words import NO_NAMES

_KINDS = ("QUERY", "STREAM", "RSTREAM", "ISTREAM", "DSTREAM")


def unit(cursor: Cursor) -> Unit:
    result = _unit(cursor)
    if cursor.kind != "end":
        cursor.expected("the end of the text")
    return result


def _unit(cursor: Cursor) -> Unit:
    cursor.prologue()
    word = cursor.word()
    if word in FORMS:
        return query(cursor)
    if word == "REGISTER":
        return _register(cursor)
    if word in ("CREATE", "DROP", "SHOW", "EXPLAIN", "UNREGISTER") and (admin := _admin(cursor, word)) is not None:
        return admin
    if word in VERBS or cursor.kind == "end":
        return update(cursor)  # an update of no operations is one, says SPARQL
    return cursor.expected("SELECT, ASK, REGISTER, CONSTRUCT, DESCRIBE, an update (INSERT DATA ...) or CREATE STREAM")


# ---- registrations -------------------------------------------------------------------------------------------


def _register(cursor: Cursor) -> Register:
    position = cursor.position()
    cursor.advance()
    kind, kind_position = cursor.word(), cursor.position()
    if kind not in _KINDS:
        cursor.expected("QUERY, STREAM, RSTREAM, ISTREAM or DSTREAM after REGISTER")
    cursor.advance()
    named = _named(cursor, "the name of the query")
    every_ms, places = 0, []
    if cursor.word() == "COMPUTED":
        places.append(("COMPUTED EVERY", cursor.position()))
        cursor.advance()
        cursor.require_word("EVERY", "after COMPUTED")
        every_ms = duration(cursor, "EVERY")
    cursor.take_word("AS")
    cursor.prologue()
    if cursor.word() not in FORMS:
        cursor.expected("SELECT, ASK, CONSTRUCT or DESCRIBE after the name of the query")
    at = cursor.offset
    found = query(cursor)
    r2s = found.r2s
    if kind in R2S.__members__:
        if r2s not in (None, R2S(kind)):
            cursor.fail(f"REGISTER has {kind}, but the query has {r2s}", at)
        r2s = R2S(kind)
        if kind == "DSTREAM":
            places.append(("REGISTER DSTREAM", kind_position))
    if every_ms or places:
        shape = found.shape
        found = replace(found, shape=replace(shape, every_ms=every_ms, places=(*places, *shape.places)))
    return Register(named.name, named.iri, replace(found, r2s=r2s), position)


def _named(cursor: Cursor, what: str) -> Named:
    if cursor.kind in ("iri", "pname"):
        return Named(cursor.iri(), None)
    is_named = cursor.peek_word() == "AS" or (cursor.word() != "AS" and cursor.peek_word() in FORMS)
    if cursor.kind == "word" and cursor.word() in NO_NAMES and is_named:
        cursor.fail(f"{what}: {cursor.raw} is a word of the language and cannot be a bare name; write another name")
    if cursor.kind != "word" or cursor.word() in NO_NAMES:
        cursor.expected(f"{what}: a bare name, an IRI or a prefixed name")
    return Named(None, cursor.bare_name())


# ---- administration ------------------------------------------------------------------------------------------


def _admin(cursor: Cursor, word: str) -> Admin | None:
    """None where the word begins an update."""
    position = cursor.position()
    following = cursor.peek_word()
    if word == "EXPLAIN":
        with cursor.nested():
            cursor.advance()
            return Explain(_unit(cursor), position)
    if word == "CREATE" and following == "STREAM":
        return _create_stream(cursor)
    if word in ("DROP", "UNREGISTER") and following in (("STREAM", "QUERY") if word == "DROP" else ("QUERY",)):
        cursor.advance()
        cursor.advance()
        verb = f"{word} {following}" if word == "DROP" else word
        return Drop(following, _named(cursor, f"the name of the {following.lower()}"), verb, position)
    if word == "SHOW" and following in ("STREAMS", "QUERIES"):
        cursor.advance()
        cursor.advance()
        return Show(following, position)
    if word in ("SHOW", "UNREGISTER"):
        cursor.advance()
        cursor.expected("STREAMS or QUERIES after SHOW" if word == "SHOW" else "QUERY after UNREGISTER")
    return None


def _create_stream(cursor: Cursor) -> CreateStream:
    position = cursor.position()
    cursor.advance()
    cursor.advance()
    stream = _named(cursor, "the name of the stream")
    options: dict[str, Constant] = {}
    if cursor.take_word("WITH"):
        cursor.require("(", "and the options after WITH")
        while True:
            _option(cursor, options)
            if not cursor.take(","):
                break
        cursor.require(")", "to close the options (or ','; a duration is a string: '5s')")
    elif cursor.raw == "(":
        cursor.expected("WITH before the options")
    return CreateStream(stream, tuple(options.items()), position)


def _option(cursor: Cursor, options: dict[str, Constant]) -> None:
    if cursor.kind != "word":
        cursor.expected("the name of an option, as in WITH (timeless = true)")
    name = cursor.raw
    if name in options:
        cursor.fail(f"the option {name} is written twice")
    cursor.advance()
    cursor.require("=", f"and a value after {name}")
    value = cursor.constant() if cursor.kind in ("iri", "pname") else literal_here(cursor)
    if value is None:
        cursor.expected("a value: a literal, an IRI, true or false")
    options[name] = value
