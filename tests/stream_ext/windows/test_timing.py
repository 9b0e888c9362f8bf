"""Schedules and windows against the model: every shape, every trigger, however the streams come."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from stream_ext.language.algebra.windows import Bounds
from stream_ext.windows.openings import Openings, opened
from stream_ext.windows.query_state import LastEvaluation, QueryState
from stream_ext.windows.schedule import Schedule, initial_state
from stream_ext.windows.scheduled_window import Count, ScheduledWindow
from stream_ext.windows.timing import Timing
from tests.stream_ext.timing_model import Element, EmittedAt, Model, Window

TRIGGERS: list[dict[str, Any]] = [
    {"closes": True},
    {"closes": True},
    {"closes": False, "every": (6,)},
    {"closes": False, "every": (4, 10)},
    {"closes": True, "every": (9,)},
    {"closes": False, "arrivals": True},
    {"closes": True, "arrivals": True},
    {"closes": False, "arrivals": True, "every": (8,)},
]


@dataclass(frozen=True)
class Event:
    """A push, a heartbeat or a mark of idleness, and where its stream stands after it."""

    stream: int
    element_times: np.ndarray
    latest: int | None
    heartbeat: int | None
    idle: bool


@dataclass
class Position:
    latest: int | None = None
    heartbeat: int | None = None
    first: int | None = None
    idle: bool = False
    openings: Openings = ()

    def after(self, event: Event) -> Position:
        times, openings = event.element_times, self.openings
        if len(times):
            openings = opened(openings, times, self.latest, self.heartbeat)
        return Position(event.latest, event.heartbeat, None, event.idle, openings)


def random_windows(chance: random.Random) -> list[Window]:
    by_first_push = chance.random() < 0.3
    shared = chance.choice([0, 0, 4])
    windows = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        range_ms = chance.choice([3, 5, 10, 20])
        windows.append(
            Window(
                stream=chance.choice([1, 1, 2]),
                range_ms=range_ms,
                step_ms=chance.choice([2, 5, 7, 10, 25]),
                t0=None if by_first_push else chance.choice([0, 0, 3, -4, 1010]),
                until_ms=chance.choice([0, 0, 0, 2]),
                bounds=chance.choice(["[)", "[)", "(]", "[]"]),
                lateness=chance.choice([shared, shared, 3]),
            )
        )
    return windows


def beside(chance: random.Random, windows: list[Window]) -> list[Window]:
    """With one that causes no evaluation."""
    kind = chance.choice(["ALL", "ELEMENTS", "TRIPLES"])
    return [*windows, Window(chance.choice([1, 2]), 0, 0, 0, kind=kind, count=chance.choice([1, 2, 4]))]


def scheduled(window: Window, place: int, includes_end: bool) -> ScheduledWindow:
    if not window.closes:
        bounds = Bounds.CLOSED if includes_end else Bounds.CLOSED_OPEN
        count = None if window.kind == "ALL" else Count(window.count, window.kind == "ELEMENTS")
        holds_all = window.kind == "ALL"
        return ScheduledWindow(f"w{place}", window.stream, 0, 0, bounds=bounds, holds_all=holds_all, count=count)
    return ScheduledWindow(
        f"w{place}",
        window.stream,
        window.range_ms,
        window.step_ms,
        window.t0,
        window.lateness,
        window.until_ms,
        Bounds(window.bounds),
    )


@dataclass
class Engine:
    """The schedule, and what its windows say of the elements that have arrived."""

    timing: Timing
    positions: dict[int, Position] = field(default_factory=dict)
    elements: list[Element] = field(default_factory=list)

    def start(self) -> None:
        self.schedule = Schedule(self.timing, initial_state(self.timing, self.positions), self.positions)
        self.state = QueryState(self.schedule.registered)

    def restart(self) -> None:
        """As a process that knows no more than what is stored."""
        self.schedule = Schedule(self.timing, self.state, self.positions)

    def take(self, event: Event, elements: list[Element]) -> tuple[list[bool], list[EmittedAt]]:
        late = self.schedule.take(event).tolist()
        self.positions[event.stream] = self.positions.get(event.stream, Position()).after(event)
        observed = []
        before = list(self.elements)
        for due in self.schedule.due(event):
            known = before + [e for e in elements if due.arrived is None or e.time <= due.arrived]
            observed.append(self.emitted(due.time, due.arrived is not None, known))
            if due.arrived is None:
                self.schedule.done(due.time)
            else:
                self.schedule.seen(due.time)
        self.elements += elements
        evaluated = LastEvaluation(1, 0, 0, observed[-1].time) if observed else self.state.evaluated
        self.state = self.schedule.state(evaluated)
        return late, observed

    def emitted(self, time: int, by_arrival: bool, known: list[Element]) -> EmittedAt:
        contents = []
        for window in self.schedule.windows:
            seen = replace(window, by_arrival=by_arrival)
            mine = [e for e in known if e.stream == window.stream]
            times = np.array([e.time for e in mine], np.int64)
            held = (seen.valid_from(times) <= time) & (seen.valid_until(times) >= time)
            found = sorted((e.time, e.number) for e, holds in zip(mine, held, strict=True) if holds)
            most = 0 if window.count is None else window.count.most  # here each element is a triple
            contents.append(frozenset(number for _, number in found[-most:]))
        return EmittedAt(time, by_arrival, tuple(contents))


def _some(value: int | None) -> list[int]:
    return [] if value is None else [value]


class Play:
    """One seed: both sides see the same pushes, heartbeats and silences."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        windows = random_windows(chance)
        triggers = chance.choice(TRIGGERS)
        if any(w.t0 is None for w in windows):
            triggers = {**triggers, "every": ()} if triggers["closes"] or "arrivals" in triggers else triggers
        if "arrivals" not in triggers and chance.random() < 0.3:
            windows = beside(chance, windows)
        self.model = Model(windows, **triggers)  # type: ignore[arg-type]  # a table of keyword arguments
        timing = Timing(
            tuple(scheduled(each, place, self.model.includes_end(each)) for place, each in enumerate(windows)),
            self.model.closes,
            self.model.every,
            self.model.arrivals,
        )
        self.engine = Engine(timing)
        self.now = {n: chance.choice([0, 995, 1003]) + chance.randrange(20) for n in (1, 2)}
        self.used = {window.stream for window in windows}
        self.numbers = 0

    def before_registration(self) -> None:
        """Elements that are there already; nothing is evaluated for them."""
        for _ in range(self.chance.choice([0, 0, 3])):
            stream, elements = self._elements()
            event = self._event(stream, elements)
            self.model.comes_before(stream, elements)
            self.engine.elements += elements
            self.engine.positions[stream] = self.engine.positions.get(stream, Position()).after(event)
        self.engine.start()
        self.model.register()

    def step(self) -> int:
        kind = self.chance.random()
        if kind < 0.15:
            return self._heartbeat()
        if kind < 0.25:
            return self._fall_idle()
        stream, elements = self._elements()
        event = self._event(stream, elements)
        expected = self.model.push(stream, elements)
        assert self.engine.take(event, elements) == expected
        return len(expected[1])

    def _heartbeat(self) -> int:
        stream = self.chance.choice(sorted(self.used))
        time = self.now[stream] + self.chance.randrange(-3, 20)
        self.now[stream] = max(time, self.now[stream])
        expected = self.model.heartbeat(stream, time)
        assert self.engine.take(self._event(stream, []), []) == ([], expected)
        return len(expected)

    def _fall_idle(self) -> int:
        stream = self.chance.choice(sorted(self.used))
        expected = self.model.fall_idle(stream)
        event = replace(self._event(stream, []), idle=True)
        assert self.engine.take(event, []) == ([], expected)
        return len(expected)

    def _elements(self) -> tuple[int, list[Element]]:
        stream = self.chance.choice(sorted(self.used))
        elements = []
        for _ in range(self.chance.randrange(1, 4)):
            self.now[stream] += self.chance.choice([0, 0, 1, 2, 6])
            self.numbers += 1
            time = self.now[stream] - self.chance.choice([0, 0, 0, 1, 4, 12])
            elements.append(Element(stream, time, self.numbers))
        return stream, elements

    def _event(self, stream: int, elements: list[Element]) -> Event:
        times = [e.time for e in elements]
        latest = max(times + _some(self.model.latest.get(stream)), default=None)
        return Event(stream, np.array(times, np.int64), latest, self.model.beats.get(stream), False)


@pytest.mark.parametrize("block", range(20))
def test_schedules_do_what_the_sentences_say(block: int) -> None:
    evaluations = 0
    for seed in range(block * 25, block * 25 + 25):
        play = Play(seed)
        play.before_registration()
        for turn in range(14):
            try:
                evaluations += play.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, turn {turn}: {play.model.windows} {error}") from error
            if play.chance.random() < 0.2:
                play.engine.restart()
    assert evaluations > 100


def due(schedule: Schedule, event: Event) -> list[int]:
    found = []
    for each in schedule.due(event):
        found.append(each.time)
        schedule.done(each.time)
    return found


def push(*times: int, stream: int = 1) -> Event:
    return Event(stream, np.array(times, np.int64), max(times), None, False)


def test_the_first_push_after_registration_gives_the_origin_and_it_stays() -> None:
    timing = Timing((ScheduledWindow("w", 1, 2000, 1000, None), ScheduledWindow("v", 2, 500, 500, None)))
    schedule = Schedule(timing, QueryState(), {})
    second = push(7300, stream=2)
    schedule.take(second)
    assert (schedule.t0, due(schedule, second)) == (7000, [])
    early = push(1200)
    schedule.take(early)
    assert schedule.t0 == 7000, "the first push counts, not the least time"
    later = push(9000)
    schedule.take(later)
    assert due(schedule, later) == []  # stream 2 has come to 7300 only
    last = push(8100, stream=2)
    schedule.take(last)
    assert due(schedule, last) == [7500, 8000]


def test_a_window_of_the_past_is_replayed_at_its_closes_from_start_to_end() -> None:
    window = ScheduledWindow("w", 1, 20, 10, 5, start_ms=5, end_ms=25)
    timing = Timing((window,))
    assert (timing.ends_at, initial_state(timing, {1: Position(90, None, 1)})) == (25, QueryState())
    schedule = Schedule(timing, QueryState(), {1: Position(90, None, 1)})
    found = []
    while (time := schedule.next_time()) is not None:
        found.append(time)
        schedule.done(time)
    assert found == [15, 25]
    times = np.array([4, 5, 14, 15, 24, 25], np.int64)
    for at, held in ((15, [5, 14]), (25, [5, 14, 15, 24])):
        inside = (window.valid_from(times) <= at) & (window.valid_until(times) >= at)
        assert times[inside].tolist() == held
    assert window.extent_at(15) == (5, 15)


def test_the_extent_that_is_emitted_is_that_of_the_instance_cut_at_the_evaluation() -> None:
    stepped = ScheduledWindow("w", 1, 10, 5)
    assert [stepped.extent_at(t) for t in (10, 12)] == [(0, 10), (5, 12)]
    span = ScheduledWindow("w", 1, 10, 5, until_ms=3)
    assert [span.extent_at(t) for t in (10, 12)] == [(0, 7), (5, 9)]
    arriving = ScheduledWindow("w", 1, 10, 5, by_arrival=True)
    assert [arriving.extent_at(t) for t in (10, 12)] == [(5, 10), (5, 12)]


def test_the_extents_of_many_evaluations_are_those_of_each() -> None:
    chance = random.Random("extents")
    for _ in range(200):
        step, origin = chance.choice([0, 1, 5, 10]), chance.choice([0, 3, -7])
        bounds, t0 = chance.choice(list(Bounds)), origin if step else None
        by_arrival = chance.random() < 0.5
        window = ScheduledWindow("w", 1, chance.choice([5, 10, 30]), step, t0, bounds=bounds, by_arrival=by_arrival)
        window = replace(window, until_ms=chance.choice([0, 3]), start_ms=chance.choice([None, 12]))
        times = sorted(chance.randrange(-20, 60) for _ in range(20))
        starts, ends = window.extents_at(np.array(times, np.int64))
        assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [window.extent_at(time) for time in times]


def test_a_stream_that_is_idle_holds_nothing_back_until_it_comes_again() -> None:
    timing = Timing((ScheduledWindow("w", 1, 10, 5), ScheduledWindow("v", 2, 10, 5)))
    schedule = Schedule(timing, QueryState(), {})
    schedule.take(push(1))
    both = push(2, stream=2)
    schedule.take(both)
    far = push(23)
    schedule.take(far)
    assert (due(schedule, far), schedule.waits_for()) == ([], [2])
    idle = Event(2, np.empty(0, np.int64), 2, None, True)
    schedule.take(idle)
    assert (due(schedule, idle), schedule.waits_for()) == ([5, 10, 15, 20], [])
    again = push(7, 22, stream=2)
    assert schedule.take(again).tolist() == [True, False]
    assert (due(schedule, again), schedule.bound()) == ([], 22)
