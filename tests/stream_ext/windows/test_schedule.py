"""When a query is evaluated, and what is late for it: cases by hand, and grids against brute force."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from stream_ext.language.algebra.windows import Bounds
from stream_ext.windows.grids import Grid, RepeatedTimes, intersect
from stream_ext.windows.occupancy import reach
from stream_ext.windows.query_state import LastEvaluation, QueryState
from stream_ext.windows.schedule import Schedule, initial_state
from stream_ext.windows.scheduled_window import ScheduledWindow
from stream_ext.windows.timing import Timing


@dataclass
class At:
    latest: int | None
    first: int | None
    heartbeat: int | None = None
    idle: bool = False
    openings: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Moved:
    stream: int
    element_times: np.ndarray
    latest: int | None
    heartbeat: int | None
    idle: bool = False


class Steps:
    """A schedule that is told pushes and heartbeats as a test says them; heartbeats are pushes without times."""

    def __init__(self, windows: list[ScheduledWindow], state: QueryState, positions: dict[int, At]) -> None:
        self.schedule = Schedule(Timing(tuple(windows)), state, positions)
        self._at = {n: positions.get(n) or At(None, None) for n in self.schedule.streams()}

    def push(self, stream: int, element_times: np.ndarray, time_after: int) -> np.ndarray:
        at = self._at[stream]
        if len(element_times):
            at.latest = max([int(element_times.max()), *([] if at.latest is None else [at.latest])])
        if at.latest is None or time_after > at.latest:
            at.heartbeat = time_after
        return self.schedule.take(Moved(stream, element_times, at.latest, at.heartbeat))


def times(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def due(steps: Steps) -> list[int]:
    schedule, out = steps.schedule, []
    while (time := schedule.next_time()) is not None:
        out.append(time)
        schedule.done(time)
    return out


def window(stream: int = 1, range_ms: int = 10, step_ms: int = 5, t0_ms: int = 0) -> ScheduledWindow:
    return ScheduledWindow(f"w{stream}", stream, range_ms, step_ms, t0_ms)


def test_the_first_report_is_at_the_first_close_that_can_hold_the_first_element() -> None:
    schedule = Steps([window(range_ms=10, step_ms=5)], QueryState(), {})
    schedule.push(1, times(12), 12)
    assert due(schedule) == []
    schedule.push(1, times(26), 26)
    assert due(schedule) == [15, 20, 25]


def test_a_close_is_reached_when_time_is_at_it_and_its_element_belongs_to_the_next_instance() -> None:
    schedule = Steps([window(range_ms=5, step_ms=5)], QueryState(), {})
    schedule.push(1, times(5), 5)
    assert due(schedule) == []
    schedule.push(1, times(), 10)
    assert due(schedule) == [10]


def test_with_gaps_the_first_report_is_at_the_first_close_after_the_first_element() -> None:
    schedule = Steps([window(range_ms=2, step_ms=10)], QueryState(), {})
    schedule.push(1, times(3), 3)
    schedule.push(1, times(), 31)
    assert due(schedule) == [10, 20, 30]


def test_t0_is_the_origin_of_the_closes_and_is_itself_none() -> None:
    schedule = Steps([window(range_ms=5, step_ms=5, t0_ms=7)], QueryState(), {})
    schedule.push(1, times(1), 1)
    schedule.push(1, times(), 20)
    assert due(schedule) == [12, 17]


def test_until_a_push_decides_t0_its_streams_are_waited_for() -> None:
    schedule = Steps([window(range_ms=5, step_ms=5, t0_ms=None)], QueryState(), {})
    schedule.push(1, times(), 20)  # a heartbeat, which decides nothing
    assert due(schedule) == [] and schedule.schedule.waits_for() == [1]
    schedule.push(1, times(21), 21)
    assert schedule.schedule.waits_for() == [], "no other stream is ahead of it"
    schedule.push(1, times(), 30)
    assert due(schedule) != []


def test_an_idle_stream_holds_its_queries_back() -> None:
    schedule = Steps([window(1), window(2)], QueryState(), {})
    schedule.push(1, times(1), 100)
    assert due(schedule) == [] and schedule.schedule.waits_for() == [2]
    schedule.push(2, times(), 11)
    assert due(schedule) == [5, 10] and schedule.schedule.waits_for() == [2]


def test_each_window_counts_from_the_first_element_of_its_own_stream() -> None:
    schedule = Steps([window(1, step_ms=10), window(2, step_ms=7)], QueryState(), {})
    schedule.push(1, times(1), 30)
    schedule.push(2, times(15), 30)
    assert due(schedule) == [10, 20, 21, 28, 30]


def test_registration_begins_at_the_first_close_that_not_all_streams_had_reached() -> None:
    windows = [window(1), window(2)]
    both = {1: At(23, 1), 2: At(31, 2)}
    state = initial_state(Timing(tuple(windows)), both)
    assert state.registered == 23
    schedule = Steps(windows, state, both)
    schedule.push(1, times(), 40)
    assert due(schedule) == [25, 30]
    assert initial_state(Timing(tuple(windows)), {1: At(23, 1)}).registered is None


def test_late_is_what_belongs_to_a_reported_window_not_what_is_out_of_order() -> None:
    schedule = Steps([window(range_ms=10, step_ms=5)], QueryState(), {})
    schedule.push(1, times(2, 11), 11)
    assert due(schedule) == [5, 10]
    # 9 belongs to the reported close 10 (and to the open 15); 10 and 12 only to open ones.
    assert schedule.push(1, times(9, 10, 12), 12).tolist() == [True, False, False]


def test_elements_of_one_push_are_never_late_for_one_another() -> None:
    schedule = Steps([window(range_ms=5, step_ms=5)], QueryState(), {})
    assert not schedule.push(1, times(50, 1), 50).any()
    assert due(schedule)[0] == 5


def test_what_belongs_only_to_windows_that_closed_before_registration_is_late() -> None:
    schedule = Steps([window(range_ms=5, step_ms=5)], QueryState(registered=20), {1: At(20, 1)})
    schedule.push(1, times(), 30)
    assert due(schedule) == [25, 30]
    assert schedule.push(1, times(3, 22, 27, 31), 31).tolist() == [True, True, True, False]


def test_a_schedule_continues_from_the_last_evaluation() -> None:
    state = QueryState(evaluated=LastEvaluation(sn=7, push=0, k=0, time=15), after=15)
    schedule = Steps([window()], state, {1: At(18, 2)})
    schedule.push(1, times(21), 21)
    assert due(schedule) == [20]


@pytest.mark.parametrize("seed", range(50))
def test_a_run_of_several_grids_counts_each_time_once(seed: int) -> None:
    chance = random.Random(seed)
    grids = tuple(
        Grid(chance.randrange(40), chance.randrange(1, 12), chance.randrange(1, 30))
        for _ in range(chance.randrange(1, 4))
    )
    union = {grid.start + i * grid.step for grid in grids for i in range(grid.count)}
    run = RepeatedTimes(grids)
    assert list(run.times()) == sorted(union)
    assert (run.count(), run.first, run.last) == (len(union), min(union), max(union))


def test_grids_that_never_meet_have_no_intersection() -> None:
    assert intersect(Grid(0, 4, 100), Grid(1, 6, 100)) is None
    assert intersect(Grid(0, 4, 3), Grid(20, 4, 3)) is None


@pytest.mark.parametrize("seed", range(50))
def test_an_element_is_in_the_instance_exactly_until_it_says(seed: int) -> None:
    chance = random.Random(seed)
    one = ScheduledWindow("w", 1, chance.randrange(1, 30), chance.randrange(1, 30), chance.randrange(-20, 20))
    for element in range(30):
        until = int(one.valid_until(times(element))[0])
        for t in range(max(element + 1, one.t0_ms + 1), element + 80):
            close = one.t0_ms + -(-(t - one.t0_ms) // one.step_ms) * one.step_ms
            assert (t <= until) == (close - one.range_ms <= element < t), (one, element, t)


@pytest.mark.parametrize("seed", range(50))
def test_one_time_is_valid_as_long_as_among_others(seed: int) -> None:
    chance = random.Random(seed)
    one = ScheduledWindow(
        "w", 1, chance.randrange(1, 30), chance.randrange(1, 30), chance.randrange(-20, 20),
        until_ms=chance.choice([0, 3]), bounds=chance.choice(list(Bounds)), by_arrival=chance.random() < 0.5,
        start_ms=chance.choice([None, 7]),
    )  # fmt: skip
    elements = list(range(-40, 80))
    assert [one.last_of(time) for time in elements] == one.valid_until(times(*elements)).tolist()
    included = one.ever_includes(times(*elements)).tolist()
    for place, first in enumerate(elements):
        if one.includes_all_from(first):
            assert all(included[place:]), (one, first)
        else:
            assert not all(included[place:]) or one.range_ms <= one.step_ms + 4, (one, first)


@pytest.mark.parametrize("seed", range(200))
def test_what_is_out_of_reach_is_in_no_window_from_that_time_on(seed: int) -> None:
    chance = random.Random(seed)
    windows = [
        ScheduledWindow(
            "w",
            1,
            chance.randint(1, 9),
            chance.randint(1, 9),
            chance.randint(-9, 9),
            bounds=chance.choice(list(Bounds)),
            by_arrival=chance.random() < 0.5,
        )
        for _ in range(chance.randint(1, 2))
    ]
    known = chance.choice([None, chance.randint(-20, 40)])
    oldest = reach(windows, known)[1].oldest
    assert oldest is not None, "all of them have a T0"
    at = np.arange(-60, 60)
    for window in windows:
        froms, untils = window.valid_from(at), window.valid_until(at)
        later = untils if known is None else np.where(untils >= known, untils, froms - 1)
        assert not (later >= froms)[at < oldest].any()
    unknown = reach([ScheduledWindow("w", 1, 5, 1, None)], known)[1].oldest
    assert unknown == (None if known is None else known - 5)


def test_the_first_closes_are_the_same_for_who_steps_and_for_who_skips() -> None:
    """Two windows whose streams begin at different times: a close of one covers what the other holds by then, too."""
    windows = [ScheduledWindow("w1", 1, 10, 10), ScheduledWindow("w2", 2, 10, 10)]
    stepped, skipped = Steps(windows, QueryState(), {}), Steps(windows, QueryState(), {})
    for steps in (stepped, skipped):
        steps.push(1, times(5, 50), 50)
        steps.push(2, times(35, 45), 45)
    assert due(stepped) == [10, 20, 30, 40]
    skipped.schedule.skip_to_bound()
    for steps in (stepped, skipped):
        assert steps.schedule.begins == [10, 40]
        assert steps.push(2, times(12, 42), 45).tolist() == [True, False]


@pytest.mark.parametrize("seed", range(40))
def test_who_skips_knows_what_who_steps_knows(seed: int) -> None:
    chance = random.Random(seed)
    windows = [
        ScheduledWindow(f"w{n}", n, chance.choice([3, 10, 25]), chance.choice([4, 10, 15]), chance.choice([0, 7]))
        for n in (1, 2)
    ]
    stepped, skipped = Steps(windows, QueryState(), {}), Steps(windows, QueryState(), {})
    now = {1: chance.randrange(200), 2: chance.randrange(200)}
    for _ in range(25):
        stream = chance.choice([1, 2])
        now[stream] += chance.randrange(40)
        elements = times(*(max(0, now[stream] - chance.randrange(60)) for _ in range(chance.randrange(3))))
        late = [steps.push(stream, elements, now[stream]).tolist() for steps in (stepped, skipped)]
        assert late[0] == late[1], seed
        due(stepped)
        skipped.schedule.skip_to_bound()
        assert (stepped.schedule.begins, stepped.schedule.after) == (skipped.schedule.begins, skipped.schedule.after)
