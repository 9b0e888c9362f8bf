"""Groups: parts become one conjunction, and how the parts of a group under GRAPH depend on the graph.

    all of (?a :p ?b; all of (?b :q ?c; test 1); test 2)    =>    all of (?a :p ?b, ?b :q ?c; tests 1 and 2)

The tests of an inner group stay with it where other parts would change what they see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stream_ext.plan.logic import (
    NO_NAMES,
    Alternatives,
    Assign,
    Conjunction,
    GraphNames,
    GraphScope,
    Logic,
    Names,
    Optional,
    PathSource,
    PatternScan,
    PerGraph,
    Remote,
    Select,
    Test,
    Without,
    children,
)


def conjunction_of(items: Iterable[Logic], tests: tuple[Test, ...]) -> Logic:
    """A conjunction, with those inside of it taken into it; of one part without tests that part."""
    parts: list[Logic] = []
    whole = tuple(items)
    binds: Counter[str] | None = None  # how many of them each variable is in, once someone asks
    for item in whole:
        if isinstance(item, Conjunction):
            if item.tests and binds is None:
                binds = Counter(name for each in whole for name in each.variables)
            if not item.tests or item.joins(_bound_by_other_parts(item, binds or Counter())):
                parts += item.items
                tests = item.tests + tests
                continue
        parts.append(item)
    return parts[0] if len(parts) == 1 and not tests else Conjunction(tuple(parts), tests)


def _bound_by_other_parts(item: Conjunction, binds: Counter[str]) -> Names:
    """The variables that its tests need and other parts bind."""
    needed = NO_NAMES.union(*(test.needs for test in item.tests))
    return frozenset(name for name in needed if binds[name] > (name in item.variables))


def reads_only(node: Logic, graph: GraphScope) -> bool:
    """Whether each solution comes from a triple in this graph."""
    match node:
        case PatternScan() | PathSource() | GraphNames():
            return node.graph == graph
        case Remote():
            return node.group is not None and node.group.scope == graph
        case Conjunction(items):
            return any(reads_only(item, graph) for item in items)
        case Optional(left, _) | Without(left, _):
            return reads_only(left, graph)
        case Alternatives(parts):
            return all(reads_only(part, graph) for part in parts)
        case Assign(inner):
            return reads_only(inner, graph)
        case PerGraph(_, name):
            return graph.variable == name
        case Select():
            return graph.variable in node.names if graph.variable else reads_only(node.inner, graph)
        case _:
            return False


def differs_by_graph(node: Logic) -> bool:
    """Whether a part in GRAPH ?g must be evaluated separately for each graph."""
    if isinstance(node, Without | Select | PerGraph):
        return True
    return any(differs_by_graph(child) for child in children(node))
