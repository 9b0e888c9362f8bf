"""`/sources`: the attached stores, and what is held of them."""

from __future__ import annotations

from functools import partial

from endpoint.http.exchange import Exchange
from endpoint.routes.awaiting import is_pending


async def list_sources(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, {"sources": exchange.state.service.sources_status()})


async def status(exchange: Exchange, name: str) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, exchange.state.service.source_status(name))


async def refresh(exchange: Exchange, name: str) -> None:
    """Compares what is held of a source with it, now."""
    parameters = exchange.parameters()
    wait = parameters.wait()
    parameters.done("wait")
    exchange.check_may_write()
    sn = await exchange.state.workers.writers.run(partial(exchange.state.service.refresh_source, name))
    pending = await is_pending(exchange, wait, sn)
    body = {"source": name, "snapshot": sn, **({"pending": True} if pending else {})}
    await exchange.answer_json(202, body, snapshot=sn)
