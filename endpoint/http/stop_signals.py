"""Signals that stop a server, before it serves and while it does."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any


class StopSignals:
    """The handlers of SIGTERM and SIGINT. Before the server runs, a signal ends the start. While it runs, uvicorn
    has its own handlers; afterwards uvicorn sends the signal again to itself, which must not kill the process before
    the store is closed."""

    def __init__(self) -> None:
        self.serving = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.serving:
            raise Stopped

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Stopped(Exception):
    """The server was stopped before it was ready."""
