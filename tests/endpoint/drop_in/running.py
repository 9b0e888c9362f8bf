"""An ASGI application on a free port of this machine, with uvicorn in a thread: its life begins and ends as users'."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from tests.parts.waiting import PATIENCE_S, until


@contextmanager
def running(app: Any) -> Iterator[httpx.Client]:
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listening],), name="server")
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive(), "the server starts")
            assert server.started, "the server did not start"
            with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=PATIENCE_S) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the server did not stop"
