"""Remote endpoints for the tests of SERVICE: a server on loopback, where each endpoint is a path with data of its own.

A test names endpoints that are nowhere (http://example.org/sparql). `here` writes the address of their stand-in into
a text, `there` writes it back. What the test knows no data for answers 404, as an endpoint that is not there."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyoxigraph

NOWHERE = "http://invalid.endpoint.org/sparql"


class Remote(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, services: Sequence[tuple[str, Path]]) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.address = address = f"http://127.0.0.1:{self.server_port}"
        self.stores = {f"/{number}": loaded(path) for number, (_, path) in enumerate(services)}
        self._places = {name: f"{address}/{number}" for number, (name, _) in enumerate(services)}
        self._places[NOWHERE] = f"{address}/nowhere"

    def here(self, text: str) -> str:
        for name, place in self._places.items():
            text = text.replace(name, place)
        return text

    def there(self, term: bytes | None) -> bytes | None:
        for name, place in self._places.items():
            term = None if term is None else term.replace(place.encode() + b">", name.encode() + b">")
        return term


def loaded(path: Path) -> pyoxigraph.Store:
    store = pyoxigraph.Store()
    store.load(path=str(path), format=pyoxigraph.RdfFormat.TURTLE, base_iri=path.as_uri())
    return store


class _Answering(BaseHTTPRequestHandler):
    """The query operation of the SPARQL protocol, in each of its three spellings."""

    server: Remote

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.headers["content-type"].startswith("application/sparql-query"):
            self._send(body)
        else:
            self._answer(body)

    def _answer(self, form: str) -> None:
        self._send(parse_qs(form)["query"][0])

    def _send(self, query: str) -> None:
        store = self.server.stores.get(urlsplit(self.path).path)
        if store is None:
            self.send_error(404)
            return
        body = store.query(query).serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        self.send_response(200)
        self.send_header("content-type", "application/sparql-results+json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def remote(services: Sequence[tuple[str, Path]]) -> Iterator[Remote]:
    with Remote(services) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
