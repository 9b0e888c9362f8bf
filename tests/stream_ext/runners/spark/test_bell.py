"""The bell and the seat, without Spark: a thread, or a process of its own, stands for the task."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_ext import frames
from stream_ext.clock import Clock, ManualClock, SystemClock
from stream_ext.continuous.query_budget import USUAL
from stream_ext.emissions.placement import ShardPlan
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.runners.quarantine import Death
from stream_ext.runners.spark import seat as seat_module
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.bell import HEADS_AHEAD_MAX, Bell, Worker
from stream_ext.runners.spark.door import HELLO_MS, STRANGERS_MAX
from stream_ext.runners.spark.seat import Served, serve
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.underway import Stepping, StepWatch, Underway
from tests.parts.waiting import until
from tests.stream_ext.runners.spark.doubles import (
    DIES_ALWAYS,
    FACTORY,
    PATIENCE_S,
    RAISES,
    SPOILS_ONCE,
    ChainMerge,
    Noticed,
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
        self.reports: list[str] = []
        self.gave_up = threading.Event()
        self.quarantine, self.killed = Noticed(), list[Worker]()
        self.silences: list[str] = []
        self.faults: list[tuple[int, str, int]] = []
        self.merged: list[int] = []  # where the merge was when they were told
        self.bell = Bell(
            settings,
            self.merge,
            self.store.url,
            "http://base/",
            clock,
            NOTHING,
            self.quarantine,
            on_up=lambda: self.reports.append("up"),
            on_lost=lambda why: self.reports.append(f"lost: {why}"),
            on_give_up=self._give_up,
            on_silence=self.silences.append,
            kill=self.killed.append,
            on_fault=self._fault,
        )
        self.bell.start()
        self.folder = folder
        self.address = self.bell.admit(folder)
        self.underway: Underway  # of the seat that the test has taken
        self.tasks = ThreadPoolExecutor(4)
        self.epoch = 0

    def _fault(self, query: int, why: str, since: int) -> None:
        self.faults.append((query, why, since))
        self.merged.append(self.merge.position)

    def _give_up(self, why: str) -> None:
        self.reports.append(why)
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
        return self.merge.emitted == chain(self.store.values())

    def close(self) -> None:
        self.bell.close()
        self.tasks.shutdown()
        seat_module._cached_shards.clear()


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
    assert scene.reports == ["up"] and not running.done()


def test_an_epoch_ends_by_the_endpoints_clock_and_the_next_continues_from_the_same_state(stage: Stage) -> None:
    clock = ManualClock()
    scene = stage(clock=clock)
    for value in range(1, 4):
        running = scene.tasks.submit(scene.task)
        scene.merge.wait_owner("spark")
        scene.merge.wait(scene.publish(value), PATIENCE_S)
        clock.advance(3_600_000)
        assert running.result(PATIENCE_S).sn == value
    assert scene.right() and scene.bell.shards[0].figures.builds == 1


def test_micro_batches_take_what_is_published_and_return(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=0, warmup_epochs=0, shard_factory=FACTORY))
    scene.publish(1)
    assert scene.task().sn == 1
    scene.merge.wait_owner("spark")
    scene.publish(2, 3)
    assert (scene.task().steps, scene.task().steps) == (2, 0)
    scene.merge.wait(3, PATIENCE_S)
    assert scene.right() and scene.bell.shards[0].figures.builds == 1


def test_the_planner_of_micro_batches_waits_until_the_head_moves(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=0, warmup_epochs=0, shard_factory=FACTORY))
    scene.publish(1)
    scene.task()
    scene.merge.wait_owner("spark")

    def planned() -> wire.FromBell:
        with scene.address.connect() as connection:
            connection.sendall(wire.frame(wire.Await()))
            asked.set()
            return wire.from_bell.decode(frames.receive(connection))

    asked = threading.Event()
    answer = scene.tasks.submit(planned)
    assert asked.wait(PATIENCE_S) and not answer.done()
    scene.publish(2)
    assert answer.result(PATIENCE_S) == wire.HeadMoved(2)


def test_queries_are_handed_over_only_after_the_warm_up(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=3600, warmup_epochs=3, shard_factory=FACTORY))
    for _ in range(3):
        scene.publish(7)
        scene.task()
    assert scene.merge.owner == "inline"
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    assert scene.right() and scene.bell.shards[0].figures.builds == 1


def test_a_new_hello_closes_the_older_connection_and_its_parts_count_no_more(stage: Stage) -> None:
    scene = stage()
    older = scene.address.connect()
    hello = wire.Hello(0, 1, "host", 1, [])
    older.sendall(wire.frame(hello))
    welcome = wire.from_bell.decode(frames.receive(older))
    assert isinstance(welcome, wire.Welcome) and welcome.states is not None
    older.sendall(wire.frame(wire.Ready(0, True)))
    scene.merge.wait_owner("spark")
    head = scene.publish(5)
    assert wire.from_bell.decode(frames.receive(older)) == wire.Head(head)
    (frame,) = wire.Codec(FACTORY).parts_frames(head, _forged_parts(head))
    older.sendall(frame[: len(frame) - len(wire.frame(wire.Done(head)))])  # the parts, and no Done

    scene.tasks.submit(scene.task)
    scene.merge.wait(head, PATIENCE_S)
    with pytest.raises(ConnectionError):
        while True:
            frames.receive(older)
    older.close()
    assert scene.right()


def _forged_parts(sn: int) -> list[Part]:
    return [Part(1, sn, [np.array([sn, 666, 0], np.uint64)], QueryState(666))]


def test_who_has_lost_the_seat_may_neither_hand_over_nor_have_parts_merged(stage: Stage) -> None:
    """It may be in the middle of its `Done`, waiting for its turn, when another takes its seat."""
    scene = stage()
    with seated(scene, pid=1):
        scene.merge.wait_owner("spark")
        older = scene.bell.shards[0].seat
        assert older is not None
        scene.tasks.submit(scene.task)
        until(
            lambda: scene.bell.shards[0].seat not in (older, None) and scene.merge.owner == "spark",
            "another has the seat",
        )
        with pytest.raises(ConnectionError, match="another task has this seat"):
            scene.bell._take(scene.bell.shards[0], older, 1, _forged_parts(1), 0.0)
        with pytest.raises(ConnectionError, match="another task has this seat"):
            scene.bell._ready(scene.bell.shards[0], older, 0, False)
    scene.merge.wait(scene.publish(5), PATIENCE_S)
    assert scene.right()


def test_a_state_that_a_step_has_spoiled_is_built_anew(stage: Stage) -> None:
    scene = stage()
    first = scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.merge.wait(scene.publish(4), PATIENCE_S)
    scene.publish(SPOILS_ONCE)
    first.result(PATIENCE_S)  # a worker has one task at a time, which stamps what the one before has left
    running = scene.tasks.submit(scene.task)
    scene.merge.wait(2, PATIENCE_S)
    assert scene.right() and scene.merge.by == ["spark"] * 2 and not running.done()
    until(lambda: scene.bell.shards[0].figures.builds == 2, "it is built anew")


@pytest.mark.parametrize(
    ("sn", "service", "store", "is_used"),
    [
        (0, "ours", "ours", True),
        (1, "ours", "ours", True),
        (2, "ours", "ours", False),  # what it has told beyond the position counts no more
        (1, "another", "ours", False),  # of one that had this store before, and may have said other things
        (1, "ours", "another", False),
    ],
)
def test_only_a_state_of_this_service_that_is_not_ahead_is_gone_on_from(
    stage: Stage, sn: int, service: str, store: str, is_used: bool
) -> None:
    scene = stage()
    scene.publish(3)
    ours = {"service": scene.bell._service, "store": scene.store.url}
    stamp = wire.Stamp(ours["service"] if service == "ours" else "f00", ours["store"] if store == "ours" else "f:/", sn)
    with scene.address.connect() as connection:
        connection.sendall(wire.frame(wire.Hello(0, 1, "host", 1, [stamp])))
        welcome = wire.receive_message(wire.from_bell, connection)
    assert isinstance(welcome, wire.Welcome) and welcome.position == 1
    assert (welcome.states is None) == is_used


NESTED = b"\x81\xa1a" * 20_000 + b"\xc0"  # a map in a map in a map: 60 kB
HELLO = wire.frame(wire.Hello(0, 1, "host", 1, []))
WRONG = b"0" * wire.TOKEN_BYTES


def framed(body: bytes) -> bytes:
    return frames.LENGTH.pack(len(body)) + body


@pytest.mark.parametrize(
    "sent",
    [WRONG + HELLO, WRONG + wire.frame(wire.Await()), framed(NESTED), b"\xff" * 70, HELLO * 20, b"GET / HTTP/1.1" * 9],
)
def test_whoever_does_not_begin_with_the_token_is_refused_whatever_follows(stage: Stage, sent: bytes) -> None:
    scene = stage()
    assert learns_nothing(scene, sent, of="a stranger")
    assert scene.merge.owner == "inline" and not scene.gave_up.is_set()
    assert works(scene)


@pytest.mark.parametrize(
    "frame",
    [framed(NESTED), framed(b"abc"), framed(b""), b"\xff\xff\xff\xff", framed(b"x" * 70_000), wire.frame(wire.Done(1))],
)
def test_a_first_frame_that_is_no_hello_is_refused_from_a_friend_too(stage: Stage, frame: bytes) -> None:
    scene = stage()
    assert learns_nothing(scene, frame, of="a friend")
    assert not scene.gave_up.is_set()
    assert works(scene)


@pytest.mark.parametrize("frame", [framed(NESTED), framed(b"abc"), wire.frame(wire.Hello(0, 1, "host", 1, []))])
def test_a_seat_that_says_what_nobody_understands_is_closed_and_the_next_takes_it(stage: Stage, frame: bytes) -> None:
    scene = stage()
    with scene.address.connect() as connection:
        connection.sendall(HELLO)
        frames.receive(connection)
        connection.sendall(wire.frame(wire.Ready(0, True)))
        scene.merge.wait_owner("spark")
        connection.sendall(frame)
        assert is_closed(connection)
    assert not scene.gave_up.is_set()
    assert works(scene)


def learns_nothing(scene: Scene, sent: bytes, *, of: str) -> bool:
    """Closed without an answer, and counted."""
    before = scene.bell.refused
    address = scene.address
    connection = address.connect() if of == "a friend" else socket.create_connection((address.host, address.port))
    with connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
        return is_closed(connection) and (of == "a friend" or scene.bell.refused == before + 1)


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(PATIENCE_S)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def works(scene: Scene) -> bool:
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.merge.wait(scene.publish(1, 2), PATIENCE_S)
    return scene.right() and scene.merge.by[-1] == "spark"


def test_strangers_are_few_and_the_one_that_waits_longest_makes_room(stage: Stage) -> None:
    scene = stage(clock=ManualClock())
    host, port = scene.address.host, scene.address.port
    with contextlib.ExitStack() as opened:
        strangers = [opened.enter_context(socket.create_connection((host, port))) for _ in range(STRANGERS_MAX + 3)]
        assert all(is_closed(stranger) for stranger in strangers[:3])
        assert works(scene)  # whoever has the token finds a place among them
        assert sum(thread.name == "rillet-bell-line" for thread in threading.enumerate()) <= STRANGERS_MAX + 2


def test_one_time_limit_holds_until_the_hello_however_often_a_byte_comes(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    address = scene.address
    with socket.create_connection((address.host, address.port)) as stranger, address.connect() as friend:
        until(lambda: len(scene.bell._door._strangers) == 2, "two strangers are left")
        clock.advance(HELLO_MS - 1)
        for connection in (stranger, friend):  # one byte of the token, one of the frame after it
            connection.sendall(b"0")
        assert clock.awaits(HELLO_MS)
        clock.advance(1)
        assert is_closed(stranger) and is_closed(friend)
    assert works(scene)


def test_a_bell_that_cannot_accept_tries_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    accepts = scene.bell._door._server.accept
    failed = threading.Event()

    def accept() -> object:
        if not failed.is_set():
            failed.set()
            raise OSError(errno.EMFILE, "too many open files")
        return accepts()

    monkeypatch.setattr(scene.bell._door, "_server", Accepting(scene.bell._door._server, accept))
    with socket.create_connection((scene.address.host, scene.address.port)):
        assert failed.wait(PATIENCE_S)
        assert clock.awaits(250)
        clock.advance(250)
        assert works(scene)


class Accepting:
    """A listening socket of which `accept` is another."""

    def __init__(self, server: socket.socket, accept: Callable[[], object]) -> None:
        self._server, self.accept = server, accept

    def __getattr__(self, name: str) -> object:
        return getattr(self._server, name)


def _plan_once(address: wire.Address) -> None:
    with address.connect() as connection:
        connection.sendall(wire.frame(wire.Await()))
        frames.receive(connection)


def test_the_token_of_a_driver_that_has_gone_is_refused(stage: Stage) -> None:
    scene = stage()
    scene.bell.cut("the driver died")
    with pytest.raises(ConnectionError):
        _plan_once(scene.address)
    scene.address = scene.bell.admit(scene.folder)
    _plan_once(scene.address)


def test_a_seat_is_sent_heads_only_so_far_beyond_what_is_merged(stage: Stage) -> None:
    scene = stage()
    with scene.address.connect() as connection:
        connection.sendall(wire.frame(wire.Hello(0, 1, "host", 1, [])))
        frames.receive(connection)
        connection.sendall(wire.frame(wire.Ready(0, True)))
        scene.merge.wait_owner("spark")
        scene.bell.head_moved(1000)
        assert wire.from_bell.decode(frames.receive(connection)) == wire.Head(HEADS_AHEAD_MAX)
        for sn in (1, 2):
            connection.sendall(b"".join(wire.Codec(FACTORY).parts_frames(sn, _forged_parts(sn))))
            assert wire.from_bell.decode(frames.receive(connection)) == wire.Head(HEADS_AHEAD_MAX + sn)


def test_an_empty_seat_is_lost_after_the_time_of_grace_and_regained_later(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    with scene.address.connect() as connection:
        connection.sendall(wire.frame(wire.Hello(0, 1, "host", 1, [])))
        frames.receive(connection)
        connection.sendall(wire.frame(wire.Ready(0, True)))
        scene.merge.wait_owner("spark")
        scene.publish(1)
        frames.receive(connection)
    assert clock.awaits(1_250)
    clock.advance(2_999)
    assert clock.awaits(3_000)
    assert scene.merge.owner == "spark"
    assert scene.silences == ["Spark starts no task; after 3 s the queries run inline"]
    clock.advance(1)
    scene.merge.wait(1, PATIENCE_S)
    assert scene.merge.owner == "inline" and scene.right()
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.merge.wait(scene.publish(2), PATIENCE_S)
    assert scene.right() and scene.merge.by == ["inline", "spark"]
    assert [report.split(":")[0] for report in scene.reports] == ["up", "lost", "up"]


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

    def asked_at(self, now_ms: int) -> bool:
        """Whether somebody has waited since it was this time."""
        with self._asked:
            return any(limit is not None and limit > now_ms for limit in self._limits)

    def awaits(self, limit_ms: int) -> bool:
        with self._asked:
            return self._asked.wait_for(lambda: limit_ms in self._limits, PATIENCE_S)


def test_a_fault_of_one_query_is_reported_and_the_others_continue(stage: Stage) -> None:
    scene = stage()
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.merge.wait(scene.publish(1, 0, 2), PATIENCE_S)
    assert scene.right() and scene.bell.faults == {2: ("query 2 divides by the value", 7)}
    assert scene.faults == [(2, "query 2 divides by the value", 7)], "who can end the query for good hears of it"
    assert scene.merged[0] >= 2, "when what it said before is merged"


def test_a_step_that_always_raises_ends_spark_at_the_third_attempt_with_its_reason(stage: Stage) -> None:
    scene = stage(SparkSettings(epoch_s=3600, warmup_epochs=1, shard_factory=FACTORY))
    scene.task()
    scene.store.append(RAISES)
    scene.bell.head_moved(1)
    for _ in range(3):
        assert not scene.gave_up.is_set()
        scene.task()  # returns: Spark must not retry by itself
    assert scene.gave_up.wait(PATIENCE_S)
    assert "3 attempts failed at SN 1" in scene.reports[-1] and "this SN cannot be stepped" in scene.reports[-1]


def test_what_a_worker_dies_in_twice_is_held_and_the_others_continue_inline(stage: Stage) -> None:
    # Between two processes the queries would be the server's if one took longer to start than the time of grace.
    scene = stage(msgspec.structs.replace(LONG, grace_s=PATIENCE_S, step_timeout_s=PATIENCE_S))
    with seated(scene) as connection:
        scene.merge.wait_owner("spark")
        connection.sendall(wire.frame(wire.Trouble(0, "out of luck")))  # no death, and so none of a query
    scene.publish(1, DIES_ALWAYS)
    spawn = multiprocessing.get_context("spawn")
    for time in (1, 2):
        assert (scene.merge.owner, scene.quarantine.deaths) == ("spark", [])
        task = spawn.Process(target=serve, args=(scene.address, 0, 1))
        task.start()
        task.join(PATIENCE_S)
        assert task.exitcode == -9, time
    scene.merge.wait_owner("inline")
    (death,) = scene.quarantine.deaths
    assert (death.sn, death.numbers, death.count) == (2, (1,), 2)
    assert death.why == "its Python worker died while it was stepping snapshot 2"
    assert scene.right() and scene.merge.by == ["spark", "inline"] and not scene.gave_up.is_set()


def test_who_kills_a_worker_that_catches_up_is_held_though_the_others_continue_in_between(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    monkeypatch.setattr(scene.merge, "catching_up", lambda: {7: QueryState(0, 0)})
    monkeypatch.setattr(scene.merge, "states_behind", lambda queries: {7: QueryState(0, 0)})
    for sn in (1, 2):
        with seated(scene) as connection:
            connection.sendall(wire.frame(wire.BehindReport({7: 0})))
            scene.merge.wait_owner("spark")
            scene.publish(1)
            connection.sendall(b"".join(wire.Codec(FACTORY).parts_frames(sn, [_right_part(sn, chain([1, 1])[sn - 1])])))
            scene.merge.wait(sn, PATIENCE_S)
            while not isinstance(wire.receive_message(wire.from_bell, connection), wire.CatchUp):
                pass
            scene.underway.steps(1, [7])
        until(lambda: scene.bell.shards[0].seat is None, "the seat is free")
    scene.merge.wait_owner("inline")
    (death,) = scene.quarantine.deaths
    assert (death.sn, death.numbers, death.count) == (1, (7,), 2), "it is tried in snapshots that have been published"


@pytest.mark.parametrize("way", ["nobody comes", "its driver has ended", "its driver ends with it", "it is warming up"])
def test_what_a_worker_died_of_once_is_held_before_the_queries_are_the_servers_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The first death is enough where no other worker tries the same: whoever steps it next is the server itself."""
    clock = WatchedClock()
    warms_up = way == "it is warming up"
    scene = stage(msgspec.structs.replace(LONG, warmup_epochs=int(warms_up)), clock)
    held_at_loss = list[frozenset[int]]()
    lost = scene.merge.lost
    monkeypatch.setattr(
        scene.merge, "lost", lambda *them: (held_at_loss.append(scene.quarantine.suspended), lost(*them))[1]
    )
    if warms_up:
        monkeypatch.setattr(scene.merge, "published", lambda: None)  # the server's own process is slow
    with seated(scene) as connection:
        scene.merge.wait_owner("inline" if warms_up else "spark")
        scene.publish(5, 6)
        assert isinstance(wire.receive_message(wire.from_bell, connection), wire.Head | wire.End)
        scene.underway.steps(1, [4, 7])
        if way == "its driver ends with it":
            scene.bell.cut("the driver ended")
    if way == "it is warming up":
        until(lambda: scene.quarantine.suspended, "it is held")
    else:
        until(lambda: scene.bell.shards[0].seat is None, "the seat is free")
    if way == "its driver has ended":
        scene.bell.cut("the driver ended")
    if way == "nobody comes":
        clock.advance(int(LONG.grace * 1000) + 1)
        scene.merge.wait_owner("inline")
    (death,) = scene.quarantine.deaths
    assert (death.sn, death.numbers, death.count) == (1, (4, 7), 0 if way == "its driver ends with it" else 1)
    assert held_at_loss == ([] if warms_up else [{4, 7}])


@pytest.mark.parametrize(
    ("doing", "held"),
    [
        (([4], [7]), Death(1, (4, 7), 0, "it ended")),
        (([4], []), Death(1, None, 0, "it ended", (4, 30, 31))),
        (([], []), Death(1, None, 0, "it ended", (20, 21, 30, 31))),
    ],
)
def test_what_all_shards_stepped_when_their_driver_ended_is_one_death(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, doing: tuple[list[int], list[int]], held: Death
) -> None:
    scene = stage()
    monkeypatch.setattr(scene.merge, "plan", ShardPlan.of(2))
    monkeypatch.setattr(scene.merge, "evenly", lambda: scene.merge.plan, raising=False)
    monkeypatch.setattr(scene.merge, "follow_plan", lambda plan: None, raising=False)
    monkeypatch.setattr(scene.merge, "queries_of", lambda shard: [20 + 10 * shard, 21 + 10 * shard], raising=False)
    scene.bell._follow(scene.merge.plan)
    with contextlib.ExitStack() as stack:
        for seat, numbers in enumerate(doing):
            connection = stack.enter_context(scene.address.connect())
            connection.sendall(wire.frame(wire.Hello(seat, 1, "host", seat + 1, [])))
            welcome = wire.receive_message(wire.from_bell, connection)
            assert isinstance(welcome, wire.Welcome) and welcome.shard == seat
            Underway(Path(welcome.underway)).steps(1, numbers)
            connection.sendall(wire.frame(wire.Ready(0, True)))
        until(lambda: all(each.seat is not None and each.seat.ready for each in scene.bell.shards), "both are ready")
        scene.publish(1)
        scene.bell.cut("it ended")
    assert scene.quarantine.deaths == [held]


def test_what_others_have_done_meanwhile_is_not_held(stage: Stage) -> None:
    scene = stage(msgspec.structs.replace(LONG, warmup_epochs=1))
    with seated(scene):
        scene.publish(5, 6)  # they are stepped inline at once
        scene.underway.steps(1, [4])
    until(lambda: scene.bell.shards[0].seat is None, "the seat is free")
    scene.bell.cut("the driver ended")
    assert scene.quarantine.deaths == []


def test_all_that_workers_died_of_in_one_snapshot_is_held(stage: Stage) -> None:
    scene = stage()
    with seated(scene):
        scene.merge.wait_owner("spark")
    until(lambda: scene.bell.shards[0].seat is None, "the seat is free")
    scene.publish(5, 6)
    for number in (4, 7):
        with seated(scene):
            scene.underway.steps(1, [number])
        until(lambda: scene.bell.shards[0].seat is None, "the seat is free")
    scene.merge.wait_owner("inline")
    (death,) = scene.quarantine.deaths
    assert (death.sn, death.numbers, death.count) == (1, (4, 7), 2)


@pytest.mark.parametrize("notices", ["in time", "too late"])
def test_a_death_counts_though_the_next_hello_is_read_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, notices: str
) -> None:
    """On a busy machine the next worker is there before the end of the dead one's connection is noticed."""
    waits_s = PATIENCE_S if notices == "in time" else 0.1
    scene = stage(msgspec.structs.replace(LONG, step_timeout_s=waits_s), ManualClock())
    go_on, reading, listen = threading.Event(), threading.Event(), scene.bell._listen

    class Left(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if notices == "in time":
                go_on.set()
            return super().wait(timeout)

    def listen_late(shard: Any, seat: Any) -> None:
        """Reads nothing that comes after `Ready` until somebody waits for it."""
        seat.left, received = Left(), wire.receive_message

        def received_late(decoder: Any, connection: socket.socket, *limits: int) -> Any:
            if connection is seat.connection and seat.ready:
                reading.set()
                assert go_on.wait(PATIENCE_S)
            return received(decoder, connection, *limits)

        monkeypatch.setattr(wire, "receive_message", received_late)
        listen(shard, seat)

    monkeypatch.setattr(scene.bell, "_listen", listen_late)
    with seated(scene) as connection:
        scene.merge.wait_owner("spark")
        assert reading.wait(PATIENCE_S)
        scene.publish(5, 6)
        connection.sendall(b"".join(wire.Codec(FACTORY).parts_frames(1, [_right_part(1, 5)])))
        scene.underway.steps(2, [4])
    monkeypatch.setattr(scene.bell, "_listen", listen)
    with seated(scene) as connection:
        go_on.set()
        assert scene.merge.position == int(notices == "in time"), "what the first had sent is merged first"
        until(lambda: scene.bell.shards[0].seat is not None and scene.bell.shards[0].seat.ready, "it has the seat")
        assert scene.bell.shards[0].strikes[1] == 1 and scene.merge.owner == "spark"
        scene.underway.steps(2, [4])
    scene.merge.wait_owner("inline")
    (death,) = scene.quarantine.deaths
    assert (death.sn, death.numbers, death.count) == (2, (4,), 2)


def test_what_a_worker_died_of_that_caught_up_stays_known_while_others_are_stepped(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    monkeypatch.setattr(scene.merge, "catching_up", lambda: {7: QueryState(0, 0)})
    monkeypatch.setattr(scene.merge, "states_behind", lambda queries: {7: QueryState(0, 0)})
    for sn in (1, 2):
        with seated(scene) as connection:
            connection.sendall(wire.frame(wire.BehindReport({7: 0})))
            scene.merge.wait_owner("spark")
            scene.publish(1)
            connection.sendall(b"".join(wire.Codec(FACTORY).parts_frames(sn, [_right_part(sn, chain([1, 1])[sn - 1])])))
            scene.merge.wait(sn, PATIENCE_S)
            if sn == 1:
                while not isinstance(wire.receive_message(wire.from_bell, connection), wire.CatchUp):
                    pass
                scene.underway.steps(1, [7])
            else:
                scene.bell.cut("the driver ended")
        until(lambda: scene.bell.shards[0].seat is None, "the seat is free")
    (death,) = scene.quarantine.deaths
    assert (death.sn, death.numbers, death.count) == (1, (7,), 1)


def test_a_worker_that_dies_of_what_it_sends_has_stepped_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which query's parts these are is not known, so that all are held."""
    scene = stage()
    with seated(scene):
        scene.merge.wait_owner("spark")
    until(lambda: scene.bell.shards[0].seat is None, "the seat is free")
    known: list[Stepping | None] = []

    def ends(*_: object) -> None:
        assert scene.bell.shards[0].seat is not None
        known.append(scene.bell.shards[0].seat.watched.read())
        raise ConnectionError("it ends here")

    monkeypatch.setattr(wire.Codec, "parts_frames", ends)
    scene.publish(5)
    with contextlib.suppress(ConnectionError):
        scene.task()
    assert known == [Stepping(1, None)]


def test_who_dies_while_it_builds_is_tried_up_to_the_head(stage: Stage) -> None:
    scene = stage()
    scene.publish(1)
    with seated(scene):
        scene.merge.wait_owner("spark")
    for _ in range(2):
        with seated(scene, ready=False):
            scene.underway.steps(1, [7])
        until(lambda: scene.bell.shards[0].seat is None, "the seat is free")
    scene.merge.wait_owner("inline")
    assert [(each.sn, each.numbers) for each in scene.quarantine.deaths] == [(1, (7,))]


@contextlib.contextmanager
def seated(scene: Scene, pid: int = 1, ready: bool = True) -> Iterator[socket.socket]:
    """A seat of which the test is the task; it has been told what there is by then."""
    with scene.address.connect() as connection:
        connection.sendall(wire.frame(wire.Hello(0, 0, "host", pid, [])))
        welcome = wire.receive_message(wire.from_bell, connection)
        assert isinstance(welcome, wire.Welcome)
        scene.underway = Underway(Path(welcome.underway))
        if ready:
            connection.sendall(wire.frame(wire.Ready(welcome.position, True)))
        yield connection


#: What a worker may be doing when it freezes, and what is then known of it.
FROZEN = [
    (lambda underway: underway.steps(1, [4, 7]), (1, (4, 7))),
    (lambda underway: underway.steps(1), (1, None)),
    (lambda underway: underway.steps(1, range(1 << 20)), (1, None)),
    (lambda underway: None, None),
]


@pytest.mark.parametrize(("does", "known"), FROZEN)
def test_a_worker_that_does_not_answer_is_reported_then_killed_and_what_it_stepped_is_held(
    stage: Stage, does: Callable[[Underway], None], known: tuple[int, object] | None
) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    with seated(scene, pid=77):
        scene.merge.wait_owner("spark")
        clock.advance(3_599_000 - HELLO_MS)  # it may rest for as long as there is nothing to do
        assert scene.silences == [] and scene.killed == []
        scene.publish(5)
        does(scene.underway)
        clock.advance(500)
        until(lambda: clock.asked_at(clock.now_ms()), "somebody waits since then")
        clock.advance(1_250)
        until(lambda: len(scene.silences) == 1, "the silence is told")
        assert "was stepping snapshot 1, and is killed after 10 s" in scene.silences[0]
        assert scene.merge.owner == "spark" and scene.killed == []
        clock.advance(10_000)
        scene.merge.wait_owner("inline")
        assert scene.killed == [Worker("host", 77)]
        until(lambda: scene.silences[-1] == "", "it is over")
    assert [(each.sn, each.numbers) for each in scene.quarantine.deaths] == ([] if known is None else [known])
    assert scene.reports[-1].startswith("lost: its Python worker has not answered for ") and scene.right()
    assert works(scene)


def test_a_worker_that_continues_is_not_disturbed_however_long_it_takes(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(SparkSettings(epoch_s=36_000, warmup_epochs=0, shard_factory=FACTORY), clock)
    with seated(scene) as connection:
        scene.merge.wait_owner("spark")
        scene.publish(5)
        for number in range(40):
            scene.underway.steps(1, [number])
            clock.advance(1_000)
            until(lambda: clock.asked_at(clock.now_ms()), "somebody waits since then")
        connection.sendall(b"".join(wire.Codec(FACTORY).parts_frames(1, _forged_parts(1))))
        scene.merge.wait(1, PATIENCE_S)
    assert scene.killed == [] and scene.quarantine.deaths == []


def test_an_end_that_is_not_answered_kills_the_worker_too(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    with seated(scene) as connection:
        scene.merge.wait_owner("spark")
        until(lambda: clock.asked_at(clock.now_ms()), "somebody waits since then")
        clock.advance(3_600_000)
        assert wire.receive_message(wire.from_bell, connection) == wire.End()
        until(lambda: clock.asked_at(clock.now_ms()), "somebody waits since then")
        clock.advance(10_000)
        scene.merge.wait_owner("inline")
    assert len(scene.killed) == 1 and scene.quarantine.deaths == []
    assert "was asked to end" in scene.reports[-1]


def test_a_store_that_keeps_the_merge_waiting_is_no_silence_of_the_worker(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked, there = WatchedClock(), threading.Event(), threading.Event()
    scene = stage(clock=clock)
    takes = scene.merge.take

    def take(runner: str, sn: int, parts: list[Part], shard: int) -> None:
        asked.set()
        assert there.wait(PATIENCE_S)
        takes(runner, sn, parts)

    monkeypatch.setattr(scene.merge, "take", take)
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    head = scene.publish(1)
    assert asked.wait(PATIENCE_S)
    for _ in range(4):
        clock.advance(10_000)
        until(lambda: clock.asked_at(clock.now_ms()), "somebody waits since then")
    there.set()
    scene.merge.wait(head, PATIENCE_S)
    assert scene.killed == [] and scene.silences == [] and scene.right()


def test_when_nobody_starts_the_next_task_the_driver_is_given_up(stage: Stage) -> None:
    clock = WatchedClock()
    scene = stage(clock=clock)
    with seated(scene):
        scene.merge.wait_owner("spark")
    assert clock.awaits(3_000)
    clock.advance(3_000)
    scene.merge.wait_owner("inline")
    assert clock.awaits(33_000)
    clock.advance(30_000)
    assert scene.gave_up.wait(PATIENCE_S) and scene.reports[-1] == "Spark started no task in time"


def test_an_end_does_not_wait_for_the_heads_that_wait(stage: Stage) -> None:
    """A seat that is told of a long way and then of the end leaves after the step that it is in."""
    scene = stage()
    ours, its = socket.socketpair()
    with ours, its:
        scene.store.append(1)
        watched = StepWatch(scene.folder / "underway-0")
        welcome = wire.Welcome(
            1, "s", scene.store.url, "http://base/", NOTHING, USUAL, FACTORY, 0, {}, [], str(watched.path)
        )
        for message in (welcome, wire.Head(1), wire.Head(500), wire.End()):
            ours.sendall(wire.frame(message))
        seat_module._SeatWorker(its).serve()
        emitted = [wire.receive_message(wire.from_seat, ours) for _ in range(2)]
        watched.close()
    assert emitted == [wire.Ready(0, True), wire.Bye(0, 0)]


def test_a_state_that_is_current_is_gone_on_with_by_its_own_process_only(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    stamps = [wire.Stamp(scene.bell._service, scene.store.url, 1)]
    with seated(scene, pid=7) as connection:
        scene.merge.wait_owner("spark")
        scene.publish(1)
        connection.sendall(b"".join(wire.Codec(FACTORY).parts_frames(1, [_right_part(1, 1)])))
        scene.merge.wait(1, PATIENCE_S)
    scene.quarantine.suspended = frozenset([9])

    def welcomed(pid: int) -> bool:
        """Whether this process goes on from its stamp."""
        with scene.address.connect() as connection:
            connection.sendall(wire.frame(wire.Hello(0, 1, "host", pid, stamps)))
            welcome = wire.receive_message(wire.from_bell, connection)
            assert isinstance(welcome, wire.Welcome) and welcome.suspended == sorted(scene.quarantine.suspended)
            return welcome.states is None

    assert [welcomed(7), welcomed(8)] == [True, False]
    scene.quarantine.suspended = frozenset()
    assert welcomed(8)


def test_a_state_that_is_built_anew_begins_where_the_states_of_the_queries_are(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts of one shard may wait for those of another, so a task may go on beyond what is merged; but only with
    the state that has stepped so far."""
    scene = stage()
    stamps = [wire.Stamp(scene.bell._service, scene.store.url, 5)]
    attempt = scene.merge.attempt

    def waits_up_to_done(runner: str, shard: int, done: int | None) -> tuple[int, int, dict[int, QueryState]]:
        number, position, states = attempt(runner, shard)
        return number, done or position, states

    monkeypatch.setattr(scene.merge, "attempt", waits_up_to_done)

    def welcomed() -> tuple[int, bool]:
        with scene.address.connect() as connection:
            connection.sendall(wire.frame(wire.Hello(0, 1, "host", 7, stamps)))
            welcome = wire.receive_message(wire.from_bell, connection)
            assert isinstance(welcome, wire.Welcome)
            return welcome.position, welcome.states is None

    assert welcomed() == (5, True)
    scene.quarantine.suspended = frozenset([9])
    assert welcomed() == (0, False)


def _right_part(sn: int, value: int) -> Part:
    return Part(1, sn, [np.array([sn, value, 0], np.uint64)], QueryState(value))


def test_what_the_merge_raises_ends_spark_and_is_reported(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = stage()

    def fenced(*_: object) -> None:
        raise RuntimeError("another writer took over")

    monkeypatch.setattr(scene.merge, "take", fenced)
    scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.publish(1)
    assert scene.gave_up.wait(PATIENCE_S)
    assert scene.reports[-1] == "RuntimeError: another writer took over"


def test_a_frame_for_a_dead_seat_does_not_stop_the_publisher(stage: Stage) -> None:
    scene = stage()
    running = scene.tasks.submit(scene.task)
    scene.merge.wait_owner("spark")
    scene.bell.cut("the driver died")
    running.result(PATIENCE_S)
    scene.publish(1, 2, 3)
    assert scene.right() and scene.reports == ["up", "lost: the driver died"]
