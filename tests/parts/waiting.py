"""Waiting in tests: for a condition, never for a length of time, and never for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable

PATIENCE_S = 60


def until(holds: Callable[[], object], what: str, patience_s: int = PATIENCE_S) -> None:
    """Returns once it holds; fails, and says what did not come, where it never does."""
    waited = threading.Event()
    for _ in range(patience_s * 100):
        if holds():
            return
        waited.wait(0.01)
    raise AssertionError(f"not within {patience_s} s: {what}")
