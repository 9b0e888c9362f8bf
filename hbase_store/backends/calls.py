"""Counters of the calls of HBase: by verb, how many, how many failed, how many bytes, how long they took; and by
purpose, how many calls a publish takes, or a query.

    with purpose("publish"):
        ...                      the calls made here, also in other threads for it, are those of one publish"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(slots=True)
class Counted:
    verb: str
    count: int = 0
    failed: int = 0
    seconds: float = 0.0
    nbytes: int = 0  # of keys and values, sent and received


@dataclass(slots=True)
class Purpose:
    """What calls are made for. `begun`: how often; `calls`: how many calls all of these took together; `seconds`: how
    long the calls took, those at the same time added up."""

    name: str
    begun: int = 0
    calls: int = 0
    seconds: float = 0.0


class Tally:
    """The calls made for one thing."""

    def __init__(self, name: str) -> None:
        self.name, self.calls, self.seconds = name, 0, 0.0
        self._lock = threading.Lock()

    def add(self, calls: int, seconds: float) -> None:
        with self._lock:
            self.calls += calls
            self.seconds += seconds


_tally: ContextVar[Tally | None] = ContextVar("calls of HBase", default=None)
_purposes_lock = threading.Lock()
_begun: dict[str, int] = {}
_calls: dict[str, int] = {}
_seconds: dict[str, float] = {}


def purpose(name: str) -> AbstractContextManager[Tally]:
    """Counts the calls made inside for `name`; within another purpose they are those of the outer one, too."""
    return _Counting(name)


class _Counting:
    """A class, for each write enters several: a generator takes three times as long."""

    __slots__ = ("_outer", "_tally", "_token")

    def __init__(self, name: str) -> None:
        self._tally = Tally(name)

    def __enter__(self) -> Tally:
        self._outer = _tally.get()
        self._token = _tally.set(self._tally)
        return self._tally

    def __exit__(self, *error: object) -> None:
        _tally.reset(self._token)
        name, calls, seconds = self._tally.name, self._tally.calls, self._tally.seconds
        with _purposes_lock:
            _begun[name] = _begun.get(name, 0) + 1
            _calls[name] = _calls.get(name, 0) + calls
            _seconds[name] = _seconds.get(name, 0.0) + seconds
        if self._outer is not None:
            self._outer.add(calls, seconds)


def purposes() -> list[Purpose]:
    """The counters of all purposes of this process."""
    with _purposes_lock:
        return [Purpose(name, begun, _calls[name], _seconds[name]) for name, begun in sorted(_begun.items())]


class Calls:
    """The counters by verb; any thread may add to them and read them."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._by_verb: dict[str, Counted] = {}

    @contextmanager
    def counted(self, verb: str) -> Iterator[None]:
        began, failed, tally = self._clock(), True, _tally.get()
        try:
            yield
            failed = False
        finally:
            seconds = self._clock() - began
            if tally is not None:
                tally.add(1, seconds)
            with self._lock:
                counted = self._by_verb.setdefault(verb, Counted(verb))
                counted.count += 1
                counted.failed += failed
                counted.seconds += seconds

    def add_bytes(self, verb: str, nbytes: int) -> None:
        with self._lock:
            self._by_verb.setdefault(verb, Counted(verb)).nbytes += nbytes

    def counts(self) -> list[Counted]:
        with self._lock:
            return [replace(counted) for counted in self._by_verb.values()]
