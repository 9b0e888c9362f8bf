"""A task of a replay: a stretch of the past of a registered query as a value, and its evaluation in whatever process.

The process needs the store alone: the text of the query is in the catalog. It only reads, so a task may run twice. Its
result is bytes: the parts of all evaluations with the texts of their terms, in pieces, or why there are none.

The numbers of the evaluations begin at 0, and so does that of the state; but for the first stretch, which begins with
the state that is stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

import msgspec

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog
from stream_ext.catalog.registered import Registered
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.run import Run
from stream_ext.continuous.run_plan import PlannedQuery, RunPlan
from stream_ext.continuous.turns import Turn
from stream_ext.emissions.finishing import finish
from stream_ext.errors import JobFailed, RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.oneshot.divided.open_stores import opened_to_read
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.remote.backoff import Backoff
from stream_ext.runners.replays.stretches import cuts, state_after, within_past
from stream_ext.runners.spark.wire import Codec
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState

#: A piece has so many evaluations, or fewer with many rows: the server goes on with other queries after each.
_PIECE_EVALUATIONS = 256
#: A task whose result is larger ends there; the rest is another task.
RESULT_BYTES = 32 << 20

codec = Codec("stream_ext.continuous.shard:open_shard")


class CutPast(msgspec.Struct, frozen=True, tag=True):
    """Finds where the past of a query is cut, for so many stretches. `state`: the one from which it is replayed."""

    store: str
    sn: int
    query: int
    state: QueryState
    stretches: int

    def result(self, store: Store) -> Cuts:
        planned = planned_query(store, self.sn, self.query, self.state)
        return Cuts(cuts(planned, store, self.sn, self.stretches))


class ReplayStretch(msgspec.Struct, frozen=True, tag=True):
    """The closes after `after` (None: those of `state` and later) and up to `until` (None: all)."""

    store: str
    sn: int
    query: int
    state: QueryState
    after: int | None
    until: int | None
    budget: Budget
    result_bytes: int = RESULT_BYTES

    def result(self, store: Store) -> Replayed:
        planned = planned_query(store, self.sn, self.query, self.state, self.until)
        if self.after is not None:
            planned = replace(planned, state=state_after(planned, store, self.sn, self.after))
        return _replayed(planned, store, self)


class Cuts(msgspec.Struct, frozen=True, tag=True):
    """The closes after which the past is cut."""

    closes: list[int]


class StretchPiece(msgspec.Struct, frozen=True):
    """`parts`: of some evaluations; `state`: the one after them, in the middle of the past."""

    parts: msgspec.Raw
    state: QueryState


class Replayed(msgspec.Struct, frozen=True, tag=True):
    """`state`: the one after the last piece; of a stretch that `is_whole`, the one at its end, and at the end of the
    past the query has ended. `evaluations`: the number of the next evaluation."""

    pieces: list[StretchPiece]
    state: QueryState
    evaluations: int
    is_whole: bool
    cpu_ms: float


class ReplayFailed(msgspec.Struct, frozen=True, tag=True):
    why: str


Task = CutPast | ReplayStretch
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
        return encode(decoded.result(opened_to_read(decoded.store, decoded.sn)))
    except Exception as error:  # noqa: BLE001 -- it goes to whoever replays the query
        return encode(ReplayFailed(f"{type(error).__name__}: {error}"))


def planned_query(store: Store, sn: int, query: int, state: QueryState, until: int | None = None) -> PlannedQuery:
    catalog = Catalog.read(store, sn)
    definition = catalog.queries.get(query)
    if definition is None:
        raise RilletError(f"there is no query {query} in snapshot {sn}")
    registered = Registered.of(definition, catalog)
    return PlannedQuery(query, registered, registered.timing_from(state.t0), state, until=until)


def _replayed(planned: PlannedQuery, store: Store, task: ReplayStretch) -> Replayed:
    began, sn = time.process_time(), task.sn
    backoff = Backoff(NOTHING, lambda sn: store.row(sn).published_ms)
    backoff.advance_to(sn)
    run = Run(RunPlan(planned, is_shared=False), store, backoff, task.budget)
    run.build([planned.joining], sn)
    pieces, size = list[StretchPiece](), 0
    parts = run.start(sn, Turn(_PIECE_EVALUATIONS))
    while run.is_underway:
        pieces.append(_piece(parts, run.query_state(sn), store))
        size += len(memoryview(pieces[-1].parts))
        if size > task.result_bytes:
            state = pieces[-1].state
            return Replayed(pieces, state, _evaluations(state), False, _cpu_ms(began))
        parts = run.continue_step(Turn(_PIECE_EVALUATIONS))
    state, evaluations = run.query_state(sn), run.cohorts[0].steps.count
    if task.until is not None:
        state = within_past(state, sn, evaluations)
    pieces.append(_piece(parts, state, store))
    return Replayed(pieces, state, evaluations, True, _cpu_ms(began))


def _piece(parts: Sequence[Part], state: QueryState, store: Store) -> StretchPiece:
    done = [finish(part, store.terms, {}, (), lambda _: None) for part in parts if part.evaluated]
    return StretchPiece(codec.encode_parts(done), state)


def _evaluations(state: QueryState) -> int:
    assert state.within is not None, "it is in the middle of the past"
    return state.within.k


def _cpu_ms(began: float) -> float:
    return (time.process_time() - began) * 1000
