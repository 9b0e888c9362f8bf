"""Evaluates a query and sends its answer.

A query that is expected to be heavy is evaluated by a query worker, the others in a thread of the server. The
evaluation ends at its deadline, or when its client disconnects. Small answers are cached while their snapshot is the
latest; a large answer is sent in pieces while it is decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from endpoint import negotiation
from endpoint.formats import graph_results, results
from endpoint.formats.writing import gathered, pieces_of
from endpoint.http.answer_cache import KEY_BYTES_MAX, Key, Reply
from endpoint.http.exchange import Exchange
from endpoint.http.underway import Question
from endpoint.negotiation import Offer
from endpoint.query_workers import Ask
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.values.functions.custom import registered_functions

if TYPE_CHECKING:
    from endpoint.query_workers import Worker
    from stream_ext.oneshot.evaluate import Answer
    from stream_ext.plan.dataset import Dataset

#: Returns the next pieces, joined, and whether they are the last.
More = Callable[[], Awaitable[tuple[bytes, bool]]]


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query with the parameters of its request. `key`: its key in the answer cache."""

    text: str
    query: Query
    key: Key
    snapshot: int | None
    at: int | None
    timeout_s: float
    dataset: Dataset | None
    warnings: tuple[str, ...] = ()


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
    asked: bool = False  # a source answered: the same snapshot may have another answer later


async def ask(exchange: Exchange, request: QueryRequest) -> None:
    state = exchange.state
    offer = negotiation.choose(exchange.accept, offers_of(request.query.form))
    is_short = len(request.text) <= SHORT_CHARACTERS
    async with state.underway.watched(exchange, request.text, request.timeout_s) as question:
        # A worker has neither registered functions, nor derived graphs, nor the connections to sources.
        derived = partial(state.service.reads_derived, request.query, request.dataset)
        stays = bool(registered_functions() or state.service.sources) or (
            derived() if is_short else await state.workers.readers.run(derived)
        )
        worker = None if stays else state.query_workers.free()
        if worker is None:
            question.here = state.workers.readers.submit(_evaluated, exchange, request, offer, question.control)
            start = await question.in_time(question.here)
        else:
            start = await _light_here(worker, exchange, request, offer, question)
        await _give(exchange, request, offer, start, question)


def _evaluated(exchange: Exchange, request: QueryRequest, offer: Offer, control: Control) -> AnswerStart:
    service, readers = exchange.state.service, exchange.state.workers.readers
    answer = service.query(request.text, request.snapshot, request.at, request.dataset, control, streams=True)
    if answer.streamed is None:
        control.keep(answer.nbytes)
    pieces = written(exchange, answer, offer)
    return AnswerStart(int(answer.sn), *gathered(pieces), lambda: readers.go_on(gathered, pieces), answer.asked)


async def _light_here(
    worker: Worker, exchange: Exchange, request: QueryRequest, offer: Offer, question: Question
) -> AnswerStart:
    """Evaluates the query in the server if it is light; otherwise, or if it takes too long here, in the worker."""
    sn = exchange.state.head() if request.snapshot is None else request.snapshot
    here = exchange.state.workers.readers.submit(_evaluated_if_light, exchange, request, sn, offer, question.control)
    question.here = here
    await asyncio.wait({here}, timeout=PATIENCE_S)
    start = here.result() if here.done() else None
    if start is not None:
        return start
    question.check_wanted()
    question.control.cancel()  # the evaluation in the server
    question.close()
    default, named = (request.dataset.default, request.dataset.named) if request.dataset else ((), ())
    remote = question.remote = worker.ask(
        lambda id: Ask(id, request.text, sn, request.at, default, named, offer.format, question.timeout_s)
    )
    began = await question.in_time(remote.began)
    return AnswerStart(began.snapshot, began.piece, began.last, remote.more)


def _evaluated_if_light(
    exchange: Exchange, request: QueryRequest, sn: int, offer: Offer, control: Control
) -> AnswerStart | None:
    if exchange.state.service.rows_expected(request.text, sn, request.at, request.dataset, control) > HEAVY_ROWS:
        return None
    return _evaluated(exchange, request, offer, control)


async def _give(
    exchange: Exchange, request: QueryRequest, offer: Offer, start: AnswerStart, question: Question
) -> None:
    reply = Reply(start.first, results.content_type(offer), _warned(request.warnings))
    if not start.whole:
        await _send(exchange, reply, start.sn, start.more, question)
        return
    # Cheap conditions first: `is_volatile` walks through the whole query.
    if (
        request.snapshot is None
        and not start.asked
        and len(request.text) <= KEY_BYTES_MAX
        and not is_volatile(request.query)
    ):
        exchange.state.answer_cache.put(request.key, start.sn, reply)
    await exchange.answer(200, reply.body, reply.media_type, [*reply.headers], snapshot=start.sn)


def _warned(warnings: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    """A header for each warning; characters other than ASCII are percent-encoded."""
    shown = [warning[:_WARNING_CHARACTERS_MAX] for warning in warnings[:_WARNINGS_MAX]]
    return tuple((b"rillet-warning", quote(warning, safe=_IN_HEADERS).encode()) for warning in shown)


def offers_of(form: Form) -> tuple[Offer, ...]:
    return graph_results.TRIPLES if form in (Form.CONSTRUCT, Form.DESCRIBE) else results.OFFERS


def written(exchange: Exchange, answer: Answer, offer: Offer) -> Iterator[bytes]:
    return pieces_of(answer, offer.format, exchange.state.limits.rows, exchange.state.service.decoded)


# ---- sending -----------------------------------------------------------------------------------------------------


async def send_pieces(exchange: Exchange, media_type: bytes, snapshot: int, pieces: Iterator[bytes]) -> None:
    """Sends an answer that is not of a query: whole if it is small, otherwise each piece before the next is written."""
    readers = exchange.state.workers.readers
    first, whole = await readers.go_on(gathered, pieces)
    if whole:
        await exchange.answer(200, first, media_type, snapshot=snapshot)
    else:
        await _send(exchange, Reply(first, media_type), snapshot, lambda: readers.go_on(gathered, pieces), None)


async def _send(exchange: Exchange, reply: Reply, sn: int, more: More, question: Question | None) -> None:
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
