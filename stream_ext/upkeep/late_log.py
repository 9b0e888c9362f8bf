"""The late log: who came too late, in the store, so that a restart forgets neither how many nor which.

A row for each push that had late elements: these, and the counts up to then. It is written when the push is published
and before it is acknowledged. Of each stream there are as many rows as the latest elements that are kept need."""

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
_END = b"late0"  # behind all that begin with the prefix


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """`counted` late elements of the stream up to this push, and of these for each query."""

    counted: int
    by_query: dict[int, int]
    late: list[Late]


class LateLog:
    """The writer's thread alone uses it."""

    def __init__(self, kv: KeyValue, retained_max: int = RETAINED_MAX) -> None:
        self._kv, self._retained_max = kv, retained_max
        #: Of each stream its rows: key, snapshot, how many elements.
        self._rows: dict[int, deque[tuple[bytes, int, int]]] = {}
        self._counts: Counter[int] = Counter()  # elements in the rows of each stream
        self._unwritten: list[Put] = []

    def read(self, into: LateElements, counted: Counter[tuple[int, int]]) -> None:
        """What is there at the start."""
        for key, value in self._kv.scan("meta", _PREFIX, _END):
            stream, sn, _ = _KEY.unpack(key[len(_PREFIX) :])
            row = msgspec.msgpack.decode(value, type=_Row)
            self._append(stream, key, sn, row)
            into.restore(stream, row.counted, row.late)
            counted.update({(stream, query): n - counted[stream, query] for query, n in row.by_query.items()})

    def add(self, stream: int, late: Sequence[Late], counted: int, by_query: dict[int, int]) -> None:
        """These have come in one push; the counts are those after it."""
        key = _PREFIX + _KEY.pack(stream, late[0].sn, late[0].push)
        row = _Row(counted, by_query, list(late[-self._retained_max :]))
        self._unwritten.append(Put("meta", key, msgspec.msgpack.encode(row), late[0].sn))
        self._append(stream, key, late[0].sn, row)
        try:
            self._kv.put_many(self._unwritten)
            self._unwritten.clear()
            self._let_go(stream)
        except StoreError:
            return  # the store will be told with the next; it says itself what is the matter with it

    def forget(self, stream: int) -> None:
        """It was dropped."""
        del self._counts[stream]
        for key, sn, _ in self._rows.pop(stream, ()):
            self._kv.delete("meta", [key], sn)

    def _append(self, stream: int, key: bytes, sn: int, row: _Row) -> None:
        self._rows.setdefault(stream, deque()).append((key, sn, len(row.late)))
        self._counts[stream] += len(row.late)

    def _let_go(self, stream: int) -> None:
        """Of the rows that the latest elements do not need."""
        rows = self._rows[stream]
        while self._counts[stream] - rows[0][2] >= self._retained_max:
            key, sn, count = rows.popleft()
            self._counts[stream] -= count
            self._kv.delete("meta", [key], sn)
