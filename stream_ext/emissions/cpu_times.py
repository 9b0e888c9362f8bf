"""Core times: how much CPU time the evaluations of each registered query took.

Queries of one template are evaluated together, and the time is divided among them: if ten of them took 5 ms, each has
0.5 ms."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.merged_progress import Queries

#: What the templates cost in equal shares, as a part of what was measured.
_OF_ALL = 0.1


class CpuTimes:
    """Since this process started. Several threads may add."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._lock = threading.Lock()
        self._each_ms: dict[int, float] = {}  # by placement number: of each query of the template
        self._recent_ms: dict[int, float] = {}  # by placement number: of all queries of the template
        self._counted: tuple[Mapping[int, QueryDefinition], Counter[int]] = ({}, Counter())

    def add(self, query_ms: Mapping[int, float]) -> None:
        """CPU milliseconds by query; of queries that were evaluated together, as one of them."""
        with self._lock:
            queries, members = self._members()
            for number, ms in query_ms.items():
                if (query := queries.get(number)) is not None:
                    placement = query.placement or number
                    self._each_ms[placement] = self._each_ms.get(placement, 0.0) + ms / members[placement]
                    self._recent_ms[placement] = self._recent_ms.get(placement, 0.0) + ms

    def of(self, query: QueryDefinition) -> float:
        """Milliseconds."""
        return self._each_ms.get(query.placement or query.number, 0.0)

    def recent(self, placements: Collection[int]) -> dict[int, float]:
        """Milliseconds by placement number since the last call, and half of what counted then: neither one short epoch
        nor a load that is long over decides. A tenth as much is added, in equal shares for all `placements`: a template
        that is new, or that is evaluated once an hour, is not for nothing."""
        with self._lock:
            found = {placement: self._recent_ms.get(placement, 0.0) for placement in placements}
            self._recent_ms = {placement: ms / 2 for placement, ms in found.items() if ms}
        share = _OF_ALL * sum(found.values()) / max(1, len(found)) or 1.0
        return {placement: ms + share for placement, ms in found.items()}

    def _members(self) -> tuple[Mapping[int, QueryDefinition], Counter[int]]:
        """The queries, and how many have each placement number."""
        if (queries := self._queries()) is not self._counted[0]:
            members = Counter(query.placement or query.number for query in queries.values())
            self._each_ms = {placement: ms for placement, ms in self._each_ms.items() if placement in members}
            self._recent_ms = {placement: ms for placement, ms in self._recent_ms.items() if placement in members}
            self._counted = queries, members
        return self._counted
