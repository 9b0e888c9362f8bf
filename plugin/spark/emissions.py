"""Emissions of a registered query as a stream of rows: `emission`, `time`, `snapshot`, and the query's variables.

An offset is the number of an emission, and the snapshot in which the query was registered: a query that was made anew
has other emissions. An emission is never divided between two batches; an empty one is one row without values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from plugin.spark.server import RilletServer, ServerRefused
from plugin.spark.values import RowReader

_GONE = 410
#: The columns before the variables.
OWN_COLUMNS = "emission long, time long, snapshot long"
Offset = dict[str, int]


@dataclass
class Emissions(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """Those after `since`, up to `until`, of the query that was registered in that snapshot."""

    since: int
    until: int
    registered: int


class EmissionsReader(DataSourceStreamReader):  # type: ignore[misc]  # pyspark's types are not followed
    def __init__(
        self, server: RilletServer, query: str, rows: RowReader, begin: str, batch_max: int, fails_on_loss: bool
    ) -> None:
        """`begin`: oldest, latest, or the number of the first emission. `batch_max`: of emissions."""
        self._server, self._query, self._rows = server, query, rows
        self._begin, self._batch_max, self._fails_on_loss = begin, batch_max, fails_on_loss

    def initialOffset(self) -> Offset:
        status = self._server.status(self._query)
        first = {"oldest": status["oldest_emission"], "latest": status["emissions"] + 1}.get(self._begin)
        return {"emission": (int(self._begin) if first is None else first) - 1, "registered": status["registered"]}

    def latestOffset(self, start: Offset, limit: Any = None) -> Offset:
        """At most `batch_max` emissions more."""
        status = self._server.status(self._query)
        self._check(start, status)
        same = start["registered"] == status["registered"]
        since = max(start["emission"], status["oldest_emission"] - 1) if same else status["oldest_emission"] - 1
        until = max(since, min(status["emissions"], since + self._batch_max))
        return {"emission": until, "registered": status["registered"]}

    def partitions(self, start: Offset, end: Offset) -> Sequence[Emissions]:
        since = start["emission"] if start["registered"] == end["registered"] else 0
        return [Emissions(since, end["emission"], end["registered"])] if since < end["emission"] else []

    def read(self, partition: Emissions) -> Iterator[tuple[Any, ...]]:
        since, read, status = partition.since, 0, self._server.status(self._query)
        if status["registered"] != partition.registered:  # a batch that is repeated after that
            if self._fails_on_loss:
                raise self._registered_again()
            return
        if not self._fails_on_loss:
            since = max(since, status["oldest_emission"] - 1)
        try:
            for emission in self._server.emissions(self._query, since, partition.until):
                read = emission["emission"]
                own = read, emission["time"], emission["snapshot"]
                rows: list[dict[str, Any]] = emission["results"]["bindings"] or [{}]
                for row in rows:
                    yield (*own, *self._rows.row(row))
        except ServerRefused as error:
            if error.status != _GONE:
                raise
            raise self._lost(since) from error
        if read < partition.until and self._fails_on_loss:
            raise self._lost(max(since, read))

    def _check(self, start: Offset, status: dict[str, Any]) -> None:
        if not self._fails_on_loss:
            return
        if start["registered"] != status["registered"]:
            raise self._registered_again()
        if status["oldest_emission"] > start["emission"] + 1:
            raise self._lost(start["emission"])

    def _registered_again(self) -> RuntimeError:
        return RuntimeError(
            f"the query {self._query!r} was dropped and registered again: its emissions are others than those that "
            "were read. Use a new checkpoint, or the option failOnDataLoss=false to read the new ones"
        )

    def _lost(self, since: int) -> RuntimeError:
        return RuntimeError(
            f"the emissions of {self._query!r} after number {since} are not retained any more. Start the server with a "
            "longer --retain-emissions, or use the option failOnDataLoss=false to continue with the oldest ones"
        )
