"""The process in which documents are parsed: `python -I parser_process.py FD`, run as a file and without the package.

A parser from a library cannot be stopped, and a few hundred bytes can make it need any amount of memory: entities of
entities, long prefixes, contexts of contexts. In a process it has a bound, and can be killed.

    {"format": ..., "base": ...} ->   pieces -> ...   an empty one: that was all
                     <- lines of N-Quads <- ...       <- done, or what is wrong

Both ways go frames of a kind (one byte), a length (four bytes) and so many bytes. Another document may follow."""

from __future__ import annotations

import json
import resource
import signal
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import Any

HEAD = struct.Struct(">cI")
BEGIN, PIECE, LINES, DONE, WRONG, MEMORY = b"B", b"P", b"L", b"D", b"W", b"M"

#: What a document may take: so much, and so much more for each of its bytes. A number in JSON-LD takes two bytes, and
#: the statement that it becomes takes some hundred.
MEMORY_BYTES, MEMORY_A_BYTE = 512 << 20, 32
_RAISED_AT_BYTES = 1 << 20
_FRAME_BYTES = 1 << 18
_FORMULAS = "this document has formulas ({ ... }), which are not RDF: remove them"


class DocumentStream:
    """The document as a file for the parser, received in pieces; the bound on memory grows with the bytes."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._piece, self._at = connection, b"", 0
        self._ended = False
        self._read = 0
        with open("/proc/self/statm", "rb") as statm:
            self._before = int(statm.read().split()[0]) * resource.getpagesize()
        self._raise_memory()

    def read(self, size: int = -1) -> bytes:
        if self._at == len(self._piece) and not self._ended:
            self._next()
        end = len(self._piece) if size < 0 else self._at + size
        found, self._at = self._piece[self._at : end], min(end, len(self._piece))
        return found

    def _next(self) -> None:
        _, self._piece = receive(self._connection)
        self._at, self._ended = 0, not self._piece
        before, self._read = self._read, self._read + len(self._piece)
        if before // _RAISED_AT_BYTES != self._read // _RAISED_AT_BYTES:
            self._raise_memory()

    def _raise_memory(self) -> None:
        most = self._before + MEMORY_BYTES + MEMORY_A_BYTE * (self._read + _RAISED_AT_BYTES)
        _, allowed = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most if allowed < 0 else min(most, allowed), allowed))


class QuadLines:
    """The file to which pyoxigraph writes N-Quads; they are sent on in frames."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._written = connection, bytearray()

    def write(self, some: bytes) -> int:
        self._written += some
        if len(self._written) >= _FRAME_BYTES:
            self.flush()
        return len(some)

    def flush(self) -> None:
        for start in range(0, len(self._written), _FRAME_BYTES):
            send(self._connection, LINES, self._written[start : start + _FRAME_BYTES])
        self._written.clear()


def receive(connection: Any) -> tuple[bytes, bytes]:
    kind, size = HEAD.unpack(_exactly(connection, HEAD.size))
    return kind, _exactly(connection, size)


def _exactly(connection: Any, size: int) -> bytes:
    found: bytes = connection.read(size)
    if len(found) < size:
        raise EOFError  # nobody is there any more
    return found


def send(connection: Any, kind: bytes, body: bytes | bytearray) -> None:
    connection.write(HEAD.pack(kind, len(body)))
    connection.write(body)
    connection.flush()


def parse(connection: Any) -> None:
    """One document."""
    import pyoxigraph

    request = json.loads(receive(connection)[1])
    document, lines = DocumentStream(connection), QuadLines(connection)
    rdf_format = getattr(pyoxigraph.RdfFormat, request["format"])
    try:
        quads = pyoxigraph.parse(document, rdf_format, base_iri=request["base"] or None)  # type: ignore[arg-type]  # read() is all
        plain = _without_formulas(quads, pyoxigraph.DefaultGraph()) if request["format"] == "N3" else quads
        pyoxigraph.serialize(plain, lines, format=pyoxigraph.RdfFormat.N_QUADS)  # type: ignore[arg-type]  # write() is all
        lines.flush()
        send(connection, DONE, b"")
    except SyntaxError as error:
        send(connection, WRONG, json.dumps([error.msg or str(error), error.lineno or 0, error.offset or 0]).encode())
    except ValueError as error:
        send(connection, WRONG, json.dumps([str(error), 0, 0]).encode())
    except MemoryError as error:
        send(connection, MEMORY, str(error).encode())


def _without_formulas(quads: Iterable[Any], default: object) -> Iterator[Any]:
    for quad in quads:
        if quad.graph_name != default:
            raise ValueError(_FORMULAS)
        yield quad


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever waits is interrupted, and closes the socket
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=int(sys.argv[1])) as ours, ours.makefile("rwb") as connection:
        try:
            while True:
                parse(connection)
        except (EOFError, ConnectionError):
            pass


if __name__ == "__main__":
    main()
