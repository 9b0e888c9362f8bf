"""Loggers belong to the whole process: what a test does to one, the next test would find. So each gives them back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


def _all() -> list[logging.Logger]:
    named = list(logging.Logger.manager.loggerDict.values())  # at once: threads make loggers meanwhile
    return [logging.getLogger(), *(each for each in named if isinstance(each, logging.Logger))]


@contextmanager
def loggers_as_before() -> Iterator[None]:
    """Afterwards levels, handlers and what is disabled are as they were. A logger that was made meanwhile is as new."""
    before = {each: (each.level, each.handlers[:], each.propagate, each.disabled) for each in _all()}
    disabled = logging.root.manager.disable
    try:
        yield
    finally:
        for each in _all():
            found = before.get(each, (logging.NOTSET, [], True, False))
            each.level, each.handlers[:], each.propagate, each.disabled = found
        logging.disable(disabled)  # this also makes all loggers forget which levels they took as enabled
