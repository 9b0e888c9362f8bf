"""Grids and runs: many evaluation times as one.

closes every 10 from 10 to 90, and every 25 from 25 to 75   =>   one run of 11 different times (50 is in both)"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grid:
    """start, start + step, ... (`count` of them)."""

    start: int
    step: int
    count: int

    @property
    def last(self) -> int:
        return self.start + (self.count - 1) * self.step


@dataclass(frozen=True, slots=True)
class RepeatedTimes:
    """The union of some grids: evaluation times that are emitted as one."""

    grids: tuple[Grid, ...]

    @property
    def first(self) -> int:
        return min(grid.start for grid in self.grids)

    @property
    def last(self) -> int:
        return max(grid.last for grid in self.grids)

    def count(self) -> int:
        """The number of different times: inclusion and exclusion over the intersections of the grids."""
        total = 0
        for size in range(1, len(self.grids) + 1):
            for some in itertools.combinations(self.grids, size):
                common: Grid | None = some[0]
                for grid in some[1:]:
                    common = None if common is None else intersect(common, grid)
                total += (-1) ** (size + 1) * (common.count if common else 0)
        return total

    def times(self) -> Iterator[int]:
        """Each time once, in order."""
        last = None
        for time in _merged([range(g.start, g.last + 1, g.step) for g in self.grids]):
            if time != last:
                yield time
            last = time


def _merged(ranges: list[range]) -> Iterator[int]:
    return heapq.merge(*ranges)


def intersect(a: Grid, b: Grid) -> Grid | None:
    """The times of both, again a grid (the Chinese remainder theorem), or None."""
    gcd = math.gcd(a.step, b.step)
    if (b.start - a.start) % gcd:
        return None
    step = a.step // gcd * b.step
    turns = (b.start - a.start) // gcd * pow(a.step // gcd, -1, b.step // gcd) % (b.step // gcd)
    start = a.start + turns * a.step
    low, high = max(a.start, b.start), min(a.last, b.last)
    if start < low:
        start += -(-(low - start) // step) * step
    return Grid(start, step, (high - start) // step + 1) if start <= high else None
