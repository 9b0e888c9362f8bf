"""`/sources`: the attached stores, and what is held of them."""

from __future__ import annotations

from endpoint.http.exchange import Exchange
from endpoint.routes.awaiting import is_pending


async def list_sources(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, {"sources": exchange.state.service.sources_status()})


async def status(exchange: Exchange, name: str) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, exchange.state.service.source_status(name))


async def refresh(exchange: Exchange, name: str) -> None:
    """Fetches what is held of a source anew; the answer comes when that is published."""
    parameters = exchange.parameters()
    wait = parameters.wait()
    parameters.done("wait")
    exchange.check_may_write()
    workers, service = exchange.state.workers, exchange.state.service
    # It may take as long as the source does: no write of others waits for it.
    snapshot = await workers.waiters.run(service.refresh_source, name)
    pending = {"pending": True} if await is_pending(exchange, wait, snapshot) else {}
    await exchange.answer_json(202, {"source": name, "snapshot": snapshot, **pending}, snapshot=snapshot)
