"""The process of a push reader: `python -P -m stream_ext.writer.push_reader FD`. It reads long pushes for the server.

    request: a head, then the body   ->   `read_push`
                                     <-   the elements; or nothing, if the server has to read it

It is started as a new program and not forked, so it has no lock, thread or open store of the server. It ends when the
server closes its end of the socket. What is wrong with a body is not said here: the server reads that body again."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.catalog.catalog import StreamDefinition
from stream_ext.errors import RilletError
from stream_ext.frames import Closed, framed, receive
from stream_ext.rdf import Parsed
from stream_ext.rdf.parse_queue import Rules
from stream_ext.rdf.parsers import PARSERS
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.writer.elements import BlankPlaces, Elements, read_push

#: If the machine has no memory left, the kernel ends this process rather than the server.
_EXPENDABLE = "500"
#: A process that has read a longer body is not used again: its memory stays as large as it was.
REUSED_BYTES = 4 << 20
#: A push of 1,000 lines makes as many tuples, which are gone when it is answered: to look for cycles of garbage
#: meanwhile takes a tenth of the time.
_GARBAGE_OBJECTS = 50_000


class PushHead(msgspec.Struct, frozen=True, array_like=True):
    """What is to be known of a push besides its body."""

    stream: StreamDefinition
    media_type: str
    timestamp: int | None
    base: str
    bytes_max: int | None


class _Elements(msgspec.Struct, frozen=True, array_like=True):
    """`Elements` as bytes: the columns one after the other, in the machine's own order."""

    terms: list[bytes]
    triples: bytearray  # s, p, o, g, element
    times: bytearray
    graphs: bytearray
    absorbed: bytearray | None
    keys: bytearray
    blank: bytearray
    per_element: bool
    of_several_graphs: bool


_encoder = msgspec.msgpack.Encoder()
_heads = msgspec.msgpack.Decoder(PushHead)
_elements = msgspec.msgpack.Decoder(_Elements)


def request(head: PushHead, data: bytes) -> bytes:
    return framed(_encoder.encode(head)) + framed(data)


def encoded(elements: Elements) -> bytes:
    parsed, places = elements.parsed, elements.places
    columns = (parsed.s, parsed.p, parsed.o, parsed.g, elements.element)
    return _encoder.encode(
        _Elements(
            parsed.terms,
            _bytes(np.concatenate(columns)),
            _bytes(elements.time),
            _bytes(elements.graph),
            None if elements.absorbed is None else _bytes(elements.absorbed),
            _bytes(places.keys),
            _bytes(places.blank),
            places.per_element,
            elements.of_several_graphs,
        )
    )


def decoded(body: bytearray) -> Elements:
    found = _elements.decode(body)
    s, p, o, g, element = np.frombuffer(found.triples, np.int32).reshape(5, -1)
    return Elements(
        Parsed(found.terms, s, p, o, g),
        element,
        _column(found.times, np.int64),
        _column(found.graphs, np.int32),
        None if found.absorbed is None else _column(found.absorbed, np.bool_),
        BlankPlaces(_column(found.keys, np.int64), _column(found.blank, np.bool_), found.per_element),
        found.of_several_graphs,
    )


def _bytes(column: npt.NDArray[Any]) -> bytearray:
    return bytearray(column.tobytes())


def _column(body: bytearray, kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(body, kind)


def _answer(connection: socket.socket) -> None:
    """Reads one push; an empty answer says that the server has to read it."""
    head, data = _heads.decode(receive(connection)), bytes(receive(connection))
    try:
        reading = ReadingBudget(bytes_max=head.bytes_max)
        answer = encoded(read_push(head.stream, data, head.media_type, head.timestamp, head.base, reading))
    except (RilletError, MemoryError):
        answer = b""
    connection.sendall(framed(answer))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which closes our connection
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_EXPENDABLE)
    # It starts no processes of its own: a body for which a parser is needed is the server's, which has a queue for it.
    PARSERS.queue.rules = Rules(at_once=0, waiting=0)
    PARSERS.queue.free = 0
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS)
    with socket.socket(fileno=int(sys.argv[1])) as connection, suppress(Closed, ConnectionError):
        while True:
            _answer(connection)
    os._exit(0)


if __name__ == "__main__":
    main()
