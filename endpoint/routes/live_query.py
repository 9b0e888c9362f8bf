"""A live query: a windowed query with `Accept: text/event-stream`, answered until the client disconnects.

It is registered under a generated name and dropped when its connection ends. After a crash it is dropped when the
service starts."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from endpoint import negotiation
from endpoint.http.exchange import Exchange
from endpoint.http.parameters import Parameters
from endpoint.routes.emissions import SSE, Span, emit
from endpoint.routes.one_shot import offers_of
from stream_ext.errors import BadArgument, NotFound
from stream_ext.language.algebra.algebra import Query
from stream_ext.oneshot.dataset import OF_QUERY, OF_UPDATE

if TYPE_CHECKING:
    from stream_ext.oneshot.question import Question

_ALL = Span(since=0, until=None, limit=None, follow=True, wait_s=0.0)
_ONCE = "it belongs to a one-shot query; a live query (Accept: text/event-stream) starts now"


def is_wanted(exchange: Exchange, query: Query) -> bool:
    """Whether the client prefers events to all other formats of the answer."""
    accept = exchange.accept.lower()
    return "text/event-stream" in accept and negotiation.choose(accept, (*offers_of(query.form), SSE)) is SSE


async def listen(exchange: Exchange, question: Question, query: Query, parameters: Parameters) -> None:
    parameters.refuse(dict.fromkeys(("snapshot", "at", "timeout", "wait", *OF_QUERY, *OF_UPDATE), _ONCE))
    parameters.done("query")
    if not query.windows:
        raise BadArgument(
            "a live query (Accept: text/event-stream) needs windows; register a query without windows "
            "(POST /queries) to receive its changes, or run it once with another Accept"
        )
    exchange.check_may_write()
    writers, service = exchange.state.workers.writers, exchange.state.service
    name = f"live.{secrets.token_hex(8)}"
    with exchange.state.room_to_listen():
        await writers.run(service.register_live, question, name)
        try:
            await emit(exchange, name, _ALL, SSE, [(b"location", exchange.url("queries", name).encode())])
        finally:
            with suppress(NotFound):  # it was dropped by another request
                await asyncio.shield(writers.resume(service.drop_query, name))
