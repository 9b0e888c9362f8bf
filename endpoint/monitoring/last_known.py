"""The last known value of something whose reading may hang: a caller gets it in time, with its age.

A thread of its own reads the value, and only this thread waits for the store or for a lock. A caller waits a short
time for a value that is read after its call; then it gets the value that was read before."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from hbase_store.errors import StoreUnavailable

K = TypeVar("K")
T = TypeVar("T")

#: How long a call waits for a new value.
PATIENCE_S = 0.05
#: After this time without a call the thread ends.
_IDLE_S = 30.0


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    value: T
    age_s: float  # 0: it was read just now


class LastKnownOf(Generic[K, T]):
    """The values of several things of one kind, by key: the last `most` that were read."""

    def __init__(
        self, what: str, read: Callable[[K], T], most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._read, self._most, self._clock = what, read, most, clock
        self._changed = threading.Condition()
        self._callers: dict[K, list[Future[T]]] = {}  # waits for the next value
        self._known: dict[K, tuple[T, float]] = {}  # the one that was read last is the last
        self._thread: threading.Thread | None = None
        self._closed = False

    async def get(self, key: K, patience_s: float = PATIENCE_S, first_s: float | None = None) -> Known[T]:
        """The value, with its age. If none is known it waits for `first_s`, then raises StoreUnavailable."""
        future = self._ask(key)
        try:
            wait_s = patience_s if first_s is None or key in self._known else first_s
            return Known(await asyncio.wait_for(asyncio.wrap_future(future), wait_s), 0.0)
        except (TimeoutError, StoreUnavailable):
            return self._last(key)

    def wait(self, key: K, patience_s: float = PATIENCE_S) -> Known[T]:
        """As `get`, for callers in threads."""
        future = self._ask(key)
        try:
            return Known(future.result(patience_s), 0.0)
        except (TimeoutError, StoreUnavailable):
            future.cancel()
            return self._last(key)

    def close(self) -> None:
        """The thread ends when its present reading has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _last(self, key: K) -> Known[T]:
        known = self._known.get(key)
        if known is None:
            raise StoreUnavailable(f"the {self._what} is unknown: the store has not answered since the start")
        value, at_s = known
        return Known(value, self._clock() - at_s)

    def _ask(self, key: K) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            waiting = [one for one in self._callers.get(key, ()) if not one.cancelled()]
            self._callers[key] = [*waiting, future]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"rillet-{self._what}", daemon=True)
                self._thread.start()
            self._changed.notify()
        return future

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._callers or self._closed, _IDLE_S)
                if self._closed or not self._callers:
                    self._thread = None  # the next call starts another
                    return
                key, callers = next(iter(self._callers.items()))
                del self._callers[key]
            if any(not future.cancelled() for future in callers):
                self._answer(key, callers)

    def _answer(self, key: K, callers: Sequence[Future[T]]) -> None:
        """Reads a value once for all callers that wait for it, and remembers it as the last known one."""
        at_s = self._clock()
        try:
            value = self._read(key)
        except Exception as error:  # noqa: BLE001 -- it is raised in the callers
            for future in callers:
                _complete(future, error)
            return
        self._known.pop(key, None)
        self._known[key] = value, at_s
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        for future in callers:
            _complete(future, value)


class LastKnown(Generic[T]):
    """The last known value of one thing."""

    def __init__(self, what: str, read: Callable[[], T], clock: Callable[[], float] = time.monotonic) -> None:
        self._of: LastKnownOf[None, T] = LastKnownOf(what, lambda _: read(), 1, clock)

    async def get(self, patience_s: float = PATIENCE_S) -> Known[T]:
        """The value, with its age. Raises StoreUnavailable if none is known."""
        return await self._of.get(None, patience_s)

    def wait(self, patience_s: float = PATIENCE_S) -> Known[T]:
        """As `get`, for callers in threads."""
        return self._of.wait(None, patience_s)

    def close(self) -> None:
        self._of.close()


def _complete(future: Future[T], outcome: T | Exception) -> None:
    if future.set_running_or_notify_cancel():  # otherwise the caller has its answer already
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
