"""Group graph patterns: what stands between { and }."""

from __future__ import annotations

from stream_ext.plan.algebra import (
    And,
    Bgp,
    Constant,
    Expression,
    Filter,
    Graph,
    InWindow,
    Join,
    Pattern,
    TriplePattern,
    Variable,
)
from stream_ext.syntax.conditions import balanced, constraint
from stream_ext.syntax.cursor import Cursor
from stream_ext.syntax.triples import Triples
from stream_ext.syntax.words import GROUP_ELEMENTS

#: Filters of one group are nested; this many, and those after them become one condition.
_FILTERS_NESTED_MAX = 32


def group(cursor: Cursor, inside: str = "") -> Pattern:
    """The group that begins here; `inside` is the GRAPH or WINDOW around it."""
    if cursor.raw != "{" or cursor.kind != "op":
        cursor.expected("'{' to begin a group")
    with cursor.nested():
        cursor.advance()
        return _Group(cursor, inside).read()


class _Group:
    __slots__ = ("_cursor", "_elements", "_filters", "_inside", "_triples")

    def __init__(self, cursor: Cursor, inside: str) -> None:
        self._cursor = cursor
        self._inside = inside
        self._elements: list[Pattern] = []
        self._filters: list[Expression] = []
        self._triples: list[TriplePattern] = []

    def read(self) -> Pattern:
        cursor = self._cursor
        triples: Triples[Variable] = Triples(cursor, _hidden, self._emit)
        self._begin_pattern()
        triples.block()
        while not cursor.take("}"):
            self._element()
            cursor.take(".")
            triples.block()
        self._end_pattern()
        cursor.scope += 1
        return self._result()

    def _emit(
        self, subject: Variable | Constant, predicate: Variable | Constant, target: Variable | Constant, offset: int
    ) -> None:
        self._triples.append(TriplePattern(subject, predicate, target, self._cursor.source.position(offset)))

    def _begin_pattern(self) -> None:
        self._cursor.scope += 1

    def _end_pattern(self) -> None:
        if self._triples:
            self._elements.append(Bgp(tuple(self._triples)))
            self._triples = []

    def _element(self) -> None:
        cursor = self._cursor
        word = cursor.word()
        if word == "FILTER":
            # The one element that does not end a basic graph pattern.
            cursor.advance()
            self._filters.append(constraint(cursor))
            return
        self._end_pattern()
        if word == "GRAPH":
            self._elements.append(self._graph())
        elif word == "WINDOW":
            self._elements.append(self._window())
        elif cursor.raw == "{" and cursor.kind == "op":
            self._elements.append(group(cursor, self._inside))
        else:
            self._refuse(word)
        if cursor.word() == "UNION":
            cursor.refuse("UNION")
        self._begin_pattern()

    def _refuse(self, word: str) -> None:
        cursor = self._cursor
        if word in GROUP_ELEMENTS:
            cursor.refuse(GROUP_ELEMENTS[word])
        if word in ("EXISTS", "NOT"):
            cursor.fail(f"{word} stands in a FILTER: FILTER {word} ...")
        if word in ("LIMIT", "OFFSET", "ORDER", "GROUP", "HAVING"):
            cursor.fail(f"{word} stands behind the '}}' of the pattern")
        cursor.expected("a triple, FILTER, GRAPH, WINDOW, '{' or '}'")

    def _graph(self) -> Pattern:
        cursor = self._cursor
        if self._inside == "WINDOW":
            cursor.refuse("GRAPH inside WINDOW")
        start = cursor.offset
        cursor.advance()
        name: Variable | Constant
        if cursor.kind == "var":
            name = Variable(cursor.raw[1:])
            cursor.visible[name.name] = None
            cursor.advance()
        elif cursor.kind in ("iri", "pname"):
            name = cursor.constant()
        elif cursor.kind == "word":
            cursor.refuse("GRAPH with a bare name")
        else:
            cursor.expected("an IRI, a prefixed name or a variable after GRAPH")
        inner = group(cursor, "GRAPH")
        if not _asks(inner):
            cursor.refuse("GRAPH around a group that has no triple of its own", start)  # true once for every graph
        return Graph(name, inner)

    def _window(self) -> Pattern:
        cursor = self._cursor
        if self._inside:
            cursor.refuse(f"WINDOW inside {self._inside}")
        cursor.advance()
        if cursor.kind == "var":
            cursor.refuse("WINDOW with a variable")
        if cursor.kind not in ("iri", "pname"):
            cursor.expected("the IRI of a window after WINDOW")
        offset = cursor.offset
        name = cursor.iri()
        if name not in cursor.windows:
            cursor.fail(_undeclared(cursor, name), offset)
        return InWindow(name, group(cursor, "WINDOW"))

    def _result(self) -> Pattern:
        pattern = balanced(self._elements, Join) if self._elements else Bgp(())
        filters = self._filters
        if len(filters) > _FILTERS_NESTED_MAX:
            filters = [*filters[:_FILTERS_NESTED_MAX], balanced(filters[_FILTERS_NESTED_MAX:], And)]
        for condition in filters:
            pattern = Filter(condition, pattern)
        return pattern


def _asks(pattern: Pattern) -> bool:
    """Whether a triple is looked for in the graph around this group, not only in those inside of it."""
    waiting = [pattern]
    while waiting:
        match waiting.pop():
            case Bgp(patterns) if patterns:
                return True
            case Join(left, right):
                waiting += [left, right]
            case Filter(_, inner):
                waiting.append(inner)
    return False


def _hidden(label: str) -> Variable:
    return Variable(f"_:{label}", hidden=True)


def _undeclared(cursor: Cursor, name: str) -> str:
    declared = ", ".join(f"<{window}>" for window in cursor.windows)
    known = f"those declared: {declared}" if declared else "none is declared"
    return f"no window <{name}> is declared by FROM NAMED WINDOW <{name}> ON <stream> [RANGE ...]; {known}"
