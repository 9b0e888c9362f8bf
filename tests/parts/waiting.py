"""Waiting in tests: for a condition, never for a length of time, and never for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable

PATIENCE_S = 60


def until(holds: Callable[[], object], what: str) -> None:
    """Returns once it holds; fails, and says what did not come, where it never does."""
    waited = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if holds():
            return
        waited.wait(0.01)
    raise AssertionError(f"not within {PATIENCE_S} s: {what}")
