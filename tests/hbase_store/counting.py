"""A backend that counts round trips, as HBase would make them: what LMDB answers in a microsecond is a call there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hbase_store.backends.keyvalue import CALL_BYTES_MAX, CompareAndSet, Key, KeyValue, Put, Value
from tests.hbase_store.faulty import Shared

#: What one call of a scan brings.
SCAN_ROWS = 1000


class Counting(Shared):
    """`calls` counts round trips by verb and table, `keys` how many keys were asked for, by table."""

    def __init__(self, inner: KeyValue) -> None:
        super().__init__(inner)
        self.calls: Counter[tuple[str, str]] = Counter()
        self.keys: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self.calls.total()

    @contextmanager
    def counted(self) -> Iterator[Counting]:
        """Counts from here on."""
        self.calls.clear()
        self.keys.clear()
        yield self

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        self.calls["get", table] += 1
        self.keys[table] += len(keys)
        return super().get_many(table, keys, sizes)

    def scan(self, table: str, start: Key, stop: Key | None) -> Iterator[tuple[Key, Value]]:
        self.calls["scan", table] += 1
        for i, row in enumerate(super().scan(table, start, stop), 1):
            if i % SCAN_ROWS == 0:
                self.calls["scan", table] += 1
            yield row

    def put_many(self, puts: Iterable[Put]) -> None:
        """A call for each so many bytes, and not for each table: a batch of a table is a call."""
        size: Counter[str] = Counter()
        listed = list(puts)
        for put in listed:
            size[put.table] += len(put.key) + len(put.value)
        for table, total in size.items():
            self.calls["put", table] += -(-total // CALL_BYTES_MAX)
        super().put_many(listed)

    def publish_unharmed(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        self.calls["compare and set", "meta"] += 1
        for stage in stages:
            self.put_many(stage)
        return self._inner.publish([], compare_and_set)

    def allocate(self, counter: str, count: int) -> int:
        self.calls["allocate", "meta"] += 1
        return super().allocate(counter, count)

    def delete(self, table: str, keys: Sequence[Key], time: int) -> None:
        self.calls["delete", table] += 1
        super().delete(table, keys, time)

    def delete_range(self, table: str, start: Key, stop: Key | None, time: int) -> None:
        self.calls["delete", table] += 1
        super().delete_range(table, start, stop, time)
