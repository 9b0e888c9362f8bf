"""Making the class archive: a small program of Spark runs to its end, and its JVM writes what it has loaded.

    python -m stream_ext.runners.spark.archive_making FOLDER JAVA_OPTIONS

is that program: a session like the driver's, and some batches of a streaming source in Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stream_ext.errors import RilletError
from stream_ext.runners.spark.child import driver_environ
from stream_ext.runners.spark.class_archive import SparkHome, home_for, outdated
from stream_ext.runners.spark.java import Java, check_is_ours
from stream_ext.runners.spark.settings import SparkSettings, spark_conf, spark_master

_TAKES_S_MAX = 600
_BATCHES = 4
_TAIL_CHARACTERS = 1_000


def make(java: Java, environ: Mapping[str, str] = os.environ) -> SparkHome:
    """The archive of this Java and the installed Spark; it is made if it is not there."""
    home = home_for(java, environ)
    if home.archive.exists():
        return home
    for old in outdated(home):
        shutil.rmtree(old, ignore_errors=True)
    home.link()
    check_is_ours(home.path.parent, "the classes of Spark")
    # Each JVM that makes one has its own file, which is renamed when it is whole.
    with tempfile.TemporaryDirectory(prefix="rillet-spark-", dir="/tmp") as folder:
        new = home.path / f"{Path(folder).name}{home.archive.suffix}"
        command = [sys.executable, "-m", __name__, folder, home.making_options(new)]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TAKES_S_MAX, check=False,
            env=driver_environ(SparkSettings(), Path(folder), java, environ) | {"SPARK_HOME": str(home.path)},
        )  # fmt: skip
    if done.returncode or not new.exists():
        new.unlink(missing_ok=True)
        raise RilletError(f"Java made no archive of the classes of Spark: {done.stderr.strip()[-_TAIL_CHARACTERS:]}")
    new.replace(home.archive)
    return home


# ---- that program ------------------------------------------------------------------------------------------------


def main() -> None:
    folder, java_options = Path(sys.argv[1]), sys.argv[2]
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = SparkSettings(shards=2)
    builder = SparkSession.builder.master(spark_master(settings))
    for name, value in spark_conf(settings, folder, java_options=java_options).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(_source())
    query = (
        session.readStream.format("training").load().writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="0 seconds").start()
    )  # fmt: skip
    while not query.awaitTermination(0.1) and (query.lastProgress or {"batchId": 0})["batchId"] < _BATCHES:
        pass
    query.stop()
    session.stop()
    jvm = SparkContext._gateway.proc
    jvm.stdin.close()  # then it ends by itself, and writes the archive
    sys.exit(jvm.wait(_TAKES_S_MAX))


def _source() -> Any:
    """A source of batches without end, each of two partitions with a row."""
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Training(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
        @classmethod
        def name(cls) -> str:
            return "training"

        def schema(self) -> str:
            return "number long"

        def streamReader(self, schema: Any) -> Any:
            return Reader()

    class Reader(DataSourceStreamReader):  # type: ignore[misc]  # pyspark's types are not followed
        def initialOffset(self) -> dict[str, int]:
            return {"epoch": 0}

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
            return {"epoch": start["epoch"] + 1}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Any]:
            return [InputPartition(0), InputPartition(1)]

        def read(self, partition: Any) -> Iterator[Any]:
            yield pa.RecordBatch.from_pydict({"number": pa.array([partition.value], pa.int64())})

    return Training


if __name__ == "__main__":
    main()
