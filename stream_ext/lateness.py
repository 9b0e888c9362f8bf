"""Which elements are late, and when closes fall due: the schedules of all queries, followed at the head.

The runners have the same schedules, but they lag behind the head; a push is answered before it is evaluated. As a
schedule is a function of the pushes alone, both come to the same result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from hbase_store import StreamPosition
from stream_ext.batching import Taken
from stream_ext.catalog import Catalog, QueryDefinition
from stream_ext.schedule import QueryState, Schedule
from stream_ext.shard import query_of, windows_of


class Lateness:
    """Belongs to the writer's thread; others may read the counters and what a query waits for."""

    def __init__(self) -> None:
        self._schedules: dict[int, Schedule] = {}
        self._readers: dict[int, list[int]] = {}  # of each stream
        self.counted: Counter[tuple[int, int]] = Counter()  # by stream and query, since this process started

    def follow(
        self, query: QueryDefinition, state: QueryState, catalog: Catalog, positions: Mapping[int, StreamPosition]
    ) -> None:
        """From `positions` on; all that was due there counts as evaluated."""
        windows = windows_of(query_of(query.text, query.base), catalog)
        schedule = Schedule(windows, state, positions)
        schedule.skip_to_bound()
        self._schedules[query.number] = schedule
        for stream in schedule.streams():
            self._readers.setdefault(stream, []).append(query.number)

    def forget(self, query: int) -> None:
        schedule = self._schedules.pop(query, None)
        for stream in schedule.streams() if schedule else ():
            self._readers[stream].remove(query)

    def take(self, taken: Taken) -> int:
        """How many of these elements are late for at least one query."""
        late = np.zeros(len(taken.times), np.bool_)
        for query in self._readers.get(taken.stream, ()):
            schedule = self._schedules[query]
            late_here = schedule.push(taken.stream, taken.times, taken.time_after)
            schedule.skip_to_bound()
            if late_here.any():
                self.counted[taken.stream, query] += int(late_here.sum())
                late |= late_here
        return int(late.sum())

    def next_close(self, stream: int, time: int) -> int | None:
        """The next close after `time` of any query that reads the stream; None if nobody does."""
        closes = [
            window.close_after(time)
            for query in self._readers.get(stream, ())
            for window in self._schedules[query].windows
        ]
        return min(closes, default=None)

    def waits_for(self, query: int) -> list[int]:
        schedule = self._schedules.get(query)
        return [] if schedule is None else schedule.waits_for()
