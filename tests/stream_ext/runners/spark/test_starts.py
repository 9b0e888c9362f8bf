"""Tasks and drivers that start slowly, as on a busy machine: how long they are awaited, and with which plan."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from stream_ext.emissions.placement import ShardPlan
from stream_ext.runners.spark import wire
from tests.parts.waiting import until
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.test_bell import LONG, Scene, Stage, WatchedClock
from tests.stream_ext.runners.spark.test_bell import stage as stage


@contextmanager
def task(scene: Scene, epoch: int) -> Iterator[wire.Welcome]:
    """A task of Spark that is ready, and ends as it should."""
    with scene.address.connect() as connection:
        connection.sendall(wire.frame(wire.Hello(0, epoch, "host", 1, [])))
        welcome = wire.receive_message(wire.from_bell, connection)
        assert isinstance(welcome, wire.Welcome)
        connection.sendall(wire.frame(wire.Ready(welcome.position, True)))
        yield welcome
        until(lambda: scene.bell.shards[0].seat is not None and scene.bell.shards[0].seat.ready, "it is ready")
        connection.sendall(wire.frame(wire.Bye(welcome.position, 0)))
        connection.shutdown(socket.SHUT_WR)
        until(lambda: scene.bell.shards[0].vacant_ms is not None, "its seat is empty")


def test_the_next_task_is_awaited_twice_as_long_as_the_last_ones_took(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    with task(scene, 1):
        scene.merge.wait_owner("spark")
    clock.advance(2_500)
    with task(scene, 2):
        pass
    assert clock.awaits(2_500 + 5_000), "3 s is what a seat is awaited at least"
    scene.publish(1)
    clock.advance(4_999)
    assert clock.awaits(2_500 + 5_000) and scene.merge.owner == "spark"
    clock.advance(1)
    scene.merge.wait_owner("inline")
    assert scene.reports[-1] == "lost: Spark started no task within 5 s"


def test_what_follows_a_death_is_awaited_as_long_and_says_nothing_of_how_long_tasks_take(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    with task(scene, 1):
        scene.merge.wait_owner("spark")
    clock.advance(2_500)
    with scene.address.connect() as connection:
        connection.sendall(wire.frame(wire.Hello(0, 2, "host", 1, [])))
        assert isinstance(wire.receive_message(wire.from_bell, connection), wire.Welcome)
    assert clock.awaits(2_500 + 5_000)
    clock.advance(3_500)
    with task(scene, 3):
        pass
    assert clock.awaits(6_000 + 5_000), "not 7 s"


def test_each_driver_that_starts_no_task_gives_the_next_one_twice_the_time(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    now = 0
    for within_ms in (120_000, 240_000, 480_000, 960_000, 960_000):
        assert clock.awaits(now + within_ms)
        scene.gave_up.clear()
        clock.advance(within_ms)
        now += within_ms
        assert scene.gave_up.wait(PATIENCE_S)
        scene.address = scene.bell.admit(scene.folder)
    assert clock.awaits(now + 960_000)
    with task(scene, 1):
        pass
    scene.bell.admit(scene.folder)
    assert clock.awaits(now + 120_000), "one has started in time"


WARMS_UP = msgspec.structs.replace(LONG, warmup_epochs=20, step_timeout_s=3)


def test_a_driver_that_warms_up_has_as_long_for_its_next_task_as_for_its_first(stage: Stage) -> None:
    """Nobody waits for it: the queries run inline. On a busy machine it was killed between two of its short epochs."""
    clock = WatchedClock()
    scene = stage(WARMS_UP, clock)
    with task(scene, 1):
        pass
    assert clock.awaits(3_000)
    clock.advance(3_000)
    assert clock.awaits(123_000)
    clock.advance(119_999)
    with task(scene, 2):
        pass
    assert not scene.gave_up.is_set()


def test_a_driver_that_comes_no_further_than_warming_up_gives_the_next_one_twice_the_time(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(WARMS_UP, clock)
    now = 0
    for within_ms in (120_000, 240_000, 480_000):
        assert clock.awaits(now + within_ms)
        with task(scene, 1):
            pass
        assert clock.awaits(now + 3_000)
        clock.advance(3_000)
        assert clock.awaits(now + 3_000 + within_ms)
        scene.gave_up.clear()
        clock.advance(within_ms)
        now += 3_000 + within_ms
        assert scene.gave_up.wait(PATIENCE_S)
        scene.bell.cut("it was stopped")
        scene.address = scene.bell.admit(scene.folder)


def test_the_first_driver_begins_with_templates_that_are_divided_evenly(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = dict.fromkeys(range(3, 43), 1.0)
    before = ShardPlan.of(2)
    scene = stage()
    merge = scene.merge
    monkeypatch.setattr(merge, "plan", before, raising=False)
    monkeypatch.setattr(merge, "evenly", lambda: merge.plan.balanced(measured, is_free=True), raising=False)
    monkeypatch.setattr(merge, "follow_plan", lambda plan: setattr(merge, "plan", plan), raising=False)
    scene.bell._follow(before)
    with task(scene, 1) as welcome:
        assert welcome.plan.number == before.number + 1
        assert max(before.loads(measured)) > 22 and max(welcome.plan.loads(measured)) <= 21
        scene.merge.wait_owner("spark")
    with task(scene, 2) as welcome:
        assert welcome.plan == merge.plan, "a plan that costs something is for the end of an epoch"
