"""Counts of requests, for the metrics."""

from __future__ import annotations

from bisect import bisect_left

#: Upper bounds of the buckets of request times, in seconds.
BOUNDS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2.5, 10.0, 60.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class Requests:
    """Number and duration of requests, by route, method and status. Used on the event loop only."""

    def __init__(self) -> None:
        self.counted: dict[tuple[str, str, int], int] = {}
        self.times: dict[str, list[int]] = {}
        self.seconds: dict[str, float] = {}

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method if method in _METHODS else "other", status)
        self.counted[key] = self.counted.get(key, 0) + 1
        buckets = self.times.get(route)
        if buckets is None:
            buckets = self.times[route] = [0] * (len(BOUNDS_S) + 1)
        buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds
