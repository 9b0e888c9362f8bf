"""The replays of a server: which queries are replayed by several processes, and how far they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hbase_store import Store
from stream_ext.catalog.registered import Registered
from stream_ext.continuous.catching_up.unit_behind import Replay
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.run_plan import PlannedQuery
from stream_ext.oneshot.divided.open_stores import absolute
from stream_ext.runners.replays.replay import QueryReplay, ReplayJobs
from stream_ext.runners.replays.stretches import CLOSE_S, expected_s, schedule_of, why_not_divided
from stream_ext.runners.replays.task import Missed
from stream_ext.windows.query_state import QueryState

#: What is expected to take less is evaluated by the server itself: a process takes a second or two to begin.
LEAST_S = 4.0
#: At a time; the server itself replays others, by turns.
REPLAYS_MAX = 4


class QueryReplays:
    """One for each engine; any thread may call."""

    def __init__(
        self,
        store: Store,
        jobs: ReplayJobs,
        budget: Budget,
        changed: Callable[[], None],
        spent: Callable[[Mapping[int, float]], None],
        died: Callable[[int, str], object],
    ) -> None:
        """`jobs`: who runs tasks. `changed` is called when there is something to take; `spent` with the
        CPU milliseconds of a query; `died` with a query whose tasks die, and why."""
        self._store, self._jobs, self._budget = store, jobs, budget
        self._changed, self._spent, self._died = changed, spent, died
        self._lock = threading.Lock()
        self._running: dict[int, QueryReplay] = {}
        self._is_closed = False

    @property
    def least_s(self) -> float:
        return LEAST_S

    def begin(self, planned: PlannedQuery, defined_at: int, head: int, close_s: float | None = None) -> Replay | None:
        state = planned.state
        assert state.behind_at is not None, "it is behind"
        if planned.timing.ends_at is None:
            why_not = self.why_not_missed(planned.registered, state)
        else:
            has_ended = state.sn > 0 and state.within is None
            why_not = "it has ended" if has_ended else self.why_not(planned, state.behind_at + 1)
        if why_not or not self._jobs.is_ready:
            return None
        missed = Missed(absolute(self._store.url), planned.number, defined_at, head, state)
        with self._lock:
            if len(self._running) >= REPLAYS_MAX or self._is_closed:
                return None
            replay = self._running[planned.number] = QueryReplay(
                missed, close_s or CLOSE_S, LEAST_S, self._budget, self._jobs, self._changed,
                partial(self._ended, planned.number), partial(self._died, planned.number),
            )  # fmt: skip
        replay.start()
        return replay

    def why_not(self, planned: PlannedQuery, sn: int) -> str:
        """Why the past of a query that begins in snapshot `sn` is replayed by one process; empty: it is not."""
        if why := self._why_nobody() or why_not_divided(planned.registered, planned.state):
            return why
        needs_s = expected_s(schedule_of(planned, self._store, sn), self._store.vts(sn))
        if needs_s < LEAST_S:
            return f"it is expected to take {needs_s:.1f} s, and less than {LEAST_S:g} s is not divided"
        return ""

    def why_not_missed(self, registered: Registered, state: QueryState) -> str:
        """Why what a query has missed is evaluated by one process, however much it is; empty: it is not."""
        return self._why_nobody() or why_not_divided(registered, state)

    def explained(self, registered: Registered, sn: int) -> dict[str, Any]:
        """What would be done with a query that is registered now."""
        planned = PlannedQuery(0, registered, registered.timing, QueryState())
        if why := self.why_not(planned, sn):
            return {"why_not": why}
        return {"by": self._jobs.name, "tasks": self._jobs.lanes}

    def _why_nobody(self) -> str:
        return "" if self._jobs.lanes > 1 else f"fewer than two tasks can run at a time ({self._jobs.limited_by})"

    def status(self, query: int) -> dict[str, Any] | None:
        """None: the query is not replayed by several processes now."""
        replay = self._running.get(query)
        return None if replay is None else replay.status()

    def _ended(self, query: int, replay: QueryReplay, cpu_ms: float) -> None:
        with self._lock:
            if self._running.get(query) is replay:
                del self._running[query]
        self._spent({query: cpu_ms})

    def close(self) -> None:
        with self._lock:
            self._is_closed, running = True, list(self._running.values())
        for replay in running:
            replay.cancel()
        for replay in running:
            replay.join()
