"""Advice: parts of a text that are valid, but probably a mistake. Shown at registration and by EXPLAIN.

SELECT ?zoen  FROM NAMED WINDOW <w> ON s [RANGE 1s]  { ?taxi ex:in ?zone }
=>  ?zoen is bound nowhere in this text: it never has a value; no pattern reads the window <w> ..."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stream_ext.language.algebra.algebra import (
    Bgp,
    Extend,
    Graph,
    InAnyWindow,
    InWindow,
    PathPattern,
    QuadPattern,
    Query,
    ServicePattern,
    SubSelect,
    TriplePattern,
    Values,
)
from stream_ext.language.algebra.policy import PatternScope, policy_of
from stream_ext.language.algebra.terms import Position, Variable
from stream_ext.language.algebra.walk import Part, walk
from stream_ext.language.algebra.windows import Dialect


def warnings_of(query: Query) -> tuple[str, ...]:
    return (*_of_scope(query), *_of_variables(query), *_of_windows(query), *_of_lengths(query))


def _of_scope(query: Query) -> Iterator[str]:
    if query.shape.graphs:
        return
    if query.dialect is Dialect.CSPARQL and policy_of(query).scope.value is PatternScope.WINDOWS:
        yield "this C-SPARQL text has no FROM graph, so it reads only its windows and nothing from the store"


def _of_variables(query: Query) -> Iterator[str]:
    parts = list(walk(_whole(query)))
    used = dict.fromkeys(name for part in parts for name in _used(part))
    bound = {name for part in parts for name in _bound(part)} | {window.stream.variable for window in query.windows}
    for name in used:
        if name not in bound and not name.startswith(("_:", ".")):
            yield f"?{name} is never bound in this text, so it never has a value"


def _whole(query: Query) -> SubSelect:
    return SubSelect(query, Position(1, 1))


def _used(part: Part) -> Iterable[str]:
    match part:
        case Variable(name):
            return (name,)
        case SubSelect(query):
            return (*query.variables, *_names(query.shape.template or ()))
    return ()


def _bound(part: Part) -> Iterable[str]:
    match part:
        case Bgp(patterns, paths):
            return _names((*patterns, *paths))
        case Values(variables):
            return variables
        case Extend(_, variable) | InAnyWindow(variable):
            return (variable,)
        case Graph(Variable(name)) | ServicePattern(Variable(name)):
            return (name,)
        case SubSelect(query):
            assigned = (*query.shape.expressions, *query.shape.group_by)
            return [each.variable for each in assigned if each.variable is not None]
    return ()


def _names(patterns: Iterable[TriplePattern | PathPattern | QuadPattern]) -> Iterator[str]:
    for pattern in patterns:
        nodes = (pattern.subject, None if isinstance(pattern, PathPattern) else pattern.predicate, pattern.object)
        yield from (node.name for node in nodes if isinstance(node, Variable))


def _of_windows(query: Query) -> Iterator[str]:
    if query.dialect is not Dialect.RSPQL:
        return
    parts = list(walk(_whole(query)))
    read = {part.window for part in parts if isinstance(part, InWindow)}
    if any(isinstance(part, InAnyWindow) for part in parts):
        return
    for window in query.windows:
        if window.name not in read:
            yield f"no pattern reads the window <{window.name}>; WINDOW <{window.name}> {{ ... }} would read it"


def _of_lengths(query: Query) -> Iterator[str]:
    for written in dict.fromkeys(each for window in query.windows for each in window.without_unit):
        count = written.rpartition(" ")[2]
        yield f"{written} has no unit, which means milliseconds: write {count}s if seconds are meant, or {count}ms"
