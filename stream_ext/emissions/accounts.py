"""Accounts: how much CPU time the evaluations of each registered query took, and how much memory its network has.

Queries of one template are evaluated together, and what they take is divided among them: if ten of them took 5 ms, each
has 0.5 ms."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.merged_progress import Queries

#: What the templates cost in equal shares, as a part of what was measured.
_OF_ALL = 0.1


class Accounts:
    """CPU times are those since this process started. Several threads may add."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._lock = threading.Lock()
        self._each_ms: dict[int, float] = {}  # by placement number: of each query of the template
        self._recent_ms: dict[int, float] = {}  # by placement number: of all queries of the template
        #: By whom it was measured, and by placement number: of all queries of the template.
        self._state_bytes: dict[int, dict[int, int]] = {}
        self._members = Counter(map(_placement_of, queries().values()))  # how many have each placement number

    def changed(self, before: QueryDefinition | None, after: QueryDefinition | None) -> None:
        """A query of the catalog is another one now; None: there was, or is, none."""
        with self._lock:
            if after is not None:
                self._members[_placement_of(after)] += 1
            if before is not None:
                placement = _placement_of(before)
                self._members[placement] -= 1
                if not self._members[placement]:
                    del self._members[placement]
                    self._each_ms.pop(placement, None)
                    self._recent_ms.pop(placement, None)

    def add(self, query_ms: Mapping[int, float]) -> None:
        """CPU milliseconds by query; of queries that were evaluated together, as one of them."""
        with self._lock:
            queries = self._queries()
            for number, ms in query_ms.items():
                query = queries.get(number)
                members = 0 if query is None else self._members[_placement_of(query)]
                if query is not None and members:
                    placement = _placement_of(query)
                    self._each_ms[placement] = self._each_ms.get(placement, 0.0) + ms / members
                    self._recent_ms[placement] = self._recent_ms.get(placement, 0.0) + ms

    def reported(self, query_ms: Mapping[int, float], state_bytes: Mapping[int, int] | None, shard: int) -> None:
        """By a shard of Spark."""
        self.add(query_ms)
        if state_bytes is not None:
            self.measured(state_bytes, shard)

    def of(self, query: QueryDefinition) -> float:
        """Milliseconds."""
        return self._each_ms.get(_placement_of(query), 0.0)

    def measured(self, state_bytes: Mapping[int, int], shard: int = 0) -> None:
        """The bytes of all networks of a shard, by one of their queries. A query may be divided among shards."""
        found: dict[int, int] = {}
        with self._lock:
            queries = self._queries()
            for number, nbytes in state_bytes.items():
                if (query := queries.get(number)) is not None:
                    placement = _placement_of(query)
                    found[placement] = found.get(placement, 0) + nbytes
            self._state_bytes = {**self._state_bytes, shard: found}

    def state_bytes(self, query: QueryDefinition) -> int | None:
        """Those of its network, divided among its queries; None: they are not measured (yet)."""
        placement = _placement_of(query)
        found = [sizes[placement] for sizes in self._state_bytes.values() if placement in sizes]
        members = self._members[placement]
        return sum(found) // members if found and members else None

    def sharing(self, placement: int) -> int:
        """How many queries have this placement number."""
        return self._members[placement] if placement else 0

    def recent(self, placements: Collection[int]) -> dict[int, float]:
        """Milliseconds by placement number since the last call, and half of what counted then: neither one short epoch
        nor a load that is long over decides. A tenth as much is added, in equal shares for all `placements`: a template
        that is new, or that is evaluated once an hour, is not for nothing."""
        with self._lock:
            found = {placement: self._recent_ms.get(placement, 0.0) for placement in placements}
            self._recent_ms = {placement: ms / 2 for placement, ms in found.items() if ms}
        share = _OF_ALL * sum(found.values()) / max(1, len(found)) or 1.0
        return {placement: ms + share for placement, ms in found.items()}


def _placement_of(query: QueryDefinition) -> int:
    return query.placement or query.number
