"""Beats: the closes and periods of one query, and which of them are done.

A beat is a row of times, start + k·step: those at which a stepped window closes, or the multiples of a period.

    [RANGE PT10S STEP PT5S], T0 = 0, first element at 12 s    =>    a beat from 15 s on, every 5 s"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stream_ext.windows.grids import Grid, RepeatedTimes
from stream_ext.windows.scheduled_window import Mask, ScheduledWindow, Times
from stream_ext.windows.timing import Timing


@dataclass(frozen=True, slots=True)
class Beat:
    """Evaluation times start + k·step that fall due one after the other."""

    start: int
    step: int
    end: int | None

    def after(self, time: int | None) -> int | None:
        """The first later than `time`."""
        if time is None or time < self.start:
            return self.start
        found = self.start + ((time - self.start) // self.step + 1) * self.step
        return None if self.end is not None and found > self.end else found

    def last(self, bound: int) -> int | None:
        """The last at or before `bound`."""
        bound = bound if self.end is None else min(bound, self.end)
        return self.start + (bound - self.start) // self.step * self.step if bound >= self.start else None


class Beats:
    """The beats of one query: one of each window, then one of each period. None: it has not seen an element yet."""

    def __init__(self, timing: Timing, begins: Sequence[int | None], after: int | None) -> None:
        """`begins` and `after` as in the state of the query."""
        count = len(timing.windows) * timing.closes + len(timing.every_ms)
        #: The first closes of each window that were reported, and then the first times of each period.
        self.begins = _widened(begins, count, len(timing.every_ms))
        #: What was due up to this time is done.
        self.after = after
        self._timing = timing
        self._beats: list[Beat | None] = [None] * count

    def copy(self) -> Beats:
        other = Beats.__new__(Beats)
        other.__dict__.update(self.__dict__)
        other.begins, other._beats = list(self.begins), list(self._beats)
        return other

    def catch_up_with(self, other: Beats) -> None:
        """The same beats, up to the same time; their begins are its own."""
        self.after, self._beats = other.after, list(other._beats)

    def find(self, timing: Timing, first_of: Callable[[ScheduledWindow], int | None]) -> None:
        """From the first close that can hold the first element of the window's stream; and the first period after the
        first element of all. `first_of` is the time of the first element of a window's stream; None: there is none."""
        self._timing, self._beats = timing, [None] * len(self.begins)
        if timing.has_origin:
            firsts = [first_of(window) for window in timing.windows]
            closes = [_closes_of(window, first) for window, first in zip(timing.windows, firsts, strict=True)]
            earliest = min((first for first in firsts if first is not None), default=None)
            periods = [_period(every, earliest) for every in timing.every_ms]
            self._beats = [*(closes if timing.closes else ()), *periods]

    def upcoming(self) -> int | None:
        """The next close or period, due or not; None while no window has seen an element."""
        times = [beat.after(self.after) for beat in self._beats if beat is not None]
        return times[0] if len(times) == 1 else min([time for time in times if time is not None], default=None)

    def done(self, time: int) -> None:
        """All that was due up to `time` is done: evaluated or skipped."""
        for place, beat in enumerate(self._beats):
            if beat is not None and self.begins[place] is None:
                begin = beat.after(self.after)
                self.begins[place] = begin if begin is not None and begin <= time else None
        self.after = time

    def last(self, bound: int) -> int | None:
        """The last time at or before `bound`."""
        return max((time for beat in self._known() if (time := beat.last(bound)) is not None), default=None)

    def run(self, last: int) -> RepeatedTimes:
        """All times up to `last` that are not done."""
        grids = []
        for beat in self._known():
            start, end = beat.after(self.after), beat.last(last)
            if start is not None and end is not None and start <= end:
                grids.append(Grid(start, beat.step, (end - start) // beat.step + 1))
        return RepeatedTimes(tuple(dict.fromkeys(grids)))

    @property
    def has_begun(self) -> bool:
        """Whether every window has been reported, every period come to: an older first element changes nothing then."""
        windows = self._timing.windows if self._timing.closes else ()
        stepped = [window.is_stepped for window in windows] + [True] * len(self._timing.every_ms)
        return all(begin is not None or not is_stepped for begin, is_stepped in zip(self.begins, stepped, strict=True))

    def is_to_come(self, place: int, least: int) -> bool:
        """Whether no element from `least` on was in an instance of this window that was reported, and all those that
        they belong to are still to be, as is mostly so. Never mind those in a gap."""
        window = self._timing.windows[place]
        if not self._timing.closes or self._timing.arrivals:
            return False
        if self.after is not None and least + window.lead_ms <= self.after:
            return False
        beat = self._beats[place]
        return beat is not None and beat.start <= window.first_close(least)

    def lie_between(self, starts: Times, untils: Times) -> Mask:
        """Whether a close or period lies between each two of these times, be it one that is never come to."""
        found = np.zeros(len(starts), dtype=np.bool_)
        for window in self._timing.windows if self._timing.closes else ():
            if not window.is_stepped:
                continue
            turns = np.maximum(1, -((window.origin - starts) // window.step_ms))
            found |= window.origin + turns * window.step_ms <= untils
        for every in self._timing.every_ms:
            found |= -(-starts // every) * every <= untils
        return found

    def done_between(self, starts: Times, untils: Times) -> Mask:
        """Whether an evaluation at a close or period was made between each two of these times."""
        found = np.zeros(len(starts), dtype=np.bool_)
        if self.after is None:
            return found
        for begin, step in zip(self.begins, self._steps(), strict=True):
            if begin is not None:
                turns = np.maximum(0, -((begin - starts) // step))
                found |= begin + turns * step <= np.minimum(untils, self.after)
        return found

    def to_come_between(self, starts: Times, untils: Times) -> Mask:
        """Whether an evaluation at a close or period is still to be made between each two of these times."""
        found = np.zeros(len(starts), dtype=np.bool_)
        lowest = starts if self.after is None else np.maximum(starts, self.after + 1)
        for beat in self._known():
            turns = np.maximum(0, -((beat.start - lowest) // beat.step))
            found |= beat.start + turns * beat.step <= untils
        return found

    def _known(self) -> list[Beat]:
        return [beat for beat in self._beats if beat is not None]

    def _steps(self) -> list[int]:
        """Of each beat."""
        return [*(w.step_ms for w in self._timing.windows if self._timing.closes), *self._timing.every_ms]


def _closes_of(window: ScheduledWindow, first: int | None) -> Beat | None:
    if first is None or not window.is_stepped:
        return None
    begin = window.first_close(first if window.start_ms is None else max(first, window.start_ms))
    over = window.end_ms is not None and begin > window.end_ms
    return None if over else Beat(begin, window.step_ms, window.end_ms)


def _period(every_ms: int, first: int | None) -> Beat | None:
    """The multiples, from the first after the first element."""
    return None if first is None else Beat((first // every_ms + 1) * every_ms, every_ms, None)


def _widened(begins: Sequence[int | None], count: int, periods: int) -> list[int | None]:
    """`begins` with a place for each window that was added since; the places of the periods come last."""
    windows = max(len(begins) - periods, 0)
    return [*begins[:windows], *[None] * (count - len(begins)), *begins[windows:]]
