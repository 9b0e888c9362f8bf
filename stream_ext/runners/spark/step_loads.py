"""Step loads: how much of a core each query takes in a worker, measured where the worker says what it steps."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stream_ext.runners.underway import Underway

#: Loads are reported so often while there is something to step.
_REPORT_S = 2.0


class StepLoads:
    """Passes on to `Underway` what is stepped, and charges the time of this thread until the next change to it. Queries
    that share a network are charged together, as the first of them."""

    def __init__(self, underway: Underway) -> None:
        self._underway = underway
        self._loads: dict[int, float] = {}
        self._query: int | None = None
        self._busy_s = 0.0
        self._at_s, self._since_s = time.thread_time(), time.monotonic()

    def steps(self, sn: int, numbers: Sequence[int] = ()) -> None:
        self._charge()
        self._query = numbers[0] if numbers else 0
        self._underway.steps(sn, numbers)

    def rests(self) -> None:
        self._charge()
        self._query = None
        self._underway.rests()

    def _charge(self) -> None:
        now_s = time.thread_time()
        if self._query is not None:
            spent_s = now_s - self._at_s
            self._busy_s += spent_s
            if self._query:
                self._loads[self._query] = self._loads.get(self._query, 0.0) + spent_s * 1000
        self._at_s = now_s

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self._since_s >= _REPORT_S

    def take(self) -> tuple[dict[int, float], float]:
        """Milliseconds of each query in a second, and the part of a core that was busy, since this was called last."""
        now_s = time.monotonic()
        passed_s = max(now_s - self._since_s, 1e-3)
        loads = {query: load / passed_s for query, load in self._loads.items()}
        core_share = self._busy_s / passed_s
        self._loads, self._busy_s, self._since_s = {}, 0.0, now_s
        return loads, core_share
