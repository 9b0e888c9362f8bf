"""The data source `rillet`: which reader or writer the options ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSource

from plugin.spark.emissions import OWN_COLUMNS, EmissionsReader
from plugin.spark.reading import SelectReader, StoreReader
from plugin.spark.server import RilletServer
from plugin.spark.store_reading import ROWS_PER_TASK, SpanReader
from plugin.spark.values import RowReader
from plugin.spark.writing import ElementsWriter, source_of
from stream_ext.language.algebra.algebra import Form, Query, Register
from stream_ext.language.syntax import parse

_KNOWN = {
    "server", "store", "token", "query", "registered", "stream", "source", "snapshot", "terms", "rowsperpartition",
    "startingemission",
    "maxemissionsperbatch", "failondataloss", "checkpointlocation", "path",
}  # fmt: skip


class RilletSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    @classmethod
    def name(cls) -> str:
        return "rillet"

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        unknown = sorted(name for name in options if name.lower() not in _KNOWN)
        if unknown:
            raise ValueError(f"the data source rillet has no option {', '.join(unknown)}; it has {', '.join(_KNOWN)}")

    def schema(self) -> str:
        if registered := self.options.get("registered"):
            text = RilletServer.of(self.options).status(registered)["text"]
            return ", ".join((OWN_COLUMNS, *_strings(_variables(text))))
        if query := self.options.get("query"):
            return ", ".join(_strings(_variables(query)))
        return SpanReader.IDS if self._as_ids() else SpanReader.TEXTS

    def reader(self, schema: Any) -> SelectReader | StoreReader | SpanReader:
        server, query = RilletServer.of(self.options), self.options.get("query")
        snapshot = int(self.options["snapshot"]) if "snapshot" in self.options else None
        if "registered" in self.options:
            raise ValueError("the emissions of a registered query are read with spark.readStream")
        if query:
            return SelectReader(server, query, self._rows(schema), snapshot)
        if store := self.options.get("store"):
            rows = int(self.options.get("rowsPerPartition", ROWS_PER_TASK))
            return SpanReader(store, snapshot, self._as_ids(), rows)
        return StoreReader(server, snapshot)

    def _as_ids(self) -> bool:
        as_ids = bool(self.options.get("terms", "").lower() == "ids")
        if as_ids and ("store" not in self.options or "query" in self.options or "registered" in self.options):
            raise ValueError("terms=ids is for reading a store itself: .option('store', 'lmdb:PATH' or 'hbase://...')")
        return as_ids

    def streamReader(self, schema: Any) -> EmissionsReader:
        registered = self.options.get("registered")
        if not registered:
            raise ValueError("say whose emissions are to be read: .option('registered', 'NAME')")
        return EmissionsReader(
            RilletServer.of(self.options),
            registered,
            self._rows(schema, len(OWN_COLUMNS.split(","))),
            self.options.get("startingEmission", "oldest"),
            int(self.options.get("maxEmissionsPerBatch", "1000")),
            self.options.get("failOnDataLoss", "true").lower() != "false",
        )

    def streamWriter(self, schema: Any, overwrite: bool) -> ElementsWriter:
        stream, checkpoint = self.options.get("stream"), self.options.get("checkpointLocation")
        source = self.options.get("source") or (checkpoint and source_of(checkpoint))
        if not stream:
            raise ValueError("say to which stream: .option('stream', 'NAME')")
        if not source:
            raise ValueError(
                "give the option checkpointLocation, or the option source: a name that no other program pushes under, "
                "and that stays the same when this one is started again"
            )
        return ElementsWriter(RilletServer.of(self.options), stream, source, schema.fieldNames(), checkpoint or "")

    def _rows(self, schema: Any, own: int = 0) -> RowReader:
        columns = [(field.name, field.dataType.typeName()) for field in schema.fields[own:]]
        return RowReader(columns, self.options.get("terms", "false").lower() == "true")


def _variables(text: str) -> Sequence[str]:
    unit = parse(text, "http://127.0.0.1/")
    query = unit.query if isinstance(unit, Register) else unit
    if not isinstance(query, Query) or query.form is not Form.SELECT:
        raise ValueError("the data source rillet reads SELECT queries only")
    return query.variables


def _strings(names: Sequence[str]) -> list[str]:
    return [f"`{name}` string" for name in names]
