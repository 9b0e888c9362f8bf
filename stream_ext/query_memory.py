"""Query memory: the memory that all one-shot queries of a server share, in whichever process each is evaluated.

The budget of a query (`stream_ext.evaluation_budget`) does not know other queries. So each query reserves here what it
needs beyond a small free amount. If the sum would exceed the limit, the query fails with Overload, and the client may
try again. A query that runs alone can have its whole budget.

The processes share one page of counters. Each process writes its own counter only: it adds first, and then reads the
sum. So two requests at the same time may both be refused, but are never both granted beyond the limit."""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from itertools import count
from pathlib import Path

import numpy as np

from stream_ext.errors import Overload

_PLACES = 512
_BYTES = 8 * _PLACES
_RETRY_AFTER_S = 1
_OF_CONTAINER = Path("/sys/fs/cgroup/memory.max")


class QueryMemory:
    def __init__(self, bytes_max: int, shared: tuple[int, int] | None = None) -> None:
        """`shared`: the file of another process's, and the place there that this process has."""
        self.bytes_max = bytes_max
        self.refused = 0
        if shared is None:
            self.file, self._place = os.memfd_create("rillet-query-memory"), 0
            os.ftruncate(self.file, _BYTES)
        else:
            self.file, self._place = shared
        weakref.finalize(self, os.close, self.file)
        self._counters = np.frombuffer(mmap.mmap(self.file, _BYTES), np.int64)
        self._lock = threading.Lock()  # of this process's counter
        self._places = {self._place}

    @property
    def used(self) -> int:
        return int(self._counters.sum())

    @property
    def left(self) -> int:
        return max(0, self.bytes_max - self.used)

    def reserve(self, bytes: int) -> None:
        """Reserves more bytes; Overload if other queries have them."""
        with self._lock:
            self._counters[self._place] += bytes
            if self.used <= self.bytes_max:
                return
            self._counters[self._place] -= bytes
            self.refused += 1
        raise Overload(
            "this query needs more memory than the other queries leave: all queries together may use "
            f"{self.bytes_max >> 20} MiB (--queries-bytes); send it again when some of them have ended, "
            "or ask for less",
            _RETRY_AFTER_S,
        )

    def release(self, bytes: int) -> None:
        with self._lock:
            self._counters[self._place] -= bytes

    def place(self) -> int:
        """The place of one more process, until `vacate`."""
        place = next(each for each in count(1) if each not in self._places)
        self._places.add(place)
        return place

    def vacate(self, place: int) -> None:
        """Frees the memory of a process that has ended, however it ended."""
        self._counters[place] = 0
        self._places.discard(place)


def usual_bytes(query_bytes: int) -> int:
    """The default limit: half of the memory of this machine or container, and one budget at least."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if _OF_CONTAINER.exists() and (most := _OF_CONTAINER.read_text().strip()).isdigit():
        memory = min(memory, int(most))
    return max(query_bytes, memory // 2)
