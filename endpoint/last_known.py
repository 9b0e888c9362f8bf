"""What was last known of something that may hang: whoever asks gets it in time, and hears how old it is.

Each has a thread of its own, which alone waits for the store, or for a lock that somebody has while he waits for it.
Who asks waits for what is read from then on, but not for long; then what was read before has to do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from hbase_store.errors import StoreUnavailable

T = TypeVar("T")

#: How long one that is asked for waits.
PATIENCE_S = 0.05
#: For how long a thread stays that nobody asks.
_IDLE_S = 30.0


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    value: T
    age_s: float  # 0: it is of now


class LastKnown(Generic[T]):
    def __init__(self, what: str, read: Callable[[], T], clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._read, self._clock = what, read, clock
        self._changed = threading.Condition()
        self._asking: list[Future[T]] = []  # for what is read next
        self._known: tuple[T, float] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    async def get(self, patience_s: float = PATIENCE_S) -> Known[T]:
        """Raises StoreUnavailable where it has never been known."""
        future = self._ask()
        try:
            return Known(await asyncio.wait_for(asyncio.wrap_future(future), patience_s), 0.0)
        except (TimeoutError, StoreUnavailable):
            return self._last()

    def wait(self, patience_s: float = PATIENCE_S) -> Known[T]:
        """As `get`, for a thread."""
        future = self._ask()
        try:
            return Known(future.result(patience_s), 0.0)
        except (TimeoutError, StoreUnavailable):
            future.cancel()
            return self._last()

    def close(self) -> None:
        """Its thread ends, once what it waits for has come."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _last(self) -> Known[T]:
        known = self._known
        if known is None:
            raise StoreUnavailable(f"the {self._what} cannot be known: the store has not answered since the start")
        value, at_s = known
        return Known(value, self._clock() - at_s)

    def _ask(self) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            self._asking = [one for one in self._asking if not one.cancelled()]
            self._asking.append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"rillet-{self._what}", daemon=True)
                self._thread.start()
            self._changed.notify()
        return future

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asking or self._closed, _IDLE_S)
                if self._closed or not self._asking:
                    self._thread = None  # the next who asks starts another
                    return
                asking, self._asking = self._asking, []
            at_s = self._clock()
            try:
                value = self._read()
            except Exception as error:  # noqa: BLE001 -- it goes to whoever asked
                for future in asking:
                    _settle(future, error)
                continue
            self._known = value, at_s
            for future in asking:
                _settle(future, value)


def _settle(future: Future[T], outcome: T | Exception) -> None:
    if future.set_running_or_notify_cancel():  # else whoever asked has been answered
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
