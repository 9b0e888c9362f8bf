"""The application: an rdflib-endpoint service whose protocol routes are ours.

It keeps rdflib-endpoint's service description and settings, and not its query page, which runs whatever an address
says. Its two protocol routes evaluate inside the event loop, so a front on plain ASGI takes every path of ours before
FastAPI sees it; whatever is left (/docs, routes that a host adds) goes on to FastAPI."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from rdflib import Dataset
from rdflib_endpoint import SparqlEndpoint, SparqlRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from endpoint.console import create_console
from endpoint.errors import Forbidden, Unauthorized, render
from endpoint.errors import describe as describe_error
from endpoint.formats.description import Description, correct, describe
from endpoint.http import browsers
from endpoint.http.access import ANY, Access
from endpoint.http.answer_cache import Remembered
from endpoint.http.app_state import Desk
from endpoint.http.body import Bodies, Disconnected, Receive
from endpoint.http.exchange import Exchange, Message, Send, raw_path
from endpoint.http.read_first import ReadFirst
from endpoint.http.request_log import log_request
from endpoint.http.workers import Workers
from endpoint.limits import HttpLimits
from endpoint.monitoring.log import current as current_log
from endpoint.query_workers import QueryWorkers, Start
from endpoint.routes import interface
from endpoint.routes import table as routes
from endpoint.routes.protocol import CONSOLE
from hbase_store.version import __version__
from plugin.store import RilletStore

if TYPE_CHECKING:
    from stream_ext.service.service import Service

_CONSOLE = CONSOLE.encode() + b"/"
#: Not sent, only counted: nobody is there to read it.
_CLIENT_GONE = 499


class RilletRouter(SparqlRouter):  # type: ignore[misc]  # mypy is told not to follow rdflib-endpoint
    """The stock router for what it describes; it answers nothing itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path="/sparql", **settings)
        correct(self.service_description)
        self.routes.clear()  # the front answers, before anything is routed

    def serve_yasgui(self) -> Response:
        """In place of a page that runs what an address says."""
        return Response(self.service_description.serialize(format="turtle"), media_type="text/turtle")


class Front:
    """Plain ASGI: one request in, one answer out, every error told."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        exchange, began = Exchange(scope, receive, send, self.desk), time.perf_counter()
        failure: Exception | None = None
        try:
            self.desk.access.check_host(exchange.headers.get("host"))
            if exchange.method == "OPTIONS":
                preflight = self.desk.access.for_preflight(exchange.headers.get("origin"))
                await exchange.answer(204, headers=[*preflight, *routes.allowed(exchange.path)])
            else:
                await routes.dispatch(exchange)
        except Disconnected:
            exchange.status = exchange.status or _CLIENT_GONE
        except Exception as error:  # noqa: BLE001 -- every error is told to the client, and ours to the log
            failure = error
            await exchange.answer_error(error)
        finally:
            self.desk.bodies.release(exchange)
            took_s = time.perf_counter() - began
            self.desk.requests.count(exchange.route, scope["method"], exchange.status, took_s)
            log_request(scope, exchange, took_s, failure)


async def _to_query_page(request: Request) -> Response:
    return RedirectResponse(interface.root(request) + "/sparql", status_code=307)


class RilletEndpoint(SparqlEndpoint):  # type: ignore[misc]  # mypy is told not to follow rdflib-endpoint
    def __init__(self, front: Front, router: RilletRouter) -> None:
        # Not SparqlEndpoint's own: it would make a stock router, which reads the whole store to describe it.
        # And no pages of FastAPI's: it knows none of our routes, and its pages load from the network.
        FastAPI.__init__(
            self, title=interface.TITLE, description=interface.DESCRIPTION, version=__version__, openapi_url=None
        )
        self.include_router(router)
        for path, page in (("/", _to_query_page), ("/openapi.json", interface.openapi), ("/docs", interface.docs)):
            self.add_route(path, page, include_in_schema=False)
        self.add_exception_handler(404, self._nothing_there)
        self.front = front

    @property
    def desk(self) -> Desk:
        return self.front.desk

    async def _nothing_there(self, request: Request, error: Exception) -> Response:
        """The same 404 as everywhere, where FastAPI found nothing."""
        problem = describe_error(routes.nothing_at(raw_path(request.scope)))
        body, media_type = render(problem, request.headers.get("accept", ""))
        headers = {"content-type": media_type.decode(), "rillet-snapshot": str(self.desk.head())}
        return Response(body, problem.status, headers)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        elif routes.knows(raw_path(scope)):
            await self.front(scope, receive, send)
        else:
            await self._leave(scope, receive, send)

    async def _leave(self, scope: Message, receive: Receive, send: Send) -> None:
        """To FastAPI, and the console within it, what may come in."""
        exchange, began = Exchange(scope, receive, send, self.desk), time.perf_counter()
        is_console = exchange.path.startswith(_CONSOLE) or exchange.path == CONSOLE.encode()
        try:
            self.desk.access.check_host(exchange.headers.get("host"))
            if exchange.path != b"/" and not is_console:  # the one only leads on; the other has a sign-in page
                exchange.check_may_read()
        except (Forbidden, Unauthorized) as error:
            await exchange.answer_error(error)
            log_request(scope, exchange, time.perf_counter() - began, error)
            return
        for_origin = () if is_console else self.desk.access.for_origin(exchange.headers.get("origin"))
        await super().__call__(scope, receive, _shown(send, for_origin))


def _shown(send: Send, for_origin: Sequence[tuple[bytes, bytes]]) -> Send:
    """With what every answer says to a browser, where who answers says nothing of it."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = dict(message["headers"])
            more = [each for each in browsers.of_data(there.get(b"content-type")) if each[0] not in there]
            message = {**message, "headers": [*message["headers"], *for_origin, *more]}
        await send(message)

    return sent


def create_app(
    service: Service,
    *,
    token: str | None = None,
    limits: HttpLimits | None = None,
    query_workers: int = 0,
    console: bool = True,
    access: Access | None = None,
    cors_enabled: bool = False,
) -> RilletEndpoint:
    """The ASGI application over a running service. It does not close the service.

    `access` says more than a token: who may read, by which names it is reached, pages of which origins are let in.
    Without it any name will do, which is for the host of this application to decide, and `cors_enabled` lets the pages
    of any origin read, and write with the bearer token.

    Its query workers are there from `desk.start()` on, until `desk.close()`."""
    limits = limits or HttpLimits()
    memory = limits.query_memory()
    start = Start(
        service.store.url,
        service.base,
        limits.query_bytes,
        memory.bytes_max,
        limits.term_bytes,
        limits.rows,
        limits.readers,
        service.allowed_urls,
        current_log(),
    )
    url = service.base + "sparql"
    router = RilletRouter(
        title=interface.TITLE,
        description=interface.DESCRIPTION,
        version=__version__,
        graph=Dataset(store=RilletStore(service)),
        service_description=describe(url),
        enable_update=True,
        public_url=url,
    )
    assert access is None or (token is None and not cors_enabled), "`access` says these, too"
    access = access or Access(token, service.base, cors=(ANY,) if cors_enabled else ())
    shown = create_console(service, access, limits, memory) if console else None
    desk = Desk(
        service,
        service.base,
        access,
        limits,
        memory,
        Workers(limits),
        Description(router, service.base, service.streams),
        Remembered(limits.remembered_bytes),
        QueryWorkers(start, query_workers, memory=memory),
        Bodies(limits.bodies_bytes),
        None,
        shown.is_reader if shown else lambda _: False,
    )
    app = RilletEndpoint(Front(desk), router)
    if shown is not None:
        desk.console = ReadFirst(shown, desk)
        app.mount(CONSOLE, desk.console)
    return app
