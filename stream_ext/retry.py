"""Retry: a request that the store does not answer is repeated; a commit whose outcome is not known is repeated
unchanged, until its outcome is known.

A store in a network may be away for a while, or receive a commit and lose the answer. The store makes sure that a
repeated commit counts once. The writer only must not give up too soon: an HBase that restarts is away for a minute or
two."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from hbase_store.errors import DiskFull, StoreUnavailable
from stream_ext.clock import Clock
from stream_ext.waits import Kind, Waits

Result = TypeVar("Result")

WHO = "what is to be written"
_PAUSE_MS = 250
_GIVE_UP_MS = 300_000


def retry(
    commit: Callable[[], Result],
    clock: Clock,
    over: Callable[[], bool] = lambda: False,
    lock: threading.Condition | None = None,
    waits: Waits | None = None,
) -> Result:
    """The result of `commit`, which is repeated while the store does not answer. StoreUnavailable is raised after five
    minutes, or once it is `over`.

    `lock`: a condition with a reentrant lock of the caller, which is released between two tries. `waits` shows what the
    caller waits for."""
    until_ms = clock.now_ms() + _GIVE_UP_MS
    pause = lock or threading.Condition()
    waited: Kind | None = None
    try:
        while True:
            try:
                with nullcontext() if waits is None else waits.during("store", WHO):
                    return commit()
            except StoreUnavailable as error:
                if over() or clock.now_ms() >= until_ms:
                    raise
                waited = "disk" if isinstance(error, DiskFull) else "store"
                if waits is not None:
                    waits.begin(waited, str(error))
            with pause:
                clock.wait(pause, clock.now_ms() + _PAUSE_MS)
    finally:
        if waits is not None and waited is not None:
            waits.end(waited)
