"""The driver: the process that holds the Spark session, a child of the endpoint.

It is a process of its own because a session whose JVM has died cannot be used again, nor another made in its
place. It ends with the endpoint, however that ends: its standard input closes then, and it kills its process
group, so that a JVM that has only begun to start ends too. It gets its job as one line of JSON on standard input, and
then orders, a line each; on standard output are only its reports."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stream_ext.runners.spark.driver_tasks import DriverTasks, TaskOrder, TaskReport
from stream_ext.runners.spark.settings import SparkSettings, is_secret, spark_conf, spark_master

#: So often the runner hears of a driver and a JVM that are well.
_SIGN_OF_LIFE_S = 0.5
_reporting = threading.Lock()


class DriverJob(msgspec.Struct, frozen=True):
    settings: SparkSettings
    folder: str  # Spark's own; thrown away by the runner
    address_file: str  # of the bell; empty: there are no registered queries, only tasks
    java_options: str = ""  # more of them


class DriverReport(msgspec.Struct, frozen=True):
    """One line to the runner: the query runs, again and again while it does, or why nothing does; or how a task ended.
    `ui`: the address of Spark's own web pages, if it has them."""

    state: str  # running, failed
    why: str = ""
    ui: str | None = None
    task: TaskReport | None = None


def main() -> None:
    report_to, lines = _claim_output(), _lines_of_input()
    job = msgspec.json.decode(next(lines), type=DriverJob)
    orders = _Orders()
    # Not the kernel's signal at the parent's death: it would end this process before it could end the JVM, which
    # notices only once it has started, and never if its folder is removed before that.
    threading.Thread(target=_watch_input, args=(lines, orders), daemon=True).start()
    try:
        session, query = _start(job)
        tasks = DriverTasks(
            session,
            Path(job.folder),
            job.settings,
            lambda report: _report(report_to, DriverReport("running", task=report)),
        )
        orders.begin(tasks)
        _report(report_to, DriverReport("running", ui=session.sparkContext.uiWebUrl))
        while not _has_ended(session, query):
            _report(report_to, DriverReport("running"))
        _report(report_to, DriverReport("failed", "the streaming query ended"))
    except Exception as error:  # noqa: BLE001 -- all that Spark may raise goes to the runner, which says it
        _report(report_to, DriverReport("failed", f"{type(error).__name__}: {error}"[:4000]))
    # Not `spark.stop()`: Spark is ended as it may die, so there is one way for it to end.
    os._exit(1)


class _Orders:
    """Orders for tasks; the runner gives none before the session is there."""

    def __init__(self) -> None:
        self._tasks: DriverTasks | None = None

    def begin(self, tasks: DriverTasks) -> None:
        self._tasks = tasks

    def obey(self, line: bytes) -> None:
        assert self._tasks is not None, "orders come when the driver runs"
        self._tasks.obey(msgspec.json.decode(line, type=TaskOrder))


def _has_ended(session: Any, query: Any) -> bool:
    """Whether nothing is evaluated any more; it is asked of the JVM, so it shows that this is well."""
    if query is not None:
        return bool(query.awaitTermination(_SIGN_OF_LIFE_S))
    time.sleep(_SIGN_OF_LIFE_S)
    return bool(session.sparkContext._jsc.sc().isStopped())


def _claim_output() -> int:
    """Standard output is for reports; what the JVM and its scripts print there goes with the errors."""
    report_to = os.dup(1)
    os.dup2(2, 1)
    return report_to


def _report(report_to: int, report: DriverReport) -> None:
    with _reporting:  # tasks report in threads of their own
        line = msgspec.json.encode(report) + b"\n"
        while line:
            line = line[os.write(report_to, line) :]


def _lines_of_input() -> Iterator[bytes]:
    """Unbuffered, past Python's lock on the stream."""
    rest = b""
    while more := os.read(0, 1 << 12):
        *lines, rest = (rest + more).split(b"\n")
        yield from lines


def _watch_input(lines: Iterator[bytes], orders: _Orders) -> None:
    try:
        for line in lines:
            orders.obey(line)
    finally:
        os.killpg(0, signal.SIGKILL)  # the JVM is of our group, which the runner made for us


def _start(job: DriverJob) -> tuple[Any, Any]:
    """The session and its streaming query, if it has one."""
    from pyspark.sql import SparkSession

    from stream_ext.runners.spark.source import NAME, EpochSource

    folder = Path(job.folder)
    builder = SparkSession.builder.master(spark_master(job.settings))
    for name, value in spark_conf(job.settings, folder, java_options=job.java_options).items():
        if not is_secret(name):  # those are in a file, see `child`
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    if not job.address_file:
        return session, None
    session.dataSource.register(EpochSource)
    epochs = session.readStream.format(NAME).option("address", job.address_file).load()
    return session, (
        epochs.writeStream.format("noop")
        # With its scheme: where Hadoop is configured, as on YARN, a path alone is one of HDFS, and stays there.
        .option("checkpointLocation", (folder / "checkpoint").as_uri())
        .trigger(processingTime="0 seconds")
        .start()
    )


if __name__ == "__main__":
    main()
