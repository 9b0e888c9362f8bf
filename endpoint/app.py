"""The application: an rdflib-endpoint service whose protocol routes are ours.

It keeps rdflib-endpoint's service description, query page and settings. Its two protocol routes evaluate inside
the event loop, so a front on plain ASGI takes every path of ours before FastAPI sees it; whatever is left
(/docs, routes that a host adds) goes on to FastAPI."""

from __future__ import annotations

import http
import logging
import time
from typing import TYPE_CHECKING, Any, cast

from a2wsgi import WSGIMiddleware
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from rdflib import Dataset
from rdflib_endpoint import SparqlEndpoint, SparqlRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from endpoint import assets, routes
from endpoint.access import Access
from endpoint.body import Bodies, Disconnected, Receive
from endpoint.console import create_console
from endpoint.console.examples import QUERIES
from endpoint.desk import Desk
from endpoint.errors import describe as describe_error
from endpoint.errors import render
from endpoint.exchange import Exchange, Message, Send, raw_path
from endpoint.limits import HttpLimits
from endpoint.log import current as current_log
from endpoint.openapi import document
from endpoint.pages import ICON, ICON_PATH, Pages, correct, describe
from endpoint.query_workers import QueryWorkers, Start
from endpoint.remembered import Remembered
from endpoint.workers import Workers
from hbase_store.version import __version__
from plugin.store import RilletStore
from stream_ext.errors import RilletError

if TYPE_CHECKING:
    from stream_ext.service import Service

_TITLE = "Rillet"
_DESCRIPTION = "A streaming RDF store: SPARQL 1.1 over HTTP, continuous queries, one snapshot for both."
log = logging.getLogger("rillet.http")

#: Refusals that an operator wants to see.
_NOTEWORTHY = frozenset({http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN})
#: Not sent, only counted: nobody is there to read it.
_CLIENT_GONE = 499
#: A page of so many pieces leaves its thread at once, however slowly it is read.
_PAGE_PIECES = 256
_QUICK_THREADS = 4
_WITHOUT_STORE = (b"", b"/", b"/sign-in", b"/sign-out")
_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"Accept, Authorization, Content-Type, Content-Encoding, Last-Event-ID"),
    (b"access-control-max-age", b"600"),
]


class RilletRouter(SparqlRouter):  # type: ignore[misc]  # mypy is told not to follow rdflib-endpoint
    """The stock router for what it describes and shows; it answers nothing itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path="/sparql", **settings)
        correct(self.service_description)
        self.routes.clear()  # the front answers, before anything is routed


class Front:
    """Plain ASGI: one request in, one answer out, every error told."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        exchange, began = Exchange(scope, receive, send, self.desk), time.perf_counter()
        failure: Exception | None = None
        try:
            if exchange.method == "OPTIONS":
                await exchange.answer(204, headers=[*_PREFLIGHT, *routes.allowed(exchange.path)])
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


def log_request(scope: Message, exchange: Exchange, took_s: float, failure: Exception | None) -> None:
    """What failed, and why. Never the query string: it has the text of a query, and whatever else was put there."""
    status = exchange.status
    cut_off = failure is not None and status < http.HTTPStatus.BAD_REQUEST
    if cut_off or status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        level = logging.WARNING
    else:
        level = logging.INFO if status in _NOTEWORTHY else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    fields = {
        "method": scope["method"],
        "path": exchange.path.decode("latin-1"),
        "status": status,
        "ms": round(took_s * 1000, 1),
        "client": (scope.get("client") or ("unknown",))[0],
    }
    if failure is not None:
        fields |= {"error": type(failure).__name__, "cause": str(failure)}
    trace = failure if log.isEnabledFor(logging.DEBUG) else None
    message = "an answer was cut off" if cut_off else "a request failed" if failure else "a request was answered"
    log.log(level, message, exc_info=trace, extra={"fields": fields})


class ReadFirst:
    """Before the console, which answers in threads: a body that comes slowly takes none of them, and pages that need no
    store have some of their own."""

    def __init__(self, console: Any, desk: Desk) -> None:
        self._pages = WSGIMiddleware(console, send_queue_size=_PAGE_PIECES)
        self._without_store = WSGIMiddleware(console, _QUICK_THREADS, _PAGE_PIECES)
        self._desk = desk

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await cast("Any", self._pages)(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self._desk)
        try:
            if (body := await self._body(exchange)) is not None:
                quick = exchange.path in _WITHOUT_STORE or exchange.path.startswith(b"/static/")
                app: Any = self._without_store if quick else self._pages
                await app(scope, _given(body, receive), send)
        finally:
            self._desk.bodies.release(exchange)

    async def _body(self, exchange: Exchange) -> bytes | None:
        """None: there is nobody to answer, or it was refused."""
        if int(exchange.headers.get("content-length") or 0) > self._desk.limits.body_bytes:
            return b""  # the application reads the declared length, and says so on a page
        try:
            return await exchange.sent_body()
        except Disconnected:
            return None
        except RilletError as error:
            await exchange.answer_error(error)
            return None


def _given(body: bytes, receive: Receive) -> Receive:
    pieces = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def give() -> Message:
        return next(pieces, None) or await receive()

    return give


async def _to_query_page(_: Request) -> Response:
    return RedirectResponse("/sparql", status_code=307)


async def _openapi(request: Request) -> Response:
    return JSONResponse(document(_TITLE, _DESCRIPTION, __version__, _root(request)))


async def _docs(request: Request) -> Response:
    at = _root(request) + "/" + assets.PATH
    return get_swagger_ui_html(
        openapi_url=_root(request) + "/openapi.json",
        title=_TITLE,
        swagger_js_url=at + "swagger-ui-bundle.js",
        swagger_css_url=at + "swagger-ui.css",
        swagger_favicon_url=_root(request) + ICON_PATH,
        swagger_ui_parameters={"validatorUrl": None},
    )


def _root(request: Request) -> str:
    """Where this application is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/")


class RilletEndpoint(SparqlEndpoint):  # type: ignore[misc]  # mypy is told not to follow rdflib-endpoint
    def __init__(self, front: Front, router: RilletRouter) -> None:
        # Not SparqlEndpoint's own: it would make a stock router, which reads the whole store to describe it.
        # And no pages of FastAPI's: it knows none of our routes, and its pages load from the network.
        FastAPI.__init__(self, title=_TITLE, description=_DESCRIPTION, version=__version__, openapi_url=None)
        self.include_router(router)
        for path, page in (("/", _to_query_page), ("/openapi.json", _openapi), ("/docs", _docs)):
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
        if scope["type"] == "http" and routes.knows(raw_path(scope)):
            await self.front(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(
    service: Service, *, token: str | None = None, limits: HttpLimits | None = None, query_workers: int = 0
) -> RilletEndpoint:
    """The ASGI application over a running service. It does not close the service.

    Its query workers are there from `desk.start()` on, until `desk.close()`."""
    limits = limits or HttpLimits()
    start = Start(
        service.store.url,
        service.base,
        limits.query_bytes,
        limits.rows,
        limits.readers,
        service.outside,
        current_log(),
    )
    url = service.base + "sparql"
    router = RilletRouter(
        title=_TITLE,
        description=_DESCRIPTION,
        version=__version__,
        graph=Dataset(store=RilletStore(service)),
        service_description=describe(url),
        enable_update=True,
        public_url=url,
        example_queries={name: {"query": text, "endpoint": url} for name, text in QUERIES.items()},
        favicon=ICON,
    )
    access, remembered = Access(token, service.base), Remembered(limits.remembered_bytes)
    desk = Desk(
        service,
        service.base,
        access,
        limits,
        Workers(limits),
        Pages(router, service.base, service.streams),
        remembered,
        QueryWorkers(start, query_workers),
        Bodies(limits.bodies_bytes),
    )
    app = RilletEndpoint(Front(desk), router)
    console = create_console(service, access, limits)
    app.mount("/console", ReadFirst(console, desk))
    return app
