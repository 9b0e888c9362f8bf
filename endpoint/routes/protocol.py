"""SPARQL 1.1 Protocol: `/sparql`, `/query`, `/update`.

The text itself decides whether it is a query, an update or a statement, not the name of its parameter: SPARQLWrapper
sends `REGISTER QUERY <loadAlerts>` as an update and `REGISTER QUERY <q1> AS SELECT` as a query by GET."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from endpoint import negotiation
from endpoint.formats import graph_results, results
from endpoint.formats.description import OFFERS
from endpoint.http.answer_cache import Key
from endpoint.http.body import as_text
from endpoint.http.exchange import FORM, Exchange
from endpoint.http.parameters import SPARQLWRAPPER, Parameters, parse_pairs
from endpoint.negotiation import Offer
from endpoint.routes import administration, live_query
from endpoint.routes.awaiting import answer_pending, is_pending
from endpoint.routes.emissions import SSE
from endpoint.routes.one_shot import SHORT_CHARACTERS, QueryRequest, ask
from hbase_store.layout.terms import iri, literal
from stream_ext.errors import BadArgument, UnsupportedMedia
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.statements import CreateStream, Drop, Explain, Show, Update
from stream_ext.language.syntax import Check
from stream_ext.oneshot.dataset import OF_QUERY, OF_UPDATE, Dataset

if TYPE_CHECKING:
    from stream_ext.oneshot.question import Question
    from stream_ext.writer.updates import Updated

#: Where the console is mounted.
CONSOLE = "/console"

QUERY_TYPE, UPDATE_TYPE = "application/sparql-query", "application/sparql-update"

_KNOWN = "query, update, snapshot, at, timeout, engine, explain, wait, " + ", ".join((*OF_QUERY, *OF_UPDATE))
_NOT_OF_QUERY = "it belongs to updates; the graphs of a query are default-graph-uri= and named-graph-uri="
_NOT_OF_UPDATE = "it belongs to queries; the graphs of an update are using-graph-uri= and using-named-graph-uri="
_NOT_OF_OTHERS = "it belongs to queries and updates; this is neither"
_OF_UPDATES = {
    **dict.fromkeys(OF_UPDATE, _NOT_OF_QUERY),
    "wait": "it belongs to updates and registrations; this is a query",
}
_BY_POST = "this changes the state of the server: send it by POST (with SPARQLWrapper: setMethod(POST))"
_EXPLAIN = re.compile(r"((?:\s++|#[^\n]*+\n)*+)EXPLAIN(?=\s)", re.IGNORECASE)


#: Bodies up to this length are parsed on the event loop.
_SHORT_BYTES = 1 << 14


#: The formats of these routes, except the query page.
_WRITTEN = (*results.OFFERS, *graph_results.TRIPLES, *OFFERS, SSE)


async def sparql(exchange: Exchange) -> None:
    state = exchange.state
    if exchange.method == "GET" and negotiation.prefers_html(exchange.accept, _WRITTEN):
        await _page(exchange)
        return
    exchange.check_may_read()
    body = await exchange.body(state.limits.text_bytes * 4) if exchange.method == "POST" else b""
    key = (exchange.query_string, exchange.accept, exchange.headers.get("content-type", ""), body)
    reply = state.answer_cache.get(key, state.head())
    if reply is not None:
        await exchange.answer(200, reply.body, reply.media_type, [*reply.headers])
        return
    if len(body) <= _SHORT_BYTES:
        text, parameters = read_request(exchange, body)
    else:
        text, parameters = await state.workers.readers.run(read_request, exchange, body)
    if text is None:
        await about(exchange, parameters)
        return
    parameters.ignore(SPARQLWRAPPER)
    text, explain = strip_explain(exchange.checked_text(text))
    wanted = parameters.choice("explain", ("false", "true", "analyze"), "false")
    if wanted == "analyze":
        await _analyze(exchange, text, parameters)
        return
    if wanted == "true" or explain:
        parameters.done(_KNOWN)
        await _explain(exchange, text)
        return
    if len(text) <= SHORT_CHARACTERS:
        await _answer(exchange, state.service.question(text), key, parameters)
        return
    timeout_s = parameters.timeout_s(state.limits.query_s)
    async with state.underway.watched(exchange, text, timeout_s) as underway:
        reading = state.workers.readers.submit(_read, exchange, text, underway.control.check)
        question = await underway.in_time(reading)
    await _answer(exchange, question, key, parameters, underway.spent_s)


def _read(exchange: Exchange, text: str, check: Check) -> Question:
    question = exchange.state.service.question(text, check)
    _ = question.warnings  # found here: it takes long for a long text
    return question


async def _answer(
    exchange: Exchange,
    question: Question,
    key: Key,
    parameters: Parameters,
    spent_s: float = 0.0,
) -> None:
    """`spent_s`: the part of its time limit that parsing took."""
    unit = question.outline
    if isinstance(unit, Register | Update | CreateStream | Drop) and exchange.method == "GET":
        raise BadArgument(_BY_POST)
    if await _is_forwarded(exchange, unit):
        return
    if isinstance(unit, Query) and live_query.is_wanted(exchange, unit):
        await live_query.listen(exchange, question, unit, parameters)
    elif isinstance(unit, Query):
        await ask(exchange, _query_request(exchange, question, unit, key, parameters, spent_s))
    else:
        await _run(exchange, question, parameters, spent_s)


async def _is_forwarded(exchange: Exchange, unit: object) -> bool:
    """Whether the writer has answered: it does what changes the store, if this server only reads."""
    forwarding = exchange.state.forwarding
    if forwarding is None:
        return False
    changes = isinstance(unit, Register | Update | CreateStream | Drop)
    is_live = isinstance(unit, Query) and live_query.is_wanted(exchange, unit)
    return (changes or is_live) and await forwarding.forward(exchange)


async def _run(exchange: Exchange, question: Question, parameters: Parameters, spent_s: float) -> None:
    unit = question.unit
    if isinstance(unit, Update):
        await _update(exchange, question, parameters, spent_s)
    elif isinstance(unit, Register):
        await _register(exchange, question, parameters)
    elif isinstance(unit, CreateStream | Drop | Show):
        parameters.refuse({"wait": "it belongs to pushes and updates; this request is answered when it is done"})
        parameters.done("query, update")
        await administration.run(exchange, unit)
    else:
        assert isinstance(unit, Explain)  # after a prologue
        parameters.done(_KNOWN)
        await _explain(exchange, question)


# ---- the request ----


def read_request(exchange: Exchange, body: bytes) -> tuple[str | None, Parameters]:
    """The text, from any of the places that the protocol defines (None: there is none), and the other parameters."""
    parameters = exchange.parameters()
    direct, form = None, b""
    if exchange.method == "POST":
        media_type = exchange.media_type
        if media_type in (QUERY_TYPE, UPDATE_TYPE):
            direct = as_text(body, "text")
        elif media_type == FORM:
            form = body
            parameters.add(parse_pairs(form))
        else:
            raise UnsupportedMedia(
                f"Content-Type {media_type or '(none)'}: send a text as {QUERY_TYPE}, {UPDATE_TYPE} or {FORM}"
            )
    texts = [text for text in (direct, parameters.text("query"), parameters.text("update")) if text is not None]
    if len(texts) > 1:
        raise BadArgument("send one text in a request: query=, update= or the body, not several of them")
    if not texts and exchange.method == "POST":
        raise BadArgument(_without_text(exchange, form))
    return (texts[0] if texts else None), parameters


def _without_text(exchange: Exchange, form: bytes) -> str:
    if form:
        wanted = UPDATE_TYPE if exchange.path.startswith(b"/update") else QUERY_TYPE
        return (
            f"the body is a form ({FORM}, curl's default) without query= and update=; to send the text itself as the "
            f"body, set Content-Type: {wanted} (curl: -H 'Content-Type: {wanted}')"
        )
    return "there is no text: send query= or update=, or the text itself as the body"


def strip_explain(text: str) -> tuple[str, bool]:
    """The text without EXPLAIN at its beginning; blanks replace the word, so that lines and columns stay the same."""
    found = _EXPLAIN.match(text)
    if not found:
        return text, False
    return found[1] + " " * len("EXPLAIN") + text[found.end() :], True


# ---- the actions ----


async def _page(exchange: Exchange) -> None:
    """The query page for a browser. It never runs a text in the address: someone else may have written the link."""
    if exchange.state.console is None:
        exchange.check_may_read()
        await _describe(exchange, negotiation.choose("", OFFERS))
    else:
        await exchange.hand_on(exchange.state.console, CONSOLE, "/query")


async def about(exchange: Exchange, parameters: Parameters) -> None:
    """A request without a text: programs get the service description."""
    parameters.ignore(SPARQLWRAPPER)
    parameters.done("query, update (without a text no other parameter has a meaning)")
    await _describe(exchange, negotiation.choose(exchange.accept, OFFERS))


async def _describe(exchange: Exchange, offer: Offer) -> None:
    readers, description = exchange.state.workers.readers, exchange.state.description
    body = await readers.run(description.written, offer.format, exchange.state.head())
    await exchange.answer(200, body, offer.media_type.encode())


async def _explain(exchange: Exchange, question: str | Question) -> None:
    explained = await exchange.state.workers.readers.run(exchange.state.service.explain, question)
    await exchange.answer_json(200, explained)


async def _analyze(exchange: Exchange, text: str, parameters: Parameters) -> None:
    """Evaluates a query as a client's query is: it is listed, can be cancelled, and has a budget and a time limit."""
    state = exchange.state
    timeout_s, snapshot = parameters.timeout_s(state.limits.query_s), parameters.integer("snapshot")
    parameters.ignore(("timeout",))
    parameters.done("query, snapshot, timeout, explain")
    async with state.underway.watched(exchange, text, timeout_s) as question:
        measuring = state.workers.measurers.submit(state.service.analyze, text, snapshot, question.control)
        question.here = measuring
        found = await question.in_time(measuring)
        question.check_wanted()
    await exchange.answer_json(200, found)


def _query_request(
    exchange: Exchange,
    question: Question,
    query: Query,
    key: Key,
    parameters: Parameters,
    spent_s: float,
) -> QueryRequest:
    parameters.refuse(_OF_UPDATES)
    dataset = Dataset(parameters.texts(OF_QUERY[0]), parameters.texts(OF_QUERY[1]))
    snapshot, at = parameters.integer("snapshot"), parameters.time("at")
    timeout_s = parameters.timeout_s(exchange.state.limits.query_s) - spent_s
    by_spark = parameters.choice("engine", ("inline", "spark"), "inline") == "spark"
    parameters.ignore(("timeout",))
    parameters.done(_KNOWN)
    return QueryRequest(question, query, key, snapshot, at, timeout_s, dataset or None, by_spark)


async def _update(exchange: Exchange, question: Question, parameters: Parameters, spent_s: float) -> None:
    wait = parameters.wait()
    parameters.refuse(dict.fromkeys(OF_QUERY, _NOT_OF_UPDATE))
    parameters.refuse(dict.fromkeys(("snapshot", "at"), "it belongs to queries; this is an update"))
    limits = exchange.state.limits
    timeout_s = parameters.timeout_s(limits.query_s) - spent_s
    parameters.ignore(("timeout",))
    dataset = Dataset(parameters.texts(OF_UPDATE[0]), parameters.texts(OF_UPDATE[1]))
    parameters.done(_KNOWN)
    exchange.check_may_write()
    state = exchange.state
    with state.underway.listed("update", question.text, timeout_s, limits) as listed:
        run = state.workers.writers.run
        done = await run(state.service.update, question, "published", dataset or None, listed.control)
    if await is_pending(exchange, wait, done.snapshot):
        await answer_pending(exchange, done.snapshot)
        return
    await exchange.answer(204, headers=_counts(done), snapshot=done.snapshot)


def _counts(done: Updated) -> list[tuple[bytes, bytes]]:
    """The headers with the numbers of inserted and deleted quads, if these are known."""
    counts = ((b"rillet-inserted", done.inserted), (b"rillet-deleted", done.deleted))
    return [(name, b"%d" % count) for name, count in counts if count is not None]


async def _register(exchange: Exchange, question: Question, parameters: Parameters) -> None:
    """Registers a query; the answer is a SPARQL result of one row, for clients that read only these."""
    parameters.refuse({"wait": "a registration is answered when the query is registered"})
    parameters.refuse(dict.fromkeys((*OF_QUERY, *OF_UPDATE), _NOT_OF_OTHERS))
    parameters.done(_KNOWN)
    exchange.check_may_write()
    offer = negotiation.choose(exchange.accept, results.OFFERS)
    definition, created, warnings = await exchange.state.workers.writers.run(exchange.state.service.register, question)
    row = {
        "query": literal(definition.name),
        "iri": iri(definition.iri),
        "results": iri(exchange.url("queries", definition.name, "results")),
        "created": literal("true" if created else "false", datatype="http://www.w3.org/2001/XMLSchema#boolean"),
        "warnings": literal("\n".join(warnings)),
    }
    pieces = results.write(offer.format, list(row), results.few([list(row.values())]), None)
    location = (b"location", exchange.url("queries", definition.name).encode())
    await exchange.answer(200, b"".join(pieces), results.content_type(offer), [location])
