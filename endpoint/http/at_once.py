"""At once: small queries that the event loop evaluates itself, without the way to a thread and back.

Only where it cannot wait for anything: what is read is in memory, the plan is known, and only so many rows as code for
few rows handles may come of any step. A query that turns out to need more goes to a thread, as if it had not been
tried."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import TypeVar

from hbase_store.errors import NotInMemory
from hbase_store.memory_only import memory_only
from stream_ext.errors import QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.effort import Effort

T = TypeVar("T")

#: A query is tried if the one before it that was alike took no more of a core.
_LIGHT_S = 0.001
#: The event loop evaluates for so long in a pass. If one query took longer than that, none for a while; for twice as
#: long if the next one did, too, up to the longest.
_PASS_S, _PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.01, 0.64
#: Of the solutions that are alive at a time: not so many as other code handles, which may have to be loaded first.
_BYTES = 2040


class AtOnce:
    """Used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._spent_s, self._is_counting = 0.0, False
        self._paused_until, self._pause_s = -math.inf, _PAUSE_S
        self.answered = self.in_vain = 0

    def result(self, effort: Effort, evaluate: Callable[[Control], T | None]) -> T | None:
        """What `evaluate` returns; None: it has to be evaluated in a thread."""
        began = self._clock()
        if self._spent_s >= _PASS_S or began < self._paused_until or not effort.is_at_most(_LIGHT_S):
            return None
        found = None
        try:
            with memory_only():
                found = evaluate(Control(bytes_max=_BYTES))
        except (NotInMemory, QueryTooLarge):
            pass  # nothing is lost: a thread evaluates it
        finally:
            self._note(began)
        if found is None:
            effort.failed()
        else:
            effort.succeeded()
        self.answered += found is not None
        self.in_vain += found is None
        return found

    def _note(self, began: float) -> None:
        ended = self._clock()
        self._spent_s += ended - began
        if ended - began > _PASS_S:
            self._paused_until = ended + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        else:
            self._pause_s = _PAUSE_S
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._spent_s, self._is_counting = 0.0, False
