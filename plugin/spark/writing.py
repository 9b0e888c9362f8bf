"""Writing: the rows of a streaming DataFrame become elements of a stream.

    a task       collects its rows as lines            (nothing is pushed: the task may be repeated)
    the driver   pushes them, partition by partition, in chunks of a fixed size

Lines that are too many for the driver's memory are staged in a file beside the checkpoint, and pushed from there.

Each chunk has a name, the source (the query and the partition) and a number (the batch and the chunk). The server adds
a chunk of one name and number once. So if Spark repeats a batch with the same rows in the same partitions, its elements
count once. A batch is not atomic: the queries may see the first chunks before the last ones."""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any

from pyarrow import fs
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from plugin.spark.server import RilletServer

_CHUNK_LINES = 5_000
_CHUNKS_MAX = 1 << 20
#: The lines of a partition that are held in memory, in the task and in Spark's driver.
_MEMORY_BYTES_MAX = 64 << 20
_COLUMNS = {"data", "timestamp", "graph"}
_STAGED = "rillet-staged"


@dataclass
class Lines(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """Of one partition: here, or in a file of the staging folder."""

    lines: list[bytes] = field(default_factory=list)
    staged: str = ""


class ElementsWriter(DataSourceStreamWriter):  # type: ignore[misc]  # pyspark's types are not followed
    def __init__(
        self, server: RilletServer, stream: str, source: str, columns: Sequence[str], checkpoint: str = ""
    ) -> None:
        unknown = sorted(set(columns) - _COLUMNS)
        if unknown or "data" not in columns:
            raise ValueError(
                f"the columns of elements are data (N-Triples), timestamp (milliseconds) and graph (an IRI); data is "
                f"needed, the others are optional. The DataFrame has {', '.join(columns)}"
            )
        self._server, self._stream, self._source, self._columns = server, stream, source, list(columns)
        self._staging = Staging(checkpoint)

    def write(self, iterator: Iterator[Any]) -> Lines:
        held, size = list[bytes](), 0
        lines = self._lines(iterator)
        for line in lines:
            held.append(line)
            size += len(line)
            if size > _MEMORY_BYTES_MAX:
                return Lines(staged=self._staging.write(held, lines))
        return Lines(held)

    def _lines(self, rows: Iterator[Any]) -> Iterator[bytes]:
        for row in rows:
            element = {name: row[name] for name in self._columns if row[name] is not None}
            yield json.dumps(element, ensure_ascii=False).encode()

    def commit(self, messages: Sequence[Lines | None], batchId: int) -> None:
        for partition, message in enumerate(messages):
            if message is not None:
                for chunk, body in enumerate(self._chunks(message)):
                    seq = (batchId + 1) * _CHUNKS_MAX + chunk
                    self._server.push(self._stream, body, f"{self._source}-{partition}", seq)
        self._staging.clear()

    def _chunks(self, message: Lines) -> Iterator[bytes]:
        lines = iter(self._staging.read(message.staged) if message.staged else message.lines)
        while chunk := list(islice(lines, _CHUNK_LINES)):
            yield b"\n".join(chunk)

    def abort(self, messages: Sequence[Lines | None], batchId: int) -> None:
        """Nothing was pushed."""
        self._staging.clear()


class Staging:
    """Files in a folder of the checkpoint, which driver and tasks reach: file:, hdfs:, s3: or a path."""

    def __init__(self, checkpoint: str) -> None:
        self._folder = f"{checkpoint.rstrip('/')}/{_STAGED}" if checkpoint else ""

    def write(self, held: list[bytes], more: Iterable[bytes]) -> str:
        """Returns the name of the file."""
        if not self._folder:
            raise ValueError(
                f"a partition of a batch has more than {_MEMORY_BYTES_MAX >> 20} MiB of elements; give the option "
                "checkpointLocation, where they can be staged, or make batches smaller (maxFilesPerTrigger, "
                "maxOffsetsPerTrigger)"
            )
        system, folder = self._place()
        system.create_dir(folder, recursive=True)
        name = f"{secrets.token_hex(16)}.ndjson"
        with system.open_output_stream(f"{folder}/{name}") as out:
            for lines in (held, more):
                for line in lines:
                    out.write(line + b"\n")
            held.clear()
        return name

    def read(self, name: str) -> Iterator[bytes]:
        system, folder = self._place()
        with io.BufferedReader(system.open_input_file(f"{folder}/{name}")) as file:
            for line in file:
                yield line.rstrip(b"\n")

    def clear(self) -> None:
        """Removes all files: those of this batch and, as there is one batch at a time, those of tasks that died."""
        if not self._folder:
            return
        system, folder = self._place()
        if system.get_file_info(folder).type != fs.FileType.NotFound:
            system.delete_dir(folder)

    def _place(self) -> tuple[Any, str]:
        folder = self._folder.removeprefix("file://").removeprefix("file:")
        if "://" in folder:
            return fs.FileSystem.from_uri(folder)  # type: ignore[no-any-return]
        return fs.LocalFileSystem(), os.path.abspath(folder)


def source_of(checkpoint: str) -> str:
    """The name of a query's pushes: a checkpoint belongs to one query."""
    return f"spark-{blake2b(checkpoint.encode(), digest_size=8).hexdigest()}"
