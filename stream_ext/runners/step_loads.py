"""Step loads: how much CPU time each query takes, measured where a runner says what it steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from stream_ext.runners.underway import StepNotes

#: Loads are reported so often while there is something to step.
_REPORT_S = 2.0


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU milliseconds by query, the seconds of CPU with those that are of no query, and the time in which it was."""

    query_ms: dict[int, float]
    busy_s: float
    passed_s: float


class StepLoads:
    """Charges the CPU time of this thread to what it says that it steps, until it says something else. Queries that
    share a network are charged together, as the first of them. `underway` is told what is stepped, too."""

    def __init__(self, underway: StepNotes | None = None) -> None:
        self._underway = underway
        self._query_ms: dict[int, float] = {}
        self._query: int | None = None
        self._busy_s = 0.0
        self._at_s, self._since_s = time.thread_time(), time.monotonic()

    def steps(self, sn: int, numbers: Sequence[int] = ()) -> None:
        query = numbers[0] if numbers else 0
        if query != self._query:  # to look at the time of a thread is a call of the system
            self._charge()
            self._query = query
        if self._underway is not None:
            self._underway.steps(sn, numbers)

    def rests(self) -> None:
        self._charge()
        self._query = None
        if self._underway is not None:
            self._underway.rests()

    def _charge(self) -> None:
        now_s = time.thread_time()
        if self._query is not None:
            spent_s = now_s - self._at_s
            self._busy_s += spent_s
            if self._query:
                self._query_ms[self._query] = self._query_ms.get(self._query, 0.0) + spent_s * 1000
        self._at_s = now_s

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self._since_s >= _REPORT_S

    def take(self) -> Spent:
        """What was spent since this was called last."""
        now_s = time.monotonic()
        spent = Spent(self._query_ms, self._busy_s, now_s - self._since_s)
        self._query_ms, self._busy_s, self._since_s = {}, 0.0, now_s
        return spent
