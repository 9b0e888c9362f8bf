"""The clock that a store needs: the time of snapshots and leases, and how a thread waits for it.

A program that uses a store may pass any other clock, such as one that a test moves by hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        """Waits on `condition`, which the caller holds, until it is notified or the clock has come to `until_ms` (None:
        only until notified). It may return early: callers check again what they wait for."""
        ...


class WallClock:
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
