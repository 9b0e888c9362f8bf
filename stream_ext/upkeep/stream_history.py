"""The history of a stream: the snapshots with elements of it that are not collected, in a few bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from hbase_store import Store

# Dropped entries are removed from the arrays when there are so many.
_CUT = 4096


class StreamHistory:
    """Oldest first. Numbers, stream times and times of publication ascend."""

    def __init__(self) -> None:
        self._sns, self._times, self._published_ms, self._sizes = (array("q") for _ in range(4))
        self._start = 0
        self.nbytes = 0
        #: The snapshot after the last entry that there ever was.
        self.end = 0

    @classmethod
    def read(cls, store: Store, stream: int) -> StreamHistory:
        """The history in a store that is opened: the row of each snapshot names the one before."""
        found: list[tuple[int, int, int, int]] = []
        for row, sn, time in store.snapshots_with_elements(stream, store.head()):
            if row is not None and time is not None:
                size = sum(place.slice_bytes for place in row.places if place.stream == stream)
                found.append((sn, time, row.published_ms, size))
        history = cls()
        for entry in reversed(found):
            history.append(*entry)
        return history

    def append(self, sn: int, time: int, published_ms: int, size: int) -> None:
        """`time`: the time of the stream after the snapshot; `size`: the bytes that the store did not absorb."""
        published = max(published_ms, self._published_ms[-1]) if self._published_ms else published_ms
        self._sns.append(sn)
        self._times.append(time)
        self._published_ms.append(published)
        self._sizes.append(size)
        self.nbytes += size
        self.end = sn + 1

    @property
    def oldest_time(self) -> int | None:
        """The time of the stream after the oldest of its snapshots; None: there is none. Any thread may read it."""
        oldest = self._times[self._start : self._start + 1]  # a slice: meanwhile the writer may cut the columns
        return oldest[0] if oldest else None

    def drop_below(self, sn: int) -> tuple[int, int]:
        """Removes the snapshots below `sn`; returns their number, and their bytes."""
        start = bisect_left(self._sns, sn, self._start)
        count, size = start - self._start, sum(self._sizes[self._start : start])
        self._start = start
        self.nbytes -= size
        if start > _CUT:
            for column in (self._sns, self._times, self._published_ms, self._sizes):
                del column[:start]
            self._start = 0
        return count, size

    @property
    def begin(self) -> int:
        """The first snapshot; `end` if there is none."""
        return self._sn_at(self._start)

    def first_at(self, time: int) -> int:
        """The first snapshot after which the stream's time is `time` or later."""
        return self._sn_at(bisect_left(self._times, time, self._start))

    def first_after(self, sn: int) -> int:
        return self._sn_at(bisect_left(self._sns, sn + 1, self._start))

    def first_published(self, time_ms: int) -> int:
        return self._sn_at(bisect_left(self._published_ms, time_ms, self._start))

    def _sn_at(self, place: int) -> int:
        return self._sns[place] if place < len(self._sns) else self.end

    def nbytes_from(self, sn: int) -> int:
        return sum(self._sizes[bisect_left(self._sns, sn, self._start) :])

    def between(self, stream: int, first: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """(time of publication, stream, snapshot, bytes) of first <= snapshot < end."""
        start, stop = (bisect_left(self._sns, sn, self._start) for sn in (first, end))
        for place in range(start, stop):
            yield self._published_ms[place], stream, self._sns[place], self._sizes[place]
