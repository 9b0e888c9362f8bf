"""Reading: a snapshot of the store, by predicate, or the rows of a SELECT.

The snapshot is fixed when the read is planned, so all tasks, and those that are repeated, see the same data. If it is
not retained any more, the read fails and says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from plugin.spark.server import RilletServer, ServerRefused
from plugin.spark.values import RowReader, ntriples

_PREDICATES = "SELECT DISTINCT ?p { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
_GONE = 410


@dataclass
class QueryPartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """One SELECT over a snapshot; `predicate`: which one it asks for, if it is a part of the whole store."""

    query: str
    snapshot: int
    predicate: str | None = None


class SelectReader(DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    def __init__(self, server: RilletServer, query: str, rows: RowReader, snapshot: int | None) -> None:
        self._server, self._query, self._rows, self._snapshot = server, query, rows, snapshot

    def partitions(self) -> Sequence[QueryPartition]:
        return [QueryPartition(self._query, self._snapshot or self._server.head())]

    def read(self, partition: QueryPartition) -> Iterator[tuple[Any, ...]]:
        for binding in _rows(self._server, partition):
            yield self._rows.row(binding)


class StoreReader(DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    """All quads: subject, predicate, object and graph as N-Triples, one task for each predicate."""

    def __init__(self, server: RilletServer, snapshot: int | None) -> None:
        self._server, self._snapshot = server, snapshot

    def partitions(self) -> Sequence[QueryPartition]:
        snapshot = self._snapshot or self._server.head()
        predicates = [row["p"]["value"] for row in _rows(self._server, QueryPartition(_PREDICATES, snapshot))]
        return [
            QueryPartition(
                f"SELECT ?s ?o ?g {{ {{ ?s <{each}> ?o }} UNION {{ GRAPH ?g {{ ?s <{each}> ?o }} }} }}", snapshot, each
            )
            for each in sorted(predicates)
        ]

    def read(self, partition: QueryPartition) -> Iterator[tuple[str, str, str, str | None]]:
        predicate = f"<{partition.predicate}>"
        for row in _rows(self._server, partition):
            graph = row.get("g")
            yield ntriples(row["s"]), predicate, ntriples(row["o"]), None if graph is None else ntriples(graph)


def _rows(server: RilletServer, partition: QueryPartition) -> Iterator[dict[str, Any]]:
    try:
        yield from server.rows(partition.query, partition.snapshot)
    except ServerRefused as error:
        if error.status != _GONE:
            raise
        raise snapshot_gone(partition.snapshot) from error


def snapshot_gone(snapshot: int) -> RuntimeError:
    return RuntimeError(
        f"snapshot gone: the read was planned for snapshot {snapshot}, which is not retained any more. Read again, or "
        "start the server with a longer --retain-snapshots"
    )
