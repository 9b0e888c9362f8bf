"""The choice of what is held for a need: what all queries of its template share, or what this query needs alone.

    ?taxi :in :zone1     of a million taxis           ?s :in ?o, if that is not much more
    ?x a :Taxi           among the types of all       ?s a :Taxi, until so many queries name a type each

What is held already stays the choice, so that the same is chosen again at each refresh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stream_ext.catalog.sources import HeldPattern
from stream_ext.errors import BadArgument
from stream_ext.remote.source import SourceSettings
from stream_ext.sources.fetched import Fetching
from stream_ext.sources.patterns import Need, are_covered

#: What is shared may be so many times what one query needs, or so many quads in any case.
_TIMES_MAX, _SMALL = 10, 10_000
#: From so many patterns on that differ in constants only, what they share is held.
_ALIKE_MAX = 16


class Chosen(NamedTuple):
    """`quads`: their number; None, where it is held already; `may_hold`: whether it is few enough."""

    pattern: HeldPattern
    quads: int | None
    may_hold: bool


class HoldingChoice:
    def __init__(self, settings: SourceSettings, fetching: Fetching, held: Sequence[HeldPattern]) -> None:
        self._settings, self._fetching, self._held = settings, fetching, held

    def of(self, need: Need) -> Chosen:
        for pattern in (need.shared, need.own):
            if are_covered([pattern], self._held):
                return Chosen(pattern, None, True)
        if need.shared == need.own:
            return self._counted(need.own)
        alike = sum(need.shared.covers(pattern) for pattern in self._held)
        own = self._fetching.count([need.own])
        most = self._settings.held_max if alike >= _ALIKE_MAX else max(_TIMES_MAX * own, _SMALL)
        most = min(most, self._settings.held_max)
        if self._settings.mode != "ask" and self._fetching.count_up_to(need.shared, most + 1) <= most:
            return self._counted(need.shared)
        return Chosen(need.own, own, self._may_hold(own))

    def _counted(self, pattern: HeldPattern) -> Chosen:
        count = self._fetching.count([pattern])
        return Chosen(pattern, count, self._may_hold(count))

    def _may_hold(self, count: int) -> bool:
        mode = self._settings.mode
        return mode == "hold" or (mode == "auto" and count <= self._settings.held_max)


def too_much(settings: SourceSettings, pattern: HeldPattern, count: int, why: str = "") -> BadArgument:
    """Why a query is refused: it needs more than is held, and the source cannot be asked for it with the keys of a
    window. `why`: that it cannot."""
    why = why or "what is evaluated graph by graph is not asked for"
    most = 0 if settings.mode == "ask" else settings.held_max
    return BadArgument(
        f"the query needs {pattern.shown()}, of which the source {settings.name!r} has {count:,} quads; at most "
        f"{most:,} of a pattern are held for registered queries, and {why}: "
        f"ask for a more selective one, or for the values that a window binds by SERVICE <{settings.name}>"
    )
