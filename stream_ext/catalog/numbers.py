"""Numbers of streams, of queries and their groups; none is used twice.

They are allocated in the store some at a time, twice as many each time. Numbers that are left when the process ends are
never used."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from hbase_store.backends.keyvalue import KeyValue

_AT_ONCE_MAX = 256


class NumberAllocator:
    """Any thread may call `new`."""

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
