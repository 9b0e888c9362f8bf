"""`/queries`: register, describe, pause, drop. Their emissions are in `endpoint.routes.emissions`."""

from __future__ import annotations

from typing import Any

import msgspec

from endpoint.http.exchange import FORM, JSON, Exchange
from endpoint.http.parameters import Parameters
from endpoint.routes.protocol import QUERY_TYPE, read_request
from stream_ext.errors import BadArgument, NotFound, UnsupportedMedia
from stream_ext.service.service import Service

_NO_PARAMETERS = "none"


async def list_queries(exchange: Exchange) -> None:
    parameters = exchange.parameters()
    with_status = parameters.flag("status")
    parameters.done("status")
    service, workers = exchange.state.service, exchange.state.workers

    def read() -> bytes:
        listed = [{"query": q.name, "iri": q.iri, "r2s": q.r2s, "text": q.text} for q in service.queries()]
        if with_status:
            listed = [status for each in listed if (status := _status_of(service, each["query"])) is not None]
        return msgspec.json.encode({"queries": listed}) + b"\n"

    await exchange.answer(200, await (workers.readers if with_status else workers.operations).run(read), JSON)


def _status_of(service: Service, name: str) -> dict[str, Any] | None:
    """None: the query has been dropped since it was listed."""
    try:
        return service.query_status(name)
    except NotFound:
        return None


async def register(exchange: Exchange, name: str | None = None) -> None:
    """POST /queries, PUT /queries/{q}: the body is a REGISTER text or a bare windowed query."""
    text, replaces = await _text(exchange)
    exchange.check_may_write()
    service = exchange.state.service

    def register_query() -> tuple[int, dict[str, Any]]:
        question = service.question(text)
        definition, created, warnings = service.register(question, name, replaces=replaces)
        explained = service.explain(question)
        why = service.why_not_evaluated(definition.name)  # its first evaluation may be complete by now
        if why is not None:
            warnings = [*warnings, f"the query is not evaluated: {why}"]
        return (201 if created else 200), {
            "query": definition.name,
            "iri": definition.iri,
            **({"warnings": list(warnings)} if warnings else {}),  # before the plan, which may be long
            "dialect": explained.get("dialect"),
            "results": exchange.url("queries", definition.name, "results"),
            **({"cost": cost} if (cost := explained.pop("cost", None)) is not None else {}),
            "plan": explained,
        }

    status, registered = await exchange.state.workers.writers.run(register_query)
    location = (b"location", exchange.url("queries", registered["query"]).encode())
    await exchange.answer_json(status, registered, [location])


async def _text(exchange: Exchange) -> tuple[str, bool]:
    """The text to register, and whether it replaces a query of its name."""
    if exchange.media_type == FORM:
        body = await exchange.body(exchange.state.limits.text_bytes * 4)
        text, parameters = read_request(exchange, body)
        replaces = parameters.flag("replace")
        parameters.done("query, replace")
        return exchange.checked_text(text or ""), replaces
    if exchange.media_type != QUERY_TYPE:
        raise UnsupportedMedia(
            f"Content-Type {exchange.media_type or '(none)'}: send the query to register as {QUERY_TYPE} "
            f"(curl: -H 'Content-Type: {QUERY_TYPE}')"
        )
    parameters = exchange.parameters()
    replaces = parameters.flag("replace")
    parameters.done("replace")
    return await exchange.text_body("query"), replaces


async def status(exchange: Exchange, name: str) -> None:
    exchange.parameters().done(_NO_PARAMETERS)
    state, query = exchange.state, exchange.state.service.query_definition(name)
    await exchange.answer_json(200, await state.last_known(state.one_query, (query.iri, query.number)))


async def operators(exchange: Exchange, name: str) -> None:
    """What its operators do; the first request begins to measure."""
    exchange.parameters().done(_NO_PARAMETERS)
    state = exchange.state
    await exchange.answer_json(200, await state.workers.operations.run(state.service.query_operators, name))


async def drop(exchange: Exchange, name: str) -> None:
    exchange.parameters().done(_NO_PARAMETERS)
    exchange.check_may_write()
    await exchange.state.workers.writers.run(exchange.state.service.drop_query, name)
    await exchange.answer(204)


async def act(exchange: Exchange, name: str) -> None:
    """POST /queries/{q}?action=..."""
    parameters: Parameters = exchange.parameters()
    action, runner = parameters.text("action"), parameters.text("runner")
    parameters.done("action, runner")
    if action not in ("pause", "resume", "move"):
        raise BadArgument(
            f"POST /queries/{name} needs action=pause, resume or move; PUT registers a query under this name"
        )
    if (action == "move") != (runner is not None):
        raise BadArgument("action=move and runner=inline or runner=spark belong together")
    exchange.check_may_write()
    service, run = exchange.state.service, exchange.state.workers.writers.run
    if runner is not None:
        await run(service.move_query, name, runner)
    else:
        await run(service.pause_query if action == "pause" else service.resume_query, name)
    await exchange.answer_json(200, await exchange.state.workers.readers.run(service.query_status, name))
