"""Programs of Spark's users, each in a process of its own: python -m tests.plugin.spark.program NAME SERVER FOLDER"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from plugin.spark import with_terms
from stream_ext.runners.spark.java import find_java

NUMBERS = "SELECT ?x ?n { ?x <http://ex/n> ?n } ORDER BY ?n"


def _session(folder: Path) -> Any:
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    from pyspark.sql import SparkSession

    from plugin.spark import RilletSource

    conf = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.log.level": "OFF",
        "spark.local.dir": str(folder / "local"), "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(RilletSource)
    return session


def read(session: Any, server: str, folder: Path) -> dict[str, Any]:
    """The whole store, a SELECT as strings, with types and as terms, and a snapshot that is gone. The groups of the ids
    of the store itself, with terms."""
    reader = lambda: session.read.format("rillet").option("server", server)  # noqa: E731
    store = reader().load()
    url = (folder / "store").read_text()
    groups = session.read.format("rillet").option("store", url).option("terms", "ids").load()
    groups = groups.groupBy("predicate", "graph").count()
    numbers = reader().option("query", NUMBERS)
    try:
        reader().option("query", NUMBERS).option("snapshot", "999999").load().collect()
        gone = ""
    except Exception as error:  # noqa: BLE001 -- whatever Spark makes of it
        gone = str(error)
    return {
        "store": sorted(map(list, store.collect()), key=str),
        "partitions": store.rdd.getNumPartitions(),
        "strings": list(map(list, numbers.load().collect())),
        "typed": list(map(list, numbers.schema("x string, n long").load().where("n > 1").collect())),
        "terms": list(map(list, reader().option("query", NUMBERS).option("terms", "true").load().collect())),
        "gone": gone,
        "groups": sorted(map(list, with_terms(groups, url, "predicate", "graph").collect()), key=str),
    }


def emissions(session: Any, server: str, folder: Path) -> dict[str, Any]:
    """All emissions of `near` that there are, at most six in a batch; called again, it continues."""
    frame = (
        session.readStream.format("rillet")
        .option("server", server).option("registered", "near").option("maxEmissionsPerBatch", "6").load()
    )  # fmt: skip
    until = int((folder / "until").read_text())
    query = (
        frame.writeStream.format("json").option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out")).start()
    )  # fmt: skip
    pause = threading.Event()
    while query.isActive and _emission_reached(folder / "out") < until:
        pause.wait(0.2)
    fault = query.exception()
    query.stop()
    return {"fault": "" if fault is None else str(fault)}


def _emission_reached(folder: Path) -> int:
    """The last emission in a file that Spark has committed."""
    lines = [line for file in committed(folder) for line in file.read_text().splitlines()]
    return max((json.loads(line)["emission"] for line in lines), default=0)


def committed(folder: Path) -> list[Path]:
    """The files that Spark counts; a program that is stopped leaves others."""
    logs = [log for log in (folder / "_spark_metadata").glob("*") if not log.name.startswith(".")]
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines() if line.startswith("{")]
    return [folder / name for name in {Path(line["path"]).name for line in lines}]


def write(session: Any, server: str, folder: Path) -> dict[str, Any]:
    """The files of a folder, one in each batch, into the stream `s`."""
    frame = (
        session.readStream.schema("timestamp long, data string").option("maxFilesPerTrigger", 1)
        .json(str(folder / "data"))
    )  # fmt: skip
    query = (
        frame.writeStream.format("rillet").option("server", server).option("stream", "s")
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return {"batches": len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))}


if __name__ == "__main__":
    where = Path(sys.argv[3])
    program = {"read": read, "emissions": emissions, "write": write}[sys.argv[1]]
    print(json.dumps(program(_session(where), sys.argv[2], where)), flush=True)
