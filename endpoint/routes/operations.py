"""`/$/...`: whether the server runs, whether it is ready, and its status.

These routes answer within a tenth of a second whatever hangs: they wait for neither the store nor for threads that
may wait for it. What cannot be read so is the last known value (`endpoint.monitoring.last_known`)."""

from __future__ import annotations

from dataclasses import astuple

from endpoint.http.exchange import Exchange
from endpoint.monitoring.figures import MeasuredFigures
from endpoint.monitoring.last_known import Known
from endpoint.monitoring.subscribers import shown_subscribers
from endpoint.routes.metrics import MEDIA_TYPE as METRICS_TYPE
from endpoint.routes.metrics import text as text_of_metrics
from hbase_store.errors import StoreUnavailable
from stream_ext.waits import STOPS

_TEXT = b"text/plain; charset=utf-8"


async def ping(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer(200, b"pong\n", _TEXT)


async def ready(exchange: Exchange) -> None:
    """Ready: the server reads from its own store, accepts writes, and is not stopping. An attached store that does not
    answer is named: queries that need it fail, all others are answered."""
    exchange.parameters().done("none")
    service, stopping = exchange.state.service, exchange.state.stopping
    waits, status = service.waits.current(), service.status_at_once()
    fault = status["fault"] or status["writer"]["fault"]
    lines = [f"waits for the {wait.kind}: {wait.why}" for wait in waits]
    away = service.sources_away()
    lines += [f"the attached store {each['source']} does not answer: {each['error']}" for each in away]
    if stopping:
        lines = ["stopping", *lines]
    elif fault:
        lines = [f"the server reads the store and does not write to it: {fault}", *lines]
    is_ready = not (stopping or fault or any(wait.kind in STOPS for wait in waits))
    text = "\n".join(["ready", *lines] if is_ready else lines)
    await exchange.answer(200 if is_ready else 503, text.encode() + b"\n", _TEXT)


async def stats(exchange: Exchange) -> None:
    parameters = exchange.parameters()
    with_costs = parameters.flag("costs")
    parameters.done("costs")
    state = exchange.state
    try:
        status, age_s = astuple(await state.status.get())
    except StoreUnavailable:
        status, age_s = {}, None
    at_once = state.service.status_at_once()
    own = {"age_ms": _ms(age_s), "readers": state.followers, "query_workers": state.query_workers.status()}
    body = {**status, **at_once, **own}
    if with_costs:
        body["costs"] = await state.workers.measurers.run(state.service.costs)
    await exchange.answer_json(200, body)


def _ms(age_s: float | None) -> int | None:
    return None if age_s is None else round(age_s * 1000)


async def running(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    await exchange.answer_json(200, {"queries": exchange.state.underway.summaries()})


async def subscribers(exchange: Exchange) -> None:
    """Who reads emissions: addresses of clients, which only those may see who may write."""
    parameters = exchange.parameters()
    name = parameters.text("query")
    parameters.done("query")
    exchange.check_may_write()
    state = exchange.state
    found = await state.workers.operations.run(shown_subscribers, state.service, state.subscribers, name)
    await exchange.answer_json(200, {"subscribers": found})


async def cancel(exchange: Exchange, id: str) -> None:
    exchange.parameters().done("none")
    exchange.check_may_write()
    exchange.state.underway.cancel(id)
    await exchange.answer(204)


async def metrics(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    state = exchange.state
    try:
        figures: Known[MeasuredFigures] | None = await state.figures.get()
    except StoreUnavailable:
        figures = None
    body = await state.workers.operations.run(text_of_metrics, state, figures)
    await exchange.answer(200, body, METRICS_TYPE)
