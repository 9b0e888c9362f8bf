"""A question asked and its answer sent: in a thread of the pool, within its time, for as long as its client listens.

Small answers are remembered while their snapshot is the latest; a large one leaves in pieces while it is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from endpoint import graph_results, negotiation, results
from endpoint.exchange import Exchange
from endpoint.negotiation import Offer
from endpoint.remembered import Key, Said
from endpoint.underway import Question
from stream_ext.control import Control
from stream_ext.errors import QueryTooLarge
from stream_ext.plan.algebra import Form, Query
from stream_ext.plan.volatile import is_volatile

if TYPE_CHECKING:
    from stream_ext.dataset import Dataset
    from stream_ext.evaluate import Answer

_PIECE_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Asked:
    """A query and what the request says beside it. `key`: under which a small answer may be remembered."""

    text: str
    query: Query
    key: Key
    snapshot: int | None
    at: int | None
    timeout_s: float | None
    dataset: Dataset | None


async def ask(exchange: Exchange, asked: Asked) -> None:
    desk, limits = exchange.desk, exchange.desk.limits
    offer = negotiation.choose(exchange.accept, offers_of(asked.query.form))
    if asked.dataset is None and asked.snapshot is None and desk.service.is_small(asked.query):
        made = _evaluated(exchange, asked, offer, Control(limits.small_s))
        await _give(exchange, asked, offer, made, None)
        return
    timeout_s = min(asked.timeout_s or limits.query_s, limits.query_s)
    async with desk.underway.asked(exchange, asked.text, timeout_s, limits.query_bytes) as question:
        made_there = desk.workers.readers.submit(_evaluated, exchange, asked, offer, question.control)
        await _give(exchange, asked, offer, await question.in_time(made_there), question)


class Made(NamedTuple):
    """The beginning of an answer, and the rest of it."""

    sn: int
    first: bytes
    whole: bool
    pieces: Iterator[bytes]


def _evaluated(exchange: Exchange, asked: Asked, offer: Offer, control: Control) -> Made:
    answer = exchange.desk.service.query(asked.text, asked.snapshot, asked.at, asked.dataset, control)
    pieces = written(exchange, answer, offer)
    return Made(int(answer.sn), *_gathered(pieces), pieces)


async def _give(exchange: Exchange, asked: Asked, offer: Offer, made: Made, question: Question | None) -> None:
    said = Said(made.first, results.content_type(offer))
    if not made.whole:
        await _send(exchange, said, made.sn, made.pieces, question)
        return
    if asked.snapshot is None and not is_volatile(asked.query):
        exchange.desk.remembered.put(asked.key, made.sn, said)
    await exchange.answer(200, said.body, said.media_type, snapshot=made.sn)


def offers_of(form: Form) -> tuple[Offer, ...]:
    return graph_results.TRIPLES if form in (Form.CONSTRUCT, Form.DESCRIBE) else results.OFFERS


def written(exchange: Exchange, answer: Answer, offer: Offer) -> Iterator[bytes]:
    limit = exchange.desk.limits.rows
    if answer.count > limit:
        raise QueryTooLarge(
            f"the answer has {answer.count} rows; the limit is {limit}: ask for parts of it, with LIMIT"
        )
    if answer.graph is not None:
        return graph_results.write(offer.format, exchange.desk.service.decoded(answer.graph, answer))
    batches = exchange.desk.service.decoded(answer.columns, answer)
    return results.write(offer.format, answer.variables, batches, answer.boolean)


# ---- sending -----------------------------------------------------------------------------------------------------


async def send_pieces(exchange: Exchange, media_type: bytes, snapshot: int, pieces: Iterator[bytes]) -> None:
    """Of an answer that is no query's: whole if it is small, otherwise each piece before the next is written."""
    first, whole = await exchange.desk.workers.readers.go_on(_gathered, pieces)
    if whole:
        await exchange.answer(200, first, media_type, snapshot=snapshot)
    else:
        await _send(exchange, Said(first, media_type), snapshot, pieces, None)


async def _send(exchange: Exchange, said: Said, sn: int, pieces: Iterator[bytes], question: Question | None) -> None:
    piece, last = said.body, False
    await exchange.start(200, said.media_type, [], sn)
    while not last:
        await exchange.piece(piece)
        if question is not None:
            question.state = "sending" if question.state == "running" else question.state
            question.check_wanted()
        piece, last = await exchange.desk.workers.readers.go_on(_gathered, pieces)
    await exchange.piece(piece)
    await exchange.end()


def _gathered(pieces: Iterator[bytes]) -> tuple[bytes, bool]:
    """The next pieces together, some kilobytes if there are; and whether they are the last."""
    gathered, size = [], 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            return b"".join(gathered), False
    return b"".join(gathered), True
