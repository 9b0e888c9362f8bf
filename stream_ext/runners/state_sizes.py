"""State sizes: how many bytes the networks of a shard have, measured a few at a time between the steps."""

from __future__ import annotations

from collections.abc import Iterator

from stream_ext.continuous.run import Run
from stream_ext.continuous.shard import Shard

#: All are measured about as often as this, and so many after each step.
_EVERY_MS, _AT_ONCE = 10_000, 50


class StateSizes:
    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._left: Iterator[Run] = iter(())
        self._found: dict[int, int] = {}
        self._measures = False

    def looked(self, shard: Shard, now_ms: int) -> dict[int, int] | None:
        """The bytes by the first query of each network, when the last of them is measured."""
        if not self._measures:
            if self._since_ms is not None and now_ms - self._since_ms < _EVERY_MS:
                return None
            self._since_ms, self._measures, self._found = now_ms, True, {}
            self._left = iter([*shard.runs.all, *shard.all_behind.runs])
        for _ in range(_AT_ONCE):
            run = next(self._left, None)
            if run is None:
                self._measures = False
                return self._found
            if not run.is_empty:
                self._found[run.numbers[0]] = run.state_bytes
        return None
