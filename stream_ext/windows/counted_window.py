"""A counted window: the last elements or triples that have come, by time and then arrival.

Each triple that comes gets a number; (time, number) is its place in that order, and the triples of one element have the
same number where elements are counted. The window at a time begins at one such place: what is before it, was displaced.

    the last 2 triples of   (5, 0) (9, 1) (7, 2)   =>   at 8 from (5, 0), at 9 from (7, 2)"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_ext.windows.scheduled_window import Count, Times

Mask = npt.NDArray[np.bool_]
#: A place in the order: time and number.
Place = tuple[int, int]

_CAPACITY_LEAST = 64
_NO_PLACES = np.empty((2, 0), np.int64)


class CountedWindow:
    """What is counted, each by its place: the last ones up to the last evaluation, and those that wait for a later one.

    `lead_ms`: an evaluation contains what is older than its time by so much."""

    def __init__(self, stream: int, count: Count, lead_ms: int) -> None:
        self.stream = stream
        self._count, self._lead_ms = count, lead_ms
        self._next = 0
        self._places = np.empty((2, _CAPACITY_LEAST), np.int64)  # of the last ones, in order
        self._start = self._stop = 0
        self._waiting = _NO_PLACES

    def arrive(self, element_times: Times, times: Times, element: npt.NDArray[np.int32]) -> Times:
        """Elements come, with the time and the element of each of their triples; returns a number for each triple."""
        counted = element_times if self._count.of_elements else times
        numbers = np.arange(self._next, self._next + len(counted), dtype=np.int64)
        self._next += len(counted)
        self._waiting = np.concatenate([self._waiting, np.stack([counted, numbers])], axis=1)
        return numbers[element] if self._count.of_elements else numbers

    def first_at(self, time: int) -> Place | None:
        """The place from which the window contains all at `time`, which is not before the time asked for last; None:
        it contains all that is up to it."""
        self._move_to(time)
        if self._stop - self._start < self._count.most:
            return None
        return int(self._places[0, self._start]), int(self._places[1, self._start])

    def oldest(self) -> int | None:
        """The least time in the window at the time that was asked for last; None: it is empty."""
        return None if self._start == self._stop else int(self._places[0, self._start])

    def _move_to(self, time: int) -> None:
        due = self._waiting[0] <= time - self._lead_ms
        if not due.any():
            return
        came, self._waiting = self._waiting[:, due], self._waiting[:, ~due]
        came = came[:, np.lexsort(came[::-1])][:, -self._count.most :]
        held = self._places[:, self._start : self._stop]
        if held.shape[1] and tuple(came[:, 0]) < tuple(held[:, -1]):
            held = np.concatenate([held, came], axis=1)
            held = held[:, np.lexsort(held[::-1])]
            self._start = self._stop = 0
            came = held
        self._append(came)
        self._start = max(self._start, self._stop - self._count.most)

    def _append(self, places: npt.NDArray[np.int64]) -> None:
        count = places.shape[1]
        if self._stop + count > self._places.shape[1]:
            held = self._places[:, self._start : self._stop].copy()
            if 2 * (held.shape[1] + count) > self._places.shape[1]:
                self._places = np.empty((2, 2 * (held.shape[1] + count)), np.int64)
            self._start, self._stop = 0, held.shape[1]
            self._places[:, : self._stop] = held
        self._places[:, self._stop : self._stop + count] = places
        self._stop += count


def are_from(first: Place | None, times: Times, numbers: Times) -> Mask:
    """Which of these places are at `first` or after it; None: all."""
    if first is None:
        return np.ones(len(times), np.bool_)
    time, number = first
    found: Mask = (times > time) | ((times == time) & (numbers >= number))
    return found
