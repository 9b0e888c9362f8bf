"""A real server for tests: uvicorn in a thread, on a free port, over a real store."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from endpoint.app import create_app
from endpoint.limits import HttpLimits
from endpoint.serve import Server, ServeSettings, listen
from stream_ext.clock import SystemClock
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.source import Source
from stream_ext.service.opened import Limits
from stream_ext.service.service import Service
from tests.parts.waiting import PATIENCE_S

BASE = "http://ex.org/"
SPARQL_QUERY = {"content-type": "application/sparql-query"}
NT = {"content-type": "application/n-triples"}
TAXI_IN_ZONE = "<http://ex/t1> <http://ex/in> <http://ex/z1> ."
NEAR = """PREFIX ex: <http://ex/>
REGISTER RSTREAM near AS
SELECT ?taxi ?zone ?city
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 1s STEP 100ms]
WHERE { WINDOW ex:w { ?taxi ex:in ?zone } ?zone ex:partOf ?city }"""


class Live:
    """A running server: its service, its URL, a client."""

    def __init__(self, service: Service, server: Server, url: str, verify: ssl.SSLContext | bool = True) -> None:
        self.service, self.server, self.url = service, server, url
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S, verify=verify)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        self.server.should_exit = True

    def update(self, text: str) -> None:
        self.http.post("/update", data={"update": text}).raise_for_status()

    def register(self, text: str = NEAR) -> httpx.Response:
        return self.http.post("/queries", content=text, headers=SPARQL_QUERY)

    def push(self, time: int, data: str = TAXI_IN_ZONE, **more: str) -> httpx.Response:
        parameters = {"timestamp": str(time), "wait": "evaluated", **more}
        return self.http.post("/streams/taxis", params=parameters, content=data, headers=NT)


@contextmanager
def live(
    folder: Path | str,
    *,
    token: str | None = None,
    limits: HttpLimits | None = None,
    port: int = 0,
    query_workers: int = 0,
    allowed_urls: AllowedUrls = NOTHING,
    console: bool = True,
    trusting: ssl.SSLContext | bool = True,
    sources: Sequence[Source] = (),
    evaluated_s: float = 30.0,
    **rules: Any,
) -> Iterator[Live]:
    """`folder`: of a store on LMDB, or the address of any store. `rules`: settings of `rillet serve` on who may come
    in; `trusting`: the certificates that the client takes; `evaluated_s`: how long wait=evaluated waits."""
    settings = ServeSettings(folder if isinstance(folder, str) else f"lmdb:{folder}", token=token, **rules)
    tls = settings.tls()
    with (
        Service.open(
            settings.store,
            base=BASE,
            clock=SystemClock(),
            engine="inline",
            limits=Limits(push_readers=settings.push_readers or 0, evaluated_s=evaluated_s),
            allowed_urls=allowed_urls,
            sources=sources,
            updates=settings.updates,
        ) as service,
        listen("127.0.0.1", port) as listening,
    ):
        ready = threading.Event()
        access = settings.access(service.base)
        app = create_app(service, access=access, limits=limits, query_workers=query_workers, console=console)
        server = Server(app, ready.set, tls)
        thread = threading.Thread(target=server.run_until_stopped, args=(listening,), name="server")
        thread.start()
        assert ready.wait(PATIENCE_S), "the server did not start"
        url = f"{'https' if tls else 'http'}://127.0.0.1:{listening.getsockname()[1]}"
        running = Live(service, server, url, trusting)
        try:
            with running.http:
                yield running
        finally:
            running.stop()
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the server did not stop"
