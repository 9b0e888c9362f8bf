"""Normalise: a group pattern becomes one flat conjunction.

    { WINDOW :w { ?s :p ?o } GRAPH ?g { ?s :q ?z FILTER(?z > 1) } FILTER(?o < ?z) }
    =>  sources  ?s :p ?o in :w,   ?s :q ?z in ?g
        filters  ?z > 1,  ?o < ?z

A filter sees its own group only: a variable that its group does not bind is unbound in it, whatever the groups around
say; so each condition carries the variables that it sees. `a && b` keeps what both keep, so it becomes two."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stream_ext.operators.pattern import DEFAULT_GRAPH
from stream_ext.plan.algebra import (
    And,
    Arithmetic,
    Bgp,
    Compare,
    Constant,
    Expression,
    Filter,
    Graph,
    InWindow,
    Join,
    Negate,
    Node,
    Not,
    Or,
    Pattern,
    TriplePattern,
    Variable,
)


@dataclass(frozen=True, slots=True)
class Source:
    """One triple pattern and where it looks: in a window (its IRI), or in the store under `graph`."""

    pattern: TriplePattern
    graph: Node
    window: str | None

    @property
    def variables(self) -> frozenset[str]:
        nodes = (self.pattern.subject, self.pattern.predicate, self.pattern.object, self.graph)
        return frozenset(node.name for node in nodes if isinstance(node, Variable))

    @property
    def constants(self) -> tuple[bytes, ...]:
        nodes = (self.pattern.subject, self.pattern.predicate, self.pattern.object, self.graph)
        return tuple(n.text for n in nodes if isinstance(n, Constant) and n != DEFAULT_GRAPH)


@dataclass(frozen=True, slots=True)
class Test:
    """A filter's condition and the variables that its group binds."""

    condition: Expression
    sees: frozenset[str]

    @property
    def needs(self) -> frozenset[str]:
        return variables_of(self.condition) & self.sees


@dataclass(frozen=True, slots=True)
class Conjunction:
    sources: tuple[Source, ...] = ()
    filters: tuple[Test, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        return frozenset().union(*(source.variables for source in self.sources))

    @property
    def constants(self) -> list[bytes]:
        """Each term of the patterns once."""
        return list(dict.fromkeys(text for source in self.sources for text in source.constants))


def flatten(pattern: Pattern, graph: Node = DEFAULT_GRAPH, window: str | None = None) -> Conjunction:
    match pattern:
        case Bgp(patterns):
            return Conjunction(tuple(Source(p, graph, window) for p in patterns))
        case Join():
            return _flatten_join(pattern, graph, window)
        case Filter(condition, inner):
            flat = flatten(inner, graph, window)
            tests = (Test(part, flat.variables) for part in split_and(condition))
            return replace(flat, filters=(*flat.filters, *tests))
        case Graph(node, inner):
            return flatten(inner, node, window)
        case InWindow(name, inner):
            return flatten(inner, DEFAULT_GRAPH, name)
        case _:
            raise AssertionError(f"{type(pattern).__name__} is refused before it is planned")


def _flatten_join(pattern: Join, graph: Node, window: str | None) -> Conjunction:
    """A long group is a long chain of joins to the left: walked, not recursed into."""
    parts: list[Conjunction] = []
    left: Pattern = pattern
    while isinstance(left, Join):
        parts.append(flatten(left.right, graph, window))
        left = left.left
    parts.append(flatten(left, graph, window))
    parts.reverse()
    return Conjunction(
        tuple(source for part in parts for source in part.sources),
        tuple(condition for part in parts for condition in part.filters),
    )


def split_and(condition: Expression) -> list[Expression]:
    parts: list[Expression] = []
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, And):
            waiting += [part.right, part.left]
        else:
            parts.append(part)
    return parts


def variables_of(expression: Expression) -> frozenset[str]:
    """Walked with a list, not by recursion: a chain of || may be thousands long."""
    names: set[str] = set()
    waiting = [expression]
    while waiting:
        match waiting.pop():
            case Variable(name):
                names.add(name)
            case Not(inner) | Negate(inner):
                waiting.append(inner)
            case And(left, right) | Or(left, right) | Compare(_, left, right) | Arithmetic(_, left, right):
                waiting += [left, right]
            case Constant():
                pass
    return frozenset(names)
