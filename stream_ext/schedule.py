"""When a query is evaluated, and which elements come too late for it.

A stepped window closes on a grid, at T0 + k·STEP; at a close c it holds the elements of [c-RANGE, c). A query is
evaluated at the union of its windows' closes, each once, in order, as soon as *all* its streams have come that far.
The schedule is a pure function of the pushes: it reads no clock and no content, so whoever replays the same pushes
(the injector counting late elements, an inline runner, a Spark task after a crash) finds the same evaluations."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Before every evaluation.
NEVER = np.iinfo(np.int64).min


class StreamTime(Protocol):
    """Where a stream has come to (the store's `StreamPosition` is one)."""

    @property
    def time(self) -> int | None: ...
    @property
    def first(self) -> int | None: ...


class Evaluated(msgspec.Struct, frozen=True, array_like=True):
    """The last evaluation: in which snapshot, after which of its pushes, how manyeth there, for which time."""

    sn: int
    push: int
    k: int
    time: int


class QueryState(msgspec.Struct, frozen=True, array_like=True):
    """Where a query has come to: with the stream index, enough to go on as if nothing had happened.

    `registered` is the time that all its streams had reached at registration (closes up to it are never reported);
    None if one of them had no time yet. `ranked` keeps the order of first appearance where LIMIT needs it."""

    registered: int | None = None
    evaluated: Evaluated | None = None
    ranked: bytes | None = None


@dataclass(frozen=True, slots=True)
class ScheduledWindow:
    """A stepped time window over the stream with this number; `name` is its IRI in the text.

    `lateness_ms` is that of the stream's time: how far an element may be ahead of it."""

    name: str
    stream: int
    range_ms: int
    step_ms: int
    t0_ms: int = 0
    lateness_ms: int = 0

    def close_after(self, time: int) -> int:
        """The first close later than `time`; T0 itself is none."""
        return self.t0_ms + max(1, (time - self.t0_ms) // self.step_ms + 1) * self.step_ms

    def close_at_or_before(self, time: int) -> int | None:
        k = (time - self.t0_ms) // self.step_ms
        return self.t0_ms + k * self.step_ms if k >= 1 else None

    def close_of(self, time: int) -> int:
        """The earliest close at or after `time`: that of the instance which the window contributes at `time`."""
        return self.close_after(time - 1)

    def valid_until(self, times: Times) -> Times:
        """The last evaluation time at which an element of each time is still in the window's instance.

        In at t iff time < t and close_of(t) - RANGE <= time: for t up to the last close at or before time + RANGE.
        T0 and what would lie before it are no closes: an element that reaches none later is in no instance."""
        closes = (times + (self.range_ms - self.t0_ms)) // self.step_ms
        return np.where(closes >= 1, self.t0_ms + closes * self.step_ms, NEVER)


class Schedule:
    """The evaluation times of one query, push by push."""

    def __init__(
        self, windows: Sequence[ScheduledWindow], state: QueryState, positions: Mapping[int, StreamTime]
    ) -> None:
        """`positions` says where each stream stands at the snapshot from which this schedule goes on."""
        self.windows = tuple(windows)
        self.registered = state.registered
        self.after = state.evaluated.time if state.evaluated else state.registered
        self._times: dict[int, int | None] = {}
        self._firsts: dict[int, int | None] = {}
        for window in self.windows:
            position = positions.get(window.stream)
            self._times[window.stream] = position.time if position else None
            self._firsts[window.stream] = position.first if position else None

    def streams(self) -> frozenset[int]:
        return frozenset(self._times)

    def push(self, stream: int, times: Times, time_after: int | None) -> Mask:
        """Takes one push (or heartbeat: no times) in; says which of its elements are late for this query."""
        late = self._late(stream, times)
        if len(times):
            least, first = int(times.min()), self._firsts[stream]
            self._firsts[stream] = least if first is None else min(first, least)
        if time_after is not None:
            now = self._times[stream]
            self._times[stream] = time_after if now is None else max(now, time_after)
        return late

    def bound(self) -> int | None:
        """The time that all streams of the query have reached."""
        times = [time for time in self._times.values() if time is not None]
        return min(times) if len(times) == len(self._times) else None

    def waits_for(self) -> list[int]:
        """The streams that hold the next evaluation back: those behind the others, or without any time."""
        known = [time for time in self._times.values() if time is not None]
        if not known:
            return sorted(self._times)
        return sorted(s for s, time in self._times.items() if time is None or time < max(known))

    def next_time(self) -> int | None:
        """The next evaluation that is due; None if the streams have not come to one."""
        bound, upcoming = self.bound(), self._upcoming()
        return None if bound is None or upcoming is None or upcoming > bound else upcoming

    def _upcoming(self) -> int | None:
        """The next close, due or not; None while no window has seen an element."""
        closes = [c for c in map(self._next_close, self.windows) if c is not None]
        return min(closes) if closes else None

    def done(self, time: int) -> None:
        self.after = time

    def skip_to_bound(self) -> None:
        """All that is due counts as evaluated (for one who only counts late elements)."""
        bound = self.bound()
        if bound is None:
            return
        for window in self.windows:
            last, begin = window.close_at_or_before(bound), self._first_close(window)
            if last is not None and begin is not None and begin <= last and (self.after is None or last > self.after):
                self.after = last

    def run_until(self, limit: int) -> Run | None:
        """All evaluations due with time <= limit as one run, for one who knows that nothing happens in them."""
        bound = self.bound()
        first = self.next_time()
        if bound is None or first is None or first > limit:
            return None
        last_allowed = min(bound, limit)
        grids = []
        for window in self.windows:
            start = self._next_close(window)
            if start is not None and start <= last_allowed:
                grids.append(Grid(start, window.step_ms, (last_allowed - start) // window.step_ms + 1))
        return Run(tuple(dict.fromkeys(grids)))

    def _first_close(self, window: ScheduledWindow) -> int | None:
        first = self._firsts[window.stream]
        return None if first is None else window.close_after(first)

    def _next_close(self, window: ScheduledWindow) -> int | None:
        begin = self._first_close(window)
        if begin is None or self.after is None:
            return begin
        return max(begin, window.close_after(self.after))

    def _late(self, stream: int, times: Times) -> Mask:
        """Late: some instance that the element belongs to was reported (by this query, so after registration)."""
        late = np.zeros(len(times), dtype=np.bool_)
        if self.after is None or not len(times):
            return late
        for window in self.windows:
            begin = self._first_close(window)
            if window.stream != stream or begin is None:
                continue
            if self.registered is not None:
                begin = max(begin, window.close_after(self.registered))
            earliest = window.t0_ms + np.maximum(1, (times - window.t0_ms) // window.step_ms + 1) * window.step_ms
            latest = window.valid_until(times)
            late |= np.maximum(earliest, begin) <= np.minimum(latest, self.after)
        return late


@dataclass(frozen=True, slots=True)
class Grid:
    """start, start + step, ... (`count` of them)."""

    start: int
    step: int
    count: int

    @property
    def last(self) -> int:
        return self.start + (self.count - 1) * self.step


@dataclass(frozen=True, slots=True)
class Run:
    """The union of some grids: evaluation times that are told as one."""

    grids: tuple[Grid, ...]

    @property
    def first(self) -> int:
        return min(grid.start for grid in self.grids)

    @property
    def last(self) -> int:
        return max(grid.last for grid in self.grids)

    def count(self) -> int:
        """How many different times: inclusion and exclusion over the grids' intersections."""
        total = 0
        for size in range(1, len(self.grids) + 1):
            for some in itertools.combinations(self.grids, size):
                common: Grid | None = some[0]
                for grid in some[1:]:
                    common = None if common is None else intersect(common, grid)
                total += (-1) ** (size + 1) * (common.count if common else 0)
        return total

    def times(self) -> Iterator[int]:
        """Each time once, in order."""
        last = None
        for time in _merged([range(g.start, g.last + 1, g.step) for g in self.grids]):
            if time != last:
                yield time
            last = time


def _merged(ranges: list[range]) -> Iterator[int]:
    return heapq.merge(*ranges)


def intersect(a: Grid, b: Grid) -> Grid | None:
    """The times of both, again a grid (the Chinese remainder theorem), or None."""
    gcd = math.gcd(a.step, b.step)
    if (b.start - a.start) % gcd:
        return None
    step = a.step // gcd * b.step
    turns = (b.start - a.start) // gcd * pow(a.step // gcd, -1, b.step // gcd) % (b.step // gcd)
    start = a.start + turns * a.step
    low, high = max(a.start, b.start), min(a.last, b.last)
    if start < low:
        start += -(-(low - start) // step) * step
    return Grid(start, step, (high - start) // step + 1) if start <= high else None


def initial_state(windows: Sequence[ScheduledWindow], positions: Mapping[int, StreamTime]) -> QueryState:
    """The state at registration: the first evaluation is at the first close that not all streams had reached."""
    times = [positions[w.stream].time if w.stream in positions else None for w in windows]
    known = [time for time in times if time is not None]
    return QueryState(registered=min(known) if known and len(known) == len(times) else None)
