"""Order: in which order the parts of a conjunction are joined.

    ?x :p ?y (in :w)   ?z :r ?v (1,000,000)   ?y :q ?z (10)      =>      :w, then :q, then :r

Windows come first, for what arrives drives the query; then always the part that is expected to leave the fewest rows
among those connected to what is there. A part that shares no variable comes only when nothing else is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from stream_ext.plan.logic import GraphNames, Logic, Names, PathSource, PerGraph, Remote, Source, sources_of
from stream_ext.plan.takes import takes

Estimate = Callable[[Logic, Names], float]
#: The least goes first.
Rank = tuple[float, ...]


def order_items(items: Sequence[Logic], bound: Names, estimate: Estimate) -> list[Logic]:
    """`estimate(item, bound)`: how many rows the item has for one value of each variable in `bound`."""

    def rank(item: Logic, bound: Names) -> Rank:
        # A remote service is asked last: it is told what is known by then.
        place = (not reads_window(item), isinstance(item, Remote))
        return (*place, not item.variables & bound, _cost(item, bound, estimate))

    return [item for item, _ in ranked(items, bound, rank)]


def ranked(items: Sequence[Logic], bound: Names, rank: Callable[[Logic, Names], Rank]) -> Iterator[tuple[Logic, Names]]:
    """Always the item of the least rank, and what is bound before it. A rank depends on those of the item's own
    variables that are bound: it is worked out again when there are more of these, and not for every step."""
    left = dict(enumerate(items))
    of_variable: dict[str, list[int]] = {}
    for place, item in left.items():
        for name in item.variables:
            of_variable.setdefault(name, []).append(place)
    ranks = [(rank(item, bound) if len(left) > 1 else (), place) for place, item in left.items()]
    latest = {place: found for found, place in ranks}
    heapify(ranks)
    while left:
        found, place = heappop(ranks)
        if place not in left or latest[place] != found:
            continue
        item = left.pop(place)
        yield item, bound
        new = item.certain - bound
        bound |= new
        for again in sorted({other for name in new for other in of_variable.get(name, ()) if other in left}):
            latest[again] = rank(left[again], bound)
            heappush(ranks, (latest[again], again))


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
