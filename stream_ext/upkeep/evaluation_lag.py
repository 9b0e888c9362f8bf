"""Lag: for how long the oldest snapshot without evaluations has waited, and how long the newest is expected to wait.

The first is known too late: while the first of a hundred snapshots is stepped for ten seconds, more are published, and
the last of them waits for a quarter of an hour. So a push is judged by the expected wait: the number of waiting
snapshots times the present duration of a step. Time in which no runner steps, as while Spark starts another worker, is
not counted."""

from __future__ import annotations

import threading
from collections import deque

#: The duration of a step is the median of so many steps: the first step of a query, or one that waited, is longer.
_STEPS = 5
#: If a step is under way for longer than this share of the limit, the other steps are expected to take as long. A
#: shorter one may be a pause; and after a pause so few snapshots may wait, too.
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
        """The expected wait of a snapshot that is published now. `under_way_ms`: for how long the present step runs;
        `limit_ms`: the longest wait that is allowed."""
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
