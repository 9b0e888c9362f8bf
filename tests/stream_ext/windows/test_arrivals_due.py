"""What a push makes due at arrivals, found all at once, is what the schedule says one by one."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from stream_ext.language.algebra.windows import Bounds
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.arrivals_due import arrivals_due, merged_due
from stream_ext.windows.pushes import Merged
from stream_ext.windows.query_state import QueryState
from stream_ext.windows.schedule import Schedule
from stream_ext.windows.scheduled_window import Count, ScheduledWindow
from stream_ext.windows.timing import Timing, arrives_by_element

Times = npt.NDArray[np.int64]


@dataclass
class Push:
    stream: int
    element_times: Times
    element_sizes: Times
    latest: int | None
    heartbeat: int | None = None
    idle: bool = False


def window(chance: random.Random, name: str, stream: int) -> ScheduledWindow:
    kind = chance.choice(["range", "range", "grid", "now", "all", "triples", "elements", "steps"])
    length, bounds = chance.choice([5, 20, 40]), chance.choice([Bounds.OPEN_CLOSED, Bounds.CLOSED, Bounds.CLOSED_OPEN])
    count = Count(chance.choice([1, 3, 8]), kind == "elements", 3 * (kind == "steps"))
    match kind:
        case "range":
            until = chance.choice([0, 0, 3])
            return ScheduledWindow(name, stream, length, 0, until_ms=until, bounds=bounds, by_arrival=True, bag=True)
        case "grid":
            return ScheduledWindow(name, stream, length, 15, chance.choice([0, 40]), bounds=bounds, by_arrival=True)
        case "now":
            return ScheduledWindow(name, stream, 0, 0, bounds=Bounds.CLOSED, by_arrival=True, bag=True)
        case "all":
            return ScheduledWindow(name, stream, 0, 0, by_arrival=True, holds_all=True, bag=True)
    return ScheduledWindow(name, stream, 0, 0, by_arrival=True, count=count, bag=True)


def pushes(chance: random.Random) -> list[Push]:
    found, now, latest = [], 0, {1: 0, 2: 0}
    for _ in range(chance.randrange(3, 9)):
        stream, is_tidy = chance.choice([1, 1, 2]), chance.random() < 0.6
        times = []
        for _ in range(chance.randrange(0, 12)):
            now += chance.choice([0, 0, 1, 4])
            times.append(max(0, now - (0 if is_tidy else chance.choice([0, 0, 3, 30]))))
        latest[stream] = max([latest[stream], *times])
        sizes = [chance.choice([1, 1, 2, 5]) for _ in times]
        found.append(Push(stream, np.array(times, np.int64), np.array(sizes, np.int64), latest[stream]))
    return found


@pytest.mark.parametrize("block", range(5))
def test_what_is_due_all_at_once_is_what_is_due_one_by_one(block: int) -> None:
    many = 0
    for seed in range(block * 200, block * 200 + 200):
        chance = random.Random(seed)
        windows = tuple(window(chance, f"w{n}", chance.choice([1, 2])) for n in range(chance.randrange(1, 4)))
        steps = {each.count.step for each in windows if each.count is not None and each.count.step}
        if len(steps) > 1:
            continue
        timing = Timing(windows, closes=False, arrivals=True)
        counts = [(0, 0) for each in windows if each.count is not None and each.count.step]
        one, all_ = (Schedule(timing, QueryState(counts=counts), {}) for _ in range(2))
        for push in pushes(chance):
            if push.stream not in one.streams():
                continue
            late = one.take(push)
            assert late.tolist() == all_.take(push).tolist(), f"seed {seed}"
            expected = []
            for due in one.due(push):
                one.seen(due.time)
                expected.append((due.time, due.arrived))
            found = arrivals_due(all_, push, None)
            assert list(zip(found.times.tolist(), found.arrived.tolist(), strict=True)) == expected, f"seed {seed}"
            by_element = arrives_by_element(windows, push.stream)
            marks = range(1, len(push.element_times) + 1) if by_element else push.element_times.tolist()
            places = [sum(arrived is not None and arrived < mark for _, arrived in expected) for mark in marks]
            assert found.places.tolist() == places, f"seed {seed}"
            assert one.state(None) == all_.state(None), f"seed {seed}"
            many += len(expected)
    assert many > 500


@pytest.mark.parametrize("block", range(3))
def test_what_a_snapshot_makes_due_is_what_its_pushes_do_one_after_the_other(block: int) -> None:
    many = 0
    for seed in range(block * 200, block * 200 + 200):
        chance = random.Random(f"merged {seed}")
        windows = tuple(window(chance, f"w{n}", chance.choice([1, 2])) for n in range(chance.randrange(1, 4)))
        if any(each.count is not None and each.count.step for each in windows):
            continue
        timing = Timing(windows, closes=False, arrivals=True)
        one, all_ = (Schedule(timing, QueryState(), {}) for _ in range(2))
        came = [push for push in pushes(chance) if push.stream in one.streams() and len(push.element_times)]
        for start in range(0, len(came), 3):
            some = came[start : start + 3]
            merged = merged_of(some)
            found = merged_due(all_, merged)
            if found is None:
                break  # it is found push by push
            expected = []
            for ordinal, push in enumerate(some):
                one.take(push)
                due = arrivals_due(one, push, None)
                expected += [(time, ordinal, at) for time, at in zip(due.times, due.arrived, strict=True)]
            columns = (found.times.tolist(), found.pushes.tolist(), found.arrived.tolist())
            assert list(zip(*columns, strict=True)) == expected, f"seed {seed}"
            assert one.state(None) == all_.state(None), f"seed {seed}"
            many += len(expected)
    assert many > 300


def merged_of(some: list[Push]) -> Merged:
    times = np.concatenate([push.element_times for push in some])
    ordinals = np.repeat(np.arange(len(some), dtype=np.int32), [len(push.element_times) for push in some])
    parts = []
    for stream in sorted({push.stream for push in some}):
        own = np.flatnonzero(np.isin(ordinals, [n for n, push in enumerate(some) if push.stream == stream]))
        sizes = np.concatenate([push.element_sizes for push in some if push.stream == stream])
        element = np.repeat(np.arange(len(own), dtype=np.int32), sizes)
        ids = np.zeros(len(element), np.uint64)
        whole = Arrival(1, 0, stream, times[own], ids, ids, ids, ids, times[own][element], element, None, None, False)
        parts.append((whole, own))
    return Merged(times, ordinals, tuple(parts))
