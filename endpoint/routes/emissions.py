"""`/queries/{q}/results`: the latest answer, or the emissions, as lines or as server-sent events.

    SSE:     id: 7                             a client that connects again sends Last-Event-ID: 7,
             data: {"query":...,"emission":7}  and continues with 8

The thread that stores an emission wakes the listeners; nothing polls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endpoint import negotiation
from endpoint.formats import graph_results, results
from endpoint.http.exchange import Exchange
from endpoint.http.parameters import SPARQLWRAPPER, Parameters, whole_number
from endpoint.monitoring.subscribers import Subscriber, Way
from endpoint.negotiation import Offer
from endpoint.routes.one_shot import send_pieces, written
from stream_ext.errors import NotFound

if TYPE_CHECKING:
    from stream_ext.emissions.emission import Emission
    from stream_ext.emissions.subscriptions import Subscription
    from stream_ext.oneshot.evaluate import Answer

NDJSON = Offer("application/x-ndjson", "ndjson")
SSE = Offer("text/event-stream", "sse")

Header = tuple[bytes, bytes]

#: The comment at the end of server-sent events whose query was dropped.
#: The empty id makes a client forget the number where it stopped: a later query of the name has numbers of its own.
_DROPPED = b"id:\n: dropped\n\n"
_BLOCK_BYTES = 64 << 10
_KNOWN = "since, until, limit, follow, wait"
_STREAMING = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]


@dataclass(frozen=True, slots=True)
class Span:
    """A range of emissions, and whether to wait for those that do not exist yet."""

    since: int  # after this number
    until: int | None
    limit: int | None
    follow: bool
    wait_s: float
    resumes: bool = False  # the client has received emission `since`

    def is_over(self, last: int, sent: int) -> bool:
        return (self.until is not None and last >= self.until) or (self.limit is not None and sent >= self.limit)


async def read_results(exchange: Exchange, name: str) -> None:
    """GET, or POST by a client that sends its query so; the query in the body is ignored."""
    parameters = exchange.parameters()
    parameters.ignore(("query", *SPARQLWRAPPER))
    if (number := parameters.integer("emission")) is not None:
        parameters.done("emission without other parameters: one emission, computed again")
        again = await exchange.state.workers.readers.run(exchange.state.service.emission_again, name, number)
        await exchange.answer(200, again + b"\n", NDJSON.media_type.encode())
        return
    ranged = any(known in parameters for known in ("since", "until", "limit", "follow"))
    definition = await exchange.state.workers.readers.run(exchange.state.service.query_definition, name)
    offers = graph_results.TRIPLES if definition.constructs else results.OFFERS
    offer = negotiation.choose(exchange.accept, (*offers, NDJSON, SSE))
    if ranged and offer not in (NDJSON, SSE):
        offer = NDJSON  # a range of emissions: as lines, whatever the Accept header prefers
    if offer not in (NDJSON, SSE):
        with _reading(exchange, definition.name, definition.number, "latest", None):
            await _latest(exchange, name, offer, parameters)
        return
    span = _span(exchange, parameters, offer)
    check = exchange.state.service.check_retained  # 404 and 410 must be sent before the answer begins
    await exchange.state.workers.readers.run(check, name, span.since, span.resumes)
    await emit(exchange, name, span, offer)


def _span(exchange: Exchange, parameters: Parameters, offer: Offer) -> Span:
    """Which emissions a request wants, and whether it waits for later ones. An event stream that reconnects says in the
    header Last-Event-ID where it stopped."""
    since, until, limit = (parameters.integer(known) for known in ("since", "until", "limit"))
    follow, wait_s = parameters.flag("follow"), parameters.duration_s("wait")
    parameters.done(_KNOWN)
    last = exchange.headers.get("last-event-id", "").strip()
    if offer is SSE and last:
        since = whole_number("Last-Event-ID: ", last)
    return Span(since or 0, until, limit, follow or offer is SSE, wait_s or 0.0, offer is SSE and bool(last))


# ---- the latest answer ----


async def _latest(exchange: Exchange, name: str, offer: Offer, parameters: Parameters) -> None:
    wait_s = parameters.duration_s("wait") or 0.0
    parameters.done(_KNOWN)
    service = exchange.state.service

    def read() -> tuple[Answer, Iterator[bytes]]:
        answer = service.latest(name)
        return answer, written(exchange, answer, offer)

    answer, pieces = await exchange.state.workers.readers.run(read)
    if wait_s and _is_empty(answer):
        deadline = asyncio.get_running_loop().time() + wait_s
        status = await exchange.state.workers.readers.run(service.query_status, name)
        async with _listening(exchange, name, since=int(status["emissions"])) as listener:
            waits = True
            while waits and not listener.over:
                answer, pieces = await exchange.state.workers.readers.run(read)
                waits = _is_empty(answer) and await listener.news(deadline)
                await listener.take()
    await send_pieces(exchange, results.content_type(offer), int(answer.sn), pieces)


def _is_empty(answer: Answer) -> bool:
    if answer.boolean is not None:
        return not answer.boolean
    if answer.graph is not None:
        return not answer.count
    return not answer.columns or not len(answer.columns[0])


# ---- emissions ----


async def emit(exchange: Exchange, name: str, span: Span, offer: Offer, headers: Sequence[Header] = ()) -> None:
    """Sends the stored emissions after `since`, page by page, and then, if the span says so, new ones."""
    sse = offer is SSE
    media_type = b"text/event-stream; charset=utf-8" if sse else b"application/x-ndjson"
    await exchange.start(200, media_type, [*_STREAMING, *headers])
    if sse:
        await exchange.piece(b": rillet\n\n")  # so that the client notices at once that it is connected
    was_dropped = False
    try:
        # One subscription from the first page on: a later query of the same name is another query.
        async with _listening(exchange, name, span.since) as listener:
            way: Way = "events" if sse else "lines"
            with _reading(exchange, name, listener.subscription.query, way, span.since) as subscriber:
                await _send_all(exchange, listener, span, sse, subscriber)
            was_dropped = listener.subscription.ended and listener.subscription.fault is None
    except NotFound:  # dropped meanwhile: its emissions are gone
        was_dropped = True
    if sse and was_dropped:
        await exchange.piece(_DROPPED)  # or else the client would come again, and meet another query
    await exchange.end()


@contextmanager
def _reading(exchange: Exchange, name: str, query: int, way: Way, since: int | None) -> Iterator[Subscriber]:
    """While it lasts, the client is listed as a subscriber of the query."""
    subscribers, program = exchange.state.subscribers, exchange.headers.get("user-agent", "")
    subscriber = subscribers.begin(query, name, exchange.client_address, program, way, since)
    try:
        yield subscriber
    finally:
        subscribers.end(subscriber)


async def _send_all(exchange: Exchange, listener: Listener, span: Span, sse: bool, subscriber: Subscriber) -> None:
    last, sent = span.since, 0
    deadline = None if span.follow else asyncio.get_running_loop().time() + span.wait_s
    while not (listener.over or span.is_over(last, sent)):
        found = await listener.take()
        if found:
            last, sent = await _send(exchange, found, span, sse, last, sent)
            exchange.state.subscribers.sent(subscriber, last)
        elif listener.subscription.ended or (deadline is not None and (sent or not span.wait_s)):
            return
        elif not await listener.news(deadline):
            if deadline is not None:
                return
            if sse:
                await exchange.piece(b": heartbeat\n\n")


async def _send(
    exchange: Exchange, emissions: list[Emission], span: Span, sse: bool, last: int, sent: int
) -> tuple[int, int]:
    block, size = [], 0
    for emission in emissions:
        if span.is_over(last, sent):
            break
        last, sent = emission.number, sent + 1
        block.append(b"id: %d\ndata: %s\n\n" % (last, emission.json) if sse else emission.json + b"\n")
        size += len(block[-1])
        if size >= _BLOCK_BYTES:  # the next block is written when the client has read most of this one
            await exchange.piece(b"".join(block))
            block, size = [], 0
    if block:
        await exchange.piece(b"".join(block))
    return last, sent


# ---- listening ----


class Listener:
    """A subscription on the event loop: any thread can set its event."""

    def __init__(self, exchange: Exchange, wake: asyncio.Event, subscription: Subscription) -> None:
        self._exchange, self._wake, self.subscription = exchange, wake, subscription
        self.gone = False

    @property
    def over(self) -> bool:
        return self.gone or self._exchange.state.stopping

    async def take(self) -> list[Emission]:
        # Cleared first: an emission that is stored meanwhile sets it again.
        self._wake.clear()
        return await self._exchange.state.workers.followers.run(self.subscription.take)

    async def news(self, deadline: float | None) -> bool:
        """Waits for new emissions. False: the deadline (without one: the time of a heartbeat) has passed."""
        loop = asyncio.get_running_loop()
        until = deadline if deadline is not None else loop.time() + self._exchange.state.limits.heartbeat_s
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def watch(self) -> None:
        """Ends the subscription when the client disconnects."""
        while (await self._exchange.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._wake.set()


@asynccontextmanager
async def _listening(exchange: Exchange, name: str, since: int) -> AsyncIterator[Listener]:
    loop, wake, state = asyncio.get_running_loop(), asyncio.Event(), exchange.state

    def notify() -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(wake.set)

    subscription = await state.workers.followers.run(state.service.subscribe, name, since, notify)
    listener = Listener(exchange, wake, subscription)
    state.listen(wake)
    watcher = asyncio.create_task(listener.watch())
    try:
        yield listener
    finally:
        watcher.cancel()
        state.unlisten(wake)
        subscription.close()
