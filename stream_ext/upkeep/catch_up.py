"""Catching up: how long a query may stay behind before it is parked.

A query with too many due evaluations makes them one by one while the other queries go on. Meanwhile the store must
retain what the query still needs. So a query that stays behind for too long is parked; when it is resumed, it continues
from the head."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from hbase_store.errors import StoreError
from stream_ext.catalog.catalog import Failure, QueryDefinition
from stream_ext.clock import Clock
from stream_ext.upkeep.alarms import Alarms
from stream_ext.windows.query_state import QueryState

_EVERY_MS_MIN, _EVERY_MS_MAX = 100, 10_000

log = logging.getLogger("rillet.queries")


class CatchUpLimit:
    def __init__(
        self,
        clock: Clock,
        alarms: Alarms,
        behind: Callable[[], Mapping[int, QueryState]],
        queries: Callable[[], Mapping[int, QueryDefinition]],
        published_ms: Callable[[int], int],
        fail: Callable[[int, Failure, int], object],
        longest_ms: int,
        head: Callable[[], int],
    ) -> None:
        """`behind` returns the states of the queries that are behind; `published_ms`, when a snapshot was published."""
        self._head = head
        self._clock, self._alarms, self._behind, self._queries = clock, alarms, behind, queries
        self._published_ms, self._fail, self._longest_ms = published_ms, fail, longest_ms
        self._began_ms = clock.now_ms()

    def start(self) -> None:
        every_ms = min(_EVERY_MS_MAX, max(_EVERY_MS_MIN, self._longest_ms // 4))
        self._alarms.set("catch-up", self._clock.now_ms() + every_ms, self._look)

    def _look(self) -> None:
        self.start()
        queries = self._queries()  # first: a query that is resumed meanwhile is not the one that is behind
        for number, state in self._behind().items():
            assert state.behind_at is not None, "it is behind"
            if state.behind_at >= self._head():
                continue  # it is slowed, and has done all that there is
            behind_ms = self._clock.now_ms() - self._since(state.behind_at + 1)
            if behind_ms > self._longest_ms and (query := queries.get(number)) is not None:
                self._fail(number, Failure("behind", self._why(state.behind_at + 1, state.after)), query.since)
                log.warning(
                    "a query was parked because it was behind the others for too long",
                    extra={"fields": {"query": query.name, "snapshot": state.behind_at + 1, "behind_ms": behind_ms}},
                )

    def _why(self, sn: int, time: int | None) -> str:
        came = "" if time is None else f" (it had reached the close at {time})"
        return (
            f"it was behind the other queries for longer than {self._longest_ms / 1000:g} s "
            f"(--max-catch-up), because from snapshot {sn} on it could not evaluate all that was due{came}; "
            "if it is resumed, it continues at the latest snapshot and skips what it has missed"
        )

    def _since(self, sn: int) -> int:
        """When the wait began; not before the start of this server, which gives the query the whole time again."""
        try:
            return max(self._began_ms, self._published_ms(sn))
        except StoreError:  # it does not answer, or the snapshot is collected
            return self._began_ms
