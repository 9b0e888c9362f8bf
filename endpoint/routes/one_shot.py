"""Evaluates a query and sends its answer.

A query that is expected to be heavy is evaluated by a query worker, the others in a thread of the server. The
evaluation ends at its deadline, or when its client disconnects. Small answers are cached while their snapshot is the
latest; a large answer is sent in pieces while it is decoded."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from endpoint import negotiation
from endpoint.formats import graph_results, results
from endpoint.formats.writing import gathered, pieces_of
from endpoint.http.answer_cache import KEY_BYTES_MAX, Evaluation, Key, Reply
from endpoint.http.exchange import Exchange
from endpoint.http.underway import RunningQuery, watching
from endpoint.negotiation import Offer
from endpoint.query_workers import Ask
from stream_ext import registered_functions
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Form, Query

if TYPE_CHECKING:
    from endpoint.query_workers import Worker
    from stream_ext.oneshot.dataset import Dataset
    from stream_ext.oneshot.evaluate import Answer
    from stream_ext.oneshot.question import Question
    from stream_ext.service.service import Service

#: Returns the next pieces, joined, and whether they are the last.
More = Callable[[], Awaitable[tuple[bytes, bool]]]


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query with the parameters of its request. `key`: its key in the answer cache."""

    question: Question
    query: Query
    key: Key
    snapshot: int | None
    at: int | None
    timeout_s: float
    dataset: Dataset | None
    by_spark: bool = False  # as far as it can be divided

    @property
    def text(self) -> str:
        return self.question.text


#: Texts up to this length are parsed on the event loop: this takes less time than to pass them to a thread.
SHORT_CHARACTERS = 2_000
#: A query whose operators are estimated to make more rows is sent to a query worker, if there is one: some 5 ms.
HEAVY_ROWS = 10_000.0
#: A query that runs for this time in the server is sent to a query worker after all: the estimate was wrong.
PATIENCE_S = 0.05


#: At most so many warnings are sent, in a header each, cut at so many characters.
_WARNINGS_MAX, _WARNING_CHARACTERS_MAX = 8, 500
_IN_HEADERS = "".join(map(chr, range(32, 127))).replace("%", "")


class AnswerStart(NamedTuple):
    """The beginning of an answer: its snapshot, the first pieces, whether they are all, and `more` for the next."""

    sn: int
    first: bytes
    whole: bool
    more: More
    headers: tuple[tuple[bytes, bytes], ...] = ()


async def ask(exchange: Exchange, request: QueryRequest) -> None:
    state = exchange.state
    offer = negotiation.choose(exchange.accept, offers_of(request.query.form))
    if (start := _at_once(exchange, request, offer)) is not None:
        await _give(exchange, request, offer, start)
        return
    with state.underway.listed("query", request.text, request.timeout_s, state.limits) as question:
        head = state.head()
        equal = state.answer_cache.evaluation(request.key, head)
        begun = None if equal is not None else await _begin(exchange, request, offer, question)
        if begun is not None and (start := begun.quick_answer()) is not None:
            await _give(exchange, request, offer, start, question)
            return
        with watching(exchange, question):
            if equal is not None and (found := await _of_equal(equal, head, question)) is not None:
                sn, reply = found
                await exchange.answer(200, reply.body, reply.media_type, [*reply.headers], snapshot=sn)
                return
            begun = begun or await _begin(exchange, request, offer, question)
            with _shared(exchange, request) as evaluation:
                start = await _started(exchange, begun, request, offer, question)
                await _give(exchange, request, offer, start, question, evaluation)


def _at_once(exchange: Exchange, request: QueryRequest, offer: Offer) -> AnswerStart | None:
    """The answer, if the event loop may find it itself."""
    state, effort = exchange.state, request.question.effort
    is_of_now = request.snapshot is None and request.at is None and request.dataset is None and not request.by_spark
    if effort is None or not is_of_now or len(request.text) > SHORT_CHARACTERS:
        return None
    if state.service.sources or registered_functions() or state.service.reads_derived(request.query):
        return None

    def evaluate(control: Control) -> AnswerStart | None:
        if not state.service.is_ready(request.question):
            return None
        start = _answered(exchange, request, offer, control)
        return start if start.whole else None

    return state.at_once.result(effort, evaluate)


async def _of_equal(equal: Evaluation, head: int, question: RunningQuery) -> tuple[int, Reply] | None:
    """The reply of an equal request that is being evaluated; None: it has none to share, or one of a snapshot before
    `head`, which was published while it began."""
    question.shared = equal.follow()
    found = await question.in_time(question.shared)
    question.check_wanted()
    return None if found is None or found[0] < head else found


def _shared(exchange: Exchange, request: QueryRequest) -> AbstractContextManager[Evaluation | None]:
    """Lets equal requests wait for the reply of this one, if it can be theirs, too."""
    if not _is_same_for_all(request, exchange.state.service):
        return nullcontext()
    return exchange.state.answer_cache.evaluating(request.key, exchange.state.head())


def _is_same_for_all(request: QueryRequest, service: Service) -> bool:
    """Whether equal requests at the same snapshot have the same answer, and are worth comparing. A source has no
    snapshots."""
    if service.sources:
        return False
    return request.snapshot is None and len(request.text) <= KEY_BYTES_MAX and not request.question.is_volatile


class Heavy(NamedTuple):
    """A query that is not evaluated here, by its estimate. `divided`: it is one for tasks of Spark, not for the
    worker."""

    divided: bool


class Begun(NamedTuple):
    """An evaluation that has begun in this process."""

    here: asyncio.Future[AnswerStart | Heavy]
    worker: Worker | None
    sn: int

    def quick_answer(self) -> AnswerStart | None:
        """The answer, if it is small and has been evaluated already."""
        start = self.here.result() if self.here.done() else None
        return start if isinstance(start, AnswerStart) and start.whole else None


async def _begin(exchange: Exchange, request: QueryRequest, offer: Offer, question: RunningQuery) -> Begun:
    state, readers = exchange.state, exchange.state.workers.readers
    # A worker has neither registered functions, nor derived graphs, nor the connections to sources.
    derived = partial(state.service.reads_derived, request.query, request.dataset)
    is_short = len(request.text) <= SHORT_CHARACTERS
    stays = (
        request.by_spark
        or bool(registered_functions() or state.service.sources)
        or (derived() if is_short else await readers.run(derived))
    )
    worker = None if stays else state.query_workers.free()
    sn = state.head() if request.snapshot is None else request.snapshot
    heavy_from = HEAVY_ROWS if worker is not None else math.inf
    divided_from = math.inf if stays or not state.service.has_spark else state.limits.spark_rows
    estimate_at = sn if min(heavy_from, divided_from) < math.inf else None
    evaluate = partial(_evaluated, exchange, request, offer, question.control, estimate_at, heavy_from, divided_from)
    is_quick = state.is_local and not state.service.sources and not request.by_spark
    question.here = here = (readers.soon if is_quick else readers.submit)(evaluate)
    return Begun(here, worker, sn)


def _evaluated(
    exchange: Exchange,
    request: QueryRequest,
    offer: Offer,
    control: Control,
    estimate_at: int | None = None,
    heavy_from: float = math.inf,
    divided_from: float = math.inf,
) -> AnswerStart | Heavy:
    """The answer; or that more rows are expected than `heavy_from`, or than `divided_from` and it can be divided.
    `estimate_at`: the snapshot at which that is estimated; None: it is not."""
    service, at, dataset = exchange.state.service, request.at, request.dataset
    if estimate_at is not None:
        rows = service.rows_expected(request.question, estimate_at, at, dataset, control)
        if rows > divided_from and service.is_divided(request.question, estimate_at, dataset, control):
            return Heavy(divided=True)
        if rows > heavy_from:
            return Heavy(divided=False)
    began = time.thread_time()
    start = _answered(exchange, request, offer, control)
    if start.whole and (effort := request.question.effort) is not None:
        effort.took(time.thread_time() - began)
    return start


def _answered(exchange: Exchange, request: QueryRequest, offer: Offer, control: Control) -> AnswerStart:
    service, snapshot, at, dataset = exchange.state.service, request.snapshot, request.at, request.dataset
    answer = service.query(request.question, snapshot, at, dataset, control, streams=True, by_spark=request.by_spark)
    if answer.streamed is None:
        control.keep(answer.nbytes)
    pieces, readers = written(exchange, answer, offer), exchange.state.workers.readers
    headers = _of_engine(answer) if request.by_spark else ()
    return AnswerStart(int(answer.sn), *gathered(pieces), lambda: readers.resume(gathered, pieces), headers)


async def _started(
    exchange: Exchange, begun: Begun, request: QueryRequest, offer: Offer, question: RunningQuery
) -> AnswerStart:
    """The answer of the server if the query is light, or if there is no worker; otherwise, or if it takes too long
    here, the answer of the worker. Tasks of Spark evaluate what is very heavy and can be divided."""
    here, worker, sn = begun
    if worker is not None and not here.done():
        await asyncio.wait({here}, timeout=PATIENCE_S)
    if worker is None or here.done():
        start = await question.in_time(here)
        if isinstance(start, Heavy) and start.divided:
            by_spark = partial(_evaluated, exchange, replace(request, by_spark=True), offer, question.control)
            question.here = here = exchange.state.workers.readers.submit(by_spark)
            start = await question.in_time(here)
        if isinstance(start, AnswerStart):
            return start
    assert worker is not None, "without a worker nothing is too heavy"
    question.check_wanted()
    question.control.cancel()  # the evaluation in the server
    question.close()
    default, named = (request.dataset.default, request.dataset.named) if request.dataset else ((), ())
    remote = question.remote = worker.ask(
        lambda id: Ask(id, request.text, sn, request.at, default, named, offer.format, question.timeout_s)
    )
    began = await question.in_time(remote.began)
    return AnswerStart(began.snapshot, began.piece, began.last, remote.more)


async def _give(
    exchange: Exchange,
    request: QueryRequest,
    offer: Offer,
    start: AnswerStart,
    question: RunningQuery | None = None,
    evaluation: Evaluation | None = None,
) -> None:
    headers = (*_warned(request.question.warnings), *start.headers)
    reply = Reply(start.first, results.content_type(offer), headers)
    if not start.whole:
        if evaluation is not None:
            evaluation.share(None)  # those that wait for it evaluate it themselves
        await _send(exchange, reply, start.sn, start.more, question)
        return
    if _is_same_for_all(request, exchange.state.service):
        exchange.state.answer_cache.put(request.key, start.sn, reply)
    if evaluation is not None:
        evaluation.share((start.sn, reply))
    await exchange.answer(200, reply.body, reply.media_type, [*reply.headers], snapshot=start.sn)


def _warned(warnings: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    """A header for each warning; characters other than ASCII are percent-encoded."""
    shown = [warning[:_WARNING_CHARACTERS_MAX] for warning in warnings[:_WARNINGS_MAX]]
    return tuple((b"rillet-warning", quote(warning, safe=_IN_HEADERS).encode()) for warning in shown)


def _of_engine(answer: Answer) -> tuple[tuple[bytes, bytes], ...]:
    """Who has evaluated a query that Spark was to evaluate, and why, if it was not Spark."""
    if answer.by_spark:
        return ((b"rillet-engine", b"spark"),)
    return ((b"rillet-engine", b"inline"), *_warned([f"not evaluated by Spark: {answer.why_not_divided}"]))


def offers_of(form: Form) -> tuple[Offer, ...]:
    """The media types in which this route answers a query of this form."""
    return graph_results.TRIPLES if form in (Form.CONSTRUCT, Form.DESCRIBE) else results.OFFERS


def written(exchange: Exchange, answer: Answer, offer: Offer) -> Iterator[bytes]:
    return pieces_of(answer, offer.format, exchange.state.limits.rows, exchange.state.service.decoded)


# ---- sending -----------------------------------------------------------------------------------------------------


async def send_pieces(exchange: Exchange, media_type: bytes, snapshot: int, pieces: Iterator[bytes]) -> None:
    """Sends an answer that is not of a query: whole if it is small, otherwise each piece before the next is written."""
    readers = exchange.state.workers.readers
    first, whole = await readers.resume(gathered, pieces)
    if whole:
        await exchange.answer(200, first, media_type, snapshot=snapshot)
    else:
        await _send(exchange, Reply(first, media_type), snapshot, lambda: readers.resume(gathered, pieces), None)


async def _send(exchange: Exchange, reply: Reply, sn: int, more: More, question: RunningQuery | None) -> None:
    piece, last = reply.body, False
    await exchange.start(200, reply.media_type, [*reply.headers], sn)
    while not last:
        await exchange.piece(piece)
        if question is not None:
            question.state = "sending" if question.state == "running" else question.state
            question.check_wanted()
        piece, last = await more()
    await exchange.piece(piece)
    await exchange.end()
