"""Lag: for how long the oldest snapshot has waited that is not evaluated yet."""

from __future__ import annotations

import threading
from collections import deque


class Lag:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int]] = deque()  # snapshots, and when they were published

    def published(self, sn: int, now_ms: int, position: int) -> None:
        with self._lock:
            self._waiting.append((sn, now_ms))
            self._forget(position)

    def ms(self, now_ms: int, position: int) -> int:
        with self._lock:
            self._forget(position)
            return max(0, now_ms - self._waiting[0][1]) if self._waiting else 0

    def _forget(self, position: int) -> None:
        while self._waiting and self._waiting[0][0] <= position:
            self._waiting.popleft()
