"""A question asked and its answer sent: in a thread of the pool, or by a query worker if it is expected to take long,
within its time, for as long as its client listens.

Small answers are remembered while their snapshot is the latest; a large one leaves in pieces while it is decoded."""

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
from endpoint.http.answer_cache import KEY_BYTES_MAX, Key, Said
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

#: The next pieces together, and whether they are the last.
More = Callable[[], Awaitable[tuple[bytes, bool]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query and what the request says beside it. `key`: under which a small answer may be remembered."""

    text: str
    query: Query
    key: Key
    snapshot: int | None
    at: int | None
    timeout_s: float
    dataset: Dataset | None
    warnings: tuple[str, ...] = ()


#: Texts up to this length are parsed, and looked through, on the event loop: that takes less than the way to a thread.
SHORT_CHARACTERS = 2_000
#: A question whose operators are expected to make so many rows goes to a query worker, if there is one: some 5 ms.
HEAVY_ROWS = 10_000.0
#: One that was thought to be light goes there when it has run for so long here: estimates err.
PATIENCE_S = 0.05


#: What can hardly be meant is told in so many headers, of so many characters each.
_WARNINGS_MAX, _WARNING_CHARACTERS_MAX = 8, 500
_IN_HEADERS = "".join(map(chr, range(32, 127))).replace("%", "")


class Made(NamedTuple):
    """The beginning of an answer, and where the rest of it comes from."""

    sn: int
    first: bytes
    whole: bool
    more: More


async def ask(exchange: Exchange, asked: Asked) -> None:
    desk = exchange.desk
    offer = negotiation.choose(exchange.accept, offers_of(asked.query.form))
    is_short = len(asked.text) <= SHORT_CHARACTERS
    async with desk.underway.asked(exchange, asked.text, asked.timeout_s) as question:
        # A worker knows neither the one nor the other.
        derived = partial(desk.service.reads_derived, asked.query, asked.dataset)
        stays = bool(registered_functions()) or (derived() if is_short else await desk.workers.readers.run(derived))
        worker = None if stays else desk.query_workers.free()
        if worker is None:
            question.here = desk.workers.readers.submit(_evaluated, exchange, asked, offer, question.control)
            made = await question.in_time(question.here)
        else:
            made = await _light_here(worker, exchange, asked, offer, question)
        await _give(exchange, asked, offer, made, question)


def _evaluated(exchange: Exchange, asked: Asked, offer: Offer, control: Control) -> Made:
    answer = exchange.desk.service.query(asked.text, asked.snapshot, asked.at, asked.dataset, control)
    control.keep(answer.nbytes)
    pieces, readers = written(exchange, answer, offer), exchange.desk.workers.readers
    return Made(int(answer.sn), *gathered(pieces), lambda: readers.go_on(gathered, pieces))


async def _light_here(worker: Worker, exchange: Exchange, asked: Asked, offer: Offer, question: Question) -> Made:
    """Answered here if it is light, and shows to be; otherwise by the worker."""
    sn = exchange.desk.head() if asked.snapshot is None else asked.snapshot
    here = exchange.desk.workers.readers.submit(_evaluated_if_light, exchange, asked, sn, offer, question.control)
    question.here = here
    await asyncio.wait({here}, timeout=PATIENCE_S)
    made = here.result() if here.done() else None
    if made is not None:
        return made
    question.check_wanted()
    question.control.cancel()  # of what was begun here
    question.close()
    default, named = (asked.dataset.default, asked.dataset.named) if asked.dataset else ((), ())
    remote = question.remote = worker.ask(
        lambda id: Ask(id, asked.text, sn, asked.at, default, named, offer.format, question.timeout_s)
    )
    began = await question.in_time(remote.began)
    return Made(began.snapshot, began.piece, began.last, remote.more)


def _evaluated_if_light(exchange: Exchange, asked: Asked, sn: int, offer: Offer, control: Control) -> Made | None:
    if exchange.desk.service.rows_expected(asked.text, sn, asked.at, asked.dataset, control) > HEAVY_ROWS:
        return None
    return _evaluated(exchange, asked, offer, control)


async def _give(exchange: Exchange, asked: Asked, offer: Offer, made: Made, question: Question) -> None:
    said = Said(made.first, results.content_type(offer), _warned(asked.warnings))
    if not made.whole:
        await _send(exchange, said, made.sn, made.more, question)
        return
    # What is not remembered anyway need not be looked through.
    if asked.snapshot is None and len(asked.text) <= KEY_BYTES_MAX and not is_volatile(asked.query):
        exchange.desk.remembered.put(asked.key, made.sn, said)
    await exchange.answer(200, said.body, said.media_type, [*said.headers], snapshot=made.sn)


def _warned(warnings: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    """A header each; what is not ASCII in a name is percent-encoded."""
    shown = [warning[:_WARNING_CHARACTERS_MAX] for warning in warnings[:_WARNINGS_MAX]]
    return tuple((b"rillet-warning", quote(warning, safe=_IN_HEADERS).encode()) for warning in shown)


def offers_of(form: Form) -> tuple[Offer, ...]:
    return graph_results.TRIPLES if form in (Form.CONSTRUCT, Form.DESCRIBE) else results.OFFERS


def written(exchange: Exchange, answer: Answer, offer: Offer) -> Iterator[bytes]:
    return pieces_of(answer, offer.format, exchange.desk.limits.rows, exchange.desk.service.decoded)


# ---- sending -----------------------------------------------------------------------------------------------------


async def send_pieces(exchange: Exchange, media_type: bytes, snapshot: int, pieces: Iterator[bytes]) -> None:
    """Of an answer that is no query's: whole if it is small, otherwise each piece before the next is written."""
    readers = exchange.desk.workers.readers
    first, whole = await readers.go_on(gathered, pieces)
    if whole:
        await exchange.answer(200, first, media_type, snapshot=snapshot)
    else:
        await _send(exchange, Said(first, media_type), snapshot, lambda: readers.go_on(gathered, pieces), None)


async def _send(exchange: Exchange, said: Said, sn: int, more: More, question: Question | None) -> None:
    piece, last = said.body, False
    await exchange.start(200, said.media_type, [*said.headers], sn)
    while not last:
        await exchange.piece(piece)
        if question is not None:
            question.state = "sending" if question.state == "running" else question.state
            question.check_wanted()
        piece, last = await more()
    await exchange.piece(piece)
    await exchange.end()
