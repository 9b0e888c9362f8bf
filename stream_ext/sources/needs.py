"""Needs: what the registered queries need of a source, and what queries need that are being registered."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.catalog.registered_text import reading_of
from stream_ext.catalog.sources import HeldPattern
from stream_ext.sources.patterns import Need, are_covered, needs_of, widest


class Reserved:
    """What a query needs that is being registered, until it is released; any thread may call."""

    def __init__(self, needs: frozenset[Need], among: Needs) -> None:
        self.needs, self._among = needs, among
        self.chosen: Sequence[HeldPattern] | None = None
        #: What the source is asked for at each evaluation, and how many quads it has of that.
        self.remote_patterns: Mapping[HeldPattern, int] = {}

    def choose(self, patterns: Sequence[HeldPattern], remote_patterns: Mapping[HeldPattern, int]) -> None:
        """These are held for it from the next refresh on."""
        self.chosen, self.remote_patterns = patterns, remote_patterns

    def is_held_by(self, held: Sequence[HeldPattern]) -> bool:
        return all(are_covered([need.shared], held) or are_covered([need.own], held) for need in self.needs)

    def release(self) -> None:
        self._among.release(self)


class Needs:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reserved: list[Reserved] = []
        self._of_queries: dict[int, frozenset[Need]] = {}

    def reserve(self, needs: frozenset[Need]) -> Reserved:
        reserved = Reserved(needs, self)
        with self._lock:
            self._reserved.append(reserved)
        return reserved

    def release(self, reserved: Reserved) -> None:
        """It may be released already."""
        with self._lock:
            self._reserved = [each for each in self._reserved if each is not reserved]

    def reserved(self) -> frozenset[HeldPattern]:
        """All that may be chosen for what is reserved."""
        with self._lock:
            found: set[HeldPattern] = set()
            for reserved in self._reserved:
                every = (each for need in reserved.needs for each in (need.shared, need.own))
                found.update(every if reserved.chosen is None else reserved.chosen)
            return frozenset(found)

    def of(self, queries: Mapping[int, QueryDefinition], held: Sequence[HeldPattern]) -> list[HeldPattern]:
        """The patterns to hold: of each need what it shares with others if that is `held`, else its own. One thread at
        a time may call."""
        with self._lock:
            # First: what is released after this is registered by now.
            chosen = [pattern for reserved in self._reserved for pattern in reserved.chosen or ()]
            waiting = [reserved.needs for reserved in self._reserved if reserved.chosen is None]
        known = {number: needs for number, needs in self._of_queries.items() if number in queries}
        for number, query in queries.items():
            if number not in known:
                read = reading_of(query.text, query.base)
                known[number] = frozenset() if query.functions else needs_of(read, query.remote_patterns)
        self._of_queries = known
        is_held = lru_cache(maxsize=None)(lambda pattern: are_covered([pattern], held))
        # What waits to be chosen is counted only as far as it is held already.
        found = {need.shared if is_held(need.shared) else need.own for needs in known.values() for need in needs}
        found |= {need.shared for needs in waiting for need in needs if is_held(need.shared)}
        found |= {need.own for needs in waiting for need in needs if is_held(need.own)}
        # What is shared among those that are chosen covers what others need alone.
        return widest({*found, *chosen})
