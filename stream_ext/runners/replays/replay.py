"""The replay of one query: a thread that has tasks run, and hands on what they found, in the order of the past.

    find the cuts   ->   a task for each stretch   ->   pieces, one after the other, to the shard of the query

A task that found too much for one result ended early: the rest of its stretch is another task. What is not handed on is
evaluated again after a restart, or by the shard itself, from the state after the last piece."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from itertools import pairwise
from typing import Any, Protocol

import msgspec

from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.unit_behind import ReplayedPiece
from stream_ext.errors import JobFailed, QueryCancelled, RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.runners.replays.task import (
    RESULT_BYTES,
    CutPast,
    Cuts,
    EncodedTask,
    Replayed,
    ReplayFailed,
    ReplayStretch,
    Result,
    RunTasks,
    StretchPiece,
    Task,
    TaskDied,
    codec,
    encode,
    result_of,
)
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import LastEvaluation, QueryState

#: So many stretches for each task that runs at a time: one that is heavier than the others matters less then.
_STRETCHES_PER_LANE = 2
#: Tasks that failed, one after the other, because whoever runs them had to begin anew.
_FAILURES_MAX = 3

log = logging.getLogger("rillet.queries")


class ReplayJobs(Protocol):
    """Runs tasks in other processes. `name`: who they are, for a status; `limited_by`: what says how many."""

    @property
    def lanes(self) -> int:
        """How many tasks run at a time."""
        ...

    @property
    def name(self) -> str: ...
    @property
    def limited_by(self) -> str: ...

    def opened(self) -> AbstractContextManager[RunTasks]:
        """For one replay: what runs its tasks. Its results, closed, cancel those that still run. They raise TaskDied if
        the process of a task died again and again, JobFailed if there is nobody who runs tasks."""
        ...


class QueryReplay:
    def __init__(
        self,
        store: str,
        sn: int,
        query: int,
        state: QueryState,
        budget: Budget,
        jobs: ReplayJobs,
        changed: Callable[[], None],
        ended: Callable[[QueryReplay, float], None],
        died: Callable[[str], object],
    ) -> None:
        """Of the query that began in snapshot `sn`, from this state on.

        `changed` is called when there is a piece, or the replay has failed; `ended`, with the CPU milliseconds of
        its tasks, when it is over; `died` if a process of it died again and again."""
        self._store, self._sn, self._query = store, sn, query
        self._budget, self._jobs = budget, jobs
        self._changed, self._ended, self._died = changed, ended, died
        self._control = Control()
        self._lock = threading.Condition()
        self._pieces: deque[tuple[StretchPiece, int]] = deque()  # and by how much its numbers are too small
        self._has_failed = False
        # After all that was found: the state, and the number of the next evaluation.
        self._reached, self._evaluations = state, 0 if state.within is None else state.within.k
        self._cpu_ms = 0.0
        self.stretches = self.stretches_done = 0
        self._thread = threading.Thread(target=self._run, name="rillet-replay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def status(self) -> dict[str, Any]:
        return {
            "by": self._jobs.name,
            "tasks": self._jobs.lanes,
            "stretches": self.stretches,
            "stretches_done": self.stretches_done,
        }

    # ---- in the thread of the shard

    @property
    def has_more(self) -> bool:
        with self._lock:
            return bool(self._pieces) or self._has_failed

    def take(self) -> ReplayedPiece | None:
        with self._lock:
            if not self._pieces:
                return None
            piece, by = self._pieces.popleft()
            self._lock.notify_all()
        return ReplayedPiece([_later(part, by) for part in codec.parts(piece.parts)], _state_later(piece.state, by))

    def cancel(self) -> None:
        self._control.cancel()
        with self._lock:
            self._pieces.clear()
            self._lock.notify_all()

    # ---- in its own thread

    def _run(self) -> None:
        try:
            self._replay()
        except QueryCancelled:
            pass
        except TaskDied as error:  # who evaluates it may die of it
            self._died(str(error))
        except Exception as error:  # noqa: BLE001 -- the shard goes on by itself, and says what is wrong with the query
            if self._control.is_cancelled:
                return
            why = f"{type(error).__name__}: {error}"
            log.warning(
                "the tasks that replay a query have failed: the server goes on by itself",
                extra={"fields": {"query": self._query, "why": why}},
            )
            with self._lock:
                self._has_failed = True
            self._changed()
        finally:
            self._ended(self, self._cpu_ms)

    def _replay(self) -> None:
        failures, is_over = 0, False
        while not is_over:
            reached = self._reached
            try:
                with self._jobs.opened() as run:
                    self._replay_from(reached, run)
                is_over = True
            except TaskDied:
                raise
            except JobFailed:
                failures = failures + 1 if reached is self._reached else 1
                if failures == _FAILURES_MAX:
                    raise

    def _replay_from(self, state: QueryState, run: RunTasks) -> None:
        stretches = self._jobs.lanes * _STRETCHES_PER_LANE
        found = self._one(CutPast(self._store, self._sn, self._query, state, stretches), run)
        assert isinstance(found, Cuts), "it was asked for cuts"
        ends = [*found.closes, None]
        tasks = [self._stretch(state, after, until) for after, until in pairwise([None, *ends])]
        self.stretches, self.stretches_done = len(tasks), 0
        with closing(run([EncodedTask(encode(task)) for task in tasks], self._control)) as results:
            for task, body in zip(tasks, results, strict=True):
                self._take_stretch(task, _checked(body), run)
                self.stretches_done += 1

    def _stretch(self, state: QueryState, after: int | None, until: int | None) -> ReplayStretch:
        return ReplayStretch(
            self._store, self._sn, self._query, state, after, until, self._budget, RESULT_BYTES
        )  # fmt: skip

    def _take_stretch(self, task: ReplayStretch, found: Result, run: RunTasks) -> None:
        """What the task found, and what it left for others."""
        assert isinstance(found, Replayed), "it was to replay"
        self._hand_on(found, 0 if task.after is None else self._evaluations)
        while not found.is_whole:
            found = self._one(self._stretch(self._reached, None, task.until), run)
            assert isinstance(found, Replayed), "it was to replay"
            self._hand_on(found, 0)

    def _one(self, task: Task, run: RunTasks) -> Result:
        with closing(run([EncodedTask(encode(task))], self._control)) as results:
            return _checked(next(results))

    def _hand_on(self, found: Replayed, by: int) -> None:
        """When all that was found before is taken: so what waits here is never more than one result."""
        with self._lock:
            self._lock.wait_for(lambda: not self._pieces or self._control.is_cancelled)
            self._control.check()
            self._pieces.extend((piece, by) for piece in found.pieces)
        self._cpu_ms += found.cpu_ms
        self._evaluations = by + found.evaluations
        self._reached = msgspec.structs.replace(_state_later(found.state, by), behind_at=None)
        self._changed()


def _checked(body: bytes) -> Result:
    found = result_of(body)
    if isinstance(found, ReplayFailed):
        raise RilletError(found.why)
    return found


# ---- numbers of evaluations


def _later(part: Part, by: int) -> Part:
    """The same part, if so many evaluations were made before."""
    if not by:
        return part
    state, before = _state_later(part.state, by), _evaluation_later(part.before, by)
    return msgspec.structs.replace(part, k=part.k + by, state=state, before=before)


def _state_later(state: QueryState, by: int) -> QueryState:
    within = state.within
    if within is not None:
        within = msgspec.structs.replace(within, k=within.k + by)
    return msgspec.structs.replace(state, evaluated=_evaluation_later(state.evaluated, by), within=within)


def _evaluation_later(evaluation: LastEvaluation | None, by: int) -> LastEvaluation | None:
    return None if evaluation is None else msgspec.structs.replace(evaluation, k=evaluation.k + by)
