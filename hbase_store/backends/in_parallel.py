"""Calls of a remote store made at the same time, each by a thread with a connection of its own."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import TypeVar

Answer = TypeVar("Answer")


class InParallel:
    """Threads are started when they are needed first. A forked child starts its own."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._executor: tuple[int, ThreadPoolExecutor] | None = None  # with the process that it belongs to

    def all(self, calls: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """The answers, in order. Returns, or raises the first error, when no call is under way any more: what is done
        next does not overlap with these."""
        if len(calls) <= 1:
            return [call() for call in calls]
        executor = self._started()
        others = [executor.submit(copy_context().run, call) for call in calls[1:]]
        try:
            first = calls[0]()
        finally:
            wait(others)
        return [first, *(other.result() for other in others)]

    def each(self, calls: Iterable[Callable[[], object]], at_a_time: int) -> None:
        """Makes calls as they come, so many at a time. Returns, or raises the first error, when none is under way."""
        executor, underway = self._started(), deque[Future[object]]()
        try:
            for call in calls:
                if len(underway) == at_a_time:
                    underway.popleft().result()
                underway.append(executor.submit(copy_context().run, call))
            while underway:
                underway.popleft().result()
        finally:
            wait(underway)

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None or self._executor[0] != os.getpid():
                self._executor = os.getpid(), ThreadPoolExecutor(self._threads, thread_name_prefix="rillet-hbase")
            return self._executor[1]

    def close(self) -> None:
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None and executor[0] == os.getpid():
            executor[1].shutdown(wait=False, cancel_futures=True)
