"""Writing: the rows of a streaming DataFrame become elements of a stream.

    a task       collects its rows as lines            (nothing is pushed: the task may be repeated)
    the driver   pushes them, partition by partition, in chunks of a fixed size

Each chunk has a name, the source (the query and the partition) and a number (the batch and the chunk). The server adds
a chunk of one name and number once. So if Spark repeats a batch with the same rows in the same partitions, its elements
count once. A batch is not atomic: the queries may see the first chunks before the last ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from plugin.spark.server import RilletServer

_CHUNK_LINES = 5_000
_CHUNKS_MAX = 1 << 20
#: What the rows of a partition may need in the memory of Spark's driver.
_PARTITION_BYTES_MAX = 64 << 20
_COLUMNS = {"data", "timestamp", "graph"}


@dataclass
class Lines(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    lines: list[bytes] = field(default_factory=list)


class ElementsWriter(DataSourceStreamWriter):  # type: ignore[misc]  # pyspark's types are not followed
    def __init__(self, server: RilletServer, stream: str, source: str, columns: Sequence[str]) -> None:
        unknown = sorted(set(columns) - _COLUMNS)
        if unknown or "data" not in columns:
            raise ValueError(
                f"the columns of elements are data (N-Triples), timestamp (milliseconds) and graph (an IRI); data is "
                f"needed, the others are optional. The DataFrame has {', '.join(columns)}"
            )
        self._server, self._stream, self._source, self._columns = server, stream, source, list(columns)

    def write(self, iterator: Iterator[Any]) -> Lines:
        found, size = Lines(), 0
        for row in iterator:
            element = {name: row[name] for name in self._columns if row[name] is not None}
            line = json.dumps(element, ensure_ascii=False).encode()
            size += len(line)
            if size > _PARTITION_BYTES_MAX:
                raise ValueError(
                    f"a partition of a batch has more than {_PARTITION_BYTES_MAX >> 20} MiB of elements; make batches "
                    "smaller (maxFilesPerTrigger, maxOffsetsPerTrigger) or use more partitions (repartition)"
                )
            found.lines.append(line)
        return found

    def commit(self, messages: Sequence[Lines | None], batchId: int) -> None:
        for partition, message in enumerate(messages):
            lines = [] if message is None else message.lines
            for chunk, first in enumerate(range(0, len(lines), _CHUNK_LINES)):
                body = b"\n".join(lines[first : first + _CHUNK_LINES])
                seq = (batchId + 1) * _CHUNKS_MAX + chunk
                self._server.push(self._stream, body, f"{self._source}-{partition}", seq)

    def abort(self, messages: Sequence[Lines | None], batchId: int) -> None:
        """Nothing was pushed."""


def source_of(checkpoint: str) -> str:
    """The name of a query's pushes: a checkpoint belongs to one query."""
    return f"spark-{blake2b(checkpoint.encode(), digest_size=8).hexdigest()}"
