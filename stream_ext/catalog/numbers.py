"""Numbers that are given once: of streams, of queries and their groups.

They are taken from the store some at a time, more the more are asked for; those that are left when the process ends are
given to nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from hbase_store.backends.keyvalue import KeyValue

_AT_ONCE_MAX = 256


class NumberAllocator:
    """Any thread may ask."""

    def __init__(self, kv: KeyValue) -> None:
        self._kv = kv
        self._lock = threading.Lock()
        self._left: dict[str, Iterator[int]] = {}
        self._at_once: dict[str, int] = {}

    def new(self, counter: str) -> int:
        with self._lock:
            number = next(self._left.get(counter, iter(())), None)
            if number is None:
                count = self._at_once.get(counter, 1)
                first = self._kv.allocate(counter, count)
                self._at_once[counter] = min(2 * count, _AT_ONCE_MAX)
                self._left[counter] = iter(range(first + 1, first + count))
                number = first
            return number
