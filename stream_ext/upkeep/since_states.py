"""What came since the states of queries were stored. A state that no emission came with is stored within a second, so
after a crash some pushes are in the store, and were evaluated, but no state knows of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from hbase_store import Store
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.catalog.registered import Registered
from stream_ext.upkeep.lateness import SinceState, places_of
from stream_ext.windows.arrivals import Arrival, arrivals, last_times
from stream_ext.windows.query_state import QueryState


class SinceStates:
    """`position`: the snapshot up to which the states are stored."""

    def __init__(self, store: Store, position: int, head: int) -> None:
        self._store, self._position, self._head = store, position, head
        self._read: dict[tuple[int, frozenset[int]], list[Arrival]] = {}
        self._of_snapshot: dict[int, SinceState] = {}

    def of(self, query: QueryDefinition, state: QueryState, registered: Registered) -> SinceState | None:
        """None: its state knows all."""
        behind_at = -1 if state.behind_at is None else state.behind_at
        at = max(self._position if behind_at < 0 else behind_at, query.since)
        if at >= self._head:
            return None
        if at not in self._of_snapshot:
            last = partial(last_times, self._store, at)
            self._of_snapshot[at] = SinceState(places_of(self._store.vts(at)), last, (), {})
        streams = frozenset(window.stream for window in registered.timing.windows)
        return replace(self._of_snapshot[at], came=self._came(at, streams))

    def _came(self, at: int, streams: frozenset[int]) -> Iterator[Arrival]:
        for sn in range(at + 1, self._head + 1):
            if (sn, streams) not in self._read:
                self._read[sn, streams] = arrivals(self._store, sn, streams)
            yield from self._read[sn, streams]
