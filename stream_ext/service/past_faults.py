"""Past faults: when queries could not be evaluated for a while, since this process started.

A query that fails for good has this in its own past (`stream_ext.catalog.past`). One that waits for an endpoint goes on
by itself, and nothing of it is stored: the last such faults of each query are here."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from hbase_store.cache import RecentlyUsed

_QUERIES_MAX = 1_000
_FAULTS_MAX = 20
_WHY_MAX = 2_000


class PastFault(NamedTuple):
    time_ms: int
    why: str


class PastFaults:
    """Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: RecentlyUsed[int, deque[PastFault]] = RecentlyUsed(_QUERIES_MAX)

    def add(self, query: int, time_ms: int, why: str) -> None:
        with self._lock:
            of_query = self._of.get(query)
            if of_query is None:
                self._of.put(query, of_query := deque(maxlen=_FAULTS_MAX))
            of_query.append(PastFault(time_ms, why[:_WHY_MAX]))

    def forget(self, query: int) -> None:
        with self._lock:
            self._of.pop(query)

    def of(self, query: int) -> list[PastFault]:
        with self._lock:
            return list(self._of.get(query) or ())
