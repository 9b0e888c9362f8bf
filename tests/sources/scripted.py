"""A SPARQL endpoint of others whose every answer a test may spoil: an Oxigraph behind HTTP, and a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pyoxigraph as ox

JSON, N_TRIPLES = "application/sparql-results+json", ox.RdfFormat.N_TRIPLES.media_type


class Scripted:
    """`spoil(request, text)` may answer in place of the endpoint, and then returns True."""

    def __init__(self) -> None:
        self.store = ox.Store()
        self.texts: list[str] = []
        self.updates: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.spoil: Callable[[Any, str], bool] = lambda request, text: False
        self.rows_max = 1 << 60
        self.url = ""
        self.default_is_union = False
        self.form = ox.RdfFormat.N_TRIPLES  # of graphs

    def add(self, quads: str) -> None:
        self.store.load(quads.encode(), ox.RdfFormat.N_QUADS)

    def answer(self, text: str) -> tuple[str, bytes]:
        found: Any = self.store.query(text, use_default_graph_as_union=self.default_is_union)
        if isinstance(found, ox.QueryTriples):
            triples = [triple for _, triple in zip(range(self.rows_max), found, strict=False)]
            return self.form.media_type, bytes(ox.serialize(triples, format=self.form) or b"")
        return JSON, bytes(found.serialize(format=ox.QueryResultsFormat.JSON))

    def constructs(self) -> list[str]:
        return [text for text in self.texts if text.startswith("CONSTRUCT")]


@contextmanager
def scripted() -> Iterator[Scripted]:
    source = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or each answer waits 40 ms for the acknowledgement of its head

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = parse_qs(body)
            text = form.get("query", form.get("update", [""]))[0]
            (source.texts if "query" in form else source.updates).append(text)
            source.headers.append({name.lower(): value for name, value in self.headers.items()})
            if source.spoil(self, text):
                return
            if "update" in form:
                source.store.update(text)
                self.respond(200, "text/plain", b"")
                return
            media_type, data = source.answer(text)
            self.respond(200, media_type, data)

        def do_GET(self) -> None:
            source.spoil(self, self.path)

        def respond(self, status: int, form: str, data: bytes, **headers: str) -> None:
            self.send_response(status)
            self.send_header("content-type", form)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def respond_and_break_off(self, form: str, data: bytes, announced: int | None) -> None:
            """Without a length, nobody can see that it is not all."""
            self.send_response(200)
            self.send_header("content-type", form)
            self.send_header("rillet-snapshot", "1")
            self.send_header(*(("connection", "close") if announced is None else ("content-length", str(announced))))
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    source.url = f"http://127.0.0.1:{server.server_address[1]}/sparql"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="scripted-source")
    thread.start()
    try:
        yield source
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
