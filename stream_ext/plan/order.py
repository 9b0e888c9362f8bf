"""Order: in which order the sources of a conjunction are joined.

    ?x :p ?y (in :w)   ?z :r ?v (1,000,000)   ?y :q ?z (10)      =>      :w, then :q, then :r

Windows come first, for what arrives drives the query; then always the source that is expected to leave the fewest rows
among those connected to what is there. A source that shares no variable comes only when nothing else is left."""

from __future__ import annotations

from collections.abc import Callable

from stream_ext.plan.normalise import Conjunction, Source

Estimate = Callable[[Source, frozenset[str]], float]


def order_sources(conjunction: Conjunction, estimate: Estimate) -> tuple[Source, ...]:
    """`estimate(source, bound)`: how many rows the source has for one value of each variable in `bound`."""
    left = list(conjunction.sources)
    ordered: list[Source] = []
    bound: frozenset[str] = frozenset()
    while left:
        windows = [s for s in left if s.window is not None] or left
        connected = [s for s in windows if s.variables & bound] or windows
        best = min(connected, key=lambda s: estimate(s, bound))
        left.remove(best)
        ordered.append(best)
        bound |= best.variables
    return tuple(ordered)
