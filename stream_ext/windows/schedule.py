"""When a query is evaluated, over what, and which elements come too late for it.

A stepped window closes on a grid, at T0 + k·STEP; at a close c it contains the elements of [c-RANGE, c), or as its
bounds say. Three things cause an evaluation, and a query may have several of them:

    closes     the union of its windows' closes, each once, in order, as soon as *all* its streams have reached them
    periods    the multiples of a length of time, likewise
    arrivals   every timestamp of a push to one of its streams, at once

The schedule is a pure function of the pushes: it reads no clock and no content. So all that replay the same pushes (the
injector, which counts late elements; an inline runner; a Spark task after a crash) find the same evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.language.algebra.windows import Bounds
from stream_ext.windows.grids import Grid, TimeRun
from stream_ext.windows.openings import Openings, begin_under, opened, openings_of

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Before every evaluation.
NEVER = np.iinfo(np.int64).min
#: The `behind_at` of a query that is to begin anew, at whatever snapshot.
NOWHERE = -1
_FLOOR_MS = 1000
#: For so few, lists are quicker than arrays.
_FEW = 64


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


class StreamAdvance(Protocol):
    """A push, a heartbeat or a mark of idleness: the times of its elements, and the time of the stream after it."""

    @property
    def stream(self) -> int: ...
    @property
    def element_times(self) -> Times: ...
    @property
    def latest(self) -> int | None: ...
    @property
    def heartbeat(self) -> int | None: ...
    @property
    def idle(self) -> bool: ...


class LastEvaluation(msgspec.Struct, frozen=True, array_like=True):
    """The last evaluation: its snapshot, the push in it that caused it, its number there (`k`), its time. `arrived`: it
    was caused by an arrival; then the elements of that push up to time `arrived_at` had arrived."""

    sn: int
    push: int
    k: int
    time: int
    arrived: bool = False
    arrived_at: int | None = None


class Within(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a query in the middle of a snapshot: the last push, and the number of evaluations (`k`). The
    elements of that push up to time `arrived_at` were evaluated as arrivals."""

    push: int
    k: int
    arrived_at: int | None = None


class QueryState(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a query: with the streams, enough to go on after a restart as if nothing had happened.

    `registered` is the time that all its streams had reached at registration (closes up to it are never reported);
    None if one of them had no time yet. `ranked` keeps the orders of first appearance where LIMIT needs them: that of
    the query, and those of its sub-SELECTs. `t0` is the origin of the closes, if the first push determines it and has
    come. Closes up to `after` are done, even if nothing was evaluated for them; `last` is the greatest time of an
    evaluation. `begins` are the first closes of each window that were evaluated as such, and then the first times of
    each period. `sn` is the snapshot of this state (0: registration). `gap`: nothing was emitted yet since a pause.
    `ended`: nothing will be emitted any more. `behind_at`: the query fell behind the others, and is evaluated up to
    this snapshot only, and in the next one as far as `within`. `unanswered`: it waits for an endpoint of SERVICE that
    did not answer; if False, it is catching up."""

    registered: int | None = None
    evaluated: LastEvaluation | None = None
    ranked: bytes | None = None
    t0: int | None = None
    after: int | None = None
    last: int | None = None
    begins: list[int | None] = []
    sn: int = 0
    gap: bool = False
    ended: bool = False
    behind_at: int | None = None
    within: Within | None = None
    unanswered: bool = False

    @property
    def reached(self) -> int | None:
        """Closes and periods up to this time are over."""
        return self.registered if self.after is None else self.after

    @property
    def is_catching_up(self) -> bool:
        return self.behind_at is not None and not self.unanswered

    @property
    def progress(self) -> tuple[int, int]:
        """The next snapshot, and how many of its evaluations are done."""
        if self.behind_at is None:
            return self.sn + 1, 0
        return self.behind_at + 1, 0 if self.within is None else self.within.k

    def behind(self, behind_at: int, within: Within | None = None, unanswered: bool = False) -> QueryState:
        """The state of the query if it falls behind at this snapshot."""
        return msgspec.structs.replace(self, behind_at=behind_at, within=within, unanswered=unanswered)

    def among(self, all_of_them: QueryState, gap: bool) -> QueryState:
        """The state of a query that began with this state, and then went on together with `all_of_them`."""
        begins = own_begins(self.begins, all_of_them.begins)
        return msgspec.structs.replace(all_of_them, registered=self.registered, begins=begins, gap=gap)

    def is_unevaluated_at(self, time: int | None) -> bool:
        """Whether the query was never evaluated, and will not be at this time or before."""
        return self.evaluated is None and (time is None or (self.reached is not None and self.reached >= time))


@dataclass(frozen=True, slots=True)
class ScheduledWindow:
    """A stepped time window over the stream with this number; `name` is its IRI in the text.

    At a close c it reaches from c - range_ms to c - until_ms; `bounds` says which of the two ends belong to it. It
    contains nothing from before `start_ms`, and does not close after `end_ms` (both of a window that is replayed).
    `t0_ms` is None until the first push has decided it. `by_arrival` windows are evaluated when an element arrives:
    they contribute the instance that is open then, with all elements that have this very time.

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

    # ---- closes

    @property
    def opens(self) -> int | None:
        """The start of its first instance; None: not known yet."""
        return None if self.t0_ms is None else self.t0_ms + self.step_ms - self.range_ms

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

    def extent_at(self, time: int) -> tuple[int, int]:
        """Start and end of the instance that is contributed at `time`."""
        close = self.close_of(time)
        start = close - self.range_ms
        return (start if self.start_ms is None else max(start, self.start_ms)), min(close, time) - self.until_ms

    # ---- elements

    @property
    def lead_ms(self) -> int:
        """The least time from that of an element to an evaluation whose instance can contain it."""
        return self.until_ms + (not self.includes_end and not self.by_arrival)

    def valid_from(self, times: Times) -> Times:
        """The first evaluation time at which elements of these times are before the end of the window's instance."""
        return times + self.lead_ms

    def valid_until(self, times: Times) -> Times:
        """The last evaluation time at which an element of each time is still in the window's instance; one before
        `valid_from` where it is in none.

        It is in as long as close_of(t) - RANGE <= time: up to the last close at or before time + RANGE. T0 and what
        would lie before it are no closes: an element that reaches none later is in no instance."""
        closes = (times + (self.range_ms - (not self.includes_start) - self.origin)) // self.step_ms
        until = np.where(closes >= 1, self.origin + closes * self.step_ms, NEVER)
        if self.start_ms is not None:
            until[times < self.start_ms + (not self.includes_start)] = NEVER
        if self.by_arrival and not self.includes_end:
            until[until != NEVER] -= 1  # at the close itself the next instance is open
        return until

    def last_of(self, time: int) -> int:
        """`valid_until` of one time."""
        closes = (time + (self.range_ms - (not self.includes_start) - self.origin)) // self.step_ms
        if closes < 1 or (self.start_ms is not None and time < self.start_ms + (not self.includes_start)):
            return NEVER
        return self.origin + closes * self.step_ms - (self.by_arrival and not self.includes_end)

    def ever_includes(self, times: Times) -> Mask:
        """Which of these times are in some instance at all."""
        return self.valid_until(times) >= self.valid_from(times)

    def for_arrivals(self) -> ScheduledWindow:
        return self if self.by_arrival else replace(self, by_arrival=True)

    def closed_up_to(self, stream: StreamReach) -> int | None:
        """The last time at which it can be evaluated: a window that includes its end closes when the time of the stream
        has passed it, or on a heartbeat at it."""
        latest = None if stream.latest is None else stream.latest - self.lateness_ms - self.includes_end
        return _greatest(latest, stream.heartbeat)


@dataclass(frozen=True, slots=True)
class Timing:
    """The windows of a query, and what causes its evaluations. `content_only`: none while all windows are empty."""

    windows: tuple[ScheduledWindow, ...]
    closes: bool = True
    every_ms: tuple[int, ...] = ()
    arrivals: bool = False
    content_only: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether all closes are known: T0 may wait for the first push."""
        return all(window.t0_ms is not None for window in self.windows)

    def settled(self, t0: int) -> Timing:
        known = (replace(w, t0_ms=t0) if w.t0_ms is None else w for w in self.windows)
        return replace(self, windows=tuple(known))

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


def own_begins(own: Sequence[int | None], later: Sequence[int | None]) -> list[int | None]:
    """The first closes of a query that began alone and went on together with others."""
    if not own:
        return list(later)
    return [after if begin is None else begin for begin, after in zip(own, later, strict=True)]


def least_and_greatest(times: Times) -> tuple[int, int]:
    """The least and the greatest of some times; a few are compared one by one."""
    if len(times) <= _FEW:
        listed = times.tolist()
        return min(listed), max(listed)
    return int(times.min()), int(times.max())


def t0_of(times: Times) -> int:
    """The origin that the first push after registration gives."""
    return int(times.min()) // _FLOOR_MS * _FLOOR_MS


@dataclass(frozen=True, slots=True)
class _Beat:
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


@dataclass(slots=True)
class _StreamState:
    """The position of a stream, as this schedule has seen it."""

    latest: int | None
    heartbeat: int | None
    openings: Openings
    idle: bool


class Due(NamedTuple):
    """An evaluation: its time, and whose arrival it is (the elements of this timestamp; None: a close or period).

    Of closes and periods, all up to `limit` (None: all that are due) come before anything else happens."""

    time: int
    arrived: int | None
    limit: int | None = None


class Schedule:
    """The evaluation times of one query, push by push."""

    def __init__(self, timing: Timing, state: QueryState, positions: Mapping[int, StreamTime]) -> None:
        """`positions`: the times of the streams at the snapshot from which this schedule goes on."""
        self.timing = timing if state.t0 is None else timing.settled(state.t0)
        self.registered = state.registered
        self.after = state.registered if state.after is None else state.after
        self.last = state.last
        self.t0 = state.t0
        count = len(timing.windows) * timing.closes + len(timing.every_ms)
        self._begins = _widened(state.begins, count, len(timing.every_ms))
        self._streams: dict[int, _StreamState] = {}
        for window in timing.windows:
            at = positions.get(window.stream)
            self._streams[window.stream] = (
                _StreamState(None, None, (), False)
                if at is None
                else _StreamState(at.latest, at.heartbeat, self._openings_of(at), at.idle)
            )
        self._find_beats()

    def _openings_of(self, at: StreamTime) -> Openings:
        """The openings of a stream; all its past counts."""
        return openings_of(() if self.timing.ends_at is not None else at.openings, at.first)

    @property
    def windows(self) -> tuple[ScheduledWindow, ...]:
        return self.timing.windows

    def streams(self) -> frozenset[int]:
        return frozenset(self._streams)

    # ---- what comes in -----------------------------------------------------------------------------------------

    def take(self, moved: StreamAdvance) -> Mask:
        """Adds one push, heartbeat or mark; returns which of its elements are late for this query."""
        stream_state, times = self._streams[moved.stream], moved.element_times
        if len(times) and not self.timing.is_settled:
            self.t0 = t0_of(times)
            self.timing = self.timing.settled(self.t0)
            self._find_beats()
        least = least_and_greatest(times)[0] if len(times) else None
        if least is not None and (not stream_state.openings or least < stream_state.openings[0][1]):
            stream_state.openings = opened(stream_state.openings, times, stream_state.latest, stream_state.heartbeat)
            self._find_beats()
        late = self._late(moved.stream, times, least)
        stream_state.latest, stream_state.heartbeat = moved.latest, moved.heartbeat
        stream_state.idle = moved.idle
        return late

    def due(self, moved: StreamAdvance, arrived_at: int | None = None) -> Iterator[Due]:
        """What is to be evaluated after `take(moved)`, in order of time. A close comes before an arrival at the same
        time, unless its window contains what arrives. `arrived_at`: elements up to this time were evaluated before.

        The caller calls `done` or `seen` for each of them before it takes the next from the iterator."""
        if self.timing.arrivals and self.timing.is_settled:
            for time in np.unique(moved.element_times).tolist():
                if arrived_at is not None and time <= arrived_at:
                    continue
                yield from self._closes_up_to(time - any(window.includes_end for window in self.windows))
                at = self._arrival(moved.stream, time)
                if at is not None:
                    yield Due(at, time)
        yield from self._closes_up_to(None)

    def _closes_up_to(self, limit: int | None) -> Iterator[Due]:
        while (time := self.next_time()) is not None and (limit is None or time <= limit):
            yield Due(time, None, limit)

    def _arrival(self, stream: int, time: int) -> int | None:
        """When the elements of this timestamp, which have just arrived, are evaluated; None: they make no evaluation,
        for they can be in no window (yet to come, or open)."""
        at = time if self.last is None else max(time, self.last)
        one = np.array([time], np.int64)
        for window in self.windows:
            if window.stream == stream:
                seen = window.for_arrivals()
                if int(seen.valid_until(one)[0]) >= max(at, int(seen.valid_from(one)[0])):
                    return at
        return None

    # ---- closes and periods ------------------------------------------------------------------------------------

    def bound(self) -> int | None:
        """The time that all streams of the query have reached. Idle streams are left out."""
        if (end := self.timing.ends_at) is not None:
            return end
        awake = [window for window in self.windows if self._is_waited_for(window)]
        reached = [window.closed_up_to(self._streams[window.stream]) for window in awake or self.windows]
        known = [time for time in reached if time is not None]
        if awake:
            return min(known) if len(known) == len(awake) else None
        return max(known, default=None)

    def _is_waited_for(self, window: ScheduledWindow) -> bool:
        stream_state = self._streams[window.stream]
        return not stream_state.idle and not (window.by_variable and not stream_state.openings)

    def waits_for(self) -> list[int]:
        """The streams that the next evaluation waits for: those behind the others, or without any time."""
        awake = {window.stream for window in self.windows if self._is_waited_for(window)}
        times = {stream: self._time_of(stream) for stream in awake}
        known = [time for time in times.values() if time is not None]
        if not known:
            return sorted(times)
        return sorted(s for s, time in times.items() if time is None or time < max(known))

    def _time_of(self, stream: int) -> int | None:
        found = [w.closed_up_to(self._streams[stream]) for w in self.windows if w.stream == stream]
        known = [time for time in found if time is not None]
        return min(known) if len(known) == len(found) else None

    def next_time(self) -> int | None:
        """The time of the next evaluation that is due; None if the streams have not reached one."""
        bound, upcoming = self.bound(), self.upcoming()
        return None if bound is None or upcoming is None or upcoming > bound else upcoming

    def upcoming(self) -> int | None:
        """The next close or period, due or not; None while no window has seen an element."""
        return min((t for beat in self._known_beats() if (t := beat.after(self.after)) is not None), default=None)

    def done(self, time: int) -> None:
        """All that was due up to `time` is done: evaluated or skipped."""
        for place, beat in enumerate(self._beats):
            if beat is not None and self._begins[place] is None:
                begin = beat.after(self.after)
                self._begins[place] = begin if begin is not None and begin <= time else None
        self.after = time
        self.seen(time)

    @property
    def begins(self) -> list[int | None]:
        """The first closes of each window that were reported, and then the first times of each period."""
        return list(self._begins)

    @property
    def has_begun(self) -> bool:
        """Whether every window has been reported, every period come to: an older first element changes nothing then."""
        return None not in self._begins

    def state(
        self, evaluated: LastEvaluation | None, ranked: bytes | None = None, sn: int = 0, gap: bool = False
    ) -> QueryState:
        begins, ended = self.begins, self.timing.ends_at is not None
        return QueryState(self.registered, evaluated, ranked, self.t0, self.after, self.last, begins, sn, gap, ended)

    def seen(self, time: int) -> None:
        """An evaluation was made at `time`."""
        self.last = time if self.last is None else max(self.last, time)

    def skip_to_bound(self) -> None:
        """Marks all that is due as evaluated, for a caller that only counts late elements."""
        bound = self.bound()
        lasts = [] if bound is None else [beat.last(bound) for beat in self._known_beats()]
        last = max((time for time in lasts if time is not None), default=None)
        if last is not None and (self.after is None or last > self.after):
            self.done(last)

    @property
    def for_arrivals(self) -> tuple[ScheduledWindow, ...]:
        return tuple(window.for_arrivals() for window in self.windows)

    def run_until(self, limit: int) -> TimeRun | None:
        """All evaluations due with time <= limit as one run, for a caller that knows that all of them are empty."""
        bound, first = self.bound(), self.next_time()
        if bound is None or first is None or first > limit:
            return None
        last_allowed = min(bound, limit)
        grids = []
        for beat in self._known_beats():
            start, last = beat.after(self.after), beat.last(last_allowed)
            if start is not None and last is not None and start <= last:
                grids.append(Grid(start, beat.step, (last - start) // beat.step + 1))
        return TimeRun(tuple(dict.fromkeys(grids)))

    def _find_beats(self) -> None:
        """From the first close that can hold the first element of the window's stream; and the first period after the
        first element of all."""
        self._beats: list[_Beat | None] = [None] * len(self._begins)
        if self.timing.is_settled:
            firsts = [first for window in self.windows if (first := self._first_of(window)) is not None]
            closes = [self._closes_of(window) for window in self.windows] if self.timing.closes else []
            periods = [_period(every, min(firsts, default=None)) for every in self.timing.every_ms]
            self._beats = [*closes, *periods]

    def _known_beats(self) -> list[_Beat]:
        return [beat for beat in self._beats if beat is not None]

    def _first_of(self, window: ScheduledWindow) -> int | None:
        openings = self._streams[window.stream].openings
        return begin_under(openings, window.lateness_ms) if openings else None

    def _closes_of(self, window: ScheduledWindow) -> _Beat | None:
        first = self._first_of(window)
        if first is None:
            return None
        start = first if window.start_ms is None else max(first, window.start_ms)
        begin = window.first_close(start)
        over = window.end_ms is not None and begin > window.end_ms
        return None if over else _Beat(begin, window.step_ms, window.end_ms)

    # ---- lateness ----------------------------------------------------------------------------------------------

    def _late(self, stream: int, times: Times, least: int | None) -> Mask:
        """Late: an instance that the element belongs to was reported (by this query, so after registration); or it
        belongs to some that are evaluated, and none of these evaluations is still to be made. Where arrivals alone are
        evaluated: it can be in no window any more. `least`: of the times."""
        late = np.zeros(len(times), dtype=np.bool_)
        if least is None or not self.timing.is_settled:
            return late
        if self.timing.arrivals and not self._begins:
            return self._gone(stream, times)
        mine = [place for place, window in enumerate(self.windows) if window.stream == stream]
        if all(self._is_to_come(place, least) for place in mine):
            return late
        belongs, awaited = late.copy(), late.copy()
        for window in (self.windows[place] for place in mine):
            starts, untils = window.valid_from(times), window.valid_until(times)
            belongs |= self._evaluated_ever(starts, untils)
            late |= self._reported(starts, untils)
            awaited |= self._awaited(starts, untils)
            if self.timing.arrivals:
                arriving = window.for_arrivals()
                starts, untils = arriving.valid_from(times), arriving.valid_until(times)
                belongs |= starts <= untils
                late |= self._seen_by_an_arrival(starts, untils)
                awaited |= np.maximum(starts, NEVER if self.last is None else self.last) <= untils
        return late | (belongs & ~awaited)

    def _is_to_come(self, place: int, least: int) -> bool:
        """Whether no element from `least` on was in an instance of this window that was reported, and all those that
        they belong to are still to be, as is mostly so. Never mind those in a gap."""
        window = self.windows[place]
        if not self.timing.closes or self.timing.arrivals:
            return False
        if self.after is not None and least + window.lead_ms <= self.after:
            return False
        beat = self._beats[place]
        return beat is not None and beat.start <= window.first_close(least)

    def _evaluated_ever(self, starts: Times, untils: Times) -> Mask:
        """Whether a close or period lies between each two of these times, be it one that is never come to."""
        found = np.zeros(len(starts), dtype=np.bool_)
        for window in self.windows if self.timing.closes else ():
            turns = np.maximum(1, -((window.origin - starts) // window.step_ms))
            found |= window.origin + turns * window.step_ms <= untils
        for every in self.timing.every_ms:
            found |= -(-starts // every) * every <= untils
        return found

    def _reported(self, starts: Times, untils: Times) -> Mask:
        """Whether an evaluation at a close or period was made between each two of these times."""
        found = np.zeros(len(starts), dtype=np.bool_)
        if self.after is None:
            return found
        for begin, step in zip(self._begins, self._steps(), strict=True):
            if begin is not None:
                turns = np.maximum(0, -((begin - starts) // step))
                found |= begin + turns * step <= np.minimum(untils, self.after)
        return found

    def _awaited(self, starts: Times, untils: Times) -> Mask:
        """Whether an evaluation at a close or period is still to be made between each two of these times."""
        found = np.zeros(len(starts), dtype=np.bool_)
        lowest = starts if self.after is None else np.maximum(starts, self.after + 1)
        for beat in self._known_beats():
            turns = np.maximum(0, -((beat.start - lowest) // beat.step))
            found |= beat.start + turns * beat.step <= untils
        return found

    def _seen_by_an_arrival(self, starts: Times, untils: Times) -> Mask:
        """Whether the last evaluation was made between each two of these times, for an arrival."""
        if self.last is None or (self.after is not None and self.last <= self.after):
            return np.zeros(len(starts), dtype=np.bool_)
        return (starts <= self.last) & (self.last <= untils)

    def _steps(self) -> list[int]:
        """Of each beat."""
        return [*(w.step_ms for w in self.windows if self.timing.closes), *self.timing.every_ms]

    def _gone(self, stream: int, times: Times) -> Mask:
        if self.last is None:
            return np.zeros(len(times), dtype=np.bool_)
        seen = [window.for_arrivals() for window in self.windows if window.stream == stream]
        ever, still = np.zeros(len(times), np.bool_), np.zeros(len(times), np.bool_)
        for window in seen:
            ever |= window.ever_includes(times)
            still |= window.valid_until(times) >= np.maximum(times, self.last)
        return ever & ~still


def _widened(begins: Sequence[int | None], count: int, periods: int) -> list[int | None]:
    """`begins` with a place for each window that was added since; the places of the periods come last."""
    windows = max(len(begins) - periods, 0)
    return [*begins[:windows], *[None] * (count - len(begins)), *begins[windows:]]


def _period(every_ms: int, first: int | None) -> _Beat | None:
    """The multiples, from the first after the first element."""
    return None if first is None else _Beat((first // every_ms + 1) * every_ms, every_ms, None)


def initial_state(timing: Timing, positions: Mapping[int, StreamTime]) -> QueryState:
    """The state at registration: the first evaluation is at the first close that not all streams had reached."""
    if timing.ends_at is not None:
        return QueryState()  # of the past all is reported
    return QueryState(registered=Schedule(timing, QueryState(), positions).bound())


def _greatest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)
