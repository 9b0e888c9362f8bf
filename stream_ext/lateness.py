"""Which elements are late, and when closes fall due, by the schedules of all queries at the head.

The runners have the same schedules, but they lag behind the head; a push is answered before it is evaluated. A
schedule is a function of where its streams stand, so none is kept here: it is made when somebody asks. And few do:
an element that is not older than its stream's time is in no instance that has closed, so it is late for nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hbase_store import StreamPosition
from stream_ext.batching import Taken
from stream_ext.catalog import Catalog, QueryDefinition
from stream_ext.late import LateElements, found_late
from stream_ext.schedule import QueryState, Schedule, ScheduledWindow
from stream_ext.shard import query_of, windows_of


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a stream stands."""

    time: int | None
    first: int | None

    def after(self, taken: Taken) -> _Place:
        least = int(taken.times.min()) if len(taken.times) else None
        known = [time for time in (self.first, least) if time is not None]
        return _Place(taken.time_after, min(known, default=None))


@dataclass(frozen=True, slots=True)
class _Followed:
    windows: list[ScheduledWindow]
    state: QueryState


_NOWHERE = _Place(None, None)


class Lateness:
    """Belongs to the writer's thread; others may read the counters, and ask what a query waits for."""

    def __init__(self, positions: Mapping[int, StreamPosition]) -> None:
        self._places = {stream: _Place(position.time, position.first) for stream, position in positions.items()}
        self._queries: dict[int, _Followed] = {}
        self._readers: dict[int, list[int]] = {}  # of each stream
        self._grids: dict[int, list[ScheduledWindow]] = {}  # windows with different closes, of each stream's readers
        self.counted: Counter[tuple[int, int]] = Counter()  # by stream and query, since this process started
        self.elements = LateElements()

    def follow(self, query: QueryDefinition, state: QueryState, catalog: Catalog) -> None:
        """From where the streams stand; what was due there counts as evaluated."""
        followed = _Followed(windows_of(query_of(query.text, query.base), catalog), state)
        self._queries[query.number] = followed
        for stream in {window.stream for window in followed.windows}:
            self._readers.setdefault(stream, []).append(query.number)
        self._find_grids(followed)

    def forget(self, query: int) -> None:
        followed = self._queries.pop(query)
        for stream in {window.stream for window in followed.windows}:
            self._readers[stream].remove(query)
        self._find_grids(followed)

    def _find_grids(self, changed: _Followed) -> None:
        for stream in {window.stream for window in changed.windows}:
            windows = [window for query in self._readers[stream] for window in self._queries[query].windows]
            self._grids[stream] = list({(window.t0_ms, window.step_ms): window for window in windows}.values())

    def take(self, taken: Taken, sn: int) -> int:
        """How many of these elements, which are in snapshot `sn`, are late for at least one query."""
        place = self._places.get(taken.stream, _NOWHERE)
        missed = {}
        if place.time is not None and len(taken.times) and int(taken.times.min()) < place.time:
            for query in self._readers.get(taken.stream, ()):
                late = self._schedule(query).push(taken.stream, taken.times, taken.time_after)
                if late.any():
                    self.counted[taken.stream, query] += int(late.sum())
                    missed[query] = late
        self._places[taken.stream] = place.after(taken)
        found = found_late(sn, taken.ordinal, taken.times, missed)
        if found:
            self.elements.add(taken.stream, found)
        return len(found)

    def _schedule(self, query: int) -> Schedule:
        """As it is where the streams stand. What has been evaluated is what they have come to: both only grow."""
        followed = self._queries[query]
        schedule = Schedule(followed.windows, followed.state, self._places)
        schedule.skip_to_bound()
        return schedule

    def is_read(self, stream: int) -> bool:
        return bool(self._readers.get(stream))

    def next_close(self, stream: int, time: int) -> int | None:
        """The next close after `time` of any query that reads the stream; None if nobody does."""
        return min((window.close_after(time) for window in self._grids.get(stream, ())), default=None)

    def waits_for(self, query: int) -> list[int]:
        return self._schedule(query).waits_for() if query in self._queries else []
