"""Lag: for how long the oldest snapshot has waited that is not evaluated yet, and how long the newest will have to.

What is waiting tells of trouble too late: while the first of a hundred snapshots is stepped for ten seconds, more are
published, and the last of them waits for a quarter of an hour. So pushes are held against the way that lies before
them: as many steps as wait, each as long as they take now. The time in which nobody steps, as while Spark starts
another worker, is not such a time."""

from __future__ import annotations

import threading
from collections import deque

#: The middle one of so many steps says what a step takes: the first of a query, or one that was held up, does not.
_STEPS = 5
#: A step that is under way for such a share of the limit is taken for what the others will be like; a shorter one may
#: be a pause, and after a pause so few may wait, too.
_SLOW_SHARE, _FEW = 1 / 5, 4


class Lag:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int]] = deque()  # snapshots, and when they were published
        self._took_ms: deque[float] = deque(maxlen=_STEPS)

    def published(self, sn: int, now_ms: int, position: int) -> None:
        with self._lock:
            self._waiting.append((sn, now_ms))
            self._forget(position)

    def stepped(self, took_ms: float) -> None:
        """A runner that has the queries has stepped a snapshot."""
        with self._lock:
            self._took_ms.append(took_ms)

    def ms(self, now_ms: int, position: int) -> int:
        with self._lock:
            self._forget(position)
            return max(0, now_ms - self._waiting[0][1]) if self._waiting else 0

    def ahead_ms(self, position: int, under_way_ms: int, limit_ms: int) -> int:
        """How long those before it will keep a snapshot waiting that is published now, where a step is under way for so
        long, and it is to wait no longer than `limit_ms`."""
        with self._lock:
            self._forget(position)
            if not self._waiting:
                return 0
            took_ms = sorted(self._took_ms)[len(self._took_ms) // 2] if self._took_ms else 0
            is_slow = under_way_ms >= limit_ms * _SLOW_SHARE and len(self._waiting) > _FEW
            step_ms = max(took_ms, under_way_ms if is_slow else 0)
            return int(max(0, took_ms - under_way_ms) + (len(self._waiting) - 1) * step_ms)

    def _forget(self, position: int) -> None:
        while self._waiting and self._waiting[0][0] <= position:
            self._waiting.popleft()
