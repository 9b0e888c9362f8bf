"""Task processes: processes beside this one that run its tasks at the same time.

A task whose process ends, whatever the reason, is run once more by another one: so a task may run twice, and gives the
same result, or writes the same files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from stream_ext.child_environment import program_environment
from stream_ext.frames import framed, receive

_TRIES = 2
#: Whoever is served goes first.
LOWEST_PRIORITY = 19


class ProcessNotStarted(Exception):
    """A process could not be started."""


class ProcessLost(Exception):
    """The processes of a task have ended, one after the other, the last with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"a process ended with status {status}")
        self.status = status


class PoolClosed(Exception):
    """No tasks are run any more."""


class _TaskProcess:
    """One process, used by one thread at a time."""

    def __init__(self, function: str, niceness: int) -> None:
        self._ours, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), str(niceness), function]
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "stream_ext.task_process", *arguments],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=program_environment(os.environ),
                )
            except OSError:
                self._ours.close()
                raise

    def run(self, task: bytes) -> bytearray:
        """ConnectionError if the process ends."""
        self._ours.sendall(framed(task))
        return receive(self._ours)

    def end(self) -> int:
        self._ours.close()
        self.process.kill()
        return self.process.wait()


class TaskProcesses:
    """At most so many processes, each started when it is needed. `function`: what they run, as `module:function`, from
    the bytes of a task to those of its result."""

    def __init__(self, function: str, most: int, niceness: int = 0) -> None:
        self.most, self._function, self._niceness = most, function, niceness
        self._threads = ThreadPoolExecutor(most, "task")
        self._lock = threading.Lock()
        self._idle: list[_TaskProcess] = []
        self._busy: set[_TaskProcess] = set()
        self._closed = False

    def submit(self, task: bytes) -> Future[Any]:
        """The future has the result of `answered`."""
        with self._lock:  # held, so that the threads are not ended meanwhile
            self._check_open()
            return self._threads.submit(self.answered, task)

    def process_ids(self) -> list[int]:
        with self._lock:
            return [each.process.pid for each in (*self._idle, *self._busy)]

    def end_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.end()

    def close(self) -> None:
        """Ends the processes; tasks that are not done fail."""
        with self._lock:
            self._closed = True
            processes = [*self._idle, *self._busy]
        for each in processes:
            each.process.kill()
        self._threads.shutdown()
        self.end_idle()

    def answered(self, task: bytes) -> Any:
        """The result of a task: its bytes. Raises ProcessNotStarted, ProcessLost or PoolClosed."""
        status = 0
        for attempt in range(_TRIES):
            try:
                process = self._take(is_new=attempt > 0)
            except OSError as error:
                raise ProcessNotStarted(str(error)) from error
            try:
                answer = process.run(task)
            except OSError:
                status = self._drop(process)
                continue
            with self._lock:
                self._busy.discard(process)
                self._idle.append(process)
            return answer
        raise ProcessLost(status)

    def _take(self, is_new: bool) -> _TaskProcess:
        with self._lock:
            self._check_open()
            process = _TaskProcess(self._function, self._niceness) if is_new or not self._idle else self._idle.pop()
            self._busy.add(process)
            return process

    def _check_open(self) -> None:
        if self._closed:
            raise PoolClosed

    def _drop(self, process: _TaskProcess) -> int:
        with self._lock:
            self._busy.discard(process)
        return process.end()
