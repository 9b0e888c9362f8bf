"""A scheduled window: from which evaluation time to which an element is in a window of a stream.

    stepped      closes on a grid, at T0 + k·STEP; at a close c it contains the elements of [c-RANGE, c)
    sliding      without a step: at t it contains those of (t-RANGE, t]; [NOW] is (t-0, t] with both ends
    all          all that came up to t
    counted      the last so many elements or triples up to t, by time and then arrival

Of the first three an element's time decides alone, so all is known when it comes; it leaves a counted window when
others come (`counted_window`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from stream_ext.language.algebra.windows import Bounds

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: For so few, lists are quicker than arrays.
_FEW = 64
#: Before every evaluation, and after all of them.
NEVER = np.iinfo(np.int64).min
ALWAYS = np.iinfo(np.int64).max


class StreamReach(Protocol):
    """The time of a stream."""

    @property
    def latest(self) -> int | None:
        """The greatest timestamp."""
        ...

    @property
    def heartbeat(self) -> int | None:
        """The greatest heartbeat."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """The last `most` elements (`of_elements`) or triples. `step`: evaluated when so many more have come; 0: after
    each element."""

    most: int
    of_elements: bool
    step: int = 0


@dataclass(frozen=True, slots=True)
class ScheduledWindow:
    """A window over the stream with this number; `name` is its IRI in the text.

    At a close c it reaches from c - range_ms to c - until_ms; `bounds` says which of the two ends belong to it. It
    contains nothing from before `start_ms`, and does not close after `end_ms` (both of a window that is replayed).
    `t0_ms` is None until the first push has decided it. `by_arrival` windows are evaluated when an element arrives:
    they contribute the instance that is open then, with all elements that have this very time.

    `step_ms` 0: it is not stepped; then it slides, or contains all elements (`holds_all`), or those that `count` says.
    A `bag` contains each arrival of a triple, any other window each triple once.

    `lateness_ms` is the one in force; no element is ahead of its stream's own time by more than `ahead_ms`. A stream
    that is reached `by_variable` delays no evaluation before its first element."""

    name: str
    stream: int
    range_ms: int
    step_ms: int
    t0_ms: int | None = 0
    lateness_ms: int = 0
    until_ms: int = 0
    bounds: Bounds = Bounds.CLOSED_OPEN
    start_ms: int | None = None
    end_ms: int | None = None
    by_arrival: bool = False
    ahead_ms: int = 0
    by_variable: bool = False
    holds_all: bool = False
    count: Count | None = None
    bag: bool = False

    @property
    def origin(self) -> int:
        assert self.t0_ms is not None, f"<{self.name}> has no closes before its T0 is known"
        return self.t0_ms

    @property
    def includes_start(self) -> bool:
        return self.bounds is not Bounds.OPEN_CLOSED

    @property
    def includes_end(self) -> bool:
        return self.bounds is not Bounds.CLOSED_OPEN

    @property
    def is_stepped(self) -> bool:
        return self.step_ms > 0

    @property
    def is_endless(self) -> bool:
        """Whether no time ends what an element is in: it is in until others displace it, or for ever."""
        return self.holds_all or self.count is not None

    @property
    def is_now(self) -> bool:
        return not self.range_ms and not self.is_endless

    @property
    def _sees_arrivals(self) -> bool:
        """Whether an evaluation at an arrival contains what arrives, though elements of a close are not in it."""
        return self.by_arrival and (self.is_stepped or self.is_endless)

    # ---- closes

    @property
    def opens(self) -> int | None:
        """The start of its first instance; None: not known yet, or there is none."""
        return None if self.t0_ms is None or not self.is_stepped else self.t0_ms + self.step_ms - self.range_ms

    def close_after(self, time: int) -> int:
        """The first close later than `time`; T0 itself is none."""
        return self.origin + max(1, (time - self.origin) // self.step_ms + 1) * self.step_ms

    def close_at_or_before(self, time: int) -> int | None:
        k = (time - self.origin) // self.step_ms
        return self.origin + k * self.step_ms if k >= 1 else None

    def close_of(self, time: int) -> int:
        """The close of the instance that the window contributes at `time`: the earliest at or after `time`; for an
        arrival the earliest after it, if an element at a close belongs to the next instance."""
        return self.close_after(time if self.by_arrival and not self.includes_end else time - 1)

    def first_close(self, first: int) -> int:
        """The first close whose instance can contain an element of this time."""
        return self.close_after(first + self.until_ms - self.includes_end)

    def extent_at(self, time: int, oldest: int | None = None) -> tuple[int, int]:
        """Start and end of the instance that is contributed at `time`. `oldest`: the least time in it, from which an
        endless window begins."""
        if self.is_endless:
            return time if oldest is None else oldest, time
        close = self.close_of(time) if self.is_stepped else time
        start = close - self.range_ms
        return (start if self.start_ms is None else max(start, self.start_ms)), min(close, time) - self.until_ms

    def extents_at(self, times: Times) -> tuple[Times, Times]:
        """As `extent_at`, for many times; of a window that is not endless."""
        closes = times
        if self.is_stepped:
            after = times if self.by_arrival and not self.includes_end else times - 1
            closes = self.origin + np.maximum(1, (after - self.origin) // self.step_ms + 1) * self.step_ms
        starts = closes - self.range_ms
        if self.start_ms is not None:
            starts = np.maximum(starts, self.start_ms)
        return starts, np.minimum(closes, times) - self.until_ms

    # ---- elements

    @property
    def lead_ms(self) -> int:
        """The least time from that of an element to an evaluation whose instance can contain it."""
        return self.until_ms + (not self.includes_end and not self._sees_arrivals)

    def valid_from(self, times: Times) -> Times:
        """The first evaluation time at which elements of these times are before the end of the window's instance."""
        return times + self.lead_ms

    def valid_until(self, times: Times) -> Times:
        """The last evaluation time at which an element of each time is still in the window's instance; one before
        `valid_from` where it is in none.

        It is in as long as close_of(t) - RANGE <= time: up to the last close at or before time + RANGE. T0 and what
        would lie before it are no closes: an element that reaches none later is in no instance."""
        if self.is_endless:
            return np.full(len(times), ALWAYS, np.int64)
        if not self.is_stepped:
            return times + (self.range_ms - (not self.includes_start))
        closes = (times + (self.range_ms - (not self.includes_start) - self.origin)) // self.step_ms
        until = np.where(closes >= 1, self.origin + closes * self.step_ms, NEVER)
        if self.start_ms is not None:
            until[times < self.start_ms + (not self.includes_start)] = NEVER
        if self.by_arrival and not self.includes_end:
            until[until != NEVER] -= 1  # at the close itself the next instance is open
        return until

    def last_of(self, time: int) -> int:
        """`valid_until` of one time."""
        if self.is_endless:
            return ALWAYS
        if not self.is_stepped:
            return time + self.range_ms - (not self.includes_start)
        closes = (time + (self.range_ms - (not self.includes_start) - self.origin)) // self.step_ms
        if closes < 1 or (self.start_ms is not None and time < self.start_ms + (not self.includes_start)):
            return NEVER
        return self.origin + closes * self.step_ms - (self.by_arrival and not self.includes_end)

    def ever_includes(self, times: Times) -> Mask:
        """Which of these times are in some instance at all."""
        return self.valid_until(times) >= self.valid_from(times)

    def includes_all_from(self, first: int) -> bool:
        """Whether this time and all later ones surely are in some instance: it is in one, and there are no gaps between
        instances."""
        room = self.range_ms - (not self.includes_start) - self.lead_ms - (self.by_arrival and not self.includes_end)
        has_gaps = self.is_stepped and not self.is_endless and room < self.step_ms - 1
        return not has_gaps and self.last_of(first) >= first + self.lead_ms

    def for_arrivals(self) -> ScheduledWindow:
        return self if self.by_arrival else replace(self, by_arrival=True)

    def closed_up_to(self, stream: StreamReach) -> int | None:
        """The last time at which it can be evaluated: a window that includes its end closes when the time of the stream
        has passed it, or on a heartbeat at it."""
        latest = None if stream.latest is None else stream.latest - self.lateness_ms - self.includes_end
        return _greatest(latest, stream.heartbeat)


def _greatest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def least_and_greatest(times: Times) -> tuple[int, int]:
    """The least and the greatest of some times; a few are compared one by one."""
    if len(times) <= _FEW:
        listed = times.tolist()
        return min(listed), max(listed)
    return int(times.min()), int(times.max())
