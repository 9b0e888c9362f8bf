"""A live query: a windowed text asked with `Accept: text/event-stream`, answered for as long as somebody listens.

It is a registration that ends with its connection, under a name that nobody chose; one that a crash has left behind is
dropped when the service starts."""

from __future__ import annotations

import asyncio
import secrets

from endpoint.emissions import SSE, Span, emit
from endpoint.exchange import Exchange
from endpoint.parameters import Parameters
from stream_ext.errors import BadArgument
from stream_ext.plan.algebra import Query


def is_wanted(exchange: Exchange) -> bool:
    return "text/event-stream" in exchange.accept.lower()


async def listen(exchange: Exchange, text: str, query: Query, parameters: Parameters) -> None:
    parameters.done("query (a live query goes on from now; at=, snapshot= and timeout= are for one that is asked once)")
    if not query.windows:
        raise BadArgument(
            "a live query (Accept: text/event-stream) has windows; a query without them is registered (POST /queries) "
            "to be told of its changes, or asked once with another Accept"
        )
    exchange.check_may_write()
    run, service = exchange.desk.workers.writers.run, exchange.desk.service
    name = f"live.{secrets.token_hex(8)}"
    await run(service.register_live, text, name)
    try:
        await emit(exchange, name, Span(0, None, None, True, 0.0), SSE)
    finally:
        await asyncio.shield(run(service.drop_query, name))
