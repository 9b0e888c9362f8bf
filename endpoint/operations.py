"""`/$/...`: is it there, is it ready, how is it doing."""

from __future__ import annotations

from endpoint.exchange import Exchange


async def ping(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer(200, b"pong\n", b"text/plain; charset=utf-8")


async def ready(exchange: Exchange) -> None:
    """Ready: it answers from the store, and is not on its way out."""
    exchange.parameters().done("none")
    await exchange.desk.workers.readers.run(exchange.desk.service.status)
    if exchange.desk.stopping:
        await exchange.answer(503, b"stopping\n", b"text/plain; charset=utf-8")
    else:
        await exchange.answer(200, b"ready\n", b"text/plain; charset=utf-8")


async def stats(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, await exchange.desk.workers.readers.run(exchange.desk.service.status))
