"""The model: what operators mean, in plain Python on Counters. It shares no code with the engine.

A change is a list of (row, weight, until). What is there at a time is the bag of rows whose weights, over the entries
that are valid then, sum to more than nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

Row = tuple[int, ...]
Entry = tuple[Row, int, int]


def alive(entries: Iterable[Entry], time: int) -> Counter[Row]:
    """The bag at `time`: an entry counts up to its `until`."""
    bag: Counter[Row] = Counter()
    for row, weight, until in entries:
        if until >= time:
            bag[row] += weight
    return Counter({row: n for row, n in bag.items() if n})


def join(left: Counter[Row], right: Counter[Row], left_key: list[int], right_key: list[int]) -> Counter[Row]:
    rest = [i for i in range(max((len(r) for r in right), default=0)) if i not in right_key]
    out: Counter[Row] = Counter()
    for a, n in left.items():
        for b, m in right.items():
            if all(a[i] == b[j] for i, j in zip(left_key, right_key, strict=True)):
                out[a + tuple(b[i] for i in rest)] += n * m
    return Counter({row: n for row, n in out.items() if n})


def distinct(bag: Counter[Row]) -> Counter[Row]:
    return Counter({row: 1 for row, n in bag.items() if n > 0})


def project(bag: Counter[Row], columns: list[int | None]) -> Counter[Row]:
    out: Counter[Row] = Counter()
    for row, n in bag.items():
        out[tuple(0 if i is None else row[i] for i in columns)] += n
    return out


def gained(now: Counter[Row], before: Counter[Row]) -> Counter[Row]:
    return now - before
