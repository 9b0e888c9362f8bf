"""Presence: which times the elements of windows have. Is there anything in a window, and when does the next one enter?

What is known of the content of windows without looking at it: enough to tell a run of empty evaluations as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stream_ext.schedule import ScheduledWindow, Times


@dataclass(slots=True)
class Presence:
    """Of one window. Times that are in no instance are left out."""

    window: ScheduledWindow
    waiting: list[Times] = field(default_factory=list)
    held_until: int | None = None

    def arrive(self, times: Times) -> None:
        times = times[self.window.holds_ever(times)]
        if len(times):
            self.waiting.append(times)

    def move_to(self, time: int) -> None:
        still = []
        for times in self.waiting:
            due = self.window.valid_from(times) <= time
            if due.any():
                until = int(self.window.valid_until(times[due]).max())
                self.held_until = until if self.held_until is None else max(until, self.held_until)
            if not due.all():
                still.append(times[~due])
        self.waiting = still

    def holds_at(self, time: int) -> bool:
        """Call it when moved to `time`."""
        return self.held_until is not None and self.held_until >= time

    def next_entry(self) -> int | None:
        return min((int(self.window.valid_from(times).min()) for times in self.waiting), default=None)


def next_entry(presences: Sequence[Presence]) -> int:
    """The time from which one of these windows holds something that it does not hold yet; the last of all times."""
    entries = [entry for each in presences if (entry := each.next_entry()) is not None]
    return min(entries, default=int(np.iinfo(np.int64).max))


def reach(windows: Sequence[ScheduledWindow], time: int | None) -> dict[int, int | None]:
    """For each stream the stream time below which nothing can be in its windows at `time` or later (None: all can).

    Where no time is known, too, nothing is in a window that is older than its first instance."""
    oldest: dict[int, int | None] = {}
    for window in windows:
        froms = [each for each in (window.start_ms, window.opens) if each is not None]
        if time is not None and window.start_ms is None:
            froms.append(time - window.range_ms)
        back = max(froms) - window.ahead_ms if froms else None
        known = oldest.get(window.stream, back)
        oldest[window.stream] = None if back is None or known is None else min(back, known)
    return oldest
