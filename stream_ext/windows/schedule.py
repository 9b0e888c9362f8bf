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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_ext.windows.beats import Beats
from stream_ext.windows.counted_arrivals import CountedArrivals, ReadLast
from stream_ext.windows.grids import RepeatedTimes
from stream_ext.windows.last_times import LastTimes
from stream_ext.windows.openings import Openings, begin_under, opened, openings_of
from stream_ext.windows.query_state import LastEvaluation, QueryState
from stream_ext.windows.scheduled_window import NEVER, Mask, ScheduledWindow, Times, least_and_greatest
from stream_ext.windows.timing import StreamAdvance, StreamTime, Timing, arrives_by_element, t0_of, total_of


@dataclass(slots=True)
class _StreamState:
    """The position of a stream, as this schedule has seen it."""

    latest: int | None
    heartbeat: int | None
    openings: Openings
    idle: bool

    def copy(self) -> _StreamState:
        return _StreamState(self.latest, self.heartbeat, self.openings, self.idle)


class Due(NamedTuple):
    """An evaluation: its time, and up to which element of the push they have arrived (None: a close or period).

    `arrived` is the timestamp of the last that have, or their number in the document (`arrives_by_element`). Of closes
    and periods, all up to `limit` (None: all that are due) come before anything else happens."""

    time: int
    arrived: int | None
    limit: int | None = None


class Schedule:
    """The evaluation times of one query, push by push."""

    def __init__(
        self, timing: Timing, state: QueryState, positions: Mapping[int, StreamTime], last: ReadLast | None = None
    ) -> None:
        """`positions`: the times of the streams at the snapshot from which this schedule goes on; `last` reads the last
        times of counted windows there (None: nothing has come)."""
        self.timing = timing if state.t0 is None else timing.with_origin(state.t0)
        self.registered = state.registered
        self.last = state.last
        self.t0 = state.t0
        self.began = state.began
        self._beats = Beats(self.timing, state.begins, state.registered if state.after is None else state.after)
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
    ) -> list[CountedArrivals]:
        found, counts = [], iter(state.counts)
        for window in self.timing.windows:
            if (count := window.count) is not None:
                lasts = LastTimes(count, state.last) if last is None else last(window, state.last)
                total = total_of(count, positions.get(window.stream)) if count.step else 0
                base, evaluated = next(counts, (0, 0)) if count.step else (0, 0)
                found.append(CountedArrivals(window, count, lasts, total, base, evaluated))
        return found

    def _openings_of(self, at: StreamTime) -> Openings:
        """The openings of a stream; all its past counts."""
        return openings_of(() if self.timing.ends_at is not None else at.openings, at.first)

    def copy(self) -> Schedule:
        """Another one that goes on from here by itself, if no windows count."""
        other = Schedule.__new__(Schedule)  # a class does this with each snapshot: `copy` takes ten times as long
        other.__dict__.update(self.__dict__)
        other._beats = self._beats.copy()
        other._streams = {stream: each.copy() for stream, each in self._streams.items()}
        return other

    def catch_up_with(self, other: Schedule) -> None:
        """Goes on from where `other` is: its windows are the same, and all windows of both have begun."""
        self.last = other.last
        self._beats.catch_up_with(other._beats)
        self._streams = {stream: each.copy() for stream, each in other._streams.items()}

    @property
    def windows(self) -> tuple[ScheduledWindow, ...]:
        return self.timing.windows

    def streams(self) -> frozenset[int]:
        return frozenset(self._streams)

    # ---- what comes in -----------------------------------------------------------------------------------------

    def take(self, moved: StreamAdvance) -> Mask:
        """Adds one push, heartbeat or mark; returns which of its elements are late for this query."""
        stream_state, times = self._streams[moved.stream], moved.element_times
        if len(times) and not self.timing.has_origin:
            self.t0 = t0_of(times)
            self.timing = self.timing.with_origin(self.t0)
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
        if self.timing.arrivals and self.timing.has_origin:
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
        if any(each.window.stream == stream and each.lasts.will_contain(time, at) for each in self._counted):
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
        """The streams that the next evaluation waits for: those behind the others, or without any time; all of them
        while no push has decided T0. An arrival waits for none."""
        if not self.timing.has_beats:
            return []
        if not self.timing.has_origin:
            return sorted(self._streams)
        times = self.awake_times()
        ahead = max((time for time in times.values() if time is not None), default=NEVER)
        return sorted(s for s, time in times.items() if time is None or time < ahead)

    def awake_times(self) -> dict[int, int | None]:
        """Of each stream that evaluations wait for, the time up to which its windows have closed."""
        awake = {window.stream for window in self.windows if self._is_waited_for(window)}
        return {stream: self._time_of(stream) for stream in awake}

    def _time_of(self, stream: int) -> int | None:
        found = [w.closed_up_to(self._streams[stream]) for w in self.windows if w.stream == stream]
        known = [time for time in found if time is not None]
        return min(known) if len(known) == len(found) else None

    def next_time(self) -> int | None:
        """The time of the next evaluation that is due; None if the streams have not reached one."""
        bound, upcoming = self.bound(), self.upcoming()
        return None if bound is None or upcoming is None or upcoming > bound else upcoming

    @property
    def after(self) -> int | None:
        """What was due up to this time is done."""
        return self._beats.after

    def upcoming(self) -> int | None:
        """The next close or period, due or not; None while no window has seen an element."""
        return self._beats.upcoming()

    def done(self, time: int) -> None:
        """All that was due up to `time` is done: evaluated or skipped."""
        self._beats.done(time)
        self.seen(time)

    @property
    def begins(self) -> list[int | None]:
        """The first closes of each window that were reported, and then the first times of each period."""
        return list(self._beats.begins)

    @property
    def has_begun(self) -> bool:
        """See `Beats.has_begun`."""
        return self._beats.has_begun

    def state(
        self, evaluated: LastEvaluation | None, ranked: bytes | None = None, sn: int = 0, gap: bool = False
    ) -> QueryState:
        begins, ended = self.begins, self.timing.ends_at is not None
        counts = [(each.base, each.evaluated) for each in self._counted if each.count.step]
        after = self.after if self.timing.has_beats else None
        return QueryState(
            self.registered, evaluated, ranked, self.t0, after, self.last, begins, sn, gap, ended,
            began=self.began, counts=counts,
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
        last = None if bound is None else self._beats.last(bound)
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
        return self._beats.run(min(bound, limit))

    def _find_beats(self) -> None:
        self._beats.find(self.timing, self._first_of)

    def _first_of(self, window: ScheduledWindow) -> int | None:
        openings = self._streams[window.stream].openings
        return begin_under(openings, window.lateness_ms) if openings else None

    # ---- lateness ----------------------------------------------------------------------------------------------

    def _late(self, stream: int, times: Times, least: int | None) -> Mask:
        """Late: an instance that the element belongs to was reported (by this query, so after registration); or it
        belongs to some that are evaluated, and none of these evaluations is still to be made. Where arrivals alone are
        evaluated: it can be in no window any more. `least`: of the times."""
        late = np.zeros(len(times), dtype=np.bool_)
        if least is None or not self.timing.has_origin:
            return late
        if self.timing.arrivals and not self._beats.begins:
            return self._gone(stream, times)
        mine = [place for place, window in enumerate(self.windows) if window.stream == stream]
        if all(self._beats.is_to_come(place, least) for place in mine):
            return late
        belongs, awaited = late.copy(), late.copy()
        for window in (self.windows[place] for place in mine):
            starts, untils = window.valid_from(times), window.valid_until(times)
            belongs |= self._beats.lie_between(starts, untils)
            late |= self._beats.done_between(starts, untils)
            awaited |= window.is_endless or self._beats.to_come_between(starts, untils)
            if self.timing.arrivals:
                arriving = window.for_arrivals()
                starts, untils = arriving.valid_from(times), arriving.valid_until(times)
                belongs |= starts <= untils
                late |= self._seen_by_an_arrival(starts, untils)
                awaited |= np.maximum(starts, NEVER if self.last is None else self.last) <= untils
        return late | (belongs & ~awaited)

    def _seen_by_an_arrival(self, starts: Times, untils: Times) -> Mask:
        """Whether the last evaluation was made between each two of these times, for an arrival."""
        if self.last is None or (self.after is not None and self.last <= self.after):
            return np.zeros(len(starts), dtype=np.bool_)
        return (starts <= self.last) & (self.last <= untils)

    def _gone(self, stream: int, times: Times) -> Mask:
        """Which elements with these times have been in a window, or could have been, and will be in none any more."""
        ever, still = np.zeros(len(times), np.bool_), np.zeros(len(times), np.bool_)
        now = times if self.last is None else np.maximum(times, self.last)
        for counted in self._counted:
            if counted.window.stream == stream:
                takes = map(counted.lasts.will_contain, times.tolist(), now.tolist())
                ever, still = np.ones_like(ever), still | np.fromiter(takes, np.bool_, len(times))
        if self.last is None and not ever.any():
            return ever
        for window in self.windows:
            if window.stream == stream and window.count is None:
                seen = window.for_arrivals()
                ever |= seen.ever_includes(times)
                still |= seen.valid_until(times) >= np.maximum(seen.valid_from(times), now)
        return ever & ~still


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
