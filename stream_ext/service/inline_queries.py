"""Queries that stay inline, because a client moved them there or because only this process can evaluate them.

The merge waits at a snapshot for a part of the inline runner if there are any."""

from __future__ import annotations

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog, CatalogStep, QueryDefinition
from stream_ext.emissions.merge import Merge
from stream_ext.sources.source_times import SourceTimes


class InlineQueries:
    def __init__(self, store: Store, merge: Merge, source_times: SourceTimes) -> None:
        self._store, self._merge, self._source_times = store, merge, source_times
        self._numbers: set[int] = set()

    def __bool__(self) -> bool:
        """Whether there are any at the snapshot that was published last."""
        return bool(self._numbers)

    def find(self, head: int) -> None:
        """Finds, for each snapshot that is still to be stepped, whether a query stays inline, and of which time what is
        held of sources is."""
        position = self._merge.position
        catalog = Catalog.read(self._store, position)
        self._source_times.changed(position, catalog.sources)
        for query in catalog.queries.values():
            self.follow(CatalogStep("query", query.number, query))
        self._merge.publish(position, bool(self))
        for sn in range(position + 1, head + 1):
            later = catalog.followed(self._store, sn)
            for number in catalog.queries.keys() | later.queries.keys():
                self.follow(CatalogStep("query", number, later.queries.get(number)))
            if later.sources != catalog.sources:
                self._source_times.changed(sn, later.sources)
            catalog = later
            self._merge.publish(sn, bool(self))

    def follow(self, step: CatalogStep) -> None:
        if step.kind != "query":
            return
        query = step.definition
        if isinstance(query, QueryDefinition) and query.home is not None and query.is_evaluated:
            self._numbers.add(step.number)
        else:
            self._numbers.discard(step.number)
