"""Ends: when rows leave a window, to the step in which something may leave it: enough to know that nothing does.

Rows that came in together are one span, from the first end to the last. Spans ascend: of rows that came late, the span
is one with that before it."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

#: After all times.
NO_TIME = 1 << 62


class NextChanges(NamedTuple):
    """Of a scan, after an evaluation: the time before which no row comes in, the time before which none leaves, and one
    at which all have left. `shows_again`: when a row leaves, a later copy of it may come in."""

    comes: int
    leaves: int
    gone: int
    shows_again: bool


class Ends:
    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []  # few; an empty deque would take 760 bytes

    def add(self, first: int, last: int) -> None:
        """The last times at which rows are in the window: the least and the greatest of them."""
        spans = self._spans
        while spans and first < spans[-1][0]:
            last = max(last, spans.pop()[1])
        if not spans or last > spans[-1][1]:
            spans.append((first, last))

    def next(self, time: int, by: int = 0) -> int:
        """Before this time nothing leaves the window, of what is in it at `time`; or a window that is shorter by so
        much."""
        spans = self._spans
        while spans and spans[0][1] < time:
            del spans[0]
        at = bisect_left(spans, time + by, key=_last) if by else 0
        return max(spans[at][0] - by, time) + 1 if at < len(spans) else NO_TIME

    def gone(self, by: int = 0) -> int:
        """A time at which all have left it, as in `next`; NO_TIME if nothing is in it."""
        return self._spans[-1][1] - by + 1 if self._spans else NO_TIME

    def shorten(self, by: int) -> None:
        """The window is shorter by so much from now on."""
        self._spans = [(first - by, last - by) for first, last in self._spans]


def _last(span: tuple[int, int]) -> int:
    return span[1]
