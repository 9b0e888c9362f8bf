"""Timing: the windows of a query and what causes its evaluations; and of a stream the times that these depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stream_ext.windows.openings import Openings
from stream_ext.windows.query_state import QueryState
from stream_ext.windows.scheduled_window import Count, ScheduledWindow, StreamReach, Times

_FLOOR_MS = 1000


class StreamTime(StreamReach, Protocol):
    """The position of a stream in time (the store's `StreamPosition` is one)."""

    @property
    def first(self) -> int | None:
        """The least timestamp."""
        ...

    @property
    def openings(self) -> Openings:
        """See `openings`; empty if windows begin at the least timestamp."""
        ...

    @property
    def idle(self) -> bool:
        """Time passes without it."""
        ...

    @property
    def elements_total(self) -> int:
        """How many elements have ever come; and triples."""
        ...

    @property
    def triples_total(self) -> int: ...


class StreamAdvance(Protocol):
    """A push, a heartbeat or a mark of idleness: the times of its elements, and the time of the stream after it."""

    @property
    def stream(self) -> int: ...
    @property
    def element_times(self) -> Times: ...
    @property
    def element_sizes(self) -> Times:
        """The number of triples of each element."""
        ...

    @property
    def latest(self) -> int | None: ...
    @property
    def heartbeat(self) -> int | None: ...
    @property
    def idle(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Timing:
    """The windows of a query, and what causes its evaluations. `content_only`: none while all windows are empty."""

    windows: tuple[ScheduledWindow, ...]
    closes: bool = True
    every_ms: tuple[int, ...] = ()
    arrivals: bool = False
    content_only: bool = False

    @property
    def has_origin(self) -> bool:
        """Whether all closes are known: T0 may wait for the first push."""
        return all(window.t0_ms is not None for window in self.windows)

    def with_origin(self, t0: int) -> Timing:
        known = (replace(w, t0_ms=t0) if w.t0_ms is None else w for w in self.windows)
        return replace(self, windows=tuple(known))

    @property
    def stepped_counts(self) -> tuple[tuple[ScheduledWindow, Count], ...]:
        """The windows with a count STEP."""
        return tuple((w, w.count) for w in self.windows if w.count is not None and w.count.step)

    @property
    def has_beats(self) -> bool:
        """Whether the query is evaluated at closes or periods."""
        return self.closes or bool(self.every_ms)

    def reference(self, state: QueryState) -> int | None:
        """The time before which neither a future evaluation nor the last one reads the content of windows; None: there
        is no such time. Arrivals wait for nothing, so they may be older than what was reached at registration."""
        times = [state.reached] if self.has_beats else []
        times += [state.last] if self.arrivals else []
        times += [state.evaluated.time] if state.evaluated is not None else []
        known = [time for time in times if time is not None]
        return min(known) if len(known) == len(times) else None

    @property
    def ends_at(self) -> int | None:
        """The last time at which a query over windows of the past is evaluated; None: it goes on for ever."""
        ends = [window.end_ms for window in self.windows if window.end_ms is not None]
        return max(ends) if len(ends) == len(self.windows) and ends else None


def t0_of(times: Times) -> int:
    """The origin that the first push after registration gives."""
    return int(times.min()) // _FLOOR_MS * _FLOOR_MS


def total_of(count: Count, at: StreamTime | None) -> int:
    """How much of what a window counts has ever come in its stream."""
    return 0 if at is None else at.elements_total if count.of_elements else at.triples_total


def arrives_by_element(windows: Sequence[ScheduledWindow], stream: int) -> bool:
    """Whether elements of the stream arrive one by one, in the order of the document; else a timestamp at a time."""
    return any(window.stream == stream and (window.is_now or window.count is not None) for window in windows)
