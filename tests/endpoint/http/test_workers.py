"""The event loop waits for a quick call, once a pass and for a bounded time; after a late one it waits for none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from endpoint.http.workers import Pool
from stream_ext.errors import BadArgument, Overload

#: For these calls the event loop would wait as long as any test.
PATIENT_S, IMPATIENT_S = 60.0, 0.001


class Timer:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def timer() -> Timer:
    return Timer()


@pytest.fixture
def pool(timer: Timer) -> Iterator[Pool]:
    made = Pool("calls", threads=2, waiting=1, wait_s=PATIENT_S, clock=timer)
    yield made
    made.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


async def next_pass() -> None:
    await asyncio.sleep(0)


def test_the_result_of_a_quick_call_of_another_thread_is_there_at_once(pool: Pool) -> None:
    async def test() -> None:
        for _ in range(3):
            soon = pool.soon(threading.get_ident)
            assert (soon.done(), pool.busy) == (True, 0)
            assert await soon != threading.get_ident()
            await next_pass()

    on_a_loop(test)


def test_an_error_comes_as_soon(pool: Pool) -> None:
    def fails(error: Exception) -> None:
        raise error

    async def test() -> None:
        for error in (BadArgument("no"), TimeoutError("of the store")):
            soon = pool.soon(fails, error)
            assert soon.done()
            with pytest.raises(type(error), match=str(error)):
                await soon
            await next_pass()

    on_a_loop(test)


def test_in_one_pass_one_call_is_waited_for(pool: Pool) -> None:
    async def test() -> None:
        assert pool.soon(threading.get_ident).done()
        second = pool.soon(threading.get_ident)
        assert not second.done()
        await second
        await next_pass()
        assert pool.soon(threading.get_ident).done()

    on_a_loop(test)


def test_after_a_late_call_none_is_waited_for_during_a_while(pool: Pool, timer: Timer, gate: threading.Event) -> None:
    async def test() -> None:
        pool.wait_s = IMPATIENT_S
        late = pool.soon(gate.wait, PATIENT_S)
        pool.wait_s = PATIENT_S
        assert (late.done(), pool.busy) == (False, 1)
        gate.set()
        assert await late is True  # it was not begun again
        await next_pass()
        for _ in range(3):
            soon = pool.soon(threading.get_ident)
            assert not soon.done()
            await soon
            await next_pass()
            timer.now_s += 0.06
        timer.now_s += 0.03
        assert pool.soon(threading.get_ident).done()

    on_a_loop(test)


def test_while_a_call_hangs_none_is_waited_for_and_too_many_are_refused(
    pool: Pool, timer: Timer, gate: threading.Event
) -> None:
    async def test() -> None:
        hanging = pool.submit(gate.wait, PATIENT_S)
        timer.now_s += 10
        soon = [pool.soon(gate.wait, PATIENT_S), pool.soon(gate.wait, PATIENT_S)]
        assert not any(one.done() for one in soon)
        with pytest.raises(Overload):
            pool.soon(gate.wait, PATIENT_S)
        gate.set()
        assert await asyncio.gather(hanging, *soon) == [True, True, True]

    on_a_loop(test)
