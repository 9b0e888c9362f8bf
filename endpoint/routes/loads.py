"""`/$/loads`: the loads of the store, and a new load into the running server.

    POST /$/loads?path=/data/a.nq&size=...     lines of N-Triples or N-Quads, any number: one snapshot

The body is processed while it arrives and is never in memory as a whole. If it ends early, nothing of it is in the
store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from endpoint.http.body import Disconnected
from endpoint.http.exchange import Exchange
from endpoint.http.parameters import Parameters
from stream_ext.errors import BadArgument, UnsupportedMedia
from stream_ext.writer.graph_store import checked_graph
from stream_ext.writer.load_records import Loaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_QUADS = {"application/n-triples": False, "application/n-quads": True}
_KNOWN = "path, size, modified, digest, graph, part, go-on"
_PIECE_BYTES = 4 << 20


async def list_loads(exchange: Exchange) -> None:
    exchange.parameters().done("none")
    found = await exchange.state.workers.readers.run(exchange.state.service.loads)
    await exchange.answer_json(200, {"loads": [_as_json(each) for each in found]})


async def load(exchange: Exchange) -> None:
    parameters = exchange.parameters()
    go_on, what = parameters.flag("go-on"), _what(parameters)
    parameters.done(_KNOWN)
    exchange.check_may_write()
    quads = _QUADS.get(exchange.media_type)
    if quads is None or exchange.headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedMedia(
            f"a load must be uncompressed lines: {' or '.join(_QUADS)}; `rillet load` reads other formats"
        )
    if what.graph is not None:
        checked_graph(what.graph)
    writers = exchange.state.workers.writers
    run = writers.submit  # accepted once, a load is rejected no more
    reading = exchange.state.service.load_reading(quads, go_on)
    try:
        async for piece in _pieces(exchange):
            await run(reading.read, piece)
            run = writers.resume
        loading = await run(reading.end)
        what.statements, what.bad = loading.statements, reading.bad
        recorded = what if what.path else None
        what.sn = await run(exchange.state.service.load, loading, what.graph, recorded)
    finally:
        await writers.resume(reading.close)
    first_bad = [{"line": bad.line, "column": bad.column, "message": bad.message} for bad in reading.reported]
    await exchange.answer_json(200, {**_as_json(what), "first_bad": first_bad}, snapshot=what.sn)


def _what(parameters: Parameters) -> Loaded:
    path, digest = parameters.text("path") or "", parameters.text("digest") or ""
    size, modified = parameters.integer("size"), parameters.text("modified") or "0"
    if not re.fullmatch(r"-?[0-9]{1,20}", modified):
        raise BadArgument(f"modified={modified}: nanoseconds since 1970 are expected")
    if path and size is None:
        raise BadArgument("path and size together identify the file: give size, too")
    graph, part = parameters.text("graph"), parameters.text("part") or ""
    return Loaded(path, size or 0, int(modified), graph, digest=digest, part=part)


def _as_json(what: Loaded) -> dict[str, object]:
    return {
        "path": what.path,
        "size": what.size,
        "modified": what.modified_ns,
        "digest": what.digest,
        "graph": what.graph,
        "statements": what.statements,
        "bad": what.bad,
        "part": what.part,
        "snapshot": what.sn,
    }


async def _pieces(exchange: Exchange) -> AsyncIterator[bytes]:
    """The body, some megabytes at a time."""
    pieces: list[bytes] = []
    size, more, receive = 0, True, exchange.paced()
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        more = message.get("more_body", False)
        if size >= _PIECE_BYTES or not more:
            yield b"".join(pieces)
            pieces, size = [], 0
