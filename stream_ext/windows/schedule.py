"""When a query is evaluated, over what, and which elements come too late for it.

A stepped window closes on a grid, at T0 + k·STEP; at a close c it contains the elements of [c-RANGE, c), or as its
bounds say. Three things cause an evaluation, and a query may have several of them:

    closes     the union of its windows' closes, each once, in order, as soon as *all* its streams have reached them
    periods    the multiples of a length of time, likewise
    arrivals   every timestamp of a push to one of its streams, at once; every element, if a window of it counts them,
               or is [NOW]

The schedule is a pure function of the pushes: it reads no clock and no content. So all that replay the same pushes (the
injector, which counts late elements; an inline runner; a Spark task after a crash) find the same evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from stream_ext.windows.grids import Grid, RepeatedTimes
from stream_ext.windows.last_times import LastTimes
from stream_ext.windows.openings import Openings, begin_under, opened, openings_of
from stream_ext.windows.scheduled_window import NEVER, Count, Mask, StreamReach, Times
from stream_ext.windows.scheduled_window import ScheduledWindow as ScheduledWindow

#: The `behind_at` of a query that is to begin anew, at whatever snapshot.
NOWHERE = -1
_FLOOR_MS = 1000
#: For so few, lists are quicker than arrays.
_FEW = 64


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


class LastEvaluation(msgspec.Struct, frozen=True, array_like=True):
    """The last evaluation: its snapshot, the push in it that caused it, its number there (`k`), its time. `arrived`: it
    was caused by an arrival; then the elements of that push up to `arrived_at` had arrived (see `Due`)."""

    sn: int
    push: int
    k: int
    time: int
    arrived: bool = False
    arrived_at: int | None = None


class Within(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a query in the middle of a snapshot: the last push, and the number of evaluations (`k`). The
    elements of that push up to `arrived_at` were evaluated as arrivals (see `Due`)."""

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
    did not answer; if False, it is catching up. What came up to snapshot `began` is in windows, but does not make a
    result new. `counts`: of each window with a count STEP, the number of what had ever come in its stream at
    registration, and at the last evaluation."""

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
    began: int = 0
    counts: list[tuple[int, int]] = []

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
        return msgspec.structs.replace(
            all_of_them, registered=self.registered, begins=begins, gap=gap, began=self.began
        )

    def is_unevaluated_at(self, time: int | None) -> bool:
        """Whether the query was never evaluated, and will not be at this time or before."""
        return self.evaluated is None and (time is None or (self.reached is not None and self.reached >= time))


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
    """An evaluation: its time, and up to which element of the push they have arrived (None: a close or period).

    `arrived` is the timestamp of the last that have, or their number in the document (`arrives_by_element`). Of closes
    and periods, all up to `limit` (None: all that are due) come before anything else happens."""

    time: int
    arrived: int | None
    limit: int | None = None


def arrives_by_element(windows: Sequence[ScheduledWindow], stream: int) -> bool:
    """Whether elements of the stream arrive one by one, in the order of the document; else a timestamp at a time."""
    return any(window.stream == stream and (window.is_now or window.count is not None) for window in windows)


#: The last times of a counted window, when its query was last evaluated at this time (None: never).
ReadLast = Callable[[ScheduledWindow, int | None], LastTimes]


@dataclass(slots=True)
class _CountedArrivals:
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


class Schedule:
    """The evaluation times of one query, push by push."""

    def __init__(
        self, timing: Timing, state: QueryState, positions: Mapping[int, StreamTime], last: ReadLast | None = None
    ) -> None:
        """`positions`: the times of the streams at the snapshot from which this schedule goes on; `last` reads the last
        times of counted windows there (None: nothing has come)."""
        self.timing = timing if state.t0 is None else timing.settled(state.t0)
        self.registered = state.registered
        self.after = state.registered if state.after is None else state.after
        self.last = state.last
        self.t0 = state.t0
        self._began = state.began
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
        self._counted = self._counted_windows(state, positions, last) if timing.arrivals else []
        self._arriving: Iterator[tuple[int, int]] = iter(())  # elements of the last push that have not arrived yet
        self._arriving_in = 0  # the stream of that push
        self._find_beats()

    def _counted_windows(
        self, state: QueryState, positions: Mapping[int, StreamTime], last: ReadLast | None
    ) -> list[_CountedArrivals]:
        found, counts = [], iter(state.counts)
        for window in self.timing.windows:
            if (count := window.count) is not None:
                lasts = LastTimes(count, state.last) if last is None else last(window, state.last)
                total = total_of(count, positions.get(window.stream)) if count.step else 0
                base, evaluated = next(counts, (0, 0)) if count.step else (0, 0)
                found.append(_CountedArrivals(window, count, lasts, total, base, evaluated))
        return found

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
        self._arrive_all()
        least = least_and_greatest(times)[0] if len(times) else None
        if least is not None and (not stream_state.openings or least < stream_state.openings[0][1]):
            stream_state.openings = opened(stream_state.openings, times, stream_state.latest, stream_state.heartbeat)
            self._find_beats()
        late = self._late(moved.stream, times, least)
        if any(counted.window.stream == moved.stream for counted in self._counted):
            self._arriving = iter(zip(times.tolist(), moved.element_sizes.tolist(), strict=True))
            self._arriving_in = moved.stream
        stream_state.latest, stream_state.heartbeat = moved.latest, moved.heartbeat
        stream_state.idle = moved.idle
        return late

    def due(self, moved: StreamAdvance, arrived_at: int | None = None) -> Iterator[Due]:
        """What is to be evaluated after `take(moved)`, in order of time. A close comes before an arrival at the same
        time, unless its window contains what arrives. `arrived_at`: elements up to this time were evaluated before.

        The caller calls `done` or `seen` for each of them before it takes the next from the iterator."""
        if self.timing.arrivals and self.timing.is_settled:
            if arrives_by_element(self.windows, moved.stream):
                yield from self._element_by_element(moved, arrived_at or 0)
            else:
                yield from self._time_by_time(moved, arrived_at)
        yield from self._closes_up_to(None)

    def _closes_up_to(self, limit: int | None) -> Iterator[Due]:
        while (time := self.next_time()) is not None and (limit is None or time <= limit):
            yield Due(time, None, limit)

    def _time_by_time(self, moved: StreamAdvance, arrived_at: int | None) -> Iterator[Due]:
        """Timestamps that come to the same evaluation time are one evaluation."""
        waiting = [each for each in np.unique(moved.element_times).tolist() if arrived_at is None or each > arrived_at]
        includes_end = any(window.includes_end for window in self.windows)
        while waiting:
            yield from self._closes_up_to(waiting[0] - includes_end)
            at = waiting[0] if self.last is None else max(waiting[0], self.last)
            count = sum(each <= at for each in waiting)
            together, waiting = waiting[:count], waiting[count:]
            yield from self._closes_up_to(together[-1] - includes_end)
            if any(self._can_contain(moved.stream, each, at) for each in together) and self._may_be_due(moved.stream):
                yield Due(at, together[-1])

    def _element_by_element(self, moved: StreamAdvance, arrived: int) -> Iterator[Due]:
        includes_end = any(window.includes_end for window in self.windows)
        for _ in range(arrived):
            self._arrive_one()
        for number, time in enumerate(moved.element_times[arrived:].tolist(), arrived + 1):
            yield from self._closes_up_to(time - includes_end)
            at = time if self.last is None else max(time, self.last)
            is_contained = self._can_contain(moved.stream, time, at)
            self._arrive_one()
            if is_contained and self._may_be_due(moved.stream):
                yield Due(at, number)

    def arrive_in_order(self, moved: StreamAdvance) -> None:
        """All elements of the last push arrive; none is before another, nor before the last evaluation."""
        self._arriving = iter(())
        for counted in self._counted:
            if counted.window.stream == moved.stream:
                sizes = moved.element_sizes
                counted.lasts.add_in_order(moved.element_times, sizes)
                counted.total += len(sizes) if counted.count.of_elements else int(sizes.sum())

    def _arrive_one(self) -> bool:
        """The next element of the last push arrives in the windows that count it; False: there is none."""
        element = next(self._arriving, None)
        if element is None:
            return False
        for counted in self._counted:
            if counted.window.stream == self._arriving_in:
                counted.add(*element)
        return True

    def _arrive_all(self) -> None:
        while self._arrive_one():
            pass

    def _can_contain(self, stream: int, time: int, at: int) -> bool:
        """Whether an element that comes now can be in some window at `at` or later."""
        if any(each.window.stream == stream and each.lasts.takes(time, at) for each in self._counted):
            return True
        one = np.array([time], np.int64)
        for window in self.windows:
            if window.stream == stream and window.count is None:
                seen = window.for_arrivals()
                if int(seen.valid_until(one)[0]) >= max(at, int(seen.valid_from(one)[0])):
                    return True
        return False

    def _may_be_due(self, stream: int) -> bool:
        """Whether an arrival causes an evaluation. If all windows of the stream have a count STEP, one of the query has
        completed a multiple of it since the last evaluation."""
        if any(w.stream == stream and (w.count is None or not w.count.step) for w in self.windows):
            return True
        return any(counted.has_completed for counted in self._counted)

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
        """The streams that the next evaluation waits for: those behind the others, or without any time. An arrival
        waits for none."""
        if not self.timing.has_beats:
            return []
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
        windows = self.windows if self.timing.closes else ()
        stepped = [window.is_stepped for window in windows] + [True] * len(self.timing.every_ms)
        return all(begin is not None or not is_stepped for begin, is_stepped in zip(self._begins, stepped, strict=True))

    def state(
        self, evaluated: LastEvaluation | None, ranked: bytes | None = None, sn: int = 0, gap: bool = False
    ) -> QueryState:
        begins, ended = self.begins, self.timing.ends_at is not None
        counts = [(each.base, each.evaluated) for each in self._counted if each.count.step]
        return QueryState(
            self.registered, evaluated, ranked, self.t0, self.after, self.last, begins, sn, gap, ended,
            began=self._began, counts=counts,
        )  # fmt: skip

    def seen(self, time: int) -> None:
        """An evaluation was made at `time`."""
        self.last = time if self.last is None else max(self.last, time)
        for counted in self._counted:
            counted.lasts.move_to(self.last)
            counted.evaluated = counted.total

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

    def run_until(self, limit: int) -> RepeatedTimes | None:
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
        return RepeatedTimes(tuple(dict.fromkeys(grids)))

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
        first = self._first_of(window) if window.is_stepped else None
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
            awaited |= window.is_endless or self._awaited(starts, untils)
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
            if not window.is_stepped:
                continue
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
        """Which could be in a window, and can be in none any more."""
        ever, still = np.zeros(len(times), np.bool_), np.zeros(len(times), np.bool_)
        now = times if self.last is None else np.maximum(times, self.last)
        for counted in self._counted:
            if counted.window.stream == stream:
                takes = map(counted.lasts.takes, times.tolist(), now.tolist())
                ever, still = np.ones_like(ever), still | np.fromiter(takes, np.bool_, len(times))
        if self.last is None and not ever.any():
            return ever
        for window in self.windows:
            if window.stream == stream and window.count is None:
                seen = window.for_arrivals()
                ever |= seen.ever_includes(times)
                still |= seen.valid_until(times) >= np.maximum(seen.valid_from(times), now)
        return ever & ~still


def _widened(begins: Sequence[int | None], count: int, periods: int) -> list[int | None]:
    """`begins` with a place for each window that was added since; the places of the periods come last."""
    windows = max(len(begins) - periods, 0)
    return [*begins[:windows], *[None] * (count - len(begins)), *begins[windows:]]


def _period(every_ms: int, first: int | None) -> _Beat | None:
    """The multiples, from the first after the first element."""
    return None if first is None else _Beat((first // every_ms + 1) * every_ms, every_ms, None)


def total_of(count: Count, at: StreamTime | None) -> int:
    """How much of what a window counts has ever come in its stream."""
    return 0 if at is None else at.elements_total if count.of_elements else at.triples_total


def initial_state(
    timing: Timing, positions: Mapping[int, StreamTime], sn: int = 0, before: QueryState | None = None
) -> QueryState:
    """The state of a query that begins after snapshot `sn`: its first evaluation is at the first close that not all
    streams had reached. `before`: the state of its registration, if it has been running before."""
    if timing.ends_at is not None:
        return QueryState()  # of the past all is reported
    counts = [(total := total_of(count, positions.get(w.stream)), total) for w, count in timing.stepped_counts]
    if before is not None:  # what is counted is counted from the registration on
        bases = [base for base, _ in before.counts] + [0] * (len(counts) - len(before.counts))
        counts = [(base, total) for base, (_, total) in zip(bases, counts, strict=True)]
    registered = Schedule(timing, QueryState(), positions).bound()
    return QueryState(registered=registered, began=sn, counts=counts)
