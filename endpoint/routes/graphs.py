"""`/data`: the SPARQL 1.1 Graph Store Protocol. Each write is one snapshot.

/data?default           the default graph
/data?graph=IRI         a named graph
/data/any/path          the graph that is named by this very address
/data                   POST makes a new graph of triples; quads, and GET, are about all graphs"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from endpoint import negotiation
from endpoint.formats import graph_results, results
from endpoint.http import multipart
from endpoint.http.exchange import Exchange
from endpoint.http.parameters import Parameters, Wait
from endpoint.routes.awaiting import answer_pending, is_pending
from endpoint.routes.one_shot import send_pieces
from stream_ext.errors import BadArgument, UnsupportedMedia
from stream_ext.writer.graph_store import Document, GraphAnswer, checked_graph

if TYPE_CHECKING:
    from stream_ext.writer.graph_store import GraphWriteOutcome

_KNOWN = "default, graph, snapshot, wait"
_OF_QUADS = frozenset(offer.media_type for offer in graph_results.QUADS[:2])


@dataclass(frozen=True, slots=True)
class GraphTarget:
    """The graph of a request. `iri` None: the default graph; `whole`: all graphs."""

    iri: str | None
    whole: bool = False


async def read(exchange: Exchange, path: str | None = None) -> None:
    parameters = exchange.parameters()
    target, snapshot = _target(exchange, parameters, path), parameters.integer("snapshot")
    parameters.refuse({"wait": "it belongs to writes; this reads"})
    parameters.done(_KNOWN)
    offer = negotiation.choose(exchange.accept, graph_results.QUADS if target.whole else graph_results.TRIPLES)
    state, service = exchange.state, exchange.state.service

    def ask() -> tuple[GraphAnswer, Iterator[bytes]]:
        read = service.read_dataset if target.whole else partial(service.read_graph, target.iri)
        answer = read(snapshot, control=control)
        return answer, graph_results.write(offer.format, service.decoded(answer.columns, answer))

    with closing(state.limits.control_of_graphs(state.memory, "read of a graph")) as control:
        answer, pieces = await state.workers.readers.run(ask)
        await send_pieces(exchange, results.content_type(offer), answer.sn, pieces)


async def replace(exchange: Exchange, path: str | None = None) -> None:
    parameters, service = exchange.parameters(), exchange.state.service
    target, wait = _one_graph(exchange, parameters, path), parameters.wait()
    _check_write(exchange, parameters)
    documents = await _documents(exchange, _base_of(exchange, target))
    written = await _written(exchange, partial(service.replace_graph, target.iri, documents))
    await _acknowledge(exchange, target, written, wait)


async def merge(exchange: Exchange, path: str | None = None) -> None:
    parameters, service = exchange.parameters(), exchange.state.service
    target, wait = _target(exchange, parameters, path), parameters.wait()
    _check_write(exchange, parameters)
    if target.whole and not _has_quads(exchange):
        target = GraphTarget(f"{exchange.state.base}data/{uuid.uuid4()}")
    documents = await _documents(exchange, _base_of(exchange, target))
    add = partial(service.add_quads if target.whole else partial(service.merge_graph, target.iri), documents)
    written = await _written(exchange, add)
    await _acknowledge(exchange, target, written, wait)


async def drop(exchange: Exchange, path: str | None = None) -> None:
    parameters = exchange.parameters()
    target, wait = _one_graph(exchange, parameters, path), parameters.wait()
    _check_write(exchange, parameters)
    written = await _written(exchange, partial(exchange.state.service.drop_graph, target.iri))
    if await is_pending(exchange, wait, written.snapshot):
        await answer_pending(exchange, written.snapshot)
        return
    await exchange.answer(204, snapshot=written.snapshot)


async def _written(exchange: Exchange, change: Callable[..., GraphWriteOutcome]) -> GraphWriteOutcome:
    with closing(exchange.state.limits.control_of_graphs(exchange.state.memory)) as control:
        return await exchange.state.workers.writers.run(change, control=control)


def _check_write(exchange: Exchange, parameters: Parameters) -> None:
    parameters.refuse({"snapshot": "it belongs to reads; an earlier snapshot cannot be changed"})
    parameters.done(_KNOWN)
    exchange.check_may_write()


async def _acknowledge(exchange: Exchange, target: GraphTarget, written: GraphWriteOutcome, wait: Wait) -> None:
    if await is_pending(exchange, wait, written.snapshot):
        await answer_pending(exchange, written.snapshot)
        return
    if not written.created:
        await exchange.answer(204, snapshot=written.snapshot)
        return
    location = [(b"location", target.iri.encode())] if target.iri is not None else []
    await exchange.answer(201, headers=location, snapshot=written.snapshot)


# ---- which graph -----------------------------------------------------------------------------------------------


def _target(exchange: Exchange, parameters: Parameters, path: str | None) -> GraphTarget:
    default, graph = parameters.text("default"), parameters.text("graph")
    if sum(named is not None for named in (default, graph, path)) > 1:
        raise BadArgument("name one graph: default, graph= or a path below /data, not several of them")
    if default:
        raise BadArgument(f"default={default}: this parameter takes no value; write /data?default")
    iri = exchange.state.base + "data/" + path if path is not None else graph
    if iri is not None:
        checked_graph(iri)
    return GraphTarget(iri, whole=iri is None and default is None)


def _one_graph(exchange: Exchange, parameters: Parameters, path: str | None) -> GraphTarget:
    target = _target(exchange, parameters, path)
    if target.whole:
        raise BadArgument("name the graph: /data?default or /data?graph=IRI")
    return target


def _base_of(exchange: Exchange, target: GraphTarget) -> str:
    """The base for relative IRIs in a document: the IRI of the graph."""
    return target.iri or exchange.state.base + "data"


# ---- what is sent ----------------------------------------------------------------------------------------------


def _has_quads(exchange: Exchange) -> bool:
    return exchange.media_type in _OF_QUADS


async def _documents(exchange: Exchange, base: str) -> list[Document]:
    content_type = exchange.headers.get("content-type", "")
    if not content_type:
        raise UnsupportedMedia("the Content-Type is missing: send the format of the graph, text/turtle for example")
    body = await exchange.body()
    if exchange.media_type != multipart.TYPE:
        return [Document(body, content_type, base)]
    parts = await exchange.state.workers.writers.run(multipart.parts_of, body, content_type)
    return [Document(part.data, part.media_type, base) for part in parts]
