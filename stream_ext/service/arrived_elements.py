"""The elements that each stream got: how many since this process started, and when the last one came."""

from __future__ import annotations

from collections import Counter

from hbase_store import Store, StreamPosition
from hbase_store.errors import SnapshotGone
from stream_ext.clock import Clock
from stream_ext.writer.gathering import Accepted


class ArrivedElements:
    """The writer's thread adds; any thread reads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._counts: Counter[int] = Counter()
        self._last_ms: dict[int, int | None] = {}

    def add(self, accepted: Accepted) -> None:
        if count := len(accepted.element_times):
            self._counts[accepted.stream] += count
            self._last_ms[accepted.stream] = self._clock.now_ms()

    def forget(self, stream: int) -> None:
        """The stream was dropped."""
        self._counts.pop(stream, None)
        self._last_ms.pop(stream, None)

    def count(self, stream: int) -> int:
        return self._counts[stream]

    def last_ms(self, position: StreamPosition | None) -> int | None:
        """When the last element came, by the clock of the server; None: none came, or this is no longer known: its
        snapshot is not retained, and it came before this process started."""
        if position is None or not position.last:
            return None
        if position.stream not in self._last_ms:
            self._last_ms.setdefault(position.stream, self._published_ms(position.last))
        return self._last_ms[position.stream]

    def _published_ms(self, sn: int) -> int | None:
        try:
            return self._store.row(sn).published_ms
        except SnapshotGone:
            return None
