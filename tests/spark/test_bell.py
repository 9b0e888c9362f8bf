"""The bell and the seat, without Spark: a thread, or a process of its own, stands for the task."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stream_ext.clock import Clock, ManualClock, SystemClock
from stream_ext.outside import NOTHING
from stream_ext.runner.spark import seat as seat_module
from stream_ext.runner.spark import wire
from stream_ext.runner.spark.bell import HEADS_AHEAD_MAX, Bell
from stream_ext.runner.spark.seat import Served, serve
from stream_ext.runner.spark.settings import SparkSettings
from tests.spark.doubles import (
    DIES_ALWAYS,
    FACTORY,
    PATIENCE_S,
    RAISES,
    ChainMerge,
    NumberStore,
    Part,
    QueryState,
    chain,
)

LONG = SparkSettings(epoch_s=3600, warmup_epochs=0, shard_factory=FACTORY)


class Scene:
    """A store, a merge and a bell over them; `task` is one task of Spark, in a thread of this process."""

    def __init__(self, folder: Path, settings: SparkSettings, clock: Clock) -> None:
        self.store = NumberStore(folder)
        self.merge = ChainMerge(self.store)
        self.heard: list[str] = []
        self.gave_up = threading.Event()
        self.faults: list[tuple[int, str]] = []
        self.bell = Bell(
            settings,
            self.merge,
            self.store.url,
            "http://base/",
            clock,
            NOTHING,
            on_up=lambda: self.heard.append("up"),
            on_lost=lambda why: self.heard.append(f"lost: {why}"),
            on_give_up=self._give_up,
            on_fault=lambda query, why: self.faults.append((query, why)),
        )
        self.bell.start()
        self.address = self.bell.admit()
        self.tasks = ThreadPoolExecutor(4)
        self.epoch = 0

    def _give_up(self, why: str) -> None:
        self.heard.append(why)
        self.gave_up.set()

    def publish(self, *values: int) -> int:
        head = 0
        for value in values:
            head = self.store.append(value)
            self.bell.head_moved(head)
            self.merge.published()
        return head

    def task(self) -> Served:
        self.epoch += 1
        return serve(self.address, 0, self.epoch)

    def right(self) -> bool:
        return self.merge.said == chain(self.store.values())

    def close(self) -> None:
        self.bell.close()
        self.tasks.shutdown()
        seat_module._kept.clear()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    scenes: list[Scene] = []

    def make(settings: SparkSettings = LONG, clock: Clock | None = None) -> Scene:
        scenes.append(Scene(tmp_path, settings, clock or SystemClock()))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()


Stage = Callable[..., Scene]


def test_a_seat_steps_each_published_sn_in_order(stage: Stage) -> None:
    scene = stage()
    scene.publish(3, 1, 4)
    running = scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.merge.wait(scene.publish(1, 5, 9), PATIENCE_S)
    assert scene.right() and scene.merge.by == ["inline"] * 3 + ["spark"] * 3
    assert scene.heard == ["up"] and not running.done()


def test_an_epoch_ends_by_the_endpoints_clock_and_the_next_goes_on_from_the_same_state(stage: Stage) -> None:
    clock = ManualClock()
    scene = stage(clock=clock)
    for value in range(1, 4):
        running = scene.tasks.submit(scene.task)
        scene.merge.wait_owner("spark")
        scene.merge.wait(scene.publish(value), PATIENCE_S)
        clock.advance(3_600_000)
        assert running.result(PATIENCE_S).sn == value
    assert scene.right() and scene.bell.figures.builds == 1


def test_micro_batches_take_what_is_published_and_return(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=0, warmup_epochs=0, shard_factory=FACTORY))
    scene.publish(1)
    assert scene.task().sn == 1
    scene.merge.wait_owner("spark")
    scene.publish(2, 3)
    assert (scene.task().steps, scene.task().steps) == (2, 0)
    scene.merge.wait(3, PATIENCE_S)
    assert scene.right() and scene.bell.figures.builds == 1


def test_the_planner_of_micro_batches_waits_until_the_head_moves(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=0, warmup_epochs=0, shard_factory=FACTORY))
    scene.publish(1)
    scene.task()
    scene.merge.wait_owner("spark")

    def planned() -> wire.FromBell:
        with scene.address.connect() as connection:
            connection.sendall(wire.frame(wire.Await(scene.address.token)))
            asked.set()
            return wire.from_bell.decode(wire.receive(connection))

    asked = threading.Event()
    answer = scene.tasks.submit(planned)
    assert asked.wait(PATIENCE_S) and not answer.done()
    scene.publish(2)
    assert answer.result(PATIENCE_S) == wire.Moved(2)


def test_queries_are_handed_over_only_after_the_warm_up(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=3600, warmup_epochs=3, shard_factory=FACTORY))
    for _ in range(3):
        scene.publish(7)
        scene.task()
    assert scene.merge.owner == "inline"
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    assert scene.right() and scene.bell.figures.builds == 1


def test_a_new_hello_closes_the_older_connection_and_its_parts_count_no_more(stage: Stage) -> None:
    scene = stage()
    older = scene.address.connect()
    hello = wire.Hello(scene.address.token, 0, 1, "host", 1, [])
    older.sendall(wire.frame(hello))
    welcome = wire.from_bell.decode(wire.receive(older))
    assert isinstance(welcome, wire.Welcome) and welcome.states is not None
    older.sendall(wire.frame(wire.Ready(0, True)))
    scene.merge.wait_owner("spark")
    head = scene.publish(5)
    assert wire.from_bell.decode(wire.receive(older)) == wire.Head(head)
    (frame,) = wire.Codec(FACTORY).parts_frames(head, _forged_parts(head))
    older.sendall(frame[: len(frame) - len(wire.frame(wire.Done(head)))])  # the parts, and no Done

    scene.tasks.submit(scene.task)
    scene.merge.wait(head, PATIENCE_S)
    with pytest.raises(ConnectionError):
        while True:
            wire.receive(older)
    older.close()
    assert scene.right()


def _forged_parts(sn: int) -> list[Part]:
    return [Part(1, sn, [np.array([sn, 666, 0], np.uint64)], QueryState(666))]


def test_a_wrong_token_is_refused_and_learns_nothing(stage: Stage) -> None:
    scene = stage()
    stranger = msgspec.structs.replace(scene.address, token="0" * 64)
    for frame in (wire.frame(wire.Hello(stranger.token, 0, 1, "host", 1, [])), b"\xff\xff\xff\xff", b"\x03\0\0\0abc"):
        with stranger.connect() as connection:
            connection.sendall(frame)
            with pytest.raises(ConnectionError):
                wire.receive(connection)
    assert scene.merge.owner == "inline"
    with pytest.raises(ConnectionError):
        _plan_once(stranger)
    assert scene.bell.figures.refused == 3  # the frame of four gigabytes is not even waited for


def _plan_once(address: wire.Address) -> None:
    with address.connect() as connection:
        connection.sendall(wire.frame(wire.Await(address.token)))
        wire.receive(connection)


def test_the_token_of_a_driver_that_has_gone_is_refused(stage: Stage) -> None:
    scene = stage()
    scene.bell.cut("the driver died")
    with pytest.raises(ConnectionError):
        _plan_once(scene.address)
    scene.address = scene.bell.admit()
    _plan_once(scene.address)


def test_a_seat_is_told_heads_only_so_far_beyond_what_is_merged(stage: Stage) -> None:
    scene = stage()
    with scene.address.connect() as connection:
        connection.sendall(wire.frame(wire.Hello(scene.address.token, 0, 1, "host", 1, [])))
        wire.receive(connection)
        connection.sendall(wire.frame(wire.Ready(0, True)))
        scene.merge.wait_owner("spark")
        scene.bell.head_moved(1000)
        assert wire.from_bell.decode(wire.receive(connection)) == wire.Head(HEADS_AHEAD_MAX)
        for sn in (1, 2):
            connection.sendall(b"".join(wire.Codec(FACTORY).parts_frames(sn, _forged_parts(sn))))
            assert wire.from_bell.decode(wire.receive(connection)) == wire.Head(HEADS_AHEAD_MAX + sn)


def test_an_empty_seat_is_lost_after_the_time_of_grace_and_regained_later(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    with scene.address.connect() as connection:
        connection.sendall(wire.frame(wire.Hello(scene.address.token, 0, 1, "host", 1, [])))
        wire.receive(connection)
        connection.sendall(wire.frame(wire.Ready(0, True)))
        scene.merge.wait_owner("spark")
        scene.publish(1)
        wire.receive(connection)
    assert clock.awaits(3_000)
    clock.advance(2_999)
    assert scene.merge.owner == "spark"
    clock.advance(1)
    scene.merge.wait(1, PATIENCE_S)
    assert scene.merge.owner == "inline" and scene.right()
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.merge.wait(scene.publish(2), PATIENCE_S)
    assert scene.right() and scene.merge.by == ["inline", "spark"]
    assert [heard.split(":")[0] for heard in scene.heard] == ["up", "lost", "up"]


class WatchedClock(ManualClock):
    """Tells a test what time somebody waits for."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = threading.Condition()
        self._limits: set[int | None] = set()

    def wait(self, condition: threading.Condition, until_ms: int | None) -> None:
        with self._asked:
            self._limits.add(until_ms)
            self._asked.notify_all()
        super().wait(condition, until_ms)

    def awaits(self, limit_ms: int) -> bool:
        with self._asked:
            return self._asked.wait_for(lambda: limit_ms in self._limits, PATIENCE_S)


def test_a_fault_of_one_query_is_told_and_the_others_go_on(stage: Stage) -> None:
    scene = stage()
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.merge.wait(scene.publish(1, 0, 2), PATIENCE_S)
    assert scene.right() and scene.bell.faults == {2: "query 2 divides by the value"}
    assert scene.faults == [(2, "query 2 divides by the value")], "who can end the query for good hears of it"


def test_a_step_that_always_raises_ends_spark_at_the_third_attempt_with_its_reason(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=3600, warmup_epochs=1, shard_factory=FACTORY))
    scene.task()
    scene.store.append(RAISES)
    scene.bell.head_moved(1)
    for _ in range(3):
        assert not scene.gave_up.is_set()
        scene.task()  # returns: Spark must not retry by itself
    assert scene.gave_up.wait(PATIENCE_S)
    assert "3 attempts failed at SN 1" in scene.heard[-1] and "this SN cannot be stepped" in scene.heard[-1]


def test_a_worker_that_always_dies_at_an_sn_ends_spark_at_the_third_death(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=3600, warmup_epochs=0, shard_factory=FACTORY))
    scene.store.append(DIES_ALWAYS)
    scene.bell.head_moved(1)
    spawn = multiprocessing.get_context("spawn")
    for _ in range(3):
        task = spawn.Process(target=serve, args=(scene.address, 0, 1))
        task.start()
        task.join(PATIENCE_S)
        assert task.exitcode == -9
    assert scene.gave_up.wait(PATIENCE_S)
    assert "3 attempts failed at SN 1: its Python worker died" in scene.heard[-1]


def test_what_the_merge_raises_ends_spark_and_is_said(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = stage()

    def fenced(*_: object) -> None:
        raise RuntimeError("another writer took over")

    monkeypatch.setattr(scene.merge, "take", fenced)
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.publish(1)
    assert scene.gave_up.wait(PATIENCE_S)
    assert scene.heard[-1] == "RuntimeError: another writer took over"


def test_a_frame_for_a_dead_seat_does_not_stop_the_publisher(stage: Stage) -> None:
    scene = stage()
    running = scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.bell.cut("the driver died")
    running.result(PATIENCE_S)
    scene.publish(1, 2, 3)
    assert scene.right() and scene.heard == ["up", "lost: the driver died"]
