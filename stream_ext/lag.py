"""Lag: for how long the oldest snapshot has waited that is not evaluated yet, and how long the newest will have to.

What is waiting tells of trouble too late: while the first of a hundred snapshots is stepped for ten seconds, more are
published, and the last of them waits for a quarter of an hour. So pushes are held against the way that lies before
them: as many steps as wait, each as long as they take now. The time in which nobody steps, as while Spark starts
another worker, is not such a time."""

from __future__ import annotations

import threading
from collections import deque

#: A step that took longer counts at once, one that took less by and by: so much of it with each.
_SHARE_OF_LAST = 0.25
#: A step that is under way for as long is taken for what the others will be like; a shorter one may be a pause.
_SLOW_MS = 1_000
_FEW = 4  # so few wait after a pause, too


class Lag:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int]] = deque()  # snapshots, and when they were published
        self._step_ms = 0.0

    def published(self, sn: int, now_ms: int, position: int) -> None:
        with self._lock:
            self._waiting.append((sn, now_ms))
            self._forget(position)

    def stepped(self, took_ms: float) -> None:
        """A runner that has the queries has stepped a snapshot."""
        with self._lock:
            share = 1 if took_ms > self._step_ms else _SHARE_OF_LAST
            self._step_ms += (took_ms - self._step_ms) * share

    def ms(self, now_ms: int, position: int) -> int:
        with self._lock:
            self._forget(position)
            return max(0, now_ms - self._waiting[0][1]) if self._waiting else 0

    def ahead_ms(self, position: int, under_way_ms: int) -> int:
        """How long those before it will keep a snapshot waiting that is published now, where a step is under way for so
        long."""
        with self._lock:
            self._forget(position)
            if not self._waiting:
                return 0
            is_slow = under_way_ms >= _SLOW_MS and len(self._waiting) > _FEW
            step_ms = max(self._step_ms, under_way_ms if is_slow else 0)
            return int(max(0, self._step_ms - under_way_ms) + (len(self._waiting) - 1) * step_ms)

    def _forget(self, position: int) -> None:
        while self._waiting and self._waiting[0][0] <= position:
            self._waiting.popleft()
