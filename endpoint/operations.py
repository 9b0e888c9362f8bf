"""`/$/...`: is it there, is it ready, how is it doing."""

from __future__ import annotations

from endpoint.exchange import Exchange
from endpoint.metrics import MEDIA_TYPE as METRICS_TYPE
from endpoint.metrics import text as text_of_metrics

_TEXT = b"text/plain; charset=utf-8"


async def ping(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer(200, b"pong\n", _TEXT)


async def ready(exchange: Exchange) -> None:
    """Ready: it answers from the store, takes writes, and is not on its way out."""
    exchange.parameters().done("none")
    status = await exchange.desk.workers.readers.run(exchange.desk.service.status)
    fault = status["fault"] or status["writer"]["fault"]
    if exchange.desk.stopping:
        await exchange.answer(503, b"stopping\n", _TEXT)
    elif fault:
        await exchange.answer(
            503, f"it answers, but writes nothing any more until it is restarted: {fault}\n".encode(), _TEXT
        )
    else:
        await exchange.answer(200, b"ready\n", _TEXT)


async def stats(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    status = await exchange.desk.workers.readers.run(exchange.desk.service.status)
    await exchange.answer_json(200, {**status, "query_workers": exchange.desk.query_workers.told()})


async def running(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, {"queries": exchange.desk.underway.told()})


async def cancel(exchange: Exchange, id: str) -> None:
    exchange.parameters().done("none")
    exchange.check_may_write()
    exchange.desk.underway.cancel(id)
    await exchange.answer(204)


async def metrics(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    body = await exchange.desk.workers.readers.run(text_of_metrics, exchange.desk)
    await exchange.answer(200, body, METRICS_TYPE)
