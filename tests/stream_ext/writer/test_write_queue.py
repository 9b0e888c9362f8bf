"""The queue before the writer: updates wait for those of other clients, but never long, and never alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from stream_ext.clock import ManualClock
from stream_ext.writer.change import Change, HeadView, Intent, Together
from stream_ext.writer.gathering import Heartbeat
from stream_ext.writer.write_queue import PublishingPace, QueuedRequest, WriteQueue
from tests.parts.waiting import until

NOON = 43_200_000


class Update:
    """A short update."""

    together = Together.UPDATES

    def __call__(self, _: HeadView) -> Intent:
        return Intent(int)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def queue(clock: ManualClock) -> WriteQueue:
    return WriteQueue(clock, PublishingPace(), "a store")


@pytest.fixture
def writer() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def updates(queue: WriteQueue, count: int) -> None:
    for _ in range(count):
        change: Change = Update()
        queue.change(change)


def first_group(queue: WriteQueue, clock: ManualClock, took_ms: int, count: int = 1, then: int = 3) -> None:
    """A group was published, which took so long; meanwhile so many have come that wait."""
    updates(queue, count)
    assert len(queue.take()) == count
    updates(queue, then)
    clock.advance(took_ms)
    queue.updates_published(count)


def waiting_writer(queue: WriteQueue, writer: ThreadPoolExecutor, until_ms: int) -> Future[list[QueuedRequest]]:
    taking = writer.submit(queue.take)
    until(lambda: queue._waits_until == NOON + until_ms, "the writer waits for more")
    return taking


def test_clients_that_wait_for_each_other_share_the_next_group(
    queue: WriteQueue, clock: ManualClock, writer: ThreadPoolExecutor
) -> None:
    first_group(queue, clock, took_ms=15)
    taking = waiting_writer(queue, writer, 20)
    updates(queue, 1)  # the client that was answered sends its next one
    assert len(taking.result(60)) == 4


@pytest.mark.parametrize(("took_ms", "waits_ms"), [(15, 5), (60_000, 20)])
def test_it_waits_a_third_as_long_as_the_group_before_took_but_briefly(
    queue: WriteQueue, clock: ManualClock, writer: ThreadPoolExecutor, took_ms: int, waits_ms: int
) -> None:
    first_group(queue, clock, took_ms)
    taking = waiting_writer(queue, writer, took_ms + waits_ms)
    clock.advance(waits_ms)
    assert len(taking.result(60)) == 3


def test_where_a_publish_is_round_trips_it_waits_as_long_as_the_group_before_took(
    clock: ManualClock, writer: ThreadPoolExecutor
) -> None:
    queue = WriteQueue(clock, PublishingPace(gathering_share=1), "a store")
    first_group(queue, clock, took_ms=15)
    taking = waiting_writer(queue, writer, 30)
    clock.advance(15)
    assert len(taking.result(60)) == 3


def test_a_request_behind_the_group_ends_the_waiting(
    queue: WriteQueue, clock: ManualClock, writer: ThreadPoolExecutor
) -> None:
    first_group(queue, clock, took_ms=15)
    taking = waiting_writer(queue, writer, 20)
    queue.heartbeat(Heartbeat(1, 0))
    assert len(taking.result(60)) == 3


@pytest.mark.timeout(30)
def test_one_client_alone_never_waits(queue: WriteQueue, clock: ManualClock) -> None:
    for _ in range(3):
        first_group(queue, clock, took_ms=15, then=0)


@pytest.mark.timeout(30)
def test_after_a_pause_nobody_waits(queue: WriteQueue, clock: ManualClock) -> None:
    first_group(queue, clock, took_ms=15, count=8, then=1)
    clock.advance(5)
    assert len(queue.take()) == 1
    clock.advance(1_000)
    updates(queue, 1)
    assert len(queue.take()) == 1


@pytest.mark.timeout(30)
def test_what_was_put_back_is_taken_again_at_once(queue: WriteQueue, clock: ManualClock) -> None:
    updates(queue, 3)
    group = queue.take()
    clock.advance(10)
    queue.put_back(group[1:])
    assert queue.take() == group[1:]
