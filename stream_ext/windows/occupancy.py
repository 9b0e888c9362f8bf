"""Presence: which times the elements of windows have. Is there anything in a window, and when does the next one enter?

What is known of the content of windows without looking at it: enough to tell a run of empty evaluations as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stream_ext.windows.schedule import ScheduledWindow, Times, least_and_greatest


@dataclass(slots=True)
class Presence:
    """Of one window. Times that are in no instance are left out."""

    window: ScheduledWindow
    waiting: list[_WaitingTimes] = field(default_factory=list)
    held_until: int | None = None

    def arrive(self, times: Times) -> None:
        first, last = least_and_greatest(times) if len(times) else (0, -1)
        if first == last:  # as in most pushes
            if self.window.last_of(first) >= first + self.window.lead_ms:
                self.waiting.append(_WaitingTimes(times[:1], first, last))
        elif len(held := times[self.window.holds_ever(times)]):
            self.waiting.append(_WaitingTimes(held, *least_and_greatest(held)))

    def move_to(self, time: int) -> None:
        waiting, self.waiting = self.waiting, []
        came = time - self.window.lead_ms  # elements of this time and before
        for some in waiting:
            if some.first > came:
                self.waiting.append(some)
                continue
            latest = some.last
            if latest > came:
                due = some.times <= came
                latest, later = int(some.times[due].max()), some.times[~due]
                self.waiting.append(_WaitingTimes(later, int(later.min()), some.last))
            until = self.window.last_of(latest)  # what is later stays longer
            self.held_until = until if self.held_until is None else max(until, self.held_until)

    def holds_at(self, time: int) -> bool:
        """Call it when moved to `time`."""
        return self.held_until is not None and self.held_until >= time

    def next_entry(self) -> int | None:
        return min((some.first + self.window.lead_ms for some in self.waiting), default=None)


class _WaitingTimes(NamedTuple):
    """Times of elements that no evaluation has seen yet, with the least and the greatest of them."""

    times: Times
    first: int
    last: int


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
