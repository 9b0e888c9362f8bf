"""Memory only: reads that must not wait, for a thread that many others wait for, such as an event loop.

    with memory_only():
        store.at(7).values(p, s)      NotInMemory, if it takes a call of the backend, or much work

Then whoever can wait reads it. What is in memory may still have to be sorted or merged first, or another thread does
just that: this is not waited for either."""

from __future__ import annotations

import threading

from hbase_store.errors import NotInMemory


class _Thread(threading.local):
    memory_only = False


_thread = _Thread()


class memory_only:
    """Within it, this thread reads only what is at hand."""

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer, _thread.memory_only = _thread.memory_only, True

    def __exit__(self, *error: object) -> None:
        _thread.memory_only = self._outer


def must_not_wait() -> bool:
    return _thread.memory_only


def check_may_wait() -> None:
    """Called where a read begins to take long: NotInMemory, if this thread must not wait."""
    if _thread.memory_only:
        raise NotInMemory("this is not in memory yet: read it where a thread can wait for it")


class ShortLock:
    """A lock for what is mostly quick, but not always: who must not wait does not wait for it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(False):
            check_may_wait()
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
