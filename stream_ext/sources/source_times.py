"""Of which time the data of sources are that a snapshot holds: emissions say it.

It follows from the catalog of the snapshot, so all processes find the same."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.sources import SourceRecord

Sources = dict[str, dict[str, Any]]

#: So many changes are remembered; older snapshots are looked up in the store.
_MAX = 1_000


class SourceTimes:
    """One thread tells the changes, in order; any thread asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._from: list[int] = []
        self._shown: list[Sources | None] = []

    def changed(self, sn: int, records: Mapping[int, SourceRecord]) -> None:
        """From this snapshot on these are the records."""
        with self._lock:
            self._from.append(sn)
            self._shown.append(_shown(records))
            if len(self._from) > 2 * _MAX:
                del self._from[:_MAX], self._shown[:_MAX]

    def at(self, sn: int) -> Sources | None:
        with self._lock:
            place = bisect_right(self._from, sn) - 1
            if place >= 0:
                return self._shown[place]
        # Of a query that is behind the others.
        return _shown(Catalog.read(self._store, sn).sources)


def _shown(records: Mapping[int, SourceRecord]) -> Sources | None:
    return {record.name: record.shown() for record in records.values() if record.patterns} or None
