"""`/sources`: the attached stores."""

from __future__ import annotations

from endpoint.http.exchange import Exchange


async def list_sources(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, {"sources": exchange.state.service.sources_status()})


async def status(exchange: Exchange, name: str) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, exchange.state.service.source_status(name))
