"""Last times: whether an element that comes now is among the last ones that a counted window contains.

Elements are ordered by time, and then by arrival, and at t those up to t count. So an element that comes now is
displaced by as many as the window contains, if all of these have a later time, up to t.

    the last 3 of   5 8 8 9     =>   one of 7 that comes now is not among them, one of 8 is the first of them"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Iterable

import numpy as np

from stream_ext.windows.scheduled_window import Count, Times


class LastTimes:
    """How many elements or triples there are of each time: of the last times up to one, and of all later times."""

    def __init__(self, count: Count, up_to: int | None) -> None:
        """`up_to`: the time of the last evaluation."""
        self._count, self._up_to = count, up_to
        self._times: list[int] = []  # a heap
        self._sizes: dict[int, int] = {}
        self._total = 0
        self._later: list[tuple[int, int]] = []  # times and sizes of those after `up_to`, in order

    def add(self, time: int, triples: int) -> None:
        """An element of so many triples."""
        size = 1 if self._count.of_elements else triples
        if not size:
            return
        if self._up_to is None or time > self._up_to:
            insort(self._later, (time, size))
        else:
            self._enter(time, size)

    def add_all(self, times: Iterable[int], sizes: Iterable[int]) -> None:
        for time, size in zip(times, sizes, strict=True):
            self.add(time, size)

    def add_in_order(self, times: Times, sizes: Times) -> None:
        """Elements that come one after the other, none before the ones that have come, and evaluations with each."""
        if not len(times):
            return
        sizes = np.ones_like(sizes) if self._count.of_elements else sizes
        after = np.cumsum(sizes[::-1])[::-1]
        start = int(np.searchsorted(-after, -self._count.most, "right"))  # so many do from here on, or all do not
        waits = bool(self._later) and self._later[-1][0] > int(times[-1])
        if start > 1 and not waits:  # those before the last `most` are displaced by these
            self._times, self._sizes, self._total, self._later = [], {}, 0, []
            times, sizes = times[start - 1 :], sizes[start - 1 :]
        self.move_to(int(times[-1]))
        for time, size in zip(times.tolist(), sizes.tolist(), strict=True):
            if size:
                self._enter(time, size)

    def move_to(self, time: int) -> None:
        """The last evaluation is at this time now."""
        self._up_to = time
        due = bisect_right(self._later, time, key=lambda later: later[0])
        for at, size in self._later[:due]:
            self._enter(at, size)
        del self._later[:due]

    def _enter(self, time: int, size: int) -> None:
        if self._total >= self._count.most and time < self._times[0]:
            return
        if time not in self._sizes:
            heapq.heappush(self._times, time)
        self._sizes[time] = self._sizes.get(time, 0) + size
        self._total += size
        while self._total - self._sizes[self._times[0]] >= self._count.most:
            self._total -= self._sizes.pop(heapq.heappop(self._times))

    @property
    def least(self) -> int | None:
        """The time of the first one that is contained at the last evaluation; None: there is room for more."""
        return self._times[0] if self._total >= self._count.most else None

    def will_contain(self, time: int, at: int) -> bool:
        """Whether an element of this time, which comes now, is contained at `at`."""
        if not self._later:
            full = self._total >= self._count.most
            return not full or time >= self._times[0]
        later = sum(size for other, size in self._later if time < other <= at)
        return later + sum(size for other, size in self._sizes.items() if other > time) < self._count.most
