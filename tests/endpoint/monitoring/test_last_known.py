"""What was last known: as fresh as can be had in time, and never older than what whoever asks has seen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from endpoint.monitoring.last_known import Known, LastKnown, LastKnownOf
from hbase_store.errors import StoreUnavailable
from stream_ext.errors import NotFound
from tests.parts.waiting import PATIENCE_S


class Source:
    """A number that grows with each reading, which hangs while it is told to."""

    def __init__(self) -> None:
        self.number, self.goes_on = 0, threading.Event()
        self.goes_on.set()
        self.entered = threading.Semaphore(0)
        self.error: Exception | None = None
        self.now = 100.0

    def read(self) -> int:
        self.entered.release()
        assert self.goes_on.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        self.number += 1
        return self.number


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def known(source: Source) -> Iterator[LastKnown[int]]:
    known = LastKnown("number", source.read, lambda: source.now)
    yield known
    source.goes_on.set()
    known.close()


def test_each_who_asks_gets_what_is_read_from_then_on(source: Source, known: LastKnown[int]) -> None:
    assert [known.wait(PATIENCE_S) for _ in range(3)] == [Known(1, 0.0), Known(2, 0.0), Known(3, 0.0)]


def test_what_hangs_is_as_it_was_known_and_says_how_old(source: Source, known: LastKnown[int]) -> None:
    known.wait(PATIENCE_S)
    source.goes_on.clear()
    source.now += 7
    assert known.wait(0.01) == Known(1, 7.0)
    source.goes_on.set()
    assert known.wait(PATIENCE_S).age_s == 0


def test_who_asks_while_it_is_read_gets_what_is_read_after_that(source: Source, known: LastKnown[int]) -> None:
    """What was being read may be older than what he has just written."""
    source.goes_on.clear()
    found: list[Known[int]] = []
    first = threading.Thread(target=lambda: found.append(known.wait(PATIENCE_S)))
    first.start()
    source.entered.acquire()
    second = threading.Thread(target=lambda: found.append(known.wait(PATIENCE_S)))
    second.start()
    source.goes_on.set()
    first.join()
    second.join()
    assert sorted(one.value for one in found) == [1, 2]


def test_what_was_never_known_is_an_error(source: Source, known: LastKnown[int]) -> None:
    source.error = StoreUnavailable("it is away")
    with pytest.raises(StoreUnavailable, match="has not answered since the start"):
        known.wait(PATIENCE_S)
    source.error = None
    known.wait(PATIENCE_S)
    source.error = StoreUnavailable("it is away")
    assert known.wait(PATIENCE_S).value == 1


def test_a_bug_is_no_outage(source: Source, known: LastKnown[int]) -> None:
    known.wait(PATIENCE_S)
    source.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        known.wait(PATIENCE_S)
    source.error = None
    assert known.wait(PATIENCE_S).age_s == 0


def test_those_who_have_gone_are_forgotten(source: Source, known: LastKnown[int]) -> None:
    known.wait(PATIENCE_S)
    source.goes_on.clear()
    for _ in range(1_000):
        known.wait(0)
    assert len(known._of._callers[None]) < 5


def test_each_key_is_known_by_itself_and_the_last_that_were_read_are_remembered() -> None:
    goes_on = threading.Event()
    goes_on.set()
    now = 100.0

    def read(key: str) -> str:
        assert goes_on.wait(PATIENCE_S)
        if key == "gone":
            raise NotFound(key)
        return key.upper()

    known = LastKnownOf("letter", read, 2, lambda: now)
    assert [known.wait(key, 20) for key in "abca"] == [Known(value, 0.0) for value in "ABCA"]
    with pytest.raises(NotFound):
        known.wait("gone", 20)
    goes_on.clear()
    now += 7
    assert [known.wait(key, 0.01) for key in "ac"] == [Known("A", 7.0), Known("C", 7.0)]
    with pytest.raises(StoreUnavailable, match="the letter is unknown"):
        known.wait("b", 0.01)
    goes_on.set()
    assert known.wait("b", 20) == Known("B", 0.0)
    known.close()


def test_what_was_never_known_is_waited_for_longer(source: Source) -> None:
    known = LastKnownOf("number", lambda key: key * source.read(), 10)
    source.goes_on.clear()

    async def asked() -> int:
        first = asyncio.create_task(known.get(2, 0.0, 20.0))
        while not source.entered.acquire(blocking=False):
            await asyncio.sleep(0.001)
        source.goes_on.set()
        return (await first).value

    assert asyncio.run(asked()) == 2
    known.close()
