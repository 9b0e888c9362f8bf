"""Refuse: what the language has and the engine does not run yet, by name, with line and column.

    ASK { ?s ?p ?o OPTIONAL { ?s ?p ?o } }      =>      line 1, column 16: OPTIONAL is not built yet

The parser reads the whole language; this is the one place that knows how much of it runs. Whoever plans, registers or
executes a text asks `parse_runnable` for it. When an operator is built, its line here goes."""

from __future__ import annotations

from collections.abc import Iterator

from stream_ext.errors import Unsupported
from stream_ext.plan.algebra import (
    Admin,
    Bgp,
    Extend,
    Filter,
    Graph,
    InAnyWindow,
    InWindow,
    Join,
    LeftJoin,
    Minus,
    Modify,
    Operation,
    Pattern,
    Query,
    Register,
    Service,
    SubSelect,
    Union,
    Unit,
    Update,
    Values,
)
from stream_ext.plan.formulas import Aggregate, Call, Exists, Membership
from stream_ext.plan.terms import Position
from stream_ext.plan.walk import Part, parts_of, walk
from stream_ext.plan.windows import Declared, Extent, Trigger, WindowClause
from stream_ext.syntax import parse_again

Refusal = tuple[Position, str]


def parse_runnable(text: str, base: str) -> Unit:
    """What `text` means, if the engine runs all of it."""
    return runnable(parse_again(text, base), text)


def runnable(unit: Unit, text: str) -> Unit:
    """`unit`, whose text this is, if the engine runs all of it."""
    refused = first_refusal(unit)
    if refused is not None:
        position, name = refused
        raise Unsupported(f"{name} is not built yet", text, position.line, position.column)
    return unit


def first_refusal(unit: Unit) -> Refusal | None:
    """The first in the text; None: all of it runs."""
    if isinstance(unit, Query | Register):
        return _earliest(refusals(unit)) or _earliest(_hollow(unit))
    return _earliest(refusals(unit))


def _earliest(refused: Iterator[Refusal]) -> Refusal | None:
    return min(refused, key=lambda refusal: (refusal[0].line, refusal[0].column), default=None)


def _hollow(unit: Query | Register) -> Iterator[Refusal]:
    """What runs in all its parts, and lacks one that the engine needs."""
    query = unit.query if isinstance(unit, Register) else unit
    star = query.shape.place("SELECT *")
    if star is not None:
        yield star, "SELECT * over a pattern without variables (ASK says whether it holds)"
    yield from _empty_graphs(query.pattern)
    if isinstance(unit, Register) and not query.windows:
        yield unit.position, "a registered query without windows"


def _empty_graphs(pattern: Pattern) -> Iterator[Refusal]:
    for node in walk(pattern):
        if isinstance(node, Graph) and not _asks(node.inner):
            yield node.position, "GRAPH around a group that has no triple of its own"  # true once for every graph


def refusals(unit: Unit) -> Iterator[Refusal]:
    """All that is not run, each where it stands."""
    if isinstance(unit, Update):
        for operation in unit.operations:
            yield from _operation(operation)
    elif not isinstance(unit, Admin):
        yield from _query(unit.query if isinstance(unit, Register) else unit)


def _operation(operation: Operation) -> Iterator[Refusal]:
    match operation:
        case Modify(graph):
            if graph is not None:
                yield operation.position, "WITH"
            for clause in operation.using:
                yield clause.position, clause.said
            yield from _parts(operation.pattern)
            yield from _empty_graphs(operation.pattern)
            for node in walk(operation.pattern):
                if isinstance(node, InWindow):
                    yield node.position, "a window in an update"


# ---- queries -------------------------------------------------------------------------------------------------


def _query(query: Query) -> Iterator[Refusal]:
    shape = query.shape
    for name, position in shape.places:
        if name not in ("aggregate", "SELECT *", "COMPUTED EVERY"):  # the first has a name of its own, the others run
            yield position, name
    for clause in shape.graphs:
        yield clause.position, clause.said
    for each in shape.expressions:
        inner = list(_parts(each.expression))
        yield from inner or [(each.position, "SELECT (expression AS ?variable)")]
    for window in query.windows:
        yield from _window(window)
    yield from _parts(query.pattern)


def _parts(root: Part) -> Iterator[Refusal]:
    """Of a pattern or expression, in any order."""
    waiting: list[tuple[Part, str]] = [(root, "")]
    while waiting:
        node, inside = waiting.pop()
        refused = _part(node, inside)
        if refused is not None:
            yield refused
        if isinstance(node, Graph | InWindow):
            inside = "GRAPH" if isinstance(node, Graph) else "WINDOW"
        waiting += [(part, inside) for part in parts_of(node)]


def _part(node: Part, inside: str) -> Refusal | None:
    match node:
        case Bgp(_, paths) if paths:
            return paths[0].position, "a property path"
        case LeftJoin():
            return node.position, "OPTIONAL"
        case Minus():
            return node.position, "MINUS"
        case Extend():
            return node.position, "BIND"
        case Union():
            return node.position, "UNION"
        case Values():
            return node.position, "VALUES"
        case Service():
            return node.position, "SERVICE"
        case SubSelect():
            return node.position, "a sub-SELECT"
        case InAnyWindow():
            return node.position, "WINDOW with a variable"
        case Graph() if inside == "WINDOW":
            return node.position, "GRAPH inside WINDOW"
        case InWindow() if inside:
            return node.position, f"WINDOW inside {inside}"
        case Call(name):
            return node.position, "a function named by an IRI" if name.startswith("<") else name
        case Membership():
            return node.position, "NOT IN" if node.negated else "IN"
        case Exists():
            return node.position, "NOT EXISTS" if node.negated else "EXISTS"
        case Aggregate(name):
            return node.position, name
        case _:
            return None


def _asks(pattern: Pattern) -> bool:
    """Whether a triple is looked for in the graph around this group, not only in those inside of it."""
    waiting: list[Part] = [pattern]
    while waiting:
        match waiting.pop():
            case Bgp(patterns) if patterns:
                return True
            case Join() | Filter() as node:
                waiting += parts_of(node)
    return False


# ---- windows -------------------------------------------------------------------------------------------------

_DECLARATIONS = {
    Declared.STREAM: "FROM STREAM (C-SPARQL)",
    Declared.NAMED_STREAM: "FROM NAMED STREAM (C-SPARQL)",
    Declared.BARE_NAME: "FROM with a bare name",
    Declared.PATTERN: "STREAM in a pattern (CQELS-QL)",
}
_EXTENTS = {
    Extent.NOW: "a NOW window",
    Extent.ALL: "an ALL window",
    Extent.TRIPLES: "a TRIPLES (count) window",
    Extent.ELEMENTS: "an ELEMENTS (count) window",
    Extent.HISTORY: "a START ... END window",
}
_SPELLINGS = frozenset({"COUNT", "ROWS"})
#: What is written of windows, and run.
_RUN = _SPELLINGS | frozenset(
    {
        "extent",
        "T0",
        "BOUNDS",
        "LATENESS",
        "MAXDELAY",
        "RANGE ... ON a predicate for the time",
        "EMIT ON_CLOSE",
        f"REPORT {Trigger.WINDOW_CLOSE}",
        f"REPORT {Trigger.PERIODIC}",
    }
)


def _window(window: WindowClause) -> Iterator[Refusal]:
    if window.declared in _DECLARATIONS:
        yield window.position, _DECLARATIONS[window.declared]
        return
    if window.stream.variable is not None:
        yield window.stream.position, "a stream named by a variable"
    if window.extent in _EXTENTS:
        spelled = next(
            (f"a {each.clause} (count) window" for each in window.written if each.clause in _SPELLINGS), None
        )
        yield window.place("extent") or window.position, spelled or _EXTENTS[window.extent]
    for each in window.written:
        if each.clause not in _RUN:
            yield each.position, each.clause
