"""Occupancy: is a window empty at a time, and when does the next element enter it?

This is found from the times of elements alone: enough to emit a run of empty evaluations as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from stream_ext.windows.arrivals import Reach
from stream_ext.windows.scheduled_window import ALWAYS, ScheduledWindow, Times, least_and_greatest
from stream_ext.windows.waiting_elements import WaitingElements


@dataclass(slots=True)
class Occupancy:
    """The occupancy of one window. Times that are in no instance are left out."""

    window: ScheduledWindow
    waiting: WaitingElements = field(default_factory=WaitingElements)
    occupied_until: int | None = None
    oldest: int | None = None  # the least time of what has ever entered

    def copy(self, window: ScheduledWindow) -> Occupancy:
        """That of a window with the same content."""
        return Occupancy(window, self.waiting.copy(), self.occupied_until, self.oldest)

    def arrive(self, times: Times) -> None:
        if not len(times):
            return
        first, last = least_and_greatest(times)
        if first == last:  # as in most pushes
            if self.window.last_of(first) >= first + self.window.lead_ms:
                self.waiting.add(times[:1], span=(first, last))
        elif self.window.includes_all_from(first):
            self.waiting.add(times, span=(first, last))
        elif len(included := times[self.window.ever_includes(times)]):
            self.waiting.add(included)

    def move_to(self, time: int) -> None:
        for some in self.waiting.up_to(time - self.window.lead_ms):
            self.oldest = some.first if self.oldest is None else min(some.first, self.oldest)
            until = self.window.last_of(some.last)  # what is later stays longer
            self.occupied_until = until if self.occupied_until is None else max(until, self.occupied_until)

    def is_occupied(self, time: int) -> bool:
        """Whether an element is in the window at `time`, to which it was moved (`move_to`)."""
        return self.occupied_until is not None and self.occupied_until >= time

    def next_entry(self) -> int | None:
        first = self.waiting.first()
        return None if first is None else first + self.window.lead_ms


def next_entry(presences: Sequence[Occupancy]) -> int:
    """The time at which the next element enters one of these windows; the last of all times if none is waiting."""
    entries = [entry for each in presences if (entry := each.next_entry()) is not None]
    return min(entries, default=int(np.iinfo(np.int64).max))


def reach(
    windows: Sequence[ScheduledWindow],
    time: int | None,
    before: tuple[int, int] | None = None,
    saved: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, Reach]:
    """For each stream what its windows at `time` or later can contain; None: at any time. `before`: see `Reach`.

    Without a `time`, elements older than the first instance of a window are left out. `saved`: of some streams the
    snapshot up to which the content of windows that hold all is saved."""
    found: dict[int, Reach] = {}
    for window in windows:
        froms = [each for each in (window.start_ms, window.opens) if each is not None]
        if time is not None and window.start_ms is None and not window.holds_all:
            froms.append(time - window.range_ms)
        after = saved.get(window.stream) if window.holds_all else None
        if after is not None:
            froms.append(ALWAYS)
        back = max(froms) - window.ahead_ms if froms else None
        known = found.get(window.stream, Reach(back))
        oldest = None if back is None or known.oldest is None else min(back, known.oldest)
        counts = known.counts if window.count is None else (*known.counts, window.count)
        found[window.stream] = Reach(oldest, counts, time, before, known.after if after is None else after)
    return found
