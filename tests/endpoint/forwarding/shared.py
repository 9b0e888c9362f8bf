"""Several real servers over one store, in one process: each has a lease of its own, as if it were in one of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from endpoint.app import create_app
from endpoint.http.access import Access
from endpoint.serve import Server, ServeSettings, listen
from hbase_store import Store
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.errors import AnotherWriter
from stream_ext.clock import SystemClock
from stream_ext.remote.allowed_urls import NOTHING
from stream_ext.service.service import Limits, Service
from stream_ext.upkeep.retention import Retain
from stream_ext.writer.write_queue import PublishingPace
from tests.endpoint.live import BASE, Live
from tests.hbase_store.faulty import Leased
from tests.parts.waiting import PATIENCE_S


class SharedStore:
    """A store that several servers of this process open."""

    def __init__(self, folder: Path) -> None:
        self.kv = Leased(LmdbKeyValue(folder / "store"))

    def store(self) -> Store:
        return Store(self.kv, "shared", SystemClock(), folding=False)

    def service(self, address: str) -> Service:
        """The writer, or a reader if there is a writer already."""
        store, reads = self.store(), None
        try:
            store.take_lease(address)
            store.emissions.take_over()
        except AnotherWriter as error:
            reads = error
        pace = PublishingPace(0, 0)
        return Service(
            store, BASE, SystemClock(), pace, Limits(), None, Retain(), NOTHING, reads=reads, forwards=True
        )  # fmt: skip

    @contextmanager
    def serving(
        self, token: str | None = None, settings: ServeSettings | None = None, trusting: Any = True, **named: Any
    ) -> Iterator[Live]:
        """`settings`: those of TLS; `trusting`: the certificates that the client takes."""
        settings = settings or ServeSettings("lmdb:")
        tls = settings.tls()
        with listen("127.0.0.1", 0) as listening:
            url = f"{'https' if tls else 'http'}://127.0.0.1:{listening.getsockname()[1]}"
            with self.service(url + "/") as service:
                ready = threading.Event()
                access = Access(token, BASE)
                app = create_app(service, access=access, forwards=True, verify=settings.trusted(), **named)
                server = Server(app, ready.set, tls)
                thread = threading.Thread(target=server.run_until_stopped, args=(listening,), name="server")
                thread.start()
                assert ready.wait(PATIENCE_S), "the server did not start"
                running = Live(service, server, url, trusting)
                try:
                    with running.http:
                        yield running
                finally:
                    running.stop()
                    thread.join(PATIENCE_S)
                    assert not thread.is_alive(), "the server did not stop"

    @contextmanager
    def written_by(self, address: str) -> Iterator[None]:
        """Some other process has the lease."""
        store = self.store()
        store.take_lease(address)
        try:
            yield
        finally:
            store.close()

    def close(self) -> None:
        self.kv._inner.close()


@contextmanager
def shared_store(folder: Path) -> Iterator[SharedStore]:
    shared = SharedStore(folder)
    try:
        yield shared
    finally:
        shared.close()


@contextmanager
def two_servers(folder: Path, **named: Any) -> Iterator[tuple[Live, Live]]:
    """The writer and a reader."""
    with shared_store(folder) as shared, ExitStack() as stack:
        writer = stack.enter_context(shared.serving(**named))
        yield writer, stack.enter_context(shared.serving(**named))


class PretendedWriter:
    """Accepts connections; `answer` gets the bytes of each request, and returns what is sent back before the end."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self.requests: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._run, name="pretended-writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(1 << 16)
                if request:
                    self.requests.append(request)
                    connection.sendall(self._answer(request))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(PATIENCE_S)
