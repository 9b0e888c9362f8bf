"""Another server, on loopback: what it answers is set path by path, and what it was asked is remembered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.parts.waiting import PATIENCE_S


@dataclass
class Reply:
    """`wait` is waited for before the second half of the body is sent."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    wait: threading.Event | None = None


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answering = Callable[[Asked], Reply]


class FakeServer:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.replies: dict[str, Reply | Answering] = {}
        self.asked: list[Asked] = []

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        found = self.replies.get(asked.path.partition("?")[0], Reply(404))
        return found if isinstance(found, Reply) else found(asked)


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            asked = Asked(
                self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, self.rfile.read(length)
            )
            reply = there.reply(asked)
            self.send_response(reply.status)
            for name, value in {"content-length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            half = len(reply.body) // 2 if reply.wait else len(reply.body)
            self.wfile.write(reply.body[:half])
            if reply.wait:
                reply.wait.wait(PATIENCE_S)
                self.wfile.write(reply.body[half:])

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there = FakeServer(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
