"""A task of a replay: a stretch of what a registered query has to evaluate, as a value, and its evaluation in whatever
process.

The process needs the store alone: the text of the query is in the catalog. It only reads, so a task may run twice. Its
result is bytes: the parts of all evaluations with the texts of their terms, in pieces, or why there are none.

In the snapshot in which a stretch begins, the numbers of its evaluations begin at 0; but for the first stretch, which
begins with the state that is stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

import msgspec

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.registered import Registered
from stream_ext.continuous.catching_up.turns import Turn
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.run import Run
from stream_ext.continuous.run_plan import PlannedQuery, RunPlan
from stream_ext.emissions.finishing import finish
from stream_ext.errors import JobFailed, RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.divided.open_stores import opened_to_read
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.remote.backoff import Backoff
from stream_ext.runners.replays import missed_closes, stretches
from stream_ext.runners.replays.stretches import Cuts
from stream_ext.runners.spark.wire import Codec
from stream_ext.windows.part import Part
from stream_ext.windows.pushes import PushesOfSnapshot
from stream_ext.windows.query_state import ClosePlace, QueryState

#: A piece has so many evaluations, or fewer with many rows: the server goes on with other queries after each.
_PIECE_EVALUATIONS = 256
#: A task whose result is larger ends there; the rest is another task.
RESULT_BYTES = 32 << 20

#: For each task that runs at a time, so many are given to others before the result of the first of them is taken.
AHEAD = 2

codec = Codec("stream_ext.continuous.shard:open_shard")


class Missed(msgspec.Struct, frozen=True):
    """What a query has to evaluate: from `state` on, in which it is behind, up to snapshot `head`. `defined_at`: the
    first snapshot whose catalog is known to have the query. Of a past, `head` is the snapshot in which it began."""

    store: str
    query: int
    defined_at: int
    head: int
    state: QueryState

    def planned(self, store: Store, until: ClosePlace | None = None) -> PlannedQuery:
        sn = max(self.defined_at, self.behind_at)  # older ones are not retained for it
        catalog = Catalog.read(store, sn)
        definition = catalog.queries.get(self.query)
        if definition is None:
            raise RilletError(f"there is no query {self.query} in snapshot {sn}")
        registered = Registered.of(definition, catalog)
        return PlannedQuery(
            self.query, registered, registered.timing_from(self.state.t0), self.state, until=until
        )  # fmt: skip

    def from_state(self, state: QueryState) -> Missed:
        return msgspec.structs.replace(self, state=state)

    @property
    def is_past(self) -> bool:
        """Whether the query is over windows of the past: it began in the next snapshot."""
        return self.defined_at > self.behind_at

    @property
    def behind_at(self) -> int:
        assert self.state.behind_at is not None, "it is behind"
        return self.state.behind_at


class FindCuts(msgspec.Struct, frozen=True, tag=True):
    """Finds where that is cut, if `lanes` tasks run at a time, and an evaluation takes `close_s`."""

    missed: Missed
    lanes: int
    close_s: float

    def result(self, store: Store) -> Cuts:
        missed = self.missed
        planned = missed.planned(store)
        if planned.timing.ends_at is not None:
            return stretches.cuts(planned, store, missed.head, self.lanes, self.close_s)
        return missed_closes.cuts(planned, store, missed.head, self.lanes, self.close_s)


class ReplayStretch(msgspec.Struct, frozen=True, tag=True):
    """The evaluations from the state of `missed` up to `until` (None: all)."""

    missed: Missed
    until: ClosePlace | None
    budget: Budget
    result_bytes: int = RESULT_BYTES

    def result(self, store: Store) -> Replayed:
        return _Stretch(self, store).replayed()


class StretchPiece(msgspec.Struct, frozen=True):
    """`parts`: of some evaluations; `state`: the one after them, in the middle of the past."""

    parts: msgspec.Raw
    state: QueryState


class Replayed(msgspec.Struct, frozen=True, tag=True):
    """`state`: the one after the last piece; at the end of a past the query has ended. Not `is_whole`: the rest of the
    stretch is left for another task."""

    pieces: list[StretchPiece]
    state: QueryState
    is_whole: bool
    cpu_ms: float


class ReplayFailed(msgspec.Struct, frozen=True, tag=True):
    why: str


Task = FindCuts | ReplayStretch
Result = Cuts | Replayed | ReplayFailed
_tasks: msgspec.msgpack.Decoder[Task] = msgspec.msgpack.Decoder(Task)
_results: msgspec.msgpack.Decoder[Result] = msgspec.msgpack.Decoder(Result)


class TaskDied(JobFailed):
    """The processes that ran a task have died, one after the other."""


class EncodedTask(msgspec.Struct, frozen=True):
    """A task for a process that may be on another machine."""

    encoded: bytes

    def run_task(self) -> bytes:
        return run_encoded(self.encoded)


#: Runs tasks at the same time, and gives their results in the order of the tasks.
RunTasks = Callable[[Sequence[EncodedTask], Control], Generator[bytes, None, None]]
encode = msgspec.msgpack.Encoder().encode


def result_of(body: bytes | bytearray) -> Result:
    return _results.decode(body)


def run_encoded(task: bytes | bytearray) -> bytes:
    """What a process does with a task that it was sent. Never raises for what is wrong with the query or the store."""
    decoded = _tasks.decode(task)
    try:
        return encode(decoded.result(opened_to_read(decoded.missed.store, decoded.missed.head)))
    except Exception as error:  # noqa: BLE001 -- it goes to whoever replays the query
        return encode(ReplayFailed(f"{type(error).__name__}: {error}"))


class _Stretch:
    """The evaluation of a stretch."""

    def __init__(self, task: ReplayStretch, store: Store) -> None:
        self._task, self._store, missed = task, store, task.missed
        planned = missed.planned(store, task.until)
        self._is_past = planned.timing.ends_at is not None
        self._backoff = Backoff(NOTHING, lambda sn: store.row(sn).published_ms)
        self._run = Run(RunPlan(planned, is_shared=False), store, self._backoff, task.budget)
        self._began_s = time.process_time()
        begins_at = missed.behind_at + self._is_past  # a past is built in the snapshot in which the query began
        self._backoff.advance_to(begins_at)
        self._run.build([replace(planned, state=_ahead(missed.state)).joining], begins_at)

    def replayed(self) -> Replayed:
        pieces, size, is_whole = list[StretchPiece](), 0, True
        for parts, state, is_last in self._turns():
            pieces.append(_piece(parts, state, self._store))
            size += len(memoryview(pieces[-1].parts))
            if size > self._task.result_bytes and not is_last:
                is_whole = False
                break
        cpu_ms = (time.process_time() - self._began_s) * 1000
        return Replayed(pieces, pieces[-1].state, is_whole, cpu_ms)

    def _turns(self) -> Iterator[tuple[Sequence[Part], QueryState, bool]]:
        """What each turn finds, the state after it, and whether it is the last one."""
        run, until, parts, turn = self._run, self._task.until, list[Part](), Turn(_PIECE_EVALUATIONS)
        last = self._task.missed.head if until is None else until.sn
        for sn in range(self._task.missed.behind_at + 1, last + 1):
            parts += self._stepped(sn, turn)
            while run.is_underway:
                yield parts, run.query_state(sn), False
                turn = Turn(_PIECE_EVALUATIONS)
                parts = [*run.continue_step(turn)]
            if turn.is_over and sn < last:
                yield parts, run.query_state(sn).behind(sn), False
                parts, turn = [], Turn(_PIECE_EVALUATIONS)
        yield parts, self._state_at_end(last), True

    def _stepped(self, sn: int, turn: Turn) -> Sequence[Part]:
        if self._is_past:
            return self._run.start(sn, turn)
        self._backoff.advance_to(sn)
        turn.spend()
        return self._run.step(sn, PushesOfSnapshot(self._store, sn, self._run.streams), turn)

    def _state_at_end(self, sn: int) -> QueryState:
        state, until = self._run.query_state(sn), self._task.until
        if until is not None:
            return stretches.within(state, sn, until.push, self._run.cohorts[0].steps.count)
        return state if self._is_past else state.behind(sn)


def _ahead(state: QueryState) -> QueryState:
    """The state of a run, which knows nothing of others that it is behind."""
    return msgspec.structs.replace(state, behind_at=None)


def _piece(parts: Sequence[Part], state: QueryState, store: Store) -> StretchPiece:
    done = [finish(part, store.terms, {}, (), lambda _: None) for part in parts if part.evaluated]
    return StretchPiece(codec.encode_parts(done), state)
