"""Subscriptions: every emission after the one named, each once, in order, whenever one joins."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stream_ext.clock import SystemClock
from stream_ext.service.service import Service
from tests.parts.waiting import PATIENCE_S
from tests.stream_ext.opened import Reader, emissions_of, opened, push, registration, times, triple


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path, SystemClock()) as service:
        service.register(registration(window="RANGE PT2S STEP PT1S"))
        yield service


def push_to(service: Service, first: int, last: int) -> None:
    for number in range(first, last):
        push(service, "s", number * 1000, triple("a", number), wait="published")


def test_one_may_join_at_any_time_and_misses_nothing(service: Service) -> None:
    count = 150
    with ThreadPoolExecutor(8) as pool:
        pushing = pool.submit(push_to, service, 0, count + 1)
        first = pool.submit(Reader(service, "q").read_to, count)
        reading = []
        head = Reader(service, "q")
        for since in (3, 20, 50, 90, 120):
            head.read_to(since)  # join while pushes go on
            reading.append((since, pool.submit(Reader(service, "q", since).read_to, count)))
            reading.append((since // 2, pool.submit(Reader(service, "q", since // 2).read_to, count)))
        pushing.result(PATIENCE_S)
        assert first.result(PATIENCE_S) == list(range(1, count + 1))
        for since, future in reading:
            assert future.result(PATIENCE_S) == list(range(since + 1, count + 1))


def test_many_writers_and_all_emissions_in_order(service: Service) -> None:
    barrier = threading.Barrier(4)

    def write(stride: int) -> None:
        barrier.wait(PATIENCE_S)
        for number in range(stride, 100, 4):
            push(service, "s", number * 1000, triple("a", number), wait="published")

    reader = Reader(service, "q")
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(write, stride) for stride in range(4)]:
            future.result(PATIENCE_S)
    service.heartbeat("s", 100_000, wait="evaluated")
    last = service.query_status("q")["emissions"]
    assert last >= 97, "the first push may have been any of the four first"
    assert reader.read_to(last) == list(range(1, last + 1))
    assert times(emissions_of(service))[-1] == 100_000


def test_pages_of_emissions_fit_together(service: Service) -> None:
    push_to(service, 0, 12)
    service.heartbeat("s", 12_000, wait="evaluated")
    assert [e.number for e in service.emissions("q", 0, 5)] == [1, 2, 3, 4, 5]
    assert [e.number for e in service.emissions("q", 5, 5)] == [6, 7, 8, 9, 10]
    assert [e.number for e in service.emissions("q", 10, 5)] == [11, 12]
    assert service.emissions("q", 12) == []
    assert service.emissions("q", 3, 2) == service.emissions("q", 0)[3:5]


def test_a_subscriber_whose_notify_raises_is_put_off_and_the_others_are_not(service: Service) -> None:
    def broken() -> None:
        raise RuntimeError("its loop is closed")

    bad = service.subscribe("q", 0, broken)
    good = Reader(service, "q")
    push_to(service, 0, 3)
    assert good.read_to(2) == [1, 2]
    assert bad.ended
    assert isinstance(bad.fault, RuntimeError)


def test_a_closed_subscription_is_sent_nothing_more(service: Service) -> None:
    observed: list[int] = []
    subscription = service.subscribe("q", 0, lambda: observed.append(1))
    subscription.close()
    push_to(service, 0, 3)
    service.heartbeat("s", 5_000, wait="evaluated")
    assert observed == []
    assert subscription.take() == []


def test_subscriptions_end_when_the_service_closes(tmp_path: Path) -> None:
    with opened(tmp_path / "other") as other:
        other.register(registration())
        ended = threading.Event()
        subscription = other.subscribe("q", 0, ended.set)
    assert ended.wait(PATIENCE_S)
    assert subscription.ended


def test_what_a_reader_takes_at_a_time_has_a_bound_in_bytes_and_nothing_is_left_out(tmp_path: Path) -> None:
    count, size = 40, 50_000
    with opened(tmp_path, SystemClock()) as service:
        service.register(registration(window="RANGE PT1S STEP PT1S"))
        for number in range(count + 1):
            push(service, "s", number * 1000, triple("a" * size, number), wait="published")
        service.heartbeat("s", count * 1000 + 1000, wait="evaluated")
        last = service.query_status("q")["emissions"]
        subscription, taken = service.subscribe("q", 0, lambda: None), []
        while found := subscription.take():
            assert sum(len(emission.json) for emission in found[:-1]) < 256 << 10
            taken += [emission.number for emission in found]
        assert taken == list(range(1, last + 1))
        assert last >= count
