"""Loaders: processes beside the one that loads, which run the tasks of its loads at the same time.

A task whose process ends, whatever the reason, is run once more by another one: it writes the same files again."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import msgspec

from stream_ext.errors import RilletError
from stream_ext.task_processes import LOWEST_PRIORITY, PoolClosed, ProcessLost, ProcessNotStarted, TaskProcesses
from stream_ext.writer.load_parts import result_of


class LoadProcesses:
    """At most so many processes, each started when it is needed. `in_server`: they belong to a server, whose queries
    and pushes go first; and they end with each load, as their memory stays as large as their tasks were."""

    def __init__(self, most: int, in_server: bool = False) -> None:
        self.most, self._in_server = most, in_server
        self._processes = _Loaders(
            "stream_ext.writer.load_parts:run_encoded", most, LOWEST_PRIORITY if in_server else 0
        )

    def submit(self, task: msgspec.Struct) -> Future[Any]:
        try:
            return self._processes.submit(msgspec.msgpack.encode(task))
        except PoolClosed:
            raise _ended() from None

    def process_ids(self) -> list[int]:
        return self._processes.process_ids()

    def rest(self) -> None:
        """A load has ended."""
        if self._in_server:
            self._processes.end_idle()

    def close(self) -> None:
        """Ends the processes; tasks that are not done fail."""
        self._processes.close()


class _Loaders(TaskProcesses):
    def answered(self, task: bytes) -> Any:
        """The result of a task of a load."""
        try:
            return result_of(super().answered(task))
        except ProcessNotStarted as error:
            raise RilletError(
                f"a process of the load could not be started ({error}), and nothing was loaded; load with fewer "
                "tasks (--tasks 1)"
            ) from error
        except ProcessLost as error:
            raise RilletError(
                f"a process of the load has ended (status {error.status}), and nothing was loaded; if the machine has "
                "too little memory, load with fewer tasks (--tasks 1)"
            ) from None
        except PoolClosed:
            raise _ended() from None


def _ended() -> RilletError:
    return RilletError("the load was ended, and nothing was loaded")
