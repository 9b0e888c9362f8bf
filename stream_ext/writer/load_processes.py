"""Loaders: processes beside the one that loads, which run the tasks of its loads at the same time.

A task whose process ends, whatever the reason, is run once more by another one: it writes the same files again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from stream_ext.child_environment import program_environment
from stream_ext.errors import RilletError
from stream_ext.frames import framed, receive
from stream_ext.writer.load_parts import result_of

_TRIES = 2
_LOWEST_PRIORITY = 19


class _Loader:
    """One process, used by one thread at a time."""

    def __init__(self, niceness: int) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "stream_ext.writer.load_process", str(theirs.fileno()), str(niceness)],
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


class LoadProcesses:
    """At most so many processes, each started when it is needed. `in_server`: they belong to a server, whose queries
    and pushes go first; and they end with each load, as their memory stays as large as their tasks were."""

    def __init__(self, most: int, in_server: bool = False) -> None:
        self.most, self._in_server = most, in_server
        self._threads = ThreadPoolExecutor(most, "load task")
        self._lock = threading.Lock()
        self._idle: list[_Loader] = []
        self._busy: set[_Loader] = set()
        self._closed = False

    def submit(self, task: msgspec.Struct) -> Future[Any]:
        with self._lock:  # held, so that the threads are not ended meanwhile
            self._check_open()
            return self._threads.submit(self._run, msgspec.msgpack.encode(task))

    def process_ids(self) -> list[int]:
        with self._lock:
            return [loader.process.pid for loader in (*self._idle, *self._busy)]

    def rest(self) -> None:
        """A load has ended."""
        if self._in_server:
            self._end_idle()

    def _end_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for loader in idle:
            loader.end()

    def close(self) -> None:
        """Ends the processes; tasks that are not done fail."""
        with self._lock:
            self._closed = True
            loaders = [*self._idle, *self._busy]
        for loader in loaders:
            loader.process.kill()
        self._threads.shutdown()
        self._end_idle()

    def _run(self, task: bytes) -> Any:
        status = 0
        for attempt in range(_TRIES):
            try:
                loader = self._take(is_new=attempt > 0)
            except OSError as error:
                raise RilletError(
                    f"a process of the load could not be started ({error}), and nothing was loaded; load with fewer "
                    "tasks (--tasks 1)"
                ) from error
            try:
                answer = loader.run(task)
            except OSError:
                status = self._drop(loader)
                continue
            with self._lock:
                self._busy.discard(loader)
                self._idle.append(loader)
            return result_of(answer)
        raise RilletError(
            f"a process of the load has ended (status {status}), and nothing was loaded; if the machine has too little "
            "memory, load with fewer tasks (--tasks 1)"
        )

    def _take(self, is_new: bool) -> _Loader:
        with self._lock:
            self._check_open()
            loader = (
                _Loader(_LOWEST_PRIORITY if self._in_server else 0) if is_new or not self._idle else self._idle.pop()
            )
            self._busy.add(loader)
            return loader

    def _check_open(self) -> None:
        if self._closed:
            raise RilletError("the load was ended, and nothing was loaded")

    def _drop(self, loader: _Loader) -> int:
        with self._lock:
            self._busy.discard(loader)
        return loader.end()
