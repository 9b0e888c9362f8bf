"""The clock: where time comes from, and how a thread waits for it.

Whatever looks at the time takes a `Clock`. The machine's clock runs by itself; a manual clock stands still
until it is moved, so a test says what time it is and never sleeps.

A service looks at a `SteadyClock`, which never goes back: where the clock is set back, or the store comes from
a machine whose clock was ahead, time goes on from the last one that the store knows, at the pace of a monotonic clock.

    wall        10:00   10:01   09:30   09:31  ...  10:02   10:03
    steady      10:00   10:01   10:01   10:02  ...  10:33   10:34"""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from hbase_store.clock import Clock as StoreClock
from hbase_store.clock import WallClock
from stream_ext.times import date_of_ms
from stream_ext.waits import Waits

log = logging.getLogger("rillet.clock")

#: A wall clock that is behind by no more says nothing.
BEHIND_MS_MAX = 1_000


class Clock(StoreClock, Protocol):
    def monotonic_ms(self) -> int:
        """Milliseconds since some moment; never set."""
        ...


class SystemClock(WallClock):
    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class SteadyClock:
    """The greater of another clock's time and its own, which a monotonic clock advances; any thread may read it.

    While the other clock is behind, `waits` shows it."""

    def __init__(self, clock: Clock, waits: Waits) -> None:
        self._clock, self._waits = clock, waits
        self._lock = threading.Lock()
        self._lead_ms = clock.now_ms() - clock.monotonic_ms()  # of its time before the monotonic clock's
        self._is_behind = False

    def continue_from(self, last_ms: int) -> None:
        """The time is `last_ms` or later from now on."""
        with self._lock:
            self._lead_ms = max(self._lead_ms, last_ms - self._clock.monotonic_ms())
        self.now_ms()

    def now_ms(self) -> int:
        # Without the lock while the other clock is neither ahead nor behind: each push asks a dozen times. The lead
        # only grows, and is read after the monotonic clock; so who asks later is told no earlier time.
        wall_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        now_ms = monotonic_ms + self._lead_ms
        if wall_ms <= now_ms <= wall_ms + BEHIND_MS_MAX and not self._is_behind:
            return now_ms
        return self._caught_up_with()

    def _caught_up_with(self) -> int:
        """The time, where the other clock is ahead or behind."""
        with self._lock:
            wall_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
            self._lead_ms = max(self._lead_ms, wall_ms - monotonic_ms)
            now_ms = monotonic_ms + self._lead_ms
            was_behind, self._is_behind = self._is_behind, now_ms - wall_ms > BEHIND_MS_MAX
            changed = was_behind != self._is_behind
        if changed:
            self._report(now_ms, wall_ms)
        return now_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        """Waits on the other clock, whose time differs by a constant."""
        ahead_ms = self.now_ms() - self._clock.now_ms()
        self._clock.wait(condition, None if until_ms is None else until_ms - ahead_ms)

    def _report(self, now_ms: int, wall_ms: int) -> None:
        fields = {"time": now_ms, "clock": wall_ms, "behind_ms": now_ms - wall_ms}
        if now_ms - wall_ms > BEHIND_MS_MAX:
            why = f"the clock says {date_of_ms(wall_ms)}, but the time of the store is {date_of_ms(now_ms)}"
            self._waits.begin(
                "clock",
                f"{why}; time continues from the store's time until the clock has caught up; set the clock if "
                "it is wrong",
            )
            log.warning(
                "the clock is behind the time of the store; time continues from the store's time",
                extra={"fields": fields},
            )
        else:
            self._waits.end("clock")
            log.info("the clock has caught up with the time of the store", extra={"fields": fields})


class MonotonicClock:
    """The monotonic time of another clock, to measure durations: its origin is arbitrary, and it is never set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        ahead_ms = self._clock.now_ms() - self.now_ms()
        self._clock.wait(condition, None if until_ms is None else until_ms + ahead_ms)


class ManualClock:
    """A clock for tests, which moves by `advance` and `set_to` only, and wakes the threads that wait for its time."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0
        self._lock = threading.Lock()
        self._waiting: list[threading.Condition] = []

    def now_ms(self) -> int:
        with self._lock:
            return self._now_ms

    def monotonic_ms(self) -> int:
        with self._lock:
            return self._monotonic_ms

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
        """Time goes by."""
        self._move(by_ms, by_ms)

    def set_to(self, now_ms: int) -> None:
        """Sets the clock, as an operator does; no time goes by."""
        self._move(now_ms - self.now_ms(), 0)

    def _move(self, by_ms: int, monotonic_ms: int) -> None:
        with self._lock:
            self._now_ms += by_ms
            self._monotonic_ms += monotonic_ms
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()
