"""Insistence: a commit whose outcome is not known is made again, the very same, until it is decided.

A store that is reached over a network may take a commit and lose the answer. The store sees to it that the same
commit made again counts once; whoever commits must only not give up too soon."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from hbase_store.errors import StoreUnavailable
from stream_ext.clock import Clock

Result = TypeVar("Result")

_PAUSE_MS = 250
_GIVE_UP_MS = 30_000


def insist(commit: Callable[[], Result], clock: Clock) -> Result:
    """What `commit` returns; StoreUnavailable only after half a minute of it."""
    until_ms = clock.now_ms() + _GIVE_UP_MS
    pause = threading.Condition()
    while True:
        try:
            return commit()
        except StoreUnavailable:
            if clock.now_ms() >= until_ms:
                raise
        with pause:
            clock.wait(pause, clock.now_ms() + _PAUSE_MS)
