"""Counters of the calls of HBase, by verb: how many, how many failed, how long they took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass(slots=True)
class Counted:
    verb: str
    count: int = 0
    failed: int = 0
    seconds: float = 0.0


class Calls:
    """The counters; any thread may add to them and read them."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._by_verb: dict[str, Counted] = {}

    @contextmanager
    def counted(self, verb: str) -> Iterator[None]:
        began, failed = self._clock(), True
        try:
            yield
            failed = False
        finally:
            with self._lock:
                counted = self._by_verb.setdefault(verb, Counted(verb))
                counted.count += 1
                counted.failed += failed
                counted.seconds += self._clock() - began

    def counts(self) -> list[Counted]:
        with self._lock:
            return [replace(counted) for counted in self._by_verb.values()]
