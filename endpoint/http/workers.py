"""Thread pools for blocking calls. Each kind of call has threads of its own: a push that waits for its evaluation does
not delay a query.

The event loop blocks for one kind of call only, and for a bounded time: for a call that probably takes less time than
to be notified of its result (`Pool.soon`)."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from endpoint.limits import HttpLimits
from stream_ext.errors import Overload, RilletError

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_AFTER_S = 1
_MEASURED_WAITING = 16
#: The event loop waits for a result at most so long, once a pass; after a late one, not again for a while.
_WAIT_S, _PAUSE_S = 0.005, 0.2


class Pool:
    """The threads of one kind of call. If `threads` calls run and `waiting` calls wait, further calls get Overload."""

    def __init__(
        self,
        kind: str,
        threads: int,
        waiting: int,
        wait_s: float = _WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind, self.wait_s = kind, wait_s
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"rillet-{kind}")
        self._room = self._whole = threads + waiting
        self.refused = 0
        self._clock, self._has_waited, self._late_until = clock, False, -math.inf

    @property
    def busy(self) -> int:
        """The number of calls that run or wait."""
        return self._whole - self._room

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.submit(function, *args, **kwargs)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """A call has its place until it ends, even if nobody waits for its result any more."""
        self._check_room()
        return self.resume(function, *args, **kwargs)

    def resume(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """The next part of a call that was accepted before: never rejected."""
        return self._awaited(self._begun(function, *args, **kwargs))

    def soon(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """As `submit`, for a call that is probably quick: the event loop waits for its result, if nothing else is to be
        done in this pool. Then the future is done. If the result is late, it comes like any other, and for a while no
        call is waited for.

        So the event loop waits 5 ms at most in one pass, and for late calls 25 ms a second, whatever the calls do."""
        self._check_room()
        if self.busy or self._has_waited or self._clock() < self._late_until:
            return self.resume(function, *args, **kwargs)
        loop, begun = asyncio.get_running_loop(), self._begun(function, *args, **kwargs)
        self._has_waited = True
        loop.call_soon(self._next_pass)
        try:
            error = begun.exception(self.wait_s)
        except TimeoutError:
            self._late_until = self._clock() + _PAUSE_S
            return self._awaited(begun)
        done: asyncio.Future[T] = loop.create_future()
        if error is None:
            done.set_result(begun.result())
        else:
            done.set_exception(error)
        return done

    def _check_room(self) -> None:
        if self._room <= 0:
            self.refused += 1
            raise Overload(f"too many requests of this kind ({self.kind}) are waiting; try again later", _RETRY_AFTER_S)

    def _begun(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        try:
            return self._executor.submit(function, *args, **kwargs)
        except RuntimeError as error:  # the pool is closed; this request was accepted before
            raise RilletError("the server is being closed; send the request again when it is back") from error

    def _awaited(self, begun: futures.Future[T]) -> asyncio.Future[T]:
        future = asyncio.wrap_future(begun)
        self._room -= 1  # only used on the event loop
        future.add_done_callback(self._ended)
        return future

    def _next_pass(self) -> None:
        self._has_waited = False

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self._room += 1
        if not future.cancelled():
            future.exception()  # retrieved here in case the caller is gone

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class Workers:
    def __init__(self, limits: HttpLimits) -> None:
        self.operations = Pool("operations", 2, limits.waiting)  # never for calls that may wait for the store
        self.readers = Pool("queries", limits.readers, limits.waiting)
        #: A query worker cannot measure a query: many at once would delay everything else in this process.
        self.measurers = Pool("measured queries", 1, _MEASURED_WAITING)
        self.writers = Pool("writes", limits.writers, limits.waiting)
        self.unpackers = Pool("unpacking", limits.unpackers, limits.waiting)
        self.waiters = Pool("evaluations", limits.waiters, limits.waiting)
        self.followers = Pool("subscriptions", limits.followers, 1 << 20)

    def close(self) -> None:
        for pool in (
            self.readers, self.measurers, self.writers, self.unpackers, self.waiters, self.followers, self.operations,
        ):  # fmt: skip
            pool.close()
