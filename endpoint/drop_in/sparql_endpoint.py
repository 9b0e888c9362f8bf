"""`SparqlEndpoint`: the class of rdflib-endpoint, with the same arguments, plus streams.

    from endpoint import SparqlEndpoint

    app = SparqlEndpoint(graph=dataset, path="/", enable_update=True)

On `path` clients meet what they met before: XML unless they ask otherwise, 403 for an update that is not allowed, a
description for a request without a text, functions in Python. All other paths that the application has no route for
are ours: /streams, /queries, /sparql, /console. Nothing of the graph is read at start."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from rdflib import Dataset, Graph
from rdflib.query import Processor
from rdflib_endpoint import SparqlEndpoint as StockEndpoint
from rdflib_endpoint.utils import API_RESPONSES, Defaults, QueryExample

from endpoint import negotiation
from endpoint.app import RilletEndpoint, create_app
from endpoint.drop_in import requests
from endpoint.drop_in.access import EndpointAccess
from endpoint.drop_in.description import About, describe
from endpoint.drop_in.formats import GRAPHS, SOLUTIONS, written
from endpoint.drop_in.requests import PathRequest
from endpoint.errors import Unauthorized, headers_of, status_of
from endpoint.formats.description import OFFERS
from endpoint.http.body import Receive
from endpoint.http.exchange import Message, Send, caller_of, headers_in
from endpoint.http.workers import Workers
from endpoint.limits import HttpLimits
from endpoint.negotiation import Offer
from endpoint.routes.protocol import CONSOLE
from plugin.attached.attached import Attached
from plugin.attached.quads import QuadReader
from plugin.attached.view import From
from stream_ext.errors import RilletError
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls

log = logging.getLogger("rillet.endpoint")

_BAD_REQUEST, _FORBIDDEN = 400, 403
_WRITTEN = tuple(Offer(media_type, format) for media_type, format in {**GRAPHS, **SOLUTIONS}.items())


class SparqlEndpoint(StockEndpoint):  # type: ignore[misc]  # mypy does not follow rdflib-endpoint
    def __init__(
        self,
        *args: Any,
        path: str = "/",
        title: str = Defaults.title,
        description: str = Defaults.description,
        version: str = Defaults.version,
        graph: Graph | None = None,
        service_description: Graph | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        processor: str | Processor = "sparql",
        custom_eval: Callable[..., Any] | None = None,
        enable_update: bool = False,
        cors_enabled: bool = False,
        public_url: str = Defaults.public_url,
        favicon: str = Defaults.favicon,
        example_queries: dict[str, QueryExample] | None = None,
        example_query: str | None = None,
        store: str | None = None,
        limits: HttpLimits | None = None,
        allowed_urls: AllowedUrls = NOTHING,
        **kwargs: Any,
    ) -> None:
        """The arguments up to `example_query` are those of rdflib-endpoint; `favicon` and the examples belong to its
        query page, in whose place there is the console.

        `store`: the address of our own store (`lmdb:PATH`), which keeps streams and registered queries; without it
        they end with this process. `limits`: of requests. `allowed_urls`: what SERVICE and LOAD may fetch."""
        # Not the stock constructor: it would make a router that reads the whole graph to describe it.
        FastAPI.__init__(
            self,
            *args,
            title=title,
            description=description,
            version=version,
            **{"openapi_url": None, **kwargs},
        )
        dataset = Dataset(default_union=True) if graph is None else graph
        self.attached = Attached(
            dataset,
            store=store,
            base=public_url,
            functions=functions,
            custom_eval=custom_eval,
            allowed_urls=allowed_urls,
        )
        self._path, self._processor, self._limits = path, processor, limits or HttpLimits()
        self._access = EndpointAccess(public_url, enable_update, cors_enabled)
        self._about = About(
            title, description, public_url, enable_update, QuadReader(dataset).is_union, service_description
        )
        self._workers = Workers(self._limits)
        self._ours: RilletEndpoint | None = None
        self._opening = threading.Lock()
        slashed = path.rstrip("/") if path.endswith("/") else path + "/"
        for each in dict.fromkeys((path, slashed or path)):
            self.add_api_route(
                each,
                self._answer,
                methods=["GET", "POST"],
                name="SPARQL endpoint",
                responses=API_RESPONSES,
                include_in_schema=each == path,
            )
        self.router.default = self._other_path
        if cors_enabled:  # without credentials: a page of others must not use what a browser remembers
            self.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])

    @property
    def graph(self) -> Graph:
        return self.attached.graph

    # ---- on the path: as rdflib-endpoint

    async def _answer(self, request: Request) -> Response:
        began = time.perf_counter()
        try:
            parsed = await requests.read(request, self._limits)
            response = await self._answer_to(request, parsed)
        except RilletError as error:
            status = _FORBIDDEN if isinstance(error, Unauthorized) else status_of(error)
            headers = {name.decode(): value.decode() for name, value in headers_of(error, status, unread=False)}
            response = JSONResponse({"message": str(error)}, status, headers)
        response.headers["Server-Timing"] = f"total;dur={(time.perf_counter() - began) * 1000:.1f}"
        return response

    async def _answer_to(self, request: Request, parsed: PathRequest) -> Response:
        accept = request.headers.get("accept", "")
        if parsed.update is not None:
            self._access.check_write(caller_of(request.scope, headers_in(request.scope)))
            return await self._workers.writers.run(self._update, parsed.update)
        if request.method == "GET" and negotiation.prefers_html(accept, _WRITTEN):
            return self._to_query_page(request)
        if parsed.query is None:
            return await self._workers.readers.run(self._description, accept)
        return await self._workers.readers.run(self._query, parsed, accept)

    def _to_query_page(self, request: Request) -> Response:
        """The console fills in the text of the address, and waits for a click."""
        query = f"?{request.url.query}" if request.url.query else ""
        location = f"{request.scope.get('root_path', '')}{CONSOLE}/query{query}"
        return Response(status_code=303, headers={"location": location})

    def _query(self, parsed: PathRequest, accept: str) -> Response:
        assert parsed.query is not None
        try:
            control = self._limits.control(self._limits.query_s)
            result = self.attached.query(
                parsed.query,
                clauses=From.of(parsed.default_graphs, parsed.named_graphs),
                processor=self._processor,
                control=control,
                rows_max=self._limits.rows,
            )
            body, media_type = written(result, accept)
        except RilletError:
            raise
        except Exception as error:  # noqa: BLE001 -- rdflib's evaluator, and functions of others, raise anything
            return _failed("query", error)
        return Response(body, media_type=media_type)

    def _update(self, text: str) -> Response:
        try:
            self.attached.update(text)
        except RilletError:
            raise
        except Exception as error:  # noqa: BLE001 -- as for a query
            return _failed("update", error)
        return Response(status_code=204)

    def _description(self, accept: str) -> Response:
        found = describe(self._about, self.attached.functions.iris, self.attached.view().named_graphs())
        media_type = negotiation.choose(f"{accept or '*/*'}, */*;q=0.01", (Offer("application/xml", "xml"), *OFFERS))
        return Response(found.serialize(format=media_type.format, encoding="utf-8"), media_type=media_type.media_type)

    # ---- elsewhere: as our own application

    async def _other_path(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.router.not_found(scope, receive, send)
            return
        ours: RilletEndpoint = await self._workers.writers.run(self._open) if self._ours is None else self._ours
        await ours(scope, receive, send)

    def _open(self) -> RilletEndpoint:
        with self._opening:
            if self._ours is None:
                self._ours = create_app(self.attached.service, limits=self._limits, access=self._access)
            return self._ours

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await super().__call__(scope, receive, send)
            return

        async def ending(message: Message) -> None:
            if message["type"] == "lifespan.shutdown.complete":
                self.close()
            await send(message)

        await super().__call__(scope, receive, ending)

    def close(self) -> None:
        """Ends streams and registered queries; a server that runs the application does it when it stops."""
        if self._ours is not None:
            self._ours.app_state.close()
            self._ours = None
        self._workers.close()
        self.attached.close()


def _failed(what: str, error: Exception) -> Response:
    log.warning("a %s on the path of a SparqlEndpoint failed", what, exc_info=error)
    message = f"Error executing the SPARQL {what} on the RDFLib Graph: {error}"
    return JSONResponse({"message": message}, _BAD_REQUEST)
