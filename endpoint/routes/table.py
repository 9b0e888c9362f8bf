"""The table of routes: which raw path has which methods. A table, so that it can be read, tested and documented."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from endpoint.errors import MethodNotAllowed
from endpoint.http.body import as_text
from endpoint.http.exchange import Exchange, path_name
from endpoint.routes import assets, emissions, graphs, heads, loads, operations, protocol, queries, sources, streams
from stream_ext.errors import BadArgument, NotFound
from stream_ext.names import meant

Handler = Callable[..., Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Route:
    path: str
    methods: dict[str, Handler]


ROUTES = (
    Route("/sparql", {"GET": protocol.sparql, "POST": protocol.sparql}),
    Route("/query", {"GET": protocol.sparql, "POST": protocol.sparql}),
    Route("/update", {"GET": protocol.sparql, "POST": protocol.sparql}),
    Route("/data", {"GET": graphs.read, "PUT": graphs.replace, "POST": graphs.merge, "DELETE": graphs.drop}),
    Route("/data/{path...}", {"GET": graphs.read, "PUT": graphs.replace, "POST": graphs.merge, "DELETE": graphs.drop}),
    Route("/streams", {"GET": streams.list_streams}),
    Route(
        "/streams/{stream}",
        {
            "PUT": streams.create,
            "PATCH": streams.change,
            "POST": streams.push,
            "GET": streams.describe,
            "DELETE": streams.drop,
        },
    ),
    Route("/streams/{stream}/heartbeat", {"POST": streams.heartbeat}),
    Route("/streams/{stream}/late", {"GET": streams.late}),
    Route("/queries", {"GET": queries.list_queries, "POST": queries.register}),
    Route(
        "/queries/{query}",
        {"PUT": queries.register, "POST": queries.act, "GET": queries.status, "DELETE": queries.drop},
    ),
    Route("/queries/{query}/operators", {"GET": queries.operators}),
    Route("/queries/{query}/results", {"GET": emissions.read_results, "POST": emissions.read_results}),
    Route("/sources", {"GET": sources.list_sources}),
    Route("/sources/{source}", {"GET": sources.status}),
    Route("/sources/{source}/refresh", {"POST": sources.refresh}),
    Route("/$/ping", {"GET": operations.ping}),
    Route("/$/ready", {"GET": operations.ready}),
    Route("/$/queries", {"GET": operations.running}),
    Route("/$/queries/{query}", {"DELETE": operations.cancel}),
    Route("/$/subscribers", {"GET": operations.subscribers}),
    Route("/$/metrics", {"GET": operations.metrics}),
    Route("/$/assets/{asset}", {"GET": assets.give}),
    Route("/$/stats", {"GET": operations.stats}),
    Route("/$/heads", {"GET": heads.send_heads}),
    Route("/$/loads", {"GET": loads.list_loads, "POST": loads.load}),
)

#: Routes without a read token: they show nothing of the store, or check it themselves to show the sign-in page.
OPEN = ("/$/ping", "/$/assets/{asset}", "/sparql", "/query", "/update")

#: Answered by any server of a store, whatever the method: their text decides, or they are about this server.
_OF_ANY = ("/sparql", "/query", "/update", "/queries/{query}/results", "/$/queries/{query}")
#: What is read of the writer, if it answers: it knows what waits, what is late, and what it holds of attached stores.
_OF_WRITER = (
    "/streams/{stream}",
    "/streams/{stream}/late",
    "/queries",
    "/queries/{query}",
    "/queries/{query}/operators",
    "/sources",
    "/sources/{source}",
)

_Tree = dict[bytes, Any]
_LEAF = b""
_ANY, _REST = b"{}", b"{...}"


def _grow(paths: dict[str, Any]) -> _Tree:
    """The routes as nested dicts of path segments; `{}` stands for a name, `{...}` for all further segments."""
    tree: _Tree = {}
    for path, value in paths.items():
        node = tree
        for segment in path.strip("/").split("/"):
            kind = _REST if segment.endswith("...}") else _ANY if segment.startswith("{") else segment.encode()
            node = node.setdefault(kind, {})
        node[_LEAF] = (path, value)
    return tree


_TREE = _grow({route.path: route.methods for route in ROUTES})
_WITHOUT_NAMES = {route.path.encode(): route for route in ROUTES if "{" not in route.path}


def knows(path: bytes) -> bool:
    """Whether the first segment of the path belongs to one of these routes."""
    return path[1:].split(b"/", 1)[0] in _TREE


async def dispatch(exchange: Exchange) -> None:
    path, methods, names = _find(exchange.path)
    exchange.route = path
    handler = methods.get(exchange.method)
    if handler is None:
        raise MethodNotAllowed(exchange.method, path, tuple(methods))
    if path not in OPEN:
        exchange.check_may_read()
    forwarding = exchange.state.forwarding
    if forwarding is not None and is_for_writer(path, exchange.method) and await forwarding.forward(exchange):
        return
    await handler(exchange, *names)


def is_for_writer(path: str, method: str) -> bool:
    """Whether a server that only reads the store forwards these requests. On the routes of SPARQL the text decides."""
    return path in _OF_WRITER if method == "GET" else path not in _OF_ANY


def allowed(path: bytes) -> list[tuple[bytes, bytes]]:
    """The Allow header of a path; none for an unknown path."""
    try:
        _, methods, _ = _find(path)
    except (NotFound, BadArgument):
        return []
    methods = (*methods, *(("HEAD",) if "GET" in methods else ()), "OPTIONS")
    return [(b"allow", ", ".join(methods).encode())]


def _find(path: bytes) -> tuple[str, Any, list[str]]:
    """The route, and the names in the path."""
    if (route := _WITHOUT_NAMES.get(path)) is not None:
        return route.path, route.methods, []
    node, found = _TREE, []
    segments = path[1:].split(b"/")
    for place, segment in enumerate(segments):
        if not segment and place and place == len(segments) - 1:
            break  # /sparql/ is /sparql
        if segment and segment in node:
            node = node[segment]
        elif _ANY in node and segment:
            node = node[_ANY]
            found.append(segment)
        elif _REST in node:
            return (*node[_REST][_LEAF], [as_text(b"/".join(segments[place:]), "path")])
        else:
            raise nothing_at(path)
    if _LEAF not in node:
        raise nothing_at(path)
    pattern, methods = node[_LEAF]
    kind = next((kind for kind in ("stream", "query", "source") if f"{{{kind}}}" in pattern), "asset")
    return pattern, methods, [path_name(name, kind) for name in found]


def nothing_at(path: bytes) -> NotFound:
    hint = "; /docs lists the routes"
    first, _, rest = path[1:].partition(b"/")
    if first in (b"streams", b"queries"):
        hint = "; an IRI in a path is percent-encoded (http%3A%2F%2Fex%2Fs)"
        known = (word.decode() for word in _TREE[first][_ANY] if word != _LEAF)
        hint = meant(rest.partition(b"/")[2].decode("latin-1"), known) or hint
    return NotFound(f"there is nothing at {path.decode('latin-1')}{hint}")
