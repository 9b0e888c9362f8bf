"""The inputs of a query: the FROM clauses of all dialects, and STREAM in a pattern."""

from __future__ import annotations

from dataclasses import replace

from hbase_store.layout import terms
from stream_ext.language.algebra.algebra import DIALECTS
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.windows import Declared, GraphClause, StreamRef, WindowClause
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.windows import window
from stream_ext.language.syntax.words import KEYWORDS, NO_NAMES, meant


def dataset_clause(cursor: Cursor) -> None:
    """Reads one clause, from its FROM on."""
    start = cursor.offset
    cursor.advance()
    named = cursor.take_word("NAMED")
    word = cursor.word()
    if word == "WINDOW":
        if not named:
            cursor.fail("a window is declared by FROM NAMED WINDOW", start)
        cursor.advance()
        _named_window(cursor)
    elif word == "STREAM" and cursor.peek()[1] != "[":
        cursor.advance()
        stream = stream_reference(cursor)
        _declare(cursor, window(cursor, "", stream, Declared.NAMED_STREAM if named else Declared.STREAM), start)
    elif word and word not in ("GRAPH", "STATIC", "DEFAULT") and word not in NO_NAMES and not named:
        _bare_name(cursor, start)
    else:
        graph_clause(cursor, named, "FROM NAMED" if named else "FROM", start)


def graph_clause(cursor: Cursor, named: bool, keyword: str, start: int) -> None:
    """A graph of the store behind FROM, FROM NAMED, USING, USING NAMED."""
    word = cursor.word()
    position = cursor.position(start)
    if word == "DEFAULT" and not named:
        cursor.advance()
        cursor.graphs.append(GraphClause(None, False, f"{keyword} DEFAULT", position))
        return
    if word == "GRAPH" or (word == "STATIC" and not named):
        cursor.advance()
        written_as = f"{keyword} {word}"
    else:
        written_as = f"{keyword} with a graph" if named else keyword
    if cursor.kind not in ("iri", "pname"):
        cursor.expected(f"{'WINDOW or ' * named}the IRI of a graph after {keyword}")
    cursor.graphs.append(GraphClause(cursor.constant(), named, written_as, position))


def _bare_name(cursor: Cursor, start: int) -> None:
    position = cursor.position()
    name = cursor.bare_name()
    if cursor.kind == "op" and cursor.raw == "[":
        stream = StreamRef(None, name, position)
        _declare(cursor, window(cursor, "", stream, Declared.BARE_NAME), start)
        return
    graph = Constant(terms.iri(cursor.home + name))
    for named in (False, True):
        cursor.graphs.append(GraphClause(graph, named, "FROM with a bare name", cursor.position(start)))


def _named_window(cursor: Cursor) -> None:
    """The rest of FROM NAMED WINDOW, in the current syntax or in that of 2014."""
    offset = cursor.offset
    if cursor.take_word("ON"):
        stream = stream_reference(cursor)
        clause = window(cursor, "", stream, Declared.WINDOW)
        cursor.require_word("AS", "and the name of the window")
        offset = cursor.offset
        _declare(cursor, clause, offset, _window_name(cursor, "AS"))
        return
    name = _window_name(cursor, "FROM NAMED WINDOW")
    cursor.require_word("ON", "and the stream after the name of the window")
    stream = stream_reference(cursor)
    _declare(cursor, window(cursor, name, stream, Declared.WINDOW), offset)


def _window_name(cursor: Cursor, after: str) -> str:
    if cursor.kind not in ("iri", "pname"):
        cursor.expected(f"the IRI of the window after {after}, as in <w> or ex:w")
    return cursor.iri()


def pattern_window(cursor: Cursor) -> str:
    """STREAM in a pattern, up to its group; returns the name of the window that it declares."""
    start = cursor.offset
    cursor.advance()
    if cursor.kind == "op" and cursor.raw == "[":
        clause = window(cursor, "", None, Declared.PATTERN)
    else:
        stream = stream_reference(cursor)
        if cursor.kind == "op" and cursor.raw == "{":
            cursor.refuse("STREAM without a window", start)
        clause = window(cursor, "", stream, Declared.PATTERN)
    if clause.stream.variable is not None:
        cursor.visible[clause.stream.variable] = None
    return _declare(cursor, clause, start)


def stream_reference(cursor: Cursor) -> StreamRef:
    if cursor.word() == "STREAM" and cursor.peek()[0] in ("iri", "pname", "var", "word"):
        cursor.advance()
    position = cursor.position()
    if cursor.kind == "var":
        variable = cursor.variable_name
        cursor.advance()
        return StreamRef(None, None, position, variable)
    if cursor.kind in ("iri", "pname"):
        return StreamRef(cursor.iri(), None, position)
    if cursor.kind == "word" and cursor.word() not in NO_NAMES:
        kind, raw, _ = cursor.peek()
        is_followed = kind in ("iri", "pname", "var") or (kind == "word" and raw.upper() not in KEYWORDS)
        if is_followed and meant(cursor.raw, ["STREAM"]):
            cursor.expected("STREAM and its name or IRI")
        return StreamRef(None, cursor.bare_name(), position)
    return cursor.expected("a stream: its IRI, a prefixed name or a bare name")


def _declare(cursor: Cursor, clause: WindowClause, offset: int, name: str = "") -> str:
    """Adds the window to those of the query, under its name or a generated one."""
    first = next(iter(cursor.windows.values()), None)
    if first is not None and DIALECTS[first.declared] is not DIALECTS[clause.declared]:
        cursor.fail(
            f"{clause.declared} is {DIALECTS[clause.declared]}, but the first window of this text is "
            f"{DIALECTS[first.declared]} ({first.declared}, line {first.position.line}): use one dialect "
            "in a query",
            offset,
        )
    chosen = name or clause.name or f"urn:rillet:window:{len(cursor.windows) + 1}"
    if chosen in cursor.windows:
        twice = cursor.windows[chosen].position
        cursor.fail(f"the window <{chosen}> is declared twice (first in line {twice.line})", offset)
    cursor.windows[chosen] = replace(clause, name=chosen, position=cursor.position(offset))
    return chosen
