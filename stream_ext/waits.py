"""Waits: what the service cannot go on without, and does not have, now.

Readiness, status and the console show them; whoever waits says so within the first second, and says when it is over.

    waits.begin("store", "HBase at 127.0.0.1:9090 does not answer: connection refused")
    ...
    waits.end("store")"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

#: The store does not answer; its disk is full; Spark does not answer; the clock is behind the time of a stream;
#: the writer's lease is somebody else's.
Kind = Literal["store", "disk", "spark", "clock", "lease"]


@dataclass(frozen=True, slots=True)
class Wait:
    kind: Kind
    why: str
    since_ms: int


class Waits:
    """Any thread may begin, end and look; no call blocks."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._waits: dict[Kind, Wait] = {}

    def begin(self, kind: Kind, why: str) -> None:
        """Begun already: only its reason is another."""
        with self._lock:
            begun = self._waits.get(kind)
            self._waits[kind] = Wait(kind, why, self._now_ms() if begun is None else begun.since_ms)

    def end(self, kind: Kind) -> None:
        with self._lock:
            self._waits.pop(kind, None)

    def current(self) -> tuple[Wait, ...]:
        """The longest first."""
        with self._lock:
            return tuple(sorted(self._waits.values(), key=lambda wait: wait.since_ms))

    def as_json(self) -> list[dict[str, object]]:
        return [{"kind": wait.kind, "why": wait.why, "since": wait.since_ms} for wait in self.current()]
