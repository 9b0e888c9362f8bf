"""The driver's half of tasks: each order is run as a Spark job of one task, beside the streaming query.

How many run at a time is decided by who gives the orders (`tasks.py`): the seats of registered queries never wait for a
slot. The Python processes that evaluate tasks are others than those that have seats, and have the lowest priority:
Spark starts a daemon for each environment of Python functions, and theirs is another one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from stream_ext.runners.spark.settings import SparkSettings

#: Of tasks, and the share of each that is alive.
_POOL = "rillet-tasks"
_WHY_CHARACTERS = 2_000


class TaskOrder(msgspec.Struct, frozen=True):
    """One line to the driver. `file`: the task; empty: it is cancelled."""

    task: int
    file: str = ""


class TaskReport(msgspec.Struct, frozen=True):
    """`file`: the result; or why there is none."""

    task: int
    file: str = ""
    failed: str = ""


class DriverTasks:
    def __init__(
        self, session: Any, folder: Path, settings: SparkSettings, report: Callable[[TaskReport], None]
    ) -> None:
        from stream_ext.runners.spark.task_process import TASKS_ENVIRON  # imports pyarrow, which a server does not need

        self._session, self._folder, self._report = session, folder, report
        self._results = None if settings.is_cluster else folder  # which the processes of tasks see, too
        # Of the functions that are made from now on.
        session.sparkContext.environment[TASKS_ENVIRON] = str(settings.tasks_niceness)

    def obey(self, order: TaskOrder) -> None:
        if order.file:
            threading.Thread(target=self._run, args=(order,), name="rillet-task", daemon=True).start()
        else:
            # Its job may not have begun.
            self._session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(_group(order.task))

    def _run(self, order: TaskOrder) -> None:
        try:
            report = self._report_of(order)
        except Exception as error:  # noqa: BLE001 -- whatever Spark raises, somebody waits for this task
            report = TaskReport(order.task, failed=f"{type(error).__name__}: {error}"[:_WHY_CHARACTERS])
        with contextlib.suppress(OSError):
            Path(order.file).unlink()
        self._report(report)

    def _report_of(self, order: TaskOrder) -> TaskReport:
        from stream_ext.runners.spark.task_process import COLUMNS, in_spark

        context = self._session.sparkContext
        context.setJobGroup(_group(order.task), "a task of Rillet", interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", _POOL)
        results = None if self._results is None else str(self._results)
        body = Path(order.file).read_bytes()
        found = self._session.range(0, 1, 1, 1).mapInArrow(partial(in_spark, body, results), COLUMNS)
        rows = found.toArrow().to_pylist()
        if why := "".join(row["failed"] for row in rows):
            return TaskReport(order.task, failed=why[:_WHY_CHARACTERS])
        if results is not None:
            return TaskReport(order.task, rows[0]["place"])
        file = self._folder / f"result-{order.task}"
        with file.open("wb") as out:
            for row in rows:
                out.write(row["part"])
        return TaskReport(order.task, str(file))


def _group(task: int) -> str:
    return f"rillet-task-{task}"
