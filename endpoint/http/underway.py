"""Running queries and updates: each is listed, and can be cancelled by its id.

A query ends when its client disconnects. An update does not: it is completed, whether or not its client is still
there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from endpoint.http.body import Disconnected
from stream_ext.errors import DeadlineExceeded, NotFound, QueryCancelled
from stream_ext.evaluation_budget import Control

if TYPE_CHECKING:
    from endpoint.http.exchange import Exchange
    from endpoint.limits import HttpLimits
    from endpoint.query_workers import WorkerQuery
    from stream_ext.query_memory import QueryMemory

log = logging.getLogger("rillet.queries")

T = TypeVar("T")
Kind = Literal["query", "update"]

#: How long after the deadline the evaluation may still report it; then the server answers in its place.
_GRACE_S = 0.1
#: A listed text is cut here: each of the running queries may have a megabyte.
_SHOWN_CHARACTERS = 2_000


@dataclass(eq=False)
class RunningQuery:
    """A running query or update."""

    id: str
    text: str
    control: Control  # of the evaluation in this process
    timeout_s: float
    kind: Kind = "query"
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    state: str = "running"  # then "sending", or "cancelled"
    gone: bool = False  # the client
    remote: WorkerQuery | None = None  # in a query worker
    here: asyncio.Future[Any] | None = None  # in a thread of this process
    shared: asyncio.Future[Any] | None = None  # the reply of an equal request that is being evaluated

    def __post_init__(self) -> None:
        self.started = self.clock()

    def cancel(self) -> None:
        self.state = "cancelled"
        self.end()

    def end(self) -> None:
        """Ends the evaluation, in this process or in a query worker; of an equal request only the wait for it."""
        self.control.cancel()
        if self.shared is not None and not self.shared.done():
            self.shared.set_result(None)
        if self.remote is not None:
            self.remote.cancel()

    def check_wanted(self) -> None:
        """Called while the answer is sent: raises if the client is gone or the query was cancelled. The deadline
        applies to the evaluation only."""
        if self.gone:
            raise Disconnected
        if self.state == "cancelled":
            raise QueryCancelled("the query was cancelled while its result was sent")

    def close(self) -> None:
        """Frees its memory when its evaluation in this process has ended. A query worker frees its own."""
        if self.here is None or self.here.done():
            self.control.close()
        else:
            self.here.add_done_callback(lambda _: self.control.close())

    async def in_time(self, future: asyncio.Future[T]) -> T:
        """The result of the future, or DeadlineExceeded, even if an operator does not check its control."""
        left = self.started + self.timeout_s + _GRACE_S - self.clock()
        await asyncio.wait({future}, timeout=max(0.0, left))
        if not future.done():
            self.end()
            raise DeadlineExceeded(f"the query took longer than its time limit of {self.timeout_s:g} s")
        return future.result()

    @property
    def spent_s(self) -> float:
        return self.clock() - self.started

    def summary(self) -> dict[str, Any]:
        since_ms = round((self.clock() - self.started) * 1000)
        text = self.text if len(self.text) <= _SHOWN_CHARACTERS else self.text[:_SHOWN_CHARACTERS] + " ..."
        summary = {"id": self.id, "state": self.state, "for_ms": since_ms, self.kind: text}
        return summary if self.remote is None else {**summary, "worker": self.remote.worker}


class Underway:
    """Used on the event loop only."""

    def __init__(self, slow_s: float = 0.0, memory: QueryMemory | None = None) -> None:
        """Queries that take `slow_s` or longer are logged; 0: none. `memory`: the memory that all queries share."""
        self._questions: dict[str, RunningQuery] = {}
        self._number = 0
        self.cancelled = 0
        self._slow_s, self._memory = slow_s, memory

    def __len__(self) -> int:
        return len(self._questions)

    def summaries(self) -> list[dict[str, Any]]:
        return [question.summary() for question in self._questions.values()]

    def cancel(self, id: str) -> None:
        question = self._questions.get(id)
        if question is None:
            raise NotFound(f"no query or update {id} is running; GET /$/queries lists those that are running")
        self.cancelled += 1
        question.cancel()

    def cancel_all(self) -> None:
        for question in self._questions.values():
            question.cancel()

    @asynccontextmanager
    async def watched(self, exchange: Exchange, text: str, timeout_s: float) -> AsyncIterator[RunningQuery]:
        """Lists the query while it runs, and ends it if its client disconnects."""
        with self.listed("query", text, timeout_s, exchange.state.limits) as question, watching(exchange, question):
            yield question

    @contextmanager
    def listed(self, kind: Kind, text: str, timeout_s: float, limits: HttpLimits) -> Iterator[RunningQuery]:
        """Lists the query or update while it runs."""
        self._number += 1
        control = limits.control(timeout_s, kind, self._memory)
        question = RunningQuery(f"{kind[0]}{self._number}", text, control, timeout_s, kind)
        self._questions[question.id] = question
        try:
            yield question
        finally:
            del self._questions[question.id]
            question.close()
            self._log_if_slow(question)

    def _log_if_slow(self, question: RunningQuery) -> None:
        took_s = question.clock() - question.started
        if self._slow_s and took_s >= self._slow_s:
            fields = {"seconds": round(took_s, 3), "state": question.state, "text": question.text}
            log.warning(f"a slow {question.kind}", extra={"fields": fields})


@contextmanager
def watching(exchange: Exchange, question: RunningQuery) -> Iterator[None]:
    """Ends the query if its client disconnects."""
    watcher = asyncio.create_task(_watch(exchange, question))
    try:
        yield
    finally:
        watcher.cancel()
        question.end()  # if the request ended early, its evaluation ends, too


async def _watch(exchange: Exchange, question: RunningQuery) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        pass
    question.gone = True
    question.end()
