"""Refuse: syntax of the language that the engine does not run yet is rejected by name, with line and column.

    ASK { SEQ { ?s ?p ?o } }      =>      line 1, column 7: SEQ is not built yet

The parser reads the whole language; only this module knows which part of it runs. All that plan, register or execute
a text call `parse_runnable`. When an operator is built, its line here is deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stream_ext.errors import Unsupported
from stream_ext.language.algebra.algebra import Graph, InAnyWindow, InWindow, Query, Register, ServicePattern
from stream_ext.language.algebra.formulas import FunctionCall
from stream_ext.language.algebra.statements import Admin, Modify, Operation, Unit, Update
from stream_ext.language.algebra.terms import Variable
from stream_ext.language.algebra.walk import Part, parts_of, query_parts, walk
from stream_ext.language.algebra.windows import Dialect
from stream_ext.language.syntax import parse
from stream_ext.plan.passes.stream_variables import mentions, merged_variables
from stream_ext.plan.passes.timestamps import TIMESTAMPS, is_timestamp
from stream_ext.plan.refused_syntax.windows import Refusal, of_mixtures, of_window
from stream_ext.values.functions import CASTS, registered_functions


def parse_runnable(text: str, base: str) -> Unit:
    """The unit of `text`; Unsupported if the engine does not run all of it."""
    return runnable(parse(text, base), text)


def runnable(unit: Unit, text: str, functions: Collection[str] = ()) -> Unit:
    """`unit`, which was parsed from `text`; Unsupported if the engine does not run all of it. `functions`: those that
    others have, by IRI."""
    refused = first_refusal(unit, functions)
    if refused is not None:
        position, name = refused
        raise Unsupported(f"{name} is not supported yet", text, position.line, position.column)
    return unit


def calls_custom_functions(query: Query) -> bool:
    """Whether it calls custom functions, which may be registered and unregistered at any time."""
    calls = (node for part in query_parts(query) for node in walk(part) if isinstance(node, FunctionCall))
    return any(call.name.startswith("<") for call in calls)


def first_refusal(unit: Unit, functions: Collection[str] = ()) -> Refusal | None:
    """The first refusal in the text; None: all of it runs."""
    if isinstance(unit, Query | Register):
        return _earliest(refusals(unit, functions)) or _earliest(_hollow(unit))
    return _earliest(refusals(unit))


def _earliest(refused: Iterator[Refusal]) -> Refusal | None:
    return min(refused, key=lambda refusal: (refusal[0].line, refusal[0].column), default=None)


def _hollow(unit: Query | Register) -> Iterator[Refusal]:
    """Clauses of one-shot queries in a registered query, or the other way round."""
    if not isinstance(unit, Register):
        return
    for window in unit.query.windows:
        # Those that are there may all have it for their time, but not those that come.
        if window.stream.variable is not None and window.time_predicate is not None:
            yield (
                window.stream.position,
                "RANGE ... ON a predicate for streams named by a variable in a registered query",
            )
    every = unit.query.shape.place("COMPUTED EVERY")
    if every is not None and not unit.query.windows:
        yield every, "COMPUTED EVERY for a query without windows"
    if (described := unit.query.shape.place("DESCRIBE")) is not None:
        yield described, "a registered DESCRIBE"


def refusals(unit: Unit, functions: Collection[str] = ()) -> Iterator[Refusal]:
    """All parts that do not run, each with its position."""
    if isinstance(unit, Update):
        for operation in unit.operations:
            yield from _operation(operation)
    elif not isinstance(unit, Admin):
        yield from _query(unit.query if isinstance(unit, Register) else unit, functions)


def _operation(operation: Operation) -> Iterator[Refusal]:
    match operation:
        case Modify():
            yield from _parts(operation.pattern)
            for node in walk(operation.pattern):
                if isinstance(node, InWindow):
                    yield node.position, "a window in an update"


# ---- queries -------------------------------------------------------------------------------------------------


#: Clauses that are known by their places only, and run.
_CLAUSES_RUN = frozenset(
    {
        "aggregate",
        "SELECT *",
        "DSTREAM",
        "REGISTER DSTREAM",
        "CONSTRUCT",
        "DESCRIBE",
        "REDUCED",
        "GROUP BY",
        "HAVING",
        "VALUES",
        "ORDER BY",
        "COMPUTED EVERY",
    }
)


def _query(query: Query, functions: Collection[str]) -> Iterator[Refusal]:
    shape = query.shape
    for name, position in shape.places:
        if name not in _CLAUSES_RUN:
            yield position, name
    for window in query.windows:
        yield from of_window(window)
    yield from of_mixtures(query)
    within = _THE_WINDOWS if query.dialect is Dialect.CSPARQL else ""
    streams = merged_variables(query)
    for part in query_parts(query):
        yield from _parts(part, within, frozenset(streams), functions)
    graphs = {node.graph for part in query_parts(query) for node in walk(part) if isinstance(node, Graph)}
    for name, windows in streams.items():
        if Variable(name) not in graphs and name in mentions(query):
            yield windows[0].stream.position, "a variable of FROM STREAM that no GRAPH names, and others do"
        elif Variable(name) in graphs and len(windows) > 1:
            yield windows[1].stream.position, "GRAPH with a stream that has two windows"


def _parts(
    root: Part, within: str = "", streams: frozenset[str] = frozenset(), functions: Collection[str] = ()
) -> Iterator[Refusal]:
    """The refusals of a pattern or expression, in any order. `within`: what all of it is inside of; `streams`: the
    variables by which GRAPH names windows."""
    waiting: list[tuple[Part, str]] = [(root, within)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, Graph) and isinstance(node.graph, Variable) and node.graph.name in streams:
            node = InWindow(node.graph.name, node.inner, node.position)
        refused = _part(node, inside, functions)
        if refused is not None:
            yield refused
        if isinstance(node, ServicePattern):
            # The other endpoint may run what we do not, but it does not have our windows.
            yield from _windows_in_service(node)
            continue
        if isinstance(node, InWindow | InAnyWindow):
            inside = "WINDOW"
        elif isinstance(node, Graph):
            inside = _GRAPH_IN_WINDOW if inside in ("WINDOW", _GRAPH_IN_WINDOW) else "GRAPH"
        waiting += [(part, inside) for part in parts_of(node)]


def _windows_in_service(service: ServicePattern) -> Iterator[Refusal]:
    for node in walk(service.inner):
        if isinstance(node, InWindow | InAnyWindow):
            yield node.position, "a window inside SERVICE"


def _part(node: Part, inside: str, functions: Collection[str]) -> Refusal | None:
    """Why this part alone does not run; `inside`: what it is in, as `WINDOW`."""
    match node:
        case InWindow() | InAnyWindow() if inside and inside != _THE_WINDOWS:
            return node.position, f"WINDOW inside {inside.split()[0]}"
        case FunctionCall(name) if name in TIMESTAMPS:
            return _timestamp(node, inside)
        case FunctionCall(name) if name.startswith("<") and name[1:-1] not in functions:
            return _function(node)
        case _:
            return None


_GRAPH_IN_WINDOW = "GRAPH inside WINDOW"
_THE_WINDOWS = "the windows"


def _timestamp(call: FunctionCall, inside: str) -> Refusal | None:
    if inside not in ("WINDOW", _GRAPH_IN_WINDOW, _THE_WINDOWS):
        return call.position, "a timestamp outside windows"
    return (
        None
        if is_timestamp(call)
        else (call.position, "a timestamp of something that is not a triple of variables and terms")
    )


def _function(call: FunctionCall) -> Refusal | None:
    """The refusal of a function that is neither a cast nor registered: its calls would all be errors."""
    if call.distinct:
        return call.position, "DISTINCT in a function"
    name = call.name[1:-1]
    if (name in CASTS and len(call.arguments) == 1) or name in registered_functions():
        return None
    return call.position, f"the function {call.name}"
