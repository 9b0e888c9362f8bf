"""Loads by tasks of Spark: for a cluster whose machines share a folder, where files, parts and results lie."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from stream_ext.errors import JobFailed
from stream_ext.evaluation_budget import Control
from stream_ext.runners.spark.tasks import SparkTasks
from stream_ext.writer.load_parts import ReadPart, SharedFolderTask, load_failed, result_of


class LoadOnSpark:
    """Runs the tasks of loads, as `LoadProcesses` does; `most` at a time."""

    def __init__(self, tasks: SparkTasks, most: int) -> None:
        self.most = most
        self._tasks = tasks
        self._threads = ThreadPoolExecutor(most, "load task")
        self._control = Control()

    def submit(self, task: Any) -> Future[Any]:
        file = os.path.abspath(task.path) if isinstance(task, ReadPart) else ""
        if isinstance(task, ReadPart):
            task = msgspec.structs.replace(task, path=file)  # tasks have another working folder
        sent = SharedFolderTask(task.folder, file, msgspec.msgpack.encode(task))
        return self._threads.submit(self._result, sent)

    def rest(self) -> None:
        """Spark is another's."""

    def close(self) -> None:
        """Tasks that are not done fail."""
        self._control.cancel()
        self._threads.shutdown()

    def _result(self, task: SharedFolderTask) -> Any:
        try:
            (answer,) = self._tasks.run([task], self._control, is_query=False)
        except JobFailed as error:
            raise load_failed(error) from error
        return result_of(answer)
