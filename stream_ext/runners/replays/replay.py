"""The replay of one query: a thread that has tasks run, and hands on what they found, in the order of the past.

    find the cuts   ->   a task for each stretch   ->   pieces, one after the other, to the shard of the query

A task that found too much for one result ended early: the rest of its stretch is another task. What is not handed on is
evaluated again after a restart, or by the shard itself, from the state after the last piece. So is what is found to be
too short for tasks."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, NamedTuple, Protocol

import msgspec

from stream_ext.continuous.catching_up.unit_behind import ReplayedPiece
from stream_ext.continuous.query_budget import Budget
from stream_ext.errors import JobFailed, QueryCancelled, RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.runners.replays.stretches import Cuts
from stream_ext.runners.replays.task import (
    RESULT_BYTES,
    EncodedTask,
    FindCuts,
    Missed,
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
from stream_ext.windows.query_state import ClosePlace, LastEvaluation, QueryState

#: While a query cannot be parked, it is tried again so often.
_PARK_AGAIN_S = 1.0
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
    @property
    def is_ready(self) -> bool:
        """Whether tasks can begin now."""
        ...

    def opened(self) -> AbstractContextManager[RunTasks]:
        """For one replay: what runs its tasks. Its results, closed, cancel those that still run; few of them wait to be
        taken. They raise TaskDied if the process of a task died again and again, JobFailed if there is nobody who runs
        tasks."""
        ...


class QueryReplay:
    def __init__(
        self,
        missed: Missed,
        close_s: float,
        least_s: float,
        budget: Budget,
        jobs: ReplayJobs,
        changed: Callable[[], None],
        ended: Callable[[QueryReplay, float], None],
        died: Callable[[str], object],
    ) -> None:
        """`close_s`: how long an evaluation is expected to take; what is expected to take less than `least_s` in all is
        left to the shard. `changed` is called when there is a piece, or there
        will be no more; `ended`, with the CPU milliseconds of its tasks, when it is over; `died` if a process of it
        died again and again: what it raises is tried again."""
        self._missed, self._close_s, self._least_s = missed, close_s, least_s
        self._budget, self._jobs = budget, jobs
        self._changed, self._ended, self._died = changed, ended, died
        self._control = Control()
        self._lock = threading.Condition()
        self._pieces: deque[tuple[StretchPiece, _Numbers]] = deque()
        self._is_over = False  # the shard goes on itself
        self._reached = missed.state  # after all that was found
        self._cpu_ms = 0.0
        self.stretches = self.stretches_done = 0
        self._thread = threading.Thread(target=self._run, name="rillet-replay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def status(self) -> dict[str, Any]:
        return {
            "is_past": self._missed.is_past,
            "by": self._jobs.name,
            "tasks": self._jobs.lanes,
            "stretches": self.stretches,
            "stretches_done": self.stretches_done,
        }

    # ---- in the thread of the shard

    @property
    def has_more(self) -> bool:
        with self._lock:
            return bool(self._pieces) or self._is_over

    def take(self) -> ReplayedPiece | None:
        with self._lock:
            if not self._pieces:
                return None
            piece, numbers = self._pieces.popleft()
            self._lock.notify_all()
        return ReplayedPiece([numbers.part(part) for part in codec.parts(piece.parts)], numbers.state(piece.state))

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
            self._park(str(error))
        except Exception as error:  # noqa: BLE001 -- the shard goes on by itself, and says what is wrong with the query
            if not self._control.is_cancelled:
                self._log("the tasks that replay a query have failed: the server goes on by itself", error)
                self._leave_rest()
        else:
            self._leave_rest()
        finally:
            self._ended(self, self._cpu_ms)

    def _leave_rest(self) -> None:
        with self._lock:
            self._is_over = True
        self._changed()

    def _park(self, why: str) -> None:
        """Until it is parked, or nobody waits for it any more: the shard must not evaluate it."""
        while not self._control.is_cancelled:
            try:
                self._died(why)
                return
            except Exception as error:  # noqa: BLE001 -- whatever it was may have passed a little later
                self._log("a query whose tasks die cannot be parked yet", error)
            with self._lock:
                self._lock.wait_for(lambda: self._control.is_cancelled, _PARK_AGAIN_S)

    def _log(self, what: str, error: Exception) -> None:
        why = f"{type(error).__name__}: {error}"
        log.warning(what, extra={"fields": {"query": self._missed.query, "why": why}})

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

    def _replay_from(self, start: QueryState, run: RunTasks) -> None:
        """What comes behind the last cut is cut while the stretches before it are evaluated."""
        found: Cuts | None = _cuts_of(self._one(self._find_cuts(start), run))
        if found is not None and found.expected_s < self._least_s:
            return
        while found is not None:
            ends = [*map(_cut_at, found.starts), *([None] if found.is_all else [])]
            stretches = [self._stretch(*each) for each in zip([start, *found.starts], ends, strict=False)]
            self.stretches = self.stretches_done + len(stretches)
            start, found = found.starts[-1] if found.starts else start, self._replayed(stretches, found, run)

    def _replayed(self, stretches: Sequence[ReplayStretch], cuts: Cuts, run: RunTasks) -> Cuts | None:
        """Hands on what these stretches have; where the rest is cut, None: there is none."""
        first: list[Task] = [] if cuts.is_all else [self._find_cuts(cuts.starts[-1])]
        tasks, found = [EncodedTask(encode(task)) for task in (*first, *stretches)], None
        with closing(run(tasks, self._control)) as results:
            if first:
                found = _cuts_of(_checked(next(results)))
            for stretch, body in zip(stretches, results, strict=True):
                self._take_stretch(stretch, _checked(body), run)
                self.stretches_done += 1
        return found

    def _find_cuts(self, start: QueryState) -> FindCuts:
        return FindCuts(self._missed.from_state(start), self._jobs.lanes, self._close_s)

    def _stretch(self, state: QueryState, until: ClosePlace | None) -> ReplayStretch:
        return ReplayStretch(self._missed.from_state(state), until, self._budget, RESULT_BYTES)

    def _take_stretch(self, task: ReplayStretch, found: Result, run: RunTasks) -> None:
        """What the task found, and what it left for others."""
        assert isinstance(found, Replayed), "it was to replay"
        self._hand_on(found, _Numbers.between(self._reached, task.missed.state))
        while not found.is_whole:
            found = self._one(self._stretch(self._reached, task.until), run)
            assert isinstance(found, Replayed), "it was to replay"
            self._hand_on(found, _AS_THEY_ARE)

    def _one(self, task: Task, run: RunTasks) -> Result:
        with closing(run([EncodedTask(encode(task))], self._control)) as results:
            return _checked(next(results))

    def _hand_on(self, found: Replayed, numbers: _Numbers) -> None:
        """When all that was found before is taken: so what waits here is never more than one result."""
        with self._lock:
            self._lock.wait_for(lambda: not self._pieces or self._control.is_cancelled)
            self._control.check()
            self._pieces.extend((piece, numbers) for piece in found.pieces)
        self._cpu_ms += found.cpu_ms
        self._reached = numbers.state(found.state)
        self._changed()


def _cuts_of(found: Result) -> Cuts:
    assert isinstance(found, Cuts), "it was to find cuts"
    return found


def _checked(body: bytes) -> Result:
    found = result_of(body)
    if isinstance(found, ReplayFailed):
        raise RilletError(found.why)
    return found


def _cut_at(start: QueryState) -> ClosePlace:
    """The last evaluation before a stretch."""
    before, within = start.evaluated, start.within
    assert before is not None and within is not None, "it is cut after an evaluation"
    return ClosePlace(before.sn, within.push, before.time)


# ---- numbers of evaluations


class _Numbers(NamedTuple):
    """Evaluations of a stretch in snapshot `sn` have numbers that are too small `by` so many: those that were made in
    it before the stretch."""

    by: int
    sn: int

    @classmethod
    def between(cls, reached: QueryState, start: QueryState) -> _Numbers:
        """Of the stretch with this start, if the stretch before it has come to `reached`."""
        there, here = reached.within, start.within
        if there is None or here is None:
            return _AS_THEY_ARE
        return cls(there.k - here.k, _snapshot_of(start))

    def part(self, part: Part) -> Part:
        if not self.by:
            return part
        k = part.k + self.by if part.sn == self.sn else part.k
        before = self._evaluation(part.before)
        return msgspec.structs.replace(part, k=k, state=self.state(part.state), before=before)

    def state(self, state: QueryState) -> QueryState:
        within = state.within
        if within is not None and _snapshot_of(state) == self.sn:
            within = msgspec.structs.replace(within, k=within.k + self.by)
        return msgspec.structs.replace(state, evaluated=self._evaluation(state.evaluated), within=within)

    def _evaluation(self, evaluation: LastEvaluation | None) -> LastEvaluation | None:
        if evaluation is None or evaluation.sn != self.sn:
            return evaluation
        return msgspec.structs.replace(evaluation, k=evaluation.k + self.by)


_AS_THEY_ARE = _Numbers(0, -1)


def _snapshot_of(state: QueryState) -> int:
    """The one in the middle of which a query is."""
    assert state.behind_at is not None, "it is behind"
    return state.behind_at + 1
