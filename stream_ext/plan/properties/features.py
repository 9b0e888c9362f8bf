"""Features of whole queries: what the text of a query says about its answers, whatever the data are."""

from __future__ import annotations

from collections import Counter

from stream_ext.language.algebra.terms import Constant, Position, Variable
from stream_ext.plan.logic import (
    LATEST,
    Assign,
    GraphNames,
    Logic,
    PathSource,
    PatternScan,
    PerGraph,
    Remote,
    Select,
    nodes_of,
)

#: Aggregates that say a small number, or one of the terms that they are given.
_CHOOSING = frozenset({"COUNT", "MIN", "MAX", "SAMPLE", *LATEST})


def ranked_places(select: Select) -> dict[Select, str]:
    """For each sub-SELECT that is cut by the order of first appearance a name that another plan has for it, too: where
    the text says it, and of those that a window on a variable makes of one which it is."""
    places: dict[Select, str] = {}
    counted: Counter[Position | None] = Counter()
    for node in nodes_of(select):
        if isinstance(node, Select) and node is not select and node.is_cut and not node.order and node not in places:
            where = "" if node.position is None else f"{node.position.line}:{node.position.column}"
            places[node] = f"{where}/{counted[node.position]}"
            counted[node.position] += 1
    return places


def predicates_read(select: Select) -> frozenset[bytes] | None:
    """Whose edges in the store decide what a pattern finds; None: any may."""
    found = set()
    for node in nodes_of(select):
        if isinstance(node, PatternScan) and isinstance(node.predicate, Constant):
            found.add(node.predicate.text)
        elif isinstance(node, Remote) and node.group is not None:
            return None  # what the store has not now, it may have by then
        elif isinstance(node, PatternScan | PathSource | GraphNames | PerGraph):
            return None  # a path may begin at any node, and a graph is there while it holds any edge
    return frozenset(found)


def makes_terms(select: Select) -> bool:
    """Whether a solution may have a term that none of the data has: its id is another one in each process."""
    return any(map(_makes_terms, nodes_of(select)))


def _makes_terms(node: Logic) -> bool:
    if isinstance(node, Assign | Remote):
        return True
    if not isinstance(node, Select):
        return False
    aggregates = () if node.grouping is None else node.grouping.aggregates
    computed = (test.condition for _, test in (*node.before, *node.after))
    return any(each.function not in _CHOOSING for each in aggregates) or not all(
        isinstance(each, Variable) for each in computed
    )


def asks_source(node: Logic) -> bool:
    """Whether a part of the dataset is asked of a source."""
    return any(_asks_source(part) for part in nodes_of(node))


def _asks_source(node: Logic) -> bool:
    match node:
        case Remote():
            return node.group is not None
        case PathSource():
            return node.edges is not None
        case PerGraph():
            return node.remote is not None
        case _:
            return False
