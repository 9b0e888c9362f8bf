"""Small Thrift servers, those of thriftpy2, with as much of HBase's interface as one row needs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import Hbase_thrift as thrift
from thriftpy2.http import THttpServer
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.server import TThreadedServer
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TBufferedTransportFactory, TFramedTransportFactory, TServerSocket

from hbase_store.backends.keyvalue import Put
from hbase_store.opening import place_of


class Tables:
    """As much of HBase as one row needs."""

    def __init__(self) -> None:
        self.cells: dict[tuple[bytes, bytes], Any] = {}

    def getRowsWithColumns(self, table: bytes, rows: list[bytes], columns: Any, attributes: Any) -> list[Any]:
        cells = [(row, self.cells.get((table, row))) for row in rows]
        return [thrift.TRowResult(row=row, columns={b"n:v": cell}) for row, cell in cells if cell is not None]

    def mutateRowsTs(self, table: bytes, batches: list[Any], time: int, attributes: Any) -> None:
        for batch in batches:
            self.cells[table, batch.row] = thrift.TCell(value=batch.mutations[0].value, timestamp=time)

    def checkAndPut(
        self, table: bytes, row: bytes, column: bytes, value: bytes | None, mput: Any, attributes: Any
    ) -> bool:
        self.cells.setdefault((table, row), thrift.TCell(value=mput.value, timestamp=1))
        return True

    def createTable(self, name: bytes, families: Any) -> None:
        pass


@contextlib.contextmanager
def served(kind: str, tables: Tables | None = None) -> Iterator[int]:
    processor = TProcessor(thrift.Hbase, tables or Tables())
    protocol = TBinaryProtocolFactory(decode_response=False)
    if kind == "http":
        server = THttpServer(processor, ("127.0.0.1", 0), TBufferedTransportFactory(), protocol)
        inner = server.httpd
        thread = threading.Thread(target=inner.serve_forever, daemon=True)
        thread.start()
        try:
            yield inner.server_address[1]
        finally:
            inner.shutdown()
            inner.server_close()
            thread.join()
        return
    listening = TServerSocket(host="127.0.0.1", port=0)
    listening.listen()
    transport = TFramedTransportFactory() if kind == "framed" else TBufferedTransportFactory()
    threaded = TThreadedServer(processor, _Listening(listening), iprot_factory=protocol, itrans_factory=transport)
    thread = threading.Thread(target=_quietly(threaded.serve), daemon=True)
    thread.start()
    try:
        yield listening.sock.getsockname()[1]
    finally:
        threaded.closed = True
        listening.sock.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


class _Listening:
    """A socket that listens already, so that its port is known."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def listen(self) -> None:
        pass

    def accept(self) -> Any:
        return self._inner.accept()

    def close(self) -> None:
        self._inner.close()


def _quietly(serve: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with contextlib.suppress(OSError):
            serve()

    return run


def round_trip(url: str) -> None:
    backend = place_of(url).opened()
    try:
        value = bytes(100_000)
        backend.put_many([Put("sn", b"key", value, 1), Put("sn", b"other", b"small", 1)])
        assert backend.get_many("sn", [b"key", b"none", b"other"]) == [value, None, b"small"]
    finally:
        backend.close()
