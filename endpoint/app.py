"""The application: an rdflib-endpoint service whose protocol routes are ours.

It has rdflib-endpoint's service description and settings, but not its query page, which runs a text in the address
without asking. Its two protocol routes evaluate on the event loop, so a front on plain ASGI answers all our paths
before FastAPI sees them; all other paths (/docs, routes that a host adds) are passed on to FastAPI."""

from __future__ import annotations

import ssl
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
from endpoint.forwarding.forwarding import ForwardingToWriter
from endpoint.http import browsers
from endpoint.http.access import ANY, Access
from endpoint.http.answer_cache import AnswerCache
from endpoint.http.app_state import AppState
from endpoint.http.body import Bodies, Disconnected, Receive
from endpoint.http.exchange import Exchange, Message, Send, raw_path
from endpoint.http.read_first import ReadFirst
from endpoint.http.request_log import log_request
from endpoint.http.sealed import Seal
from endpoint.http.workers import Workers
from endpoint.limits import HttpLimits
from endpoint.monitoring.log import current as current_log
from endpoint.monitoring.rate_history import RateHistory
from endpoint.monitoring.settings_in_force import SettingInForce
from endpoint.monitoring.subscribers import Subscribers
from endpoint.query_workers import QueryWorkers, Start
from endpoint.routes import interface
from endpoint.routes import table as routes
from endpoint.routes.protocol import CONSOLE
from hbase_store.version import __version__
from plugin.store import RilletStore

if TYPE_CHECKING:
    from stream_ext.query_memory import QueryMemory
from stream_ext.service.service import Service

_CONSOLE = CONSOLE.encode() + b"/"
#: Not sent, only counted: the client is gone.
_CLIENT_GONE = 499


class RilletRouter(SparqlRouter):  # type: ignore[misc]  # mypy does not follow rdflib-endpoint
    """The stock router, for the service description only; it answers nothing itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path="/sparql", **settings)
        correct(self.service_description)
        self.routes.clear()  # the front answers, before anything is routed

    def serve_yasgui(self) -> Response:
        """The service description, in place of a page that runs a text in the address."""
        return Response(self.service_description.serialize(format="turtle"), media_type="text/turtle")


class Front:
    """Plain ASGI: one request, one answer; every error is sent to the client."""

    def __init__(self, state: AppState) -> None:
        self.state = state

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        exchange, began = Exchange(scope, receive, send, self.state), time.perf_counter()
        failure: Exception | None = None
        try:
            exchange.check_host()
            if exchange.method == "OPTIONS":
                preflight = self.state.access.for_preflight(exchange.headers.get("origin"))
                await exchange.answer(204, headers=[*preflight, *routes.allowed(exchange.path)])
            else:
                await routes.dispatch(exchange)
        except Disconnected:
            exchange.status = exchange.status or _CLIENT_GONE
        except Exception as error:  # noqa: BLE001 -- every error is sent to the client, and our bugs are logged
            failure = error
            await exchange.answer_error(error)
        finally:
            self.state.bodies.release(exchange)
            took_s = time.perf_counter() - began
            self.state.requests.count(exchange.route, scope["method"], exchange.status, took_s)
            log_request(scope, exchange, took_s, failure)


async def _to_query_page(request: Request) -> Response:
    return RedirectResponse(interface.root(request) + "/sparql", status_code=307)


class RilletEndpoint(SparqlEndpoint):  # type: ignore[misc]  # mypy does not follow rdflib-endpoint
    def __init__(self, front: Front, router: RilletRouter) -> None:
        # Not SparqlEndpoint.__init__: it would create a stock router, which reads the whole store to describe it.
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
    def app_state(self) -> AppState:
        return self.front.state

    async def _nothing_there(self, request: Request, error: Exception) -> Response:
        """The usual 404, for paths that FastAPI does not know."""
        problem = describe_error(routes.nothing_at(raw_path(request.scope)))
        body, media_type = render(problem, request.headers.get("accept", ""))
        headers = {"content-type": media_type.decode(), "rillet-snapshot": str(self.app_state.head())}
        return Response(body, problem.status, headers)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        elif routes.knows(raw_path(scope)):
            await self.front(scope, receive, send)
        else:
            await self._leave(scope, receive, send)

    async def _leave(self, scope: Message, receive: Receive, send: Send) -> None:
        """Passes the request on to FastAPI, with the console in it, if it may be answered."""
        exchange, began = Exchange(scope, receive, send, self.app_state), time.perf_counter()
        is_console = exchange.path.startswith(_CONSOLE) or exchange.path == CONSOLE.encode()
        try:
            exchange.check_host()
            if exchange.path != b"/" and not is_console:  # / only redirects; the console has a sign-in page
                exchange.check_may_read()
        except (Forbidden, Unauthorized) as error:
            await exchange.answer_error(error)
            log_request(scope, exchange, time.perf_counter() - began, error)
            return
        for_origin = () if is_console else self.app_state.access.for_origin(exchange.headers.get("origin"))
        await super().__call__(scope, receive, _shown(send, for_origin))


def _shown(send: Send, for_origin: Sequence[tuple[bytes, bytes]]) -> Send:
    """`send` with the security headers for browsers, if the application has not set them."""

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
    forwards: bool = False,
    verify: ssl.SSLContext | bool = True,
    settings: Sequence[SettingInForce] = (),
) -> RilletEndpoint:
    """The ASGI application over a running service. It does not close the service.

    `access` defines who may read and write, the host names, and the origins whose pages are answered. Without it any
    host name is answered, which suits an application that embeds this one; and with `cors_enabled` pages of any origin
    may read, and write with the bearer token.

    `forwards`: while another server writes to the store, requests that this one cannot answer go there; `verify` is how
    its certificate is checked. `settings` are shown by the console.

    The query workers run from `app_state.start()` to `app_state.close()`."""
    limits = limits or HttpLimits()
    memory = limits.query_memory()
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
    rates, subscribers = RateHistory(service), Subscribers()
    shown = create_console(service, access, limits, memory, rates, subscribers, settings) if console else None
    seal = Seal(service.store.secret()) if forwards else None
    state = AppState(
        service,
        service.base,
        access,
        limits,
        memory,
        Workers(limits),
        Description(router, service.base, service.streams),
        AnswerCache(limits.remembered_bytes),
        QueryWorkers(_start_of(service, limits, memory), query_workers, memory=memory),
        Bodies(limits.bodies_bytes),
        rates,
        subscribers,
        None,
        shown.is_reader if shown else lambda _: False,
        seal,
        None if seal is None else ForwardingToWriter(service, seal, verify),
    )
    app = RilletEndpoint(Front(state), router)
    if shown is not None:
        state.console = ReadFirst(shown, state)
        app.mount(CONSOLE, state.console)
    return app


def _start_of(service: Service, limits: HttpLimits, memory: QueryMemory) -> Start:
    """What a query worker begins with."""
    return Start(
        service.store.url,
        service.base,
        limits.query_bytes,
        memory.bytes_max,
        limits.term_bytes,
        limits.rows,
        limits.readers,
        service.allowed_urls,
        service.store.cache_bytes,
        current_log(),
    )
