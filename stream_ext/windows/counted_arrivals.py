"""Counted arrivals: how much of what a counted window counts has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_ext.windows.last_times import LastTimes
from stream_ext.windows.scheduled_window import Count, ScheduledWindow

#: The last times of a counted window, when its query was last evaluated at this time (None: never).
ReadLast = Callable[[ScheduledWindow, int | None], LastTimes]


@dataclass(slots=True)
class CountedArrivals:
    """A counted window: how much of what it counts has ever come, also at the registration and at the last
    evaluation."""

    window: ScheduledWindow
    count: Count
    lasts: LastTimes
    total: int
    base: int
    evaluated: int

    def add(self, time: int, triples: int) -> None:
        self.lasts.add(time, triples)
        self.total += 1 if self.count.of_elements else triples

    @property
    def has_completed(self) -> bool:
        """Whether a multiple of STEP was completed since the last evaluation."""
        step = self.count.step
        return bool(step) and (self.total - self.base) // step > (self.evaluated - self.base) // step
