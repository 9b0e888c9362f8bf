"""The clock: where time comes from, and how a thread waits for it.

Whatever looks at the time takes a `Clock`. The machine's clock runs by itself; a manual clock stands still
until it is moved, so a test says what time it is and never sleeps."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        """Waits on `condition`, which the caller holds, until it is notified or the clock has come to
        `until_ms` (None: only until notified). It may return early: callers ask again what they wait for."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        if until_ms is None:
            condition.wait()
            return
        left_s = until_ms / 1000 - time.time()
        if left_s > 0:
            condition.wait(min(left_s, threading.TIMEOUT_MAX))  # it raises above


class SteadyClock:
    """For lengths of time: it begins anywhere, and nobody sets it."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        if until_ms is None:
            condition.wait()
            return
        left_ms = until_ms - self.now_ms()
        if left_ms > 0:
            condition.wait(min(left_ms / 1000, threading.TIMEOUT_MAX))  # it raises above


def steady(clock: Clock) -> Clock:
    """This clock, or where it may be set, one for lengths of time."""
    return SteadyClock() if isinstance(clock, SystemClock) else clock


class ManualClock:
    """A clock that moves when it is told to; whoever waits for the time it has come to is woken."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._waiting: list[threading.Condition] = []

    def now_ms(self) -> int:
        with self._lock:
            return self._now_ms

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        with self._lock:
            if until_ms is not None and self._now_ms >= until_ms:
                return
            self._waiting.append(condition)
        # Nothing is missed here: the caller holds `condition`, and `advance` needs it to notify.
        condition.wait()
        with self._lock:
            self._waiting.remove(condition)

    def advance(self, by_ms: int) -> None:
        with self._lock:
            self._now_ms += by_ms
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()
