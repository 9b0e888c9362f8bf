"""Which elements are late, and when closes fall due, by the schedules of all queries at the head.

The runners have the same schedules, but they lag behind the head; a push is acknowledged before it is evaluated. For
most queries the schedule is a function of the positions of its streams, so it is not stored, but computed when needed.
That is rare: an element that is not older than its stream's time is in no closed instance, so it is late for no query.
A schedule that depends on more than the positions (the query is evaluated at arrivals, a stream may be idle, T0 is not
known, or no window has been reported yet) is stored, and follows every push."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hbase_store import StreamPosition
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.registered import Registered
from stream_ext.upkeep.late_elements import LateElements, found_late
from stream_ext.upkeep.late_log import LateLog
from stream_ext.windows.counted_arrivals import ReadLast
from stream_ext.windows.openings import Openings, opened, openings_of
from stream_ext.windows.query_state import QueryState
from stream_ext.windows.schedule import Schedule
from stream_ext.windows.timing import StreamAdvance, Timing
from stream_ext.writer.gathering import Accepted


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a stream."""

    latest: int | None = None
    heartbeat: int | None = None
    first: int | None = None
    idle: bool = False
    openings: Openings = ()
    elements_total: int = 0
    triples_total: int = 0

    def after(self, accepted: Accepted) -> _Place:
        times, first, openings = accepted.element_times, self.first, self.openings
        elements, triples = self.elements_total + len(times), self.triples_total + accepted.triples
        if len(times):
            least = int(times.min())
            first = least if first is None else min(first, least)
            openings = opened(openings, times, self.latest, self.heartbeat)
        return _Place(accepted.latest, accepted.heartbeat, first, accepted.idle, openings, elements, triples)


@dataclass(slots=True, eq=False)
class _Followed:
    """Queries with the same state, and so one schedule."""

    timing: Timing
    state: QueryState
    idles: bool  # one of its streams may be idle
    schedule: Schedule | None = None  # None: computed when needed
    queries: dict[int, None] = field(default_factory=dict)

    def keeps(self, schedule: Schedule) -> bool:
        return self.idles or self.timing.arrivals or not (schedule.timing.has_origin and schedule.has_begun)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Closes of windows, or periods, of a stream that runs by the clock."""

    origin: int
    step_ms: int
    lateness_ms: int
    includes_end: bool

    def due_ms(self, place: _Place) -> int:
        """When the clock reaches the next close."""
        assert place.latest is not None
        reached = place.latest - self.lateness_ms - self.includes_end
        reached = reached if place.heartbeat is None else max(reached, place.heartbeat)
        following = self.origin + ((reached - self.origin) // self.step_ms + 1) * self.step_ms
        return following + self.lateness_ms + self.includes_end


_NOWHERE = _Place()


@dataclass(frozen=True, slots=True)
class SinceState:
    """What the stored state of a query does not know yet, since the process ended before it was stored: the `places` of
    the streams at the state, the last times of counted windows there, and what came later. `known`: what is followed
    already, from the same state on."""

    places: Mapping[int, _Place]
    last: ReadLast
    came: Iterable[StreamAdvance]
    known: dict[Hashable, _Followed]


def places_of(positions: Mapping[int, StreamPosition]) -> dict[int, _Place]:
    return {
        n: _Place(
            at.latest, at.heartbeat, at.first, at.idle, openings_of(at.openings, at.first), at.elements_total,
            at.triples_total,
        )
        for n, at in positions.items()
    }  # fmt: skip


class _LastNew(NamedTuple):
    """The query that was followed last, at its registration: another one that begins where it did has its schedule."""

    timing: Timing
    state: QueryState
    followed: _Followed


class Awaited(NamedTuple):
    """The next close or period of a query (None: not known yet, or it is evaluated at arrivals only), and the streams
    that have not reached it."""

    close: int | None
    streams: frozenset[int]


class Lateness:
    """Used by the writer's thread; other threads may read the counters, and what a query waits for."""

    def __init__(
        self, positions: Mapping[int, StreamPosition], log: LateLog | None = None, last: ReadLast | None = None
    ) -> None:
        """`log`: stores late elements beyond the end of this process. `last` reads the last times of counted windows at
        the head."""
        self._log, self._last = log, last
        self._places = places_of(positions)
        self._queries: dict[int, _Followed] = {}
        self._readers: dict[int, dict[_Followed, None]] = {}  # of each stream
        self._closely: dict[int, dict[_Followed, None]] = {}  # of each stream, the readers that follow every push
        self._latest: dict[Timing, _Followed] = {}  # the next query mostly has the state of the last one
        self._last_new: _LastNew | None = None  # as long as nothing has changed since
        self._grids: dict[int, set[_Grid]] = {}  # of each stream's readers
        self._lateness_ms_min: dict[int, int] = {}  # of each stream's readers
        self.counted: Counter[tuple[int, int]] = Counter()  # by stream and query
        self.elements = LateElements()
        if log is not None:
            log.read(self.elements, self.counted)

    def follow(
        self,
        query: int,
        registered: Registered,
        state: QueryState,
        catalog: Catalog,
        since: SinceState | None = None,
    ) -> None:
        """Follows a query from the present positions of its streams; what was due before counts as evaluated."""
        last = self._last_new
        if since is None and last is not None and last.timing is registered.timing and last.state is state:
            last.followed.queries[query] = None
            self._queries[query] = last.followed
            return
        self._last_new = None
        timing = registered.timing_from(state.t0)
        if timing.ends_at is not None:
            return  # the query has ended with its registration: no element is late for it
        idles = any(w.by_variable or self._may_be_idle(w.stream, catalog) for w in timing.windows)
        followed = _Followed(timing, state, idles)
        if since is not None:
            same = since.known.setdefault(_all_that_counts(timing, state), followed)
            if same is not followed:
                self._queries[query], same.queries[query] = same, None
                return
        schedule = self._schedule_now(followed) if since is None else self._schedule_since(followed, since)
        timing = followed.timing
        latest = self._latest.get(timing)
        if latest is not None and self._is_alike(latest, followed, schedule):
            latest.queries[query] = None
            self._queries[query] = latest
            if since is not None:
                since.known[_all_that_counts(registered.timing_from(state.t0), state)] = latest
            self._last_new = _LastNew(registered.timing, state, latest)
            return
        if followed.keeps(schedule):
            followed.schedule = schedule
        followed.queries[query] = None
        self._queries[query] = self._latest[timing] = followed
        self._last_new = _LastNew(registered.timing, state, followed)
        for stream in {window.stream for window in timing.windows}:
            self._readers.setdefault(stream, {})[followed] = None
            if followed.schedule is not None:
                self._closely.setdefault(stream, {})[followed] = None
            self._add_grids(timing, stream)

    def _may_be_idle(self, stream: int, catalog: Catalog) -> bool:
        """A stream that is idle remains so until an element comes, also without the option."""
        return catalog.streams[stream].options.idle_ms is not None or self._places.get(stream, _NOWHERE).idle

    def stream_changed(self, stream: int, catalog: Catalog) -> None:
        """It may have another option `idle`: the queries that read a stream that may be idle follow every push."""
        self._last_new = None
        if not self._may_be_idle(stream, catalog):
            return
        for followed in [each for each in self._readers.get(stream, ()) if not each.idles]:
            followed.idles = True
            if followed.schedule is None:
                followed.schedule = self._schedule_now(followed)
                for each in followed.schedule.streams():
                    self._closely.setdefault(each, {})[followed] = None

    def _is_alike(self, one: _Followed, other: _Followed, schedule: Schedule) -> bool:
        """Whether `other`, with its schedule, has the same state as `one`: then they have it from now on."""
        if not one.queries or one.idles != other.idles:
            return False
        at = one.schedule or self._schedule_now(one)
        return (at.timing, at.t0, at.after, at.last, at.begins) == (
            schedule.timing, schedule.t0, schedule.after, schedule.last, schedule.begins,
        )  # fmt: skip

    def widen(self, query: int, registered: Registered, catalog: Catalog) -> None:
        """A stream is new, which the query reads, too."""
        followed = self._queries.get(query)
        if followed is None:
            return
        state = followed.state
        if (at := followed.schedule) is not None:
            state = at.state(state.evaluated)
        self.forget(query)
        self.follow(query, registered, state, catalog)

    def forget(self, query: int) -> None:
        followed, self._last_new = self._queries.pop(query, None), None
        if followed is None:
            return
        del followed.queries[query]
        if followed.queries:
            return
        for stream in {window.stream for window in followed.timing.windows}:
            del self._readers[stream][followed]
            self._closely.get(stream, {}).pop(followed, None)
        self._latest = {timing: each for timing, each in self._latest.items() if each is not followed}
        self._find_grids(followed.timing)

    def _add_grids(self, timing: Timing, stream: int) -> None:
        """Those of one more reader."""
        self._grids.setdefault(stream, set()).update(_grids_of(timing, stream))
        least = min(window.lateness_ms for window in timing.windows if window.stream == stream)
        self._lateness_ms_min[stream] = min(least, self._lateness_ms_min.get(stream, least))

    def _find_grids(self, changed: Timing) -> None:
        for stream in {window.stream for window in changed.windows}:
            self._grids.pop(stream, None)
            self._lateness_ms_min.pop(stream, None)
            for timing in dict.fromkeys(followed.timing for followed in self._readers[stream]):
                self._add_grids(timing, stream)

    def take(self, accepted: Accepted, sn: int) -> int:
        """How many of these elements, which are in snapshot `sn`, are late for at least one query."""
        self._last_new = None
        missed = []
        closely = list(self._closely.get(accepted.stream, ()))
        for followed in closely if self._is_in_time(accepted) else self._readers.get(accepted.stream, ()):
            late = self._take(followed, accepted)
            if count := int(late.sum()):
                self.counted.update(dict.fromkeys(((accepted.stream, query) for query in followed.queries), count))
                missed.append((followed.queries, late))
        self._places[accepted.stream] = self._places.get(accepted.stream, _NOWHERE).after(accepted)
        found = found_late(sn, accepted.ordinal, accepted.element_times, missed)
        if found:
            self.elements.add(accepted.stream, found)
            if self._log is not None:
                by_query = {
                    query: count for (stream, query), count in self.counted.items() if stream == accepted.stream
                }
                self._log.add(accepted.stream, found, self.elements.counted(accepted.stream), by_query)
        return len(found)

    def forget_stream(self, stream: int) -> None:
        """The stream was dropped."""
        self._last_new = None
        self._places.pop(stream, None)
        for readers in (self._readers, self._closely):
            if not readers.get(stream):
                readers.pop(stream, None)
        self.elements.forget(stream)
        if self._log is not None:
            self._log.forget(stream)
        for place in [place for place in self.counted if place[0] == stream]:
            del self.counted[place]

    def _is_in_time(self, accepted: Accepted) -> bool:
        """Whether no element is older than what the reader that is furthest ahead takes for its stream's time."""
        place, times = self._places.get(accepted.stream, _NOWHERE), accepted.element_times
        if not len(times):
            return True
        least, ahead_ms = int(times.min()), self._lateness_ms_min.get(accepted.stream, 0)
        if place.latest is not None and least < place.latest - ahead_ms:
            return False
        # A window that includes its end closes on a heartbeat at the end, and contains elements of this time.
        return place.heartbeat is None or least > place.heartbeat

    def _take(self, followed: _Followed, accepted: Accepted) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if followed.schedule is None:
            return self._schedule_now(followed).take(accepted)
        schedule, without_origin = followed.schedule, not followed.timing.has_origin
        late = _advance(schedule, accepted)
        if without_origin and schedule.timing.has_origin:
            followed.timing = schedule.timing
            self._find_grids(schedule.timing)
        if not followed.keeps(schedule):
            followed.state, followed.schedule = schedule.state(None), None
            for stream in schedule.streams():
                self._closely[stream].pop(followed, None)
        return late

    def _schedule_now(self, followed: _Followed) -> Schedule:
        """The schedule at the present positions of the streams. All that is due there counts as evaluated."""
        schedule = Schedule(followed.timing, followed.state, self._places, self._last)
        schedule.skip_to_bound()
        return schedule

    def _schedule_since(self, followed: _Followed, since: SinceState) -> Schedule:
        schedule = Schedule(followed.timing, followed.state, since.places, since.last)
        schedule.skip_to_bound()
        if not followed.keeps(schedule):
            return self._schedule_now(followed)
        streams = {window.stream for window in followed.timing.windows}
        for moved in since.came:
            if moved.stream in streams:
                _advance(schedule, moved)
        followed.timing = schedule.timing
        if not followed.keeps(schedule):
            followed.state = schedule.state(None)
        return schedule

    def is_read(self, stream: int) -> bool:
        return bool(self._readers.get(stream))

    def next_due_ms(self, stream: int) -> int | None:
        """When the clock reaches the next evaluation of a query that reads the stream; None: there is no such query."""
        place = self._places.get(stream, _NOWHERE)
        if place.latest is None:
            return None
        return min(
            (due for grid in self._grids.get(stream, ()) if (due := grid.due_ms(place)) is not None), default=None
        )

    # ---- any thread, while the writer changes the data

    def waits_for(self, query: int) -> list[int]:
        followed = self._queries.get(query)
        return [] if followed is None else (followed.schedule or self._schedule_now(followed)).waits_for()

    def awaited(self, query: int) -> Awaited:
        """As `waits_for`, and also while no stream is ahead of the others."""
        followed = self._queries.get(query)
        if followed is None:
            return Awaited(None, frozenset())
        schedule = followed.schedule or self._schedule_now(followed)
        times = (schedule.awake_times() if schedule.timing.has_origin else {}) or dict.fromkeys(schedule.streams())
        close = schedule.upcoming() if schedule.timing.has_beats else None
        behind = (s for s, time in times.items() if close is None or time is None or time < close)
        return Awaited(close, frozenset(behind))

    def late_of(self, query: int) -> int:
        """The number of elements of all streams that were late for the query."""
        # A copy of a dict is made at once. A list of its items is not: the pairs are objects, the garbage collector may
        # run while they are made, and another thread with it.
        return sum(count for (_, number), count in dict(self.counted).items() if number == query)


def _all_that_counts(timing: Timing, state: QueryState) -> Hashable:
    """Of a state, for its schedule."""
    begins, counts = tuple(state.begins), tuple(state.counts)
    return timing, state.registered, state.t0, state.after, state.last, begins, counts


def _advance(schedule: Schedule, moved: StreamAdvance) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Marks what is due as evaluated; returns which of the elements are late."""
    late = schedule.take(moved)
    for due in schedule.due(moved):
        if due.arrived is None:
            schedule.skip_to_bound()
        else:
            schedule.seen(due.time)
    return late


def _grids_of(timing: Timing, stream: int) -> list[_Grid]:
    if not timing.has_origin or timing.ends_at is not None:
        return []
    found = []
    for window in timing.windows:
        if window.stream == stream:
            delay = (window.lateness_ms, window.includes_end)
            if timing.closes:
                found += [_Grid(other.origin, other.step_ms, *delay) for other in timing.windows]
            found += [_Grid(0, every, *delay) for every in timing.every_ms]
    return found
