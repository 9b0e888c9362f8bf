"""Timestamps: the time of a triple in a window, as a value.

    { ?s :p ?o FILTER(rlt:timestamp(?s, :p, ?o) > ?t) }   =>   ({ ?s :p ?o } OPTIONAL ?s :p ?o at ?.1) FILTER(?.1 > ?t)

The call becomes a variable, bound by a scan of the window that has the latest time of each triple. A triple that is not
in the window has no time: then the call is an error, as an unbound variable is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stream_ext.language.algebra.algebra import Shape
from stream_ext.language.algebra.formulas import Exists, Expression, FunctionCall
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Constant, Node, Variable
from stream_ext.language.algebra.walk import parts_of

TIMESTAMPS = frozenset({"<urn:rillet:ns#timestamp>", "<http://larkc.eu/csparql/sparql/jena/ext#timestamp>"})

TimedTriple = tuple[Node, ...]


def is_timestamp(part: object) -> bool:
    """Whether it is a call with a subject, a predicate and an object, each a variable or a term."""
    return (
        isinstance(part, FunctionCall)
        and part.name in TIMESTAMPS
        and len(part.arguments) == 3
        and all(isinstance(argument, Variable | Constant) for argument in part.arguments)
    )


def timed_triples(expressions: Sequence[Expression]) -> list[TimedTriple]:
    """The triples of calls of rlt:timestamp, each once; calls inside of EXISTS belong to its own pattern."""
    found: dict[TimedTriple, None] = {}
    waiting: list[object] = list(expressions)
    while waiting:
        part = waiting.pop()
        if is_timestamp(part):
            found[part.arguments] = None  # type: ignore[attr-defined]  # a call of nodes, as was just seen
        elif not isinstance(part, Exists):
            waiting += parts_of(part)  # type: ignore[arg-type]  # a part of an expression
    return list(found)


def with_names(names: dict[TimedTriple, str]) -> Callable[[Expression], Expression]:
    """A function that replaces the calls by the variables that are bound to the times."""

    def named(part: object) -> object | None:
        if isinstance(part, Exists):
            return part
        return Variable(names[part.arguments]) if is_timestamp(part) else None  # type: ignore[attr-defined]  # a call

    return lambda expression: rebuilt(expression, named)


def shape_expressions(shape: Shape) -> list[Expression]:
    """All that a query computes beside its pattern."""
    assigned = [each.expression for each in (*shape.expressions, *shape.group_by)]
    return [*assigned, *shape.having, *(each.expression for each in shape.order_by)]


def with_expressions(shape: Shape, by: Callable[[Expression], Expression]) -> Shape:
    return replace(
        shape,
        expressions=tuple(replace(each, expression=by(each.expression)) for each in shape.expressions),
        group_by=tuple(replace(each, expression=by(each.expression)) for each in shape.group_by),
        having=tuple(map(by, shape.having)),
        order_by=tuple(replace(each, expression=by(each.expression)) for each in shape.order_by),
    )
