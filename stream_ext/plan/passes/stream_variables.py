"""Stream variables: a window on `?s` becomes one window on each stream that there is, with ?s bound to its IRI.

    FROM NAMED WINDOW :w ON ?s [RANGE 5s]  ...  WINDOW :w { ?x :p ?y }
    =>  { window on <a> { ?x :p ?y } VALUES ?s { <a> } } UNION { window on <b> { ?x :p ?y } VALUES ?s { <b> } }

If the query does not mention ?s elsewhere, it need not be bound. C-SPARQL merges the windows of FROM STREAM ?s; only
`GRAPH ?s { }` distinguishes them. Windows of later streams come after all others, so that the places of the windows,
by which their state is stored, do not change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hbase_store.layout.terms import iri
from stream_ext.language.algebra.algebra import Graph, InAnyWindow, InWindow, Join, Pattern, Query, Union, Values
from stream_ext.language.algebra.rename import rename_query
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Constant, Position, Variable
from stream_ext.language.algebra.windows import Dialect, Extent, StreamRef, WindowClause


def has_stream_variables(query: Query) -> bool:
    return any(window.stream.variable is not None for window in query.windows)


def follows_streams(query: Query) -> bool:
    """Whether it reads streams that are created later, too; not if all its windows are of the past."""
    return has_stream_variables(query) and any(window.extent is not Extent.HISTORY for window in query.windows)


def merged_variables(query: Query) -> dict[str, list[WindowClause]]:
    """The variables of FROM STREAM in C-SPARQL, each with its windows."""
    found: dict[str, list[WindowClause]] = {}
    for window in query.windows if query.dialect is Dialect.CSPARQL else ():
        if window.stream.variable is not None:
            found.setdefault(window.stream.variable, []).append(window)
    return found


def mentions(query: Query) -> set[str]:
    """The variables that the query mentions anywhere except in the clauses of its windows."""
    names: set[str] = set()

    def met(name: str) -> str:
        names.add(name)
        return name

    rename_query(query, met)
    return names


def over_streams(query: Query, streams: Iterable[str]) -> Query:
    """The query with its windows over all streams. `streams`: their IRIs, the oldest first."""
    if not has_stream_variables(query):
        return query
    return _Spread(query, list(streams)).query()


class _Spread:
    def __init__(self, query: Query, streams: Sequence[str]) -> None:
        self._query, self._streams = query, streams
        self._clauses = {window.name: window for window in query.windows}
        self._merged = merged_variables(query)

    def query(self) -> Query:
        """With the dialect of the text, also where there is no stream."""
        wide = replace(rebuilt(self._query, self._part), windows=tuple(self._windows()))
        return wide if wide.windows else replace(wide, dialect_without_windows=self._query.dialect)

    def _windows(self) -> Iterator[WindowClause]:
        yield from (window for window in self._query.windows if window.stream.variable is None)
        for stream in self._streams:
            for window in self._query.windows:
                if (variable := window.stream.variable) is not None:
                    there = StreamRef(stream, None, window.stream.position, variable)
                    yield replace(window, name=_name(window, stream), stream=there)

    def _part(self, node: object) -> Pattern | None:
        match node:
            case InWindow(name, inner, position):
                return self._in_window(self._clauses[name], inner, position)
            case InAnyWindow(variable, inner, position):
                found = ((name, self._in_window(each, inner, position)) for name, each in self._clauses.items())
                return Union(tuple(_with(part, variable, name, position) for name, part in found), position)
            case Graph(Variable(name), inner, position) if name in self._merged:
                return self._in_window(self._merged[name][0], rebuilt(inner, self._part), position)
            case _:
                return None

    def _in_window(self, window: WindowClause, inner: Pattern, position: Position) -> Pattern:
        variable = window.stream.variable
        if variable is None:
            return InWindow(window.name, inner, position)
        if not self._streams:
            return Values((variable,), (), position)
        found = ((stream, InWindow(_name(window, stream), inner, position)) for stream in self._streams)
        return Union(tuple(_with(part, variable, stream, position) for stream, part in found), position)


def _with(pattern: Pattern, variable: str, name: str, position: Position) -> Pattern:
    return Join(pattern, Values((variable,), ((Constant(iri(name)),),), position))


def _name(window: WindowClause, stream: str) -> str:
    """A window name that no text can have: an IRI has no blank."""
    return f"{window.name} on {stream}"
