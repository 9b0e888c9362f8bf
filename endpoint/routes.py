"""Where a raw path leads. A table, so that it can be read, tested and documented."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from endpoint import emissions, operations, protocol, queries, streams
from endpoint.errors import MethodNotAllowed
from endpoint.exchange import Exchange, path_name
from stream_ext.errors import NotFound

Handler = Callable[..., Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Route:
    path: str
    methods: dict[str, Handler]


ROUTES = (
    Route("/sparql", {"GET": protocol.sparql, "POST": protocol.sparql}),
    Route("/query", {"GET": protocol.sparql, "POST": protocol.sparql}),
    Route("/update", {"GET": protocol.sparql, "POST": protocol.sparql}),
    Route("/streams", {"GET": streams.list_streams}),
    Route(
        "/streams/{stream}",
        {"PUT": streams.create, "POST": streams.push, "GET": streams.describe, "DELETE": streams.drop},
    ),
    Route("/streams/{stream}/heartbeat", {"POST": streams.heartbeat}),
    Route("/streams/{stream}/late", {"GET": streams.late}),
    Route("/queries", {"GET": queries.list_queries, "POST": queries.register}),
    Route(
        "/queries/{query}",
        {"PUT": queries.register, "POST": queries.act, "GET": queries.status, "DELETE": queries.drop},
    ),
    Route("/queries/{query}/results", {"GET": emissions.read_results, "POST": emissions.read_results}),
    Route("/$/ping", {"GET": operations.ping}),
    Route("/$/ready", {"GET": operations.ready}),
    Route("/$/stats", {"GET": operations.stats}),
)

#: Designed, and refused by name until it is there.
NOT_BUILT = {
    "/data": "the Graph Store Protocol",
    "/$/metrics": "metrics for Prometheus (GET /$/stats has the counters as JSON)",
    "/$/queries": "listing and cancelling running queries",
    "/console": "the console",
}

_Tree = dict[bytes, Any]
_LEAF = b""


def _grow(paths: dict[str, Any]) -> _Tree:
    """Path segments as nested dicts; `{}` stands for a name."""
    tree: _Tree = {}
    for path, value in paths.items():
        node = tree
        for segment in path.strip("/").split("/"):
            node = node.setdefault(b"{}" if segment.startswith("{") else segment.encode(), {})
        node[_LEAF] = (path, value)
    return tree


_TREE = _grow({route.path: route.methods for route in ROUTES} | NOT_BUILT)


def knows(path: bytes) -> bool:
    """Whether the first segment of the path is one of ours."""
    return path[1:].split(b"/", 1)[0] in _TREE


async def dispatch(exchange: Exchange) -> None:
    node, names = _TREE, []
    segments = exchange.path[1:].split(b"/")
    if len(segments) > 1 and not segments[-1]:
        segments.pop()  # /sparql/ is /sparql
    for segment in segments:
        if segment and segment in node:
            node = node[segment]
        elif b"{}" in node and segment:
            node = node[b"{}"]
            names.append(segment)
        else:
            raise nothing_at(exchange.path)
    if _LEAF not in node:
        raise nothing_at(exchange.path)
    path, methods = node[_LEAF]
    if isinstance(methods, str):
        raise NotFound(f"{path}: {methods} is not built yet in this version")
    handler = methods.get(exchange.method)
    if handler is None:
        raise MethodNotAllowed(exchange.method, path, tuple(methods))
    kind = "stream" if "{stream}" in path else "query"
    await handler(exchange, *(path_name(name, kind) for name in names))


def nothing_at(path: bytes) -> NotFound:
    hint = ""
    if path.startswith((b"/streams/", b"/queries/")):
        hint = "; an IRI in a path is percent-encoded (http%3A%2F%2Fex%2Fs)"
    return NotFound(f"there is nothing at {path.decode('latin-1')}{hint}")
