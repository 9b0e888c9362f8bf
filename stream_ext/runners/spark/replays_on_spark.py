"""The tasks of replays, run by Spark beside the registered queries."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from stream_ext.errors import JobFailed
from stream_ext.evaluation_budget import Control
from stream_ext.runners.replays.task import AHEAD, EncodedTask, RunTasks, TaskDied
from stream_ext.runners.spark.tasks import PROCESS_DIED, SparkTasks


class ReplaysOnSpark:
    name, limited_by = "Spark", "--spark-master"

    def __init__(self, tasks: SparkTasks) -> None:
        self._tasks = tasks

    @property
    def lanes(self) -> int:
        return self._tasks.lanes

    @property
    def is_ready(self) -> bool:
        return self._tasks.is_ready

    @contextmanager
    def opened(self) -> Iterator[RunTasks]:
        yield self._run

    def _run(self, tasks: Sequence[EncodedTask], control: Control) -> Generator[bytes, None, None]:
        try:
            yield from self._tasks.run(tasks, control, is_query=False, ahead=AHEAD * self._tasks.lanes)
        except JobFailed as error:
            raise (TaskDied if PROCESS_DIED in str(error) else JobFailed)(str(error)) from error
