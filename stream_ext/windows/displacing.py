"""Displacing: which evaluation of many a row of a counted window comes with, and which one it is gone at.

The last elements or triples up to an evaluation are a window, by time and then arrival, and what comes displaces. Each
that comes has a number (as in `counted_window`); it comes, and is displaced, with a numbered evaluation.

    the last 2 triples of   (5, #0) (9, #1) (7, #2)   that come with evaluations 1, 2, 3   =>   #0 is gone at 3"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from stream_ext.windows.numbered_evaluations import NEVER_GONE, OLD, NumberedEvaluations
from stream_ext.windows.scheduled_window import Count, Times

_NOTHING: Times = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Displaced:
    """What came, by number ascending: the evaluations with which it came and at which it is gone. What was there, by
    number ascending: the evaluations at which it is gone, as far as it is."""

    came: Times
    came_with: Times
    came_gone: Times
    left: Times
    left_gone: Times


class Displacing:
    def __init__(self, stream: int, count: Count, lead_ms: int) -> None:
        self.stream = stream
        self._count, self._lead_ms = count, lead_ms
        self._next = 0
        self._content = _NOTHING, _NOTHING  # times and numbers of the last ones, in order
        self._coming: list[tuple[Times, Times, Times]] = []  # times, numbers, evaluations
        self._oldest = _NOTHING, _NOTHING  # evaluations, and the least time from each of them on
        self.displaced: Displaced | None = None  # by the last evaluations

    def arrive(self, element_times: Times, times: Times, element: np.typing.NDArray[np.int32], came: Times) -> Times:
        """Elements come, each with an evaluation, with the time and the element of each of their triples; returns a
        number for each triple."""
        counted, came = (element_times, came) if self._count.of_elements else (times, came[element])
        numbers = np.arange(self._next, self._next + len(counted), dtype=np.int64)
        self._next += len(counted)
        self._coming.append((counted, numbers, came))
        return numbers[element] if self._count.of_elements else numbers

    def displace(self, evaluations: NumberedEvaluations) -> None:
        """Finds what these evaluations see of what has come; the rest waits."""
        times, numbers, came = (np.concatenate([_NOTHING, *(each[i] for each in self._coming)]) for i in range(3))
        self._coming.clear()
        came, waits = evaluations.entered(came, times + self._lead_ms)
        if waits is not None:
            self._coming.append((times[waits], numbers[waits], came[waits]))
            times, numbers, came = times[~waits], numbers[~waits], came[~waits]
        if bool((came[1:] < came[:-1]).any()):
            order = np.argsort(came, kind="stable")
            times, numbers, came = times[order], numbers[order], came[order]
        old_times, old_numbers = self._content
        all_times, all_numbers = np.concatenate([old_times, times]), np.concatenate([old_numbers, numbers])
        is_in_order = (all_times[1:] > all_times[:-1]) | (
            (all_times[1:] == all_times[:-1]) & (all_numbers[1:] > all_numbers[:-1])
        )
        if bool(is_in_order.all()):
            gone = self._in_order(all_times, all_numbers, came)
        else:
            gone = self._by_heap(all_times, all_numbers, came)
        self.displaced = _displaced(all_numbers, came, gone, len(old_times))

    def _in_order(self, times: Times, numbers: Times, came: Times) -> Times:
        """Each displaces the one that came so many before it."""
        most, old = self._count.most, len(times) - len(came)
        gone = np.full(len(times), NEVER_GONE, np.int64)
        with_ = np.concatenate([np.full(old, OLD, np.int64), came])
        excess = max(0, len(times) - most)
        gone[:excess] = with_[most : most + excess]
        firsts = np.maximum(0, np.arange(old + 1, len(times) + 1) - most)
        self._note_oldest(times[:1] if old else _NOTHING, came, times[firsts])
        self._content = times[excess:], numbers[excess:]
        return gone

    def _by_heap(self, times: Times, numbers: Times, came: Times) -> Times:
        old = len(times) - len(came)
        gone = np.full(len(times), NEVER_GONE, np.int64)
        heap = list(zip(times[:old].tolist(), numbers[:old].tolist(), range(old), strict=True))
        firsts = np.empty(len(came), np.int64)
        for n, each in enumerate(zip(times[old:].tolist(), numbers[old:].tolist(), strict=True)):
            heapq.heappush(heap, (*each, old + n))
            if len(heap) > self._count.most:
                gone[heapq.heappop(heap)[2]] = came[n]
            firsts[n] = heap[0][0]
        self._note_oldest(times[:1] if old else _NOTHING, came, firsts)
        remains = np.array([place for *_, place in sorted(heap)], np.int64)
        self._content = times[remains], numbers[remains]
        return gone

    def _note_oldest(self, before: Times, came: Times, firsts: Times) -> None:
        self._oldest = np.concatenate([before * 0 + OLD, came]), np.concatenate([before, firsts])

    def oldest_at(self, numbers: Times, empty: Times) -> Times:
        """The least times in the window at evaluations of the last `displace`; those of `empty` where it is empty."""
        return least_at(self._oldest, numbers, empty)


def least_at(known: tuple[Times, Times], numbers: Times, empty: Times) -> Times:
    """`known`: numbers of evaluations (doubled), and a time that holds from each of them on."""
    evaluations, times = known
    places = np.searchsorted(evaluations, 2 * numbers, "right") - 1
    if not len(times):
        return empty
    return np.where(places >= 0, times[np.maximum(places, 0)], empty)


def _displaced(numbers: Times, came: Times, gone: Times, old: int) -> Displaced:
    is_gone = gone[:old] != NEVER_GONE
    left, new = np.argsort(numbers[:old][is_gone]), np.argsort(numbers[old:])
    return Displaced(
        numbers[old:][new], came[new], gone[old:][new], numbers[:old][is_gone][left], gone[:old][is_gone][left]
    )
