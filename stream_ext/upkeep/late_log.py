"""The late log: late elements and their counts in the store, so that they survive a restart.

There is a row for each push with late elements: these elements, and the counts up to then. The row is written after the
push is published and before it is acknowledged. Rows that the retained elements of a stream do not need are deleted."""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Sequence

import msgspec

from hbase_store.backends.keyvalue import KeyValue, Put
from hbase_store.errors import StoreError
from stream_ext.upkeep.late_elements import RETAINED_MAX, Late, LateElements

_PREFIX = b"late/"
_KEY = struct.Struct(">QQI")
_END = b"late0"  # after all keys with the prefix


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """`counted` late elements of the stream up to this push, and of these for each query."""

    counted: int
    by_query: dict[int, int]
    late: list[Late]


class LateLog:
    """Only the writer's thread uses it."""

    def __init__(self, kv: KeyValue, retained_max: int = RETAINED_MAX) -> None:
        self._kv, self._retained_max = kv, retained_max
        #: Of each stream its rows: key, snapshot, how many elements.
        self._rows: dict[int, deque[tuple[bytes, int, int]]] = {}
        self._counts: Counter[int] = Counter()  # elements in the rows of each stream
        self._unwritten: list[Put] = []

    def read(self, into: LateElements, counted: Counter[tuple[int, int]]) -> None:
        """Reads the log at the start."""
        for key, value in self._kv.scan("meta", _PREFIX, _END):
            stream, sn, _ = _KEY.unpack(key[len(_PREFIX) :])
            row = msgspec.msgpack.decode(value, type=_Row)
            self._append(stream, key, sn, row)
            into.restore(stream, row.counted, row.late)
            counted.update({(stream, query): n - counted[stream, query] for query, n in row.by_query.items()})

    def add(self, stream: int, late: Sequence[Late], counted: int, by_query: dict[int, int]) -> None:
        """Adds the late elements of one push; the counts are those after it."""
        key = _PREFIX + _KEY.pack(stream, late[0].sn, late[0].push)
        row = _Row(counted, by_query, list(late[-self._retained_max :]))
        self._unwritten.append(Put("meta", key, msgspec.msgpack.encode(row), late[0].sn))
        self._append(stream, key, late[0].sn, row)
        try:
            self._kv.put_many(self._unwritten)
            self._unwritten.clear()
            self._let_go(stream)
        except StoreError:
            return  # written with the next row; the fault of the store is reported by others

    def forget(self, stream: int) -> None:
        """The stream was dropped."""
        del self._counts[stream]
        for key, sn, _ in self._rows.pop(stream, ()):
            self._kv.delete("meta", [key], sn)

    def _append(self, stream: int, key: bytes, sn: int, row: _Row) -> None:
        self._rows.setdefault(stream, deque()).append((key, sn, len(row.late)))
        self._counts[stream] += len(row.late)

    def _let_go(self, stream: int) -> None:
        """Deletes the rows that the retained elements do not need."""
        rows = self._rows[stream]
        while self._counts[stream] - rows[0][2] >= self._retained_max:
            key, sn, count = rows.popleft()
            self._counts[stream] -= count
            self._kv.delete("meta", [key], sn)
