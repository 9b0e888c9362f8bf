"""Waits: what the service waits for now, and cannot go on without.

Readiness, status and the console show them. A component that waits calls `begin` within the first second, and `end`
when the wait is over.

    waits.begin("store", "HBase at 127.0.0.1:9090 does not answer: connection refused")
    ...
    waits.end("store")

A call that neither fails nor returns cannot report; so a call of the store is made

    with waits.during("store", "the writer"): ...        a wait of its own once it has lasted for more than a second"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

#: The store does not answer; its disk is full; Spark does not answer; the clock is behind the time of a stream;
#: another process has the writer's lease.
Kind = Literal["store", "disk", "spark", "clock", "lease"]

#: Without these nothing can be written, or read; Spark and the clock only hold queries back.
STOPS: frozenset[Kind] = frozenset({"store", "disk", "lease"})


@dataclass(frozen=True, slots=True)
class Wait:
    kind: Kind
    why: str
    since_ms: int


#: A call that has lasted for so long is waited for.
SILENT_MS = 1_500


@dataclass(frozen=True, slots=True)
class _Call:
    kind: Kind
    who: str
    since_ms: int


class _During:
    """A call is in `calls` until it ends. A class, for each write enters several: a generator takes three times as
    long."""

    __slots__ = ("_call", "_calls", "_lock")

    def __init__(self, calls: dict[object, _Call], lock: threading.Lock, call: _Call) -> None:
        self._calls, self._lock, self._call = calls, lock, call

    def __enter__(self) -> None:
        with self._lock:
            self._calls[self] = self._call

    def __exit__(self, *error: object) -> None:
        with self._lock:
            del self._calls[self]


class Waits:
    """Any thread may begin, end and look; no call blocks."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._waits: dict[Kind, Wait] = {}
        self._calls: dict[object, _Call] = {}  # under way

    def begin(self, kind: Kind, why: str) -> None:
        """Begun already: only its reason is another."""
        with self._lock:
            begun = self._waits.get(kind)
            self._waits[kind] = Wait(kind, why, self._now_ms() if begun is None else begun.since_ms)

    def end(self, kind: Kind) -> None:
        with self._lock:
            self._waits.pop(kind, None)

    def during(self, kind: Kind, who: str) -> AbstractContextManager[None]:
        """Encloses a call that may never return. The status shows for how long it has been waiting."""
        return _During(self._calls, self._lock, _Call(kind, who, self._now_ms()))

    def current(self) -> tuple[Wait, ...]:
        """One of each kind, the longest first."""
        with self._lock:
            found, calls, now_ms = dict(self._waits), list(self._calls.values()), self._now_ms()
        for call in sorted(calls, key=lambda call: call.since_ms):
            if call.kind not in found and now_ms - call.since_ms >= SILENT_MS:
                why = f"{call.who} has had no answer for {(now_ms - call.since_ms) / 1000:.0f} s"
                found[call.kind] = Wait(call.kind, why, call.since_ms)
        return tuple(sorted(found.values(), key=lambda wait: wait.since_ms))

    def hangs(self, who: str) -> Wait | None:
        """The wait of this one's call, if it is one by now."""
        with self._lock:
            calls, now_ms = list(self._calls.values()), self._now_ms()
        for call in calls:
            if call.who == who and now_ms - call.since_ms >= SILENT_MS:
                return Wait(call.kind, f"{who} has had no answer", call.since_ms)
        return None

    def as_json(self) -> list[dict[str, object]]:
        return [{"kind": wait.kind, "why": wait.why, "since": wait.since_ms} for wait in self.current()]
