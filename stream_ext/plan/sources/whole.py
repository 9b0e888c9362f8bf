"""Whole queries: a registered query that calls functions of the source's process is evaluated there as a whole.

    SELECT ?zone ?y { WINDOW :w { ?taxi :in ?zone } BIND(<urn:f:near>(?zone) AS ?y) } ORDER BY ?y
    =>  rows of `SELECT ?zone ?y { GRAPH :w { ?taxi :in ?zone } BIND(...) } ORDER BY ?y`, with their places

What is left for our engine: the content of the windows, the difference from the answer before, CONSTRUCT's template."""

from __future__ import annotations

from collections.abc import Sequence

from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Graph, InAnyWindow, InWindow, Query
from stream_ext.language.algebra.walk import query_parts, walk, without_template
from stream_ext.language.algebra.windows import Dialect
from stream_ext.language.printing import to_sparql
from stream_ext.plan.logic import Select, SourceEvaluated

_PLACE = ".place"


def whole_select(query: Query, functions: Sequence[str]) -> Select:
    """BadArgument for what has no meaning where windows are graphs."""
    _check(query, functions)
    selected = without_template(query)
    order = ((_PLACE, False),) if query.shape.order_by else ()
    windows = tuple(window.name for window in query.windows)
    leaf = SourceEvaluated(
        to_sparql(selected), tuple(functions), selected.variables, windows, _PLACE if order else None
    )
    return Select(leaf, (), None, (), (), order, selected.variables, False, 0, None)


def _check(query: Query, functions: Sequence[str]) -> None:
    why = _why_not(query)
    if why is not None:
        raise BadArgument(
            f"<{functions[0]}> is a function in Python, so rdflib evaluates the query as a whole, with its windows as "
            f"graphs; {why}"
        )


def _why_not(query: Query) -> str | None:
    if not query.windows:
        return "that needs a window, which says when: nobody sees a change of what a function answers"
    if query.dialect is not Dialect.RSPQL:
        return "that needs windows of their own: declare them by FROM NAMED WINDOW"
    for part in (each for root in query_parts(query) for each in walk(root)):
        if isinstance(part, InAnyWindow):
            return f"?{part.name} cannot range over windows: name each"
        if isinstance(part, InWindow) and any(isinstance(inner, Graph) for inner in walk(part.inner)):
            return f"graphs inside of a window are not told apart: leave out GRAPH in WINDOW <{part.window}>"
    if any(window.stream.variable is not None for window in query.windows):
        return "that needs windows on streams that are named, not on a variable"
    return None
