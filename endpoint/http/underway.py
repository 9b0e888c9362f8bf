"""Questions and updates under way: each is listed, and can be cancelled by its id.

A question ends when its client goes away. An update does not: it is wanted whether or not someone hears of it."""

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

#: How long after its deadline an evaluation may still tell of it itself, before it is answered for.
_GRACE_S = 0.1
#: Of a text that is listed: all of those under way might be of a megabyte.
_SHOWN_CHARACTERS = 2_000


@dataclass(eq=False)
class Question:
    id: str
    text: str
    control: Control  # of what is evaluated in this process
    timeout_s: float
    kind: Kind = "query"
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    state: str = "running"  # then "sending", or "cancelled"
    gone: bool = False  # whoever asked
    remote: WorkerQuery | None = None  # in a query worker
    here: asyncio.Future[Any] | None = None  # in a thread of this process

    def __post_init__(self) -> None:
        self.started = self.clock()

    def cancel(self) -> None:
        self.state = "cancelled"
        self.end()

    def end(self) -> None:
        """Wherever it is evaluated."""
        self.control.cancel()
        if self.remote is not None:
            self.remote.cancel()

    def check_wanted(self) -> None:
        """While the answer is sent; the deadline was for making it."""
        if self.gone:
            raise Disconnected
        if self.state == "cancelled":
            raise QueryCancelled("the query was cancelled while its answer was sent")

    def close(self) -> None:
        """What it has of the memory is free, once its evaluation here has ended; that of a worker is the worker's."""
        if self.here is None or self.here.done():
            self.control.close()
        else:
            self.here.add_done_callback(lambda _: self.control.close())

    async def in_time(self, future: asyncio.Future[T]) -> T:
        """What the future gives, or DeadlineExceeded: also while an operator does not look at its control."""
        left = self.started + self.timeout_s + _GRACE_S - self.clock()
        await asyncio.wait({future}, timeout=max(0.0, left))
        if not future.done():
            self.end()
            raise DeadlineExceeded(f"the query took longer than the {self.timeout_s:g} s that it was given")
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
    """Touched on the event loop only."""

    def __init__(self, slow_s: float = 0.0, memory: QueryMemory | None = None) -> None:
        """What takes `slow_s` is logged; 0: nothing is. `memory` is what all of them have together."""
        self._questions: dict[str, Question] = {}
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
            raise NotFound(f"no query or update {id} is running; GET /$/queries lists those that are")
        self.cancelled += 1
        question.cancel()

    def cancel_all(self) -> None:
        for question in self._questions.values():
            question.cancel()

    @asynccontextmanager
    async def watched(self, exchange: Exchange, text: str, timeout_s: float) -> AsyncIterator[Question]:
        with self.listed("query", text, timeout_s, exchange.state.limits) as question:
            watcher = asyncio.create_task(_watch(exchange, question))
            try:
                yield question
            finally:
                watcher.cancel()
                question.end()  # of whoever gave up waiting, the evaluation ends, too

    @contextmanager
    def listed(self, kind: Kind, text: str, timeout_s: float, limits: HttpLimits) -> Iterator[Question]:
        self._number += 1
        control = limits.control(timeout_s, kind, self._memory)
        question = Question(f"{kind[0]}{self._number}", text, control, timeout_s, kind)
        self._questions[question.id] = question
        try:
            yield question
        finally:
            del self._questions[question.id]
            question.close()
            self._log_if_slow(question)

    def _log_if_slow(self, question: Question) -> None:
        took_s = question.clock() - question.started
        if self._slow_s and took_s >= self._slow_s:
            fields = {"seconds": round(took_s, 3), "state": question.state, "text": question.text}
            log.warning(f"a slow {question.kind}", extra={"fields": fields})


async def _watch(exchange: Exchange, question: Question) -> None:
    while (await exchange.receive())["type"] != "http.disconnect":
        pass
    question.gone = True
    question.end()
