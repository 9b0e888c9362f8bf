"""The driver: the process that holds the Spark session, a child of the endpoint.

It is a process of its own because a session whose JVM has died cannot be used again, nor another made in its
place. It ends with the endpoint, however that ends: its standard input closes then, and it kills its process
group, so that a JVM that has only begun to start ends too. It hears its job as one line of JSON on standard input, and
says on standard output only what the runner is to know."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from stream_ext.runners.spark.settings import SparkSettings, is_secret, spark_conf, spark_master

#: So often the runner hears of a driver and a JVM that are well.
_SIGN_OF_LIFE_S = 0.5


class DriverJob(msgspec.Struct, frozen=True):
    settings: SparkSettings
    folder: str  # Spark's own; thrown away by the runner
    address_file: str
    java_options: str = ""  # more of them


class DriverReport(msgspec.Struct, frozen=True):
    """One line to the runner: the query runs, again and again while it does, or why nothing does. `ui`: the address of
    Spark's own web pages, if it has them."""

    state: str  # running, failed
    why: str = ""
    ui: str | None = None


def main() -> None:
    report_to = _claim_output()
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=DriverJob)
    # Not the kernel's signal at the parent's death: it would end this process before it could end the JVM, which
    # notices only once it has started, and never if its folder is removed before that.
    threading.Thread(target=_watch_input, daemon=True).start()
    try:
        session, query = _start(job)
        _report(report_to, DriverReport("running", ui=session.sparkContext.uiWebUrl))
        while not query.awaitTermination(_SIGN_OF_LIFE_S):  # that goes to the JVM and back
            _report(report_to, DriverReport("running"))
        _report(report_to, DriverReport("failed", "the streaming query ended"))
    except Exception as error:  # noqa: BLE001 -- all that Spark may raise goes to the runner, which says it
        _report(report_to, DriverReport("failed", f"{type(error).__name__}: {error}"[:4000]))
    # Not `spark.stop()`: Spark is ended as it may die, so there is one way for it to end.
    os._exit(1)


def _claim_output() -> int:
    """Standard output is for reports; what the JVM and its scripts print there goes with the errors."""
    report_to = os.dup(1)
    os.dup2(2, 1)
    return report_to


def _report(report_to: int, report: DriverReport) -> None:
    os.write(report_to, msgspec.json.encode(report) + b"\n")


def _watch_input() -> None:
    # Unbuffered, past Python's lock on the stream: the main thread has read its one line and needs it no more.
    while os.read(0, 1 << 12):
        pass
    os.killpg(0, signal.SIGKILL)  # the JVM is of our group, which the runner made for us


def _start(job: DriverJob) -> tuple[Any, Any]:
    """The session and its streaming query."""
    from pyspark.sql import SparkSession

    from stream_ext.runners.spark.source import NAME, EpochSource

    folder = Path(job.folder)
    builder = SparkSession.builder.master(spark_master(job.settings))
    for name, value in spark_conf(job.settings, folder, java_options=job.java_options).items():
        if not is_secret(name):  # those are in a file, see `child`
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(EpochSource)
    epochs = session.readStream.format(NAME).option("address", job.address_file).load()
    return session, (
        epochs.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )


if __name__ == "__main__":
    main()
