"""A cache of what was read and decoded, with a budget of bytes: what was not used for the longest time goes first.

Blocks never change, so nothing in the cache is ever wrong; an array that has left it lives on while it is read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")

CACHE_BYTES = 512 << 20


class Cache(Generic[V]):
    """A cache that many threads share."""

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return self._bytes

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        with self._lock:
            self._drop(key)
            self._entries[key] = value, size
            self._bytes += size
            while self._bytes > self._bytes_max and len(self._entries) > 1:
                _, (_, oldest) = self._entries.popitem(last=False)
                self._bytes -= oldest

    def drop(self, key: Hashable) -> None:
        with self._lock:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]
