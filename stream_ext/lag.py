"""Lag: for how long the oldest snapshot has waited that is not evaluated yet, and how long the newest will have to.

What is waiting tells of trouble too late: while the first of a hundred snapshots is stepped for ten seconds, more are
published, and the last of them waits for a quarter of an hour. So pushes are held against the way that lies before
them: as many steps as wait, each as long as they take now."""

from __future__ import annotations

import threading
from collections import deque

#: A step that took longer counts at once, one that took less by and by: so much of it with each.
_SHARE_OF_LAST = 0.25
#: A step that is under way for as long is taken for what the others will be like; a shorter one may be a pause.
_SLOW_MS = 1_000
_FEW = 4  # so few wait after a pause, too


class Lag:
    """Told of each snapshot, and asked at any time; each time it looks how far the queries have come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int]] = deque()  # snapshots, and when they were published
        self._since_ms = 0  # the queries are busy with the next snapshot since then
        self._step_ms = 0.0

    def published(self, sn: int, now_ms: int, position: int) -> None:
        with self._lock:
            self._look(now_ms, position)
            if not self._waiting:
                self._since_ms = now_ms
            self._waiting.append((sn, now_ms))

    def ms(self, now_ms: int, position: int) -> int:
        with self._lock:
            self._look(now_ms, position)
            return max(0, now_ms - self._waiting[0][1]) if self._waiting else 0

    def ahead_ms(self, now_ms: int, position: int) -> int:
        """How long those before it will keep a snapshot waiting that is published now."""
        with self._lock:
            self._look(now_ms, position)
            if not self._waiting:
                return 0
            under_way_ms = max(0, now_ms - self._since_ms)
            is_slow = under_way_ms >= _SLOW_MS and len(self._waiting) > _FEW
            step_ms = max(self._step_ms, under_way_ms if is_slow else 0)
            return int(max(0, self._step_ms - under_way_ms) + (len(self._waiting) - 1) * step_ms)

    def _look(self, now_ms: int, position: int) -> None:
        done = 0
        while self._waiting and self._waiting[0][0] <= position:
            self._waiting.popleft()
            done += 1
        if done:
            last_ms = max(0, now_ms - self._since_ms) / done
            share = 1 if last_ms > self._step_ms else 1 - (1 - _SHARE_OF_LAST) ** done
            self._step_ms += (last_ms - self._step_ms) * share
            self._since_ms = now_ms
