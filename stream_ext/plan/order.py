"""Order: in which order the parts of a conjunction are joined.

    ?x :p ?y (in :w)   ?z :r ?v (1,000,000)   ?y :q ?z (10)      =>      :w, then :q, then :r

Windows come first, for what arrives drives the query; then always the part that is expected to leave the fewest rows
among those connected to what is there. A part that shares no variable comes only when nothing else is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_ext.plan.logic import GraphNames, Logic, Names, PathSource, PerGraph, Remote, Source, sources_of
from stream_ext.plan.takes import takes

Estimate = Callable[[Logic, Names], float]


def order_items(items: Sequence[Logic], bound: Names, estimate: Estimate) -> list[Logic]:
    """`estimate(item, bound)`: how many rows the item has for one value of each variable in `bound`."""
    left = list(items)
    ordered: list[Logic] = []
    while left:
        best = left[0] if len(left) == 1 else min(_candidates(left, bound), key=lambda i: _cost(i, bound, estimate))
        left.remove(best)
        ordered.append(best)
        bound |= best.certain
    return ordered


def _candidates(left: list[Logic], bound: Names) -> list[Logic]:
    found = [item for item in left if reads_window(item)] or left
    # A remote service is asked last: it is told what is known by then.
    found = [item for item in found if not isinstance(item, Remote)] or found
    return [item for item in found if item.variables & bound] or found


def _cost(item: Logic, bound: Names, estimate: Estimate) -> float:
    if takes(item, bound):
        return estimate(item, bound)
    # It is worked out as a whole, and joined then.
    return estimate(item, frozenset())


def reads_window(item: Logic) -> bool:
    return any(_windowed(leaf) for leaf in sources_of(item))


def reads_store(item: Logic) -> bool:
    return any(not _windowed(leaf) for leaf in sources_of(item))


def _windowed(leaf: Logic) -> bool:
    merged = isinstance(leaf, PathSource) and bool(leaf.merged)
    return merged or (isinstance(leaf, Source | PathSource | GraphNames | PerGraph) and leaf.window is not None)
