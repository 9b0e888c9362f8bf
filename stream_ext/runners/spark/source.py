"""The streaming source `rillet_epochs`: its offset is the number of a Spark epoch, its partitions are seats.

Spark believes it reads a batch; in truth the task serves its shard for as long as the epoch lasts and then
yields one row about it. What was computed has long gone to the bell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from stream_ext.runners.spark import wire
from stream_ext.runners.spark.seat import serve

NAME = "rillet_epochs"
_COLUMNS = ("shard", "sn", "steps", "pid")
_SCHEMA = pa.schema([(name, pa.int64()) for name in _COLUMNS])


class Seat(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    def __init__(self, number: int, epoch: int) -> None:
        self.number, self.epoch = number, epoch


class EpochReader(DataSourceStreamReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Pickled to the tasks, which may be on other machines: so it has the bell's address with it, and no socket."""

    def __init__(self, address: wire.Address) -> None:
        self._address = address

    def initialOffset(self) -> dict[str, int]:
        return {"epoch": 0, "seats": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        """The next epoch. The bell answers at once when epochs are long, else when there is something to do:
        a source that always advances costs more than a core when idle."""
        with self._address.connect() as connection:
            connection.sendall(wire.frame(wire.Await()))
            planned = wire.receive_message(wire.from_bell, connection)
        seats = planned.seats if isinstance(planned, wire.HeadMoved) else 1
        return {"epoch": start["epoch"] + 1, "seats": seats}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Seat]:
        return [Seat(number, end["epoch"]) for number in range(end["seats"])]

    def read(self, partition: Seat) -> Iterator[pa.RecordBatch]:
        served = serve(self._address, partition.number, partition.epoch)
        yield pa.RecordBatch.from_arrays([pa.array([value], pa.int64()) for value in astuple(served)], schema=_SCHEMA)


class EpochSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ", ".join(f"{name} long" for name in _COLUMNS)

    def streamReader(self, schema: Any) -> EpochReader:
        return EpochReader(wire.Address.read(Path(self.options["address"])))
