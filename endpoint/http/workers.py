"""Thread pools for blocking calls: the event loop itself never blocks.

Each kind of call has threads of its own: a push that waits for its evaluation does not delay a query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from endpoint.limits import HttpLimits
from stream_ext.errors import Overload, RilletError

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_AFTER_S = 1


class Pool:
    """The threads of one kind of call. If `threads` calls run and `waiting` calls wait, further calls get Overload."""

    def __init__(self, kind: str, threads: int, waiting: int) -> None:
        self.kind = kind
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"rillet-{kind}")
        self._room = self._whole = threads + waiting
        self.refused = 0

    @property
    def busy(self) -> int:
        """The number of calls that run or wait."""
        return self._whole - self._room

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.submit(function, *args, **kwargs)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """A call has its place until it ends, even if nobody waits for its result any more."""
        if self._room <= 0:
            self.refused += 1
            raise Overload(f"too many requests of this kind ({self.kind}) are waiting; try again later", _RETRY_AFTER_S)
        return self.go_on(function, *args, **kwargs)

    def go_on(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """The next part of a call that was accepted before: never rejected."""
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, partial(function, *args, **kwargs))
        except RuntimeError as error:  # the pool is closed; this request was accepted before
            raise RilletError("the server is being closed; send the request again when it is back") from error
        self._room -= 1  # only used on the event loop
        future.add_done_callback(self._ended)
        return future

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
        self.writers = Pool("writes", limits.writers, limits.waiting)
        self.unpackers = Pool("unpacking", limits.unpackers, limits.waiting)
        self.waiters = Pool("evaluations", limits.waiters, limits.waiting)
        self.followers = Pool("subscriptions", limits.followers, 1 << 20)

    def close(self) -> None:
        for pool in (
            self.readers, self.writers, self.unpackers, self.waiters, self.followers, self.operations,
        ):  # fmt: skip
            pool.close()
