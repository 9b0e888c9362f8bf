"""What a query can tell apart of the triples in some of its windows.

Of `{ STREAM s [ALL] { ?a :p ?b FILTER(?b > 5) } }`:

    SELECT ?a                   triples with :p, their ?a and ?b
    SELECT (COUNT(*) AS ?n)     triples with :p and their ?b, whatever their ?a"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass

from stream_ext.language.algebra.terms import Variable
from stream_ext.plan.logic import (
    Alternatives,
    Assign,
    Conjunction,
    GraphNames,
    Logic,
    Optional,
    PathSource,
    PatternScan,
    PerGraph,
    Remote,
    Select,
    Table,
    Without,
    nodes_of,
    tests_of,
)


@dataclass(frozen=True, slots=True)
class ReadOfWindows:
    """`patterns` None: everything. `ordered`: when a triple came matters, too. `unread`: the positions (0 subject, 1
    predicate, 2 object) whose terms nothing looks at."""

    patterns: tuple[PatternScan, ...] | None
    ordered: bool
    unread: tuple[int, ...]

    @classmethod
    def of(cls, select: Select, windows: Set[str]) -> ReadOfWindows:
        nodes = list(nodes_of(select))
        found, everything, ordered = list[PatternScan](), False, False
        for node in nodes:
            if isinstance(node, PatternScan):
                if node.window in windows:
                    found.append(node)
                    ordered = ordered or node.time is not None or node.occurrence is not None
            elif isinstance(node, PathSource):
                everything = everything or node.window in windows or not windows.isdisjoint(node.merged)
            elif isinstance(node, GraphNames | PerGraph):
                everything = everything or node.window in windows
        if everything:
            return cls(None, True, ())
        unread = _unread(nodes, found[0]) if len(found) == 1 else ()
        return cls(tuple(found), ordered, unread)


def _unread(nodes: Collection[Logic], pattern: PatternScan) -> tuple[int, ...]:
    places = [pattern.subject, pattern.predicate, pattern.object]
    read_by_others = set[str]()
    for node in nodes:
        if node is not pattern:
            read = _read_by(node)
            if read is None:
                return ()
            read_by_others |= read
    own = [place.name for place in places if isinstance(place, Variable)] + [pattern.graph.variable]
    return tuple(
        place
        for place, node in enumerate(places)
        if isinstance(node, Variable) and node.name not in read_by_others and own.count(node.name) == 1
    )


def _read_by(node: Logic) -> set[str] | None:
    """The variables that a part names, without its own parts; None: it may look at all."""
    found = {name for test in tests_of(node) for name in test.mentions}
    match node:
        case PatternScan() | PathSource() | GraphNames() | Table() | Remote():
            return found | node.variables
        case Assign(_, variable):
            return found | {variable}
        case Conjunction() | Optional() | Without() | Alternatives():
            return found
        case Select():
            names = _named(node)
            return None if names is None else found | names
        case _:
            return None


def _named(select: Select) -> set[str] | None:
    found = {*select.names, *(name for name, _ in (*select.before, *select.after, *select.order))}
    if select.grouping is not None:
        for each in select.grouping.aggregates:
            if each.argument is None and each.distinct:
                return None  # COUNT(DISTINCT *)
            found |= {each.variable, *(() if each.argument is None else (each.argument,))}
        found |= {*select.grouping.keys}
    return found
