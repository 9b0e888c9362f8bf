"""Threads for the calls that block, so that the event loop never does.

Each kind of call has its own threads: a push that waits for its evaluation holds no query back."""

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
    """Threads of one kind; beyond `threads` busy and `waiting` queued calls the caller is told to come back."""

    def __init__(self, kind: str, threads: int, waiting: int) -> None:
        self.kind = kind
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"rillet-{kind}")
        self._room = self._whole = threads + waiting
        self.refused = 0

    @property
    def busy(self) -> int:
        """Calls that run or wait."""
        return self._whole - self._room

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.submit(function, *args, **kwargs)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Its place is taken until the call has ended, also when nobody waits for it any more."""
        if self._room <= 0:
            self.refused += 1
            raise Overload(f"too many requests of this kind ({self.kind}) are waiting; try again", _RETRY_AFTER_S)
        return self.go_on(function, *args, **kwargs)

    def go_on(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """The next part of what has been let in already: never refused."""
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, partial(function, *args, **kwargs))
        except RuntimeError as error:  # the pool has ended; this request was let in before
            raise RilletError("the server is being closed; send this again when it is back") from error
        self._room -= 1  # only ever touched on the event loop
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self._room += 1
        if not future.cancelled():
            future.exception()  # looked at here for those whose caller has gone

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class Workers:
    def __init__(self, limits: HttpLimits) -> None:
        self.operations = Pool("operations", 2, limits.waiting)  # never for what may wait for the store
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
