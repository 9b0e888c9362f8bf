"""A backend that reads nothing for a thread that must not wait (`memory_only`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from hbase_store.backends.keyvalue import Key, KeyValue, Value
from hbase_store.memory_only import check_may_wait


class _CheckedReads:
    def __init__(self, kv: KeyValue) -> None:
        self._kv, self.is_remote = kv, kv.is_remote

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        check_may_wait()
        return self._kv.get_many(table, keys, sizes)

    def scan(self, table: str, start: Key, stop: Key | None) -> Iterator[tuple[Key, Value]]:
        check_may_wait()
        return self._kv.scan(table, start, stop)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)


def with_checked_reads(kv: KeyValue) -> KeyValue:
    """The same backend, which reads nothing for a thread that must not wait."""
    return cast("KeyValue", _CheckedReads(kv))
