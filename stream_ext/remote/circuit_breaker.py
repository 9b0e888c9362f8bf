"""A circuit breaker: who did not answer is left alone for a while, by everybody.

does not answer   =>   not asked for 1 s, then 2 s, 4 s, ... 60 s; then one question tries again"""

from __future__ import annotations

import threading
from collections.abc import Callable

from stream_ext.remote.fetching import NoAnswer

_PAUSE_S_MIN, _PAUSE_S_MAX = 1.0, 60.0


class CircuitBreaker:
    """Any number of threads may use it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._why = ""
        self._pause_s = 0.0
        self._until = 0.0

    @property
    def why(self) -> str | None:
        """The last failure; None: it answered since."""
        return self._why or None

    def check(self) -> None:
        """NoAnswer in a pause."""
        with self._lock:
            left_s = self._until - self._clock()
            if left_s > 0:
                raise NoAnswer(f"{self._why}; it is asked again in {left_s:.1f} s")

    def failed(self, why: str, pause_s: float | None = None) -> None:
        """`pause_s`: how long it wants to be left alone, if it said so."""
        with self._lock:
            if self._until <= self._clock():  # one of several that failed at a time
                self._pause_s = min(max(2 * self._pause_s, _PAUSE_S_MIN), _PAUSE_S_MAX)
            self._why = why
            self._until = self._clock() + min(pause_s or self._pause_s, _PAUSE_S_MAX)

    def answered(self) -> None:
        with self._lock:
            self._why, self._pause_s, self._until = "", 0.0, 0.0
