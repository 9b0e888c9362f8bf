"""Group graph patterns: what stands between { and }."""

from __future__ import annotations

import re
from collections.abc import Callable

from hbase_store.layout import terms
from stream_ext.language.algebra.algebra import (
    Bgp,
    Extend,
    Filter,
    Graph,
    InAnyWindow,
    InWindow,
    Join,
    LeftJoin,
    Minus,
    PathPattern,
    Pattern,
    ServicePattern,
    SubSelect,
    TriplePattern,
    Union,
    Values,
)
from stream_ext.language.algebra.formulas import And, Expression, Path
from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.language.algebra.windows import WindowClause
from stream_ext.language.syntax import queries  # it imports this one: a query holds groups, a group sub-SELECTs
from stream_ext.language.syntax.conditions import balanced, constraint, expression
from stream_ext.language.syntax.cursor import Cursor
from stream_ext.language.syntax.datasets import pattern_window
from stream_ext.language.syntax.literals import literal_here
from stream_ext.language.syntax.triples import Triples
from stream_ext.language.syntax.words import FOREIGN_ELEMENTS

#: Filters of one group are nested; this many, and those after them become one condition.
_FILTERS_NESTED_MAX = 32


def group(cursor: Cursor) -> Pattern:
    """The group that begins here. Its visible variables are visible behind it, too."""
    pattern, filters = _parts(cursor)
    if len(filters) > _FILTERS_NESTED_MAX:
        filters = [*filters[:_FILTERS_NESTED_MAX], balanced(filters[_FILTERS_NESTED_MAX:], And)]
    for condition in filters:
        pattern = Filter(condition, pattern)
    return pattern


def hidden_group(cursor: Cursor) -> Pattern:
    """A group whose variables are not visible around it, as of EXISTS and MINUS. It contains no aggregates."""
    visible, cursor.visible = cursor.visible, {}
    allowed, cursor.aggregates = cursor.aggregates, None
    pattern = group(cursor)
    cursor.visible, cursor.aggregates = visible, allowed
    return pattern


def _parts(cursor: Cursor) -> tuple[Pattern, list[Expression]]:
    if cursor.raw != "{" or cursor.kind != "op":
        cursor.expected("'{' to begin a group")
    cursor.part()
    outer, cursor.visible = cursor.visible, {}
    with cursor.nested():
        cursor.advance()
        parts = _Group(cursor).read()
    outer.update(cursor.visible)
    cursor.visible = outer
    return parts


class _Group:
    __slots__ = ("_cursor", "_elements", "_filters", "_paths", "_triples")

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._elements: list[Pattern] = []  # what is joined; all that stands before an OPTIONAL becomes one of them
        self._filters: list[Expression] = []
        self._triples: list[TriplePattern] = []
        self._paths: list[PathPattern] = []

    def read(self) -> tuple[Pattern, list[Expression]]:
        cursor = self._cursor
        if cursor.kind == "word" and cursor.raw.upper() == "SELECT":
            self._elements.append(self._sub_select())
            cursor.require("}", "to close the sub-SELECT's group")
            return self._so_far(), self._filters
        triples: Triples[Variable] = Triples(cursor, _hidden, self._emit, self._emit_path)
        cursor.scope += 1
        triples.block()
        while not cursor.take("}"):
            self._element()
            cursor.take(".")
            triples.block()
        self._end_pattern()
        cursor.scope += 1
        return self._so_far(), self._filters

    def _emit(
        self, subject: Variable | Constant, predicate: Variable | Constant, target: Variable | Constant, offset: int
    ) -> None:
        self._cursor.part()
        self._triples.append(TriplePattern(subject, predicate, target, self._cursor.source.position(offset)))

    def _emit_path(self, subject: Variable | Constant, path: Path, target: Variable | Constant, offset: int) -> None:
        self._cursor.part()
        self._paths.append(PathPattern(subject, path, target, self._cursor.source.position(offset)))

    def _end_pattern(self) -> None:
        if self._triples or self._paths:
            self._elements.append(Bgp(tuple(self._triples), tuple(self._paths)))
            self._triples, self._paths = [], []

    def _so_far(self) -> Pattern:
        return balanced(self._elements, Join) if self._elements else Bgp(())

    def _element(self) -> None:
        cursor = self._cursor
        word = cursor.word()
        if word == "FILTER":
            # The one element that does not end a basic graph pattern.
            cursor.part()
            cursor.advance()
            self._filters.append(constraint(cursor))
            return
        self._end_pattern()
        if cursor.raw == "{" and cursor.kind == "op":
            self._elements.append(_alternatives(cursor))
        elif word in _JOINED:
            self._elements.append(_JOINED[word](cursor))
        elif word in ("OPTIONAL", "MINUS", "BIND"):
            self._elements = [self._changed(word)]
        else:
            _refuse(cursor, word)
        cursor.scope += 1

    def _changed(self, word: str) -> Pattern:
        """The pattern of OPTIONAL, MINUS or BIND with all that is before it in the group."""
        cursor, before = self._cursor, self._so_far()
        position = cursor.position()
        cursor.part()
        cursor.advance()
        if word == "MINUS":
            return Minus(before, hidden_group(cursor), position)
        if word == "BIND":
            variable, value = self._assignment()
            return Extend(before, variable, value, position)
        inner, filters = _parts(cursor)
        return LeftJoin(before, inner, balanced(filters, And) if filters else None, position)

    def _assignment(self) -> tuple[str, Expression]:
        cursor = self._cursor
        with cursor.nested():
            cursor.require("(", "after BIND")
            value = expression(cursor)
            cursor.require_word("AS", "and a variable after the expression, as in BIND (?a + 1 AS ?b)")
            name = cursor.variable_name
            if cursor.kind != "var":
                cursor.expected("a variable after AS")
            if name in cursor.visible:
                cursor.fail(f"?{name} already has a value in this group; BIND needs a new variable")
            cursor.visible[name] = None
            cursor.advance()
            cursor.require(")", "to close BIND")
        return name, value

    def _sub_select(self) -> Pattern:
        cursor = self._cursor
        position = cursor.position()
        return SubSelect(queries.sub_select(cursor), position)


def _alternatives(cursor: Cursor) -> Pattern:
    first = group(cursor)
    if cursor.word() != "UNION":
        return first
    position = cursor.position()
    parts = [first]
    while cursor.take_word("UNION"):
        parts.append(group(cursor))
    return Union(tuple(parts), position)


def _refuse(cursor: Cursor, word: str) -> None:
    if word in FOREIGN_ELEMENTS:
        cursor.refuse(word)
    if word in ("EXISTS", "NOT"):
        cursor.fail(f"{word} belongs into a FILTER: FILTER {word} ...")
    if word in ("LIMIT", "OFFSET", "ORDER", "GROUP", "HAVING"):
        cursor.fail(f"{word} stands behind the '}}' of the pattern")
    if word == "UNION":
        cursor.fail("UNION connects two groups: { ... } UNION { ... }")
    if word == "SELECT":
        cursor.fail("a sub-SELECT needs a group of its own: { SELECT ... }")
    cursor.expected("a triple, '{', '}', FILTER, OPTIONAL, MINUS, BIND, VALUES, GRAPH, SERVICE or WINDOW")


# ---- elements that are joined with what stands before them ---------------------------------------------------


def _graph(cursor: Cursor) -> Pattern:
    position = cursor.position()
    cursor.advance()
    if cursor.kind == "var":
        return Graph(_variable(cursor), group(cursor), position)
    if cursor.kind in ("iri", "pname"):
        key = cursor.iri()
    elif cursor.kind == "word":
        key = cursor.bare_name()
    else:
        cursor.expected("an IRI, a prefixed name or a variable after GRAPH")
    window = _window_on(cursor, key)
    if window is not None:
        return InWindow(window, group(cursor), position)
    if ":" not in key:
        key = cursor.home + key
    return Graph(Constant(terms.iri(key)), group(cursor), position)


def _window_on(cursor: Cursor, key: str) -> str | None:
    """The C-SPARQL window on the stream that GRAPH names, if it names one."""
    named = [window for window in cursor.windows.values() if window.declared.of_stream and _is_on(cursor, window, key)]
    if len(named) > 1:
        cursor.refuse("GRAPH with a stream that has two windows")
    return named[0].name if named else None


def _is_on(cursor: Cursor, window: WindowClause, key: str) -> bool:
    stream = window.stream
    full = f"{cursor.home}streams/{stream.name}"
    return key in (stream.iri, stream.name) or (stream.name is not None and key == full)


def _window(cursor: Cursor) -> Pattern:
    position = cursor.position()
    cursor.advance()
    other = next((window for window in cursor.windows.values() if window.declared.is_nameless), None)
    if other is not None:
        cursor.fail(
            f"WINDOW is RSP-QL, but this text declares its windows by {other.declared} (line "
            f"{other.position.line}): use one dialect in a query"
        )
    if cursor.kind == "var":
        position = cursor.position()
        return InAnyWindow(_variable(cursor).name, group(cursor), position)
    if cursor.kind not in ("iri", "pname"):
        cursor.expected("the IRI of a window after WINDOW")
    offset = cursor.offset
    name = cursor.iri()
    if name not in cursor.windows:
        cursor.fail(_undeclared(cursor, name), offset)
    return InWindow(name, group(cursor), position)


def _undeclared(cursor: Cursor, name: str) -> str:
    declared = ", ".join(f"<{window}>" for window in cursor.windows)
    known = f"declared: {declared}" if declared else "none is declared"
    return f"no window <{name}> is declared by FROM NAMED WINDOW <{name}> ON <stream> [RANGE ...]; {known}"


def _stream(cursor: Cursor) -> Pattern:
    position = cursor.position()
    name = pattern_window(cursor)
    return InWindow(name, group(cursor), position)


#: The name of a source, where the IRI of a service is written.
_SOURCE = re.compile(r"<[A-Za-z_][\w.-]*>")


def _service(cursor: Cursor) -> Pattern:
    position = cursor.position()
    cursor.advance()
    silent = cursor.take_word("SILENT")
    written = None
    if cursor.kind == "var":
        service: Variable | Constant = _variable(cursor)
    elif cursor.kind in ("iri", "pname"):
        written = cursor.raw[1:-1] if _SOURCE.fullmatch(cursor.raw) else None
        service = cursor.constant()
    else:
        cursor.expected("the IRI of a service, or a variable, after SERVICE")
    return ServicePattern(service, group(cursor), silent, position, written)


def _values(cursor: Cursor) -> Pattern:
    cursor.part()
    table = values(cursor)
    cursor.visible.update(dict.fromkeys(table.variables))
    return table


def _variable(cursor: Cursor) -> Variable:
    found = cursor.variable()
    cursor.visible[found.name] = None
    return found


def _hidden(label: str) -> Variable:
    return Variable(f"_:{label}", hidden=True)


_JOINED: dict[str, Callable[[Cursor], Pattern]] = {
    "GRAPH": _graph,
    "WINDOW": _window,
    "STREAM": _stream,
    "SERVICE": _service,
    "VALUES": _values,
}


# ---- VALUES --------------------------------------------------------------------------------------------------


def values(cursor: Cursor) -> Values:
    """The table at VALUES."""
    position = cursor.position()
    cursor.advance()
    many = cursor.take("(")
    names: dict[str, None] = {}
    while cursor.kind == "var":
        if cursor.variable_name in names:
            cursor.fail(f"{cursor.raw} is written twice")
        names[cursor.variable_name] = None
        cursor.advance()
        if not many:
            break
    if many:
        cursor.require(")", "to close the variables of VALUES")
    elif not names:
        cursor.expected("a variable, or variables in parentheses, after VALUES")
    cursor.require("{", "to begin the rows of VALUES")
    rows: list[tuple[Constant | None, ...]] = []
    while not cursor.take("}"):
        rows.append(_row(cursor, len(names)) if many else (_value(cursor),))
    return Values(tuple(names), tuple(rows), position)


def _row(cursor: Cursor, width: int) -> tuple[Constant | None, ...]:
    offset = cursor.offset
    cursor.require("(", "to begin a row of VALUES (or '}')")
    row = []
    while not cursor.take(")"):
        row.append(_value(cursor))
    if len(row) != width:
        cursor.fail(f"a row of {len(row)} values for {width} variables", offset)
    return tuple(row)


def _value(cursor: Cursor) -> Constant | None:
    if cursor.take_word("UNDEF"):
        return None
    if cursor.kind in ("iri", "pname"):
        return cursor.constant()
    literal = literal_here(cursor)
    return cursor.expected("a value (an IRI, a literal or UNDEF)") if literal is None else literal
