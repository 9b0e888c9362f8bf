"""Clocks: how long the machine's can be asked to wait; and that a service's never stands still, nor goes back."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from stream_ext.clock import ManualClock, SteadyClock, SystemClock
from stream_ext.service.service import Service
from stream_ext.waits import Waits
from tests.parts.waiting import until
from tests.stream_ext.opened import emissions_of, opened, push, registration, times, triple

HOUR = 3_600_000


def test_one_may_wait_for_a_time_that_no_machine_will_see() -> None:
    condition, clock = threading.Condition(), SystemClock()

    def wake() -> None:
        with condition:
            condition.notify_all()

    with condition:
        threading.Thread(target=wake).start()  # it gets the condition once we wait
        clock.wait(condition, 2**60)


def test_time_continues_while_the_clock_is_behind_and_says_so() -> None:
    wall = ManualClock(10 * HOUR)
    waits = Waits(wall.now_ms)
    steady = SteadyClock(wall, waits)
    seen = [steady.now_ms()]
    for step in (lambda: wall.advance(5), lambda: wall.set_to(HOUR), lambda: wall.advance(2_000)):
        step()
        seen.append(steady.now_ms() - 10 * HOUR)
    assert seen == [10 * HOUR, 5, 5, 2_005]
    (wait,) = waits.current()
    assert wait.kind == "clock" and "1970-01-01T01:00:" in wait.why and "1970-01-01T10:00:" in wait.why
    wall.set_to(11 * HOUR)
    assert (steady.now_ms(), waits.current()) == (11 * HOUR, ())


def test_a_clock_that_is_a_little_behind_says_nothing() -> None:
    wall = ManualClock(HOUR)
    waits = Waits(wall.now_ms)
    steady = SteadyClock(wall, waits)
    wall.set_to(HOUR - 900)
    assert (steady.now_ms(), waits.current()) == (HOUR, ())


def waits_of(service: Service) -> list[object]:
    return [each["kind"] for each in service.status()["waits_for"]]


def run_on(clock: ManualClock, service: Service, count: int) -> list[int]:
    """Seconds go by until a query has said so many things more."""
    before = len(emissions_of(service))
    for _ in range(count):
        at = len(emissions_of(service))
        clock.advance(1_000)
        until(lambda at=at: len(emissions_of(service)) > at, "time continues")
    return times(emissions_of(service))[before:]


def test_a_stream_that_runs_by_the_clock_continues_when_that_is_set_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(10 * HOUR)
    with opened(tmp_path, clock) as service, caplog.at_level(logging.WARNING, "rillet.clock"):
        service.register(registration(window="RANGE PT2S STEP PT1S"))
        push(service, "s", None, triple("a", "b"))
        assert run_on(clock, service, 2) == [10 * HOUR + 1_000, 10 * HOUR + 2_000]
        assert waits_of(service) == []
        clock.set_to(HOUR)
        until(lambda: waits_of(service) == ["clock"], "it is said")
        assert run_on(clock, service, 3) == [10 * HOUR + 3_000 + second * 1_000 for second in range(3)]
        push(service, "s", None, triple("c", "d"))
        assert service.stream_status("s")["time"] == 10 * HOUR + 5_000
        assert ["the clock is behind" in record.message for record in caplog.records] == [True]
    with opened(tmp_path, clock) as service:  # the machine is still wrong, and nobody remembers but the store
        assert waits_of(service) == ["clock"]
        assert run_on(clock, service, 2) == [10 * HOUR + 6_000, 10 * HOUR + 7_000]
        clock.set_to(11 * HOUR)
        until(lambda: waits_of(service) == [], "it is over")
