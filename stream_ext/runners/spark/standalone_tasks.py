"""Spark for the tasks of one-shot queries alone, in a process that has no server."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from stream_ext.runners.spark.child import DriverProcess
from stream_ext.runners.spark.java import find_java
from stream_ext.runners.spark.settings import SparkSettings, spark_master
from stream_ext.runners.spark.tasks import SparkTasks

_LOOK_S = 0.4


@contextmanager
def spark_for_tasks(settings: SparkSettings, environ: Mapping[str, str] = os.environ) -> Iterator[SparkTasks]:
    """Starts Spark; ends it and all its processes at the end. All its slots are for tasks, at the usual priority."""
    settings = msgspec.structs.replace(settings, tasks_niceness=0)
    driver = DriverProcess(settings, None, find_java(environ), environ)
    tasks = SparkTasks(_slots(settings))
    thread = threading.Thread(target=_follow, args=(driver, tasks), name="rillet-spark-tasks", daemon=True)
    thread.start()
    try:
        yield tasks
    finally:
        driver.kill()
        thread.join()


def _slots(settings: SparkSettings) -> int:
    requested = re.match(r"local(\[(\d+))?", settings.master)
    if settings.is_cluster or requested is None:
        return settings.lanes()
    slots = re.match(r"local\[(\d+)", spark_master(settings))
    assert slots is not None, "a local master has slots"
    if settings.master == "local[*]":
        return min(int(slots[1]), os.cpu_count() or 1)
    return int(requested[2] or 1)


def _follow(driver: DriverProcess, tasks: SparkTasks) -> None:
    why = ""
    for report in driver.reports(_LOOK_S):
        if report is None:
            continue
        why = report.why or why
        if report.state == "running":
            tasks.begin(driver)
        if report.task is not None:
            tasks.reported(report.task)
    ended = driver.bury()
    tasks.end(why or ended, forever=True)
