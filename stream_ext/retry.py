"""Retries: a call of the store that fails is repeated; a commit whose outcome is unknown is repeated, the very same,
until it is decided.

A store that is reached over a network may not answer for a while, or commit and lose the answer. The store counts a
repeated commit once, so it is safe to repeat; the writer must only not give up too soon: an HBase that is restarted
does not answer for a minute or two."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from hbase_store.errors import DiskFull, StoreRefused, StoreUnavailable
from stream_ext.clock import Clock
from stream_ext.waits import Kind, Waits

Result = TypeVar("Result")

WHO = "what is to be written"
_PAUSE_MS = 250
_GIVE_UP_MS = 300_000
#: A store that says that a table or a right is missing may be just starting, but hardly for longer.
_REFUSED_MS = 10_000


def retry(
    commit: Callable[[], Result],
    clock: Clock,
    over: Callable[[], bool] = lambda: False,
    condition: threading.Condition | None = None,
    waits: Waits | None = None,
) -> Result:
    """The result of `commit`; StoreUnavailable if it fails for five minutes, or is refused for ten seconds, or once
    it is `over`.

    `condition`: the caller holds its lock, which is reentrant; it is released between two tries. `waits` shows
    meanwhile that the store is waited for."""
    until_ms = clock.now_ms() + _GIVE_UP_MS
    refused_until_ms = until_ms
    waited: Kind | None = None
    try:
        while True:
            try:
                with nullcontext() if waits is None else waits.during("store", WHO):
                    return commit()
            except StoreUnavailable as error:
                refused_until_ms = _refused_until_ms(error, refused_until_ms, clock)
                if over() or clock.now_ms() >= min(until_ms, refused_until_ms):
                    raise
                waited = "disk" if isinstance(error, DiskFull) else "store"
                if waits is not None:
                    waits.begin(waited, str(error))
            pause = condition or threading.Condition()
            with pause:
                clock.wait(pause, clock.now_ms() + _PAUSE_MS)
    finally:
        if waits is not None and waited is not None:
            waits.end(waited)


def _refused_until_ms(error: StoreUnavailable, before_ms: int, clock: Clock) -> int:
    """Until when a store that refuses is asked again; an error of another kind begins anew."""
    if not isinstance(error, StoreRefused):
        return clock.now_ms() + _GIVE_UP_MS
    return min(before_ms, clock.now_ms() + _REFUSED_MS)
