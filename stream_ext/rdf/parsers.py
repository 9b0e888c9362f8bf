"""Parsers: processes that parse documents, each with a bound on its memory; a request that is cancelled ends its one.

A process that has done its work waits for the next document; one that was ended, or had too little memory, is replaced
when another is needed. They end when this process does: then their socket is closed."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from stream_ext.errors import BadData, RilletError, TooLarge
from stream_ext.rdf import parser_process
from stream_ext.rdf.parse_queue import ParseQueue, ParserTurn, Rules
from stream_ext.rdf.parser_process import BEGIN, DONE, HEAD, LINES, MEMORY, PIECE
from stream_ext.rdf.reading import ReadingBudget

#: So many idle processes are retained for the next document.
_IDLE_MAX = 2
#: A thread that waits for a process checks so often whether its request was cancelled.
_LOOK_S = 0.05
_RECEIVED_BYTES = 1 << 18
#: A process that parsed more is not used again: its memory stays as large as it was.
_REUSED_BYTES = 4 << 20


class ParserError(BadData):
    """What a parser in a process of its own rejects: the parser's message, with its place in the document."""


class _Parser:
    """One process, used by one thread at a time."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            # No setting of ours is its business, least of all the token.
            environment = {name: value for name, value in os.environ.items() if not name.startswith("RILLET_")}
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(Path(parser_process.__file__)), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        self._ours.setblocking(False)
        self._received = bytearray()
        self.pid = os.getpid()  # after a fork it is the other process's, too
        self.is_fresh = True

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_there(self) -> bool:
        """False for one that was killed while it waited."""
        if self._process.poll() is None:
            return True
        self._ours.close()
        return False

    def end(self) -> None:
        self._ours.close()
        self._process.kill()
        self._process.wait()

    def lines(
        self, format_name: str, base: str, pieces: Iterator[bytes], reading: ReadingBudget, turn: ParserTurn
    ) -> Iterator[bytes]:
        """The document as lines of N-Quads, in pieces that may end anywhere."""
        outgoing = memoryview(_frame(BEGIN, json.dumps({"format": format_name, "base": base}).encode()))
        size, more = 0, True
        poll = select.poll()
        poll.register(self._ours)
        while True:
            if not outgoing and more:
                piece = next(pieces, b"")
                more, size = bool(piece), size + len(piece)
                reading.took(len(piece))
                outgoing = memoryview(_frame(PIECE, piece))
            poll.modify(self._ours, select.POLLIN | (select.POLLOUT if outgoing else 0))
            events = poll.poll(_LOOK_S * 1000)
            reading.check()
            turn.check(size)
            for _, event in events:
                if event & select.POLLOUT and outgoing:
                    outgoing = self._sent(outgoing)
                if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    self._receive(size)
            while (frame := self._frame_received()) is not None:
                kind, body = frame
                if kind == LINES:
                    yield body
                elif kind == DONE:
                    self.is_fresh = not more and not outgoing and size <= _REUSED_BYTES
                    return
                else:
                    # Not fresh: of what was sent to it some may not have been read.
                    if kind == MEMORY:
                        raise _too_large(size, body)
                    raise ParserError(*json.loads(body))

    def _sent(self, outgoing: memoryview) -> memoryview:
        try:
            return outgoing[self._ours.send(outgoing) :]
        except (BlockingIOError, ConnectionError):
            return outgoing  # that it has ended shows when we receive

    def _receive(self, size: int) -> None:
        try:
            received = self._ours.recv(_RECEIVED_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            received = b""
        if not received:
            raise self._ended(size)
        self._received += received

    def _frame_received(self) -> tuple[bytes, bytes] | None:
        if len(self._received) < HEAD.size:
            return None
        kind, size = HEAD.unpack_from(self._received)
        end = HEAD.size + size
        if len(self._received) < end:
            return None
        body = bytes(self._received[HEAD.size : end])
        del self._received[:end]
        return kind, body

    def _ended(self, size: int) -> RilletError:
        """The error for a process that ended in the middle of a document: a parser that gets no memory aborts."""
        status = self._process.wait()
        if status in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS) or status > 0:
            return _too_large(size)
        return RilletError(f"the process that parsed this document ended ({status}): send the document again")


def _frame(kind: bytes, body: bytes) -> bytes:
    return HEAD.pack(kind, len(body)) + body


def _too_large(size: int, reason: bytes = b"") -> TooLarge:
    if b"buffer" in reason:  # no memory is lacking: of one token there is more than the parser holds
        return TooLarge(f"up to byte {size} a term has more than 16 MiB, the limit for a term: shorten it")
    most = (parser_process.MEMORY_BYTES + parser_process.MEMORY_A_BYTE * size) >> 20
    return TooLarge(
        f"after {size} bytes the document needs more than the {most} MiB of memory that its parser may use: its "
        "prefixes, entities or contexts expand too far, or it is nested too deep; send it in parts, or as N-Triples"
    )


class Parsers:
    """All processes of this kind. `lines` may be called by any thread."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.queue = ParseQueue(rules or Rules())
        self._lock = threading.Lock()
        self._idle: list[_Parser] = []

    def lines(self, format_name: str, base: str, pieces: Iterator[bytes], reading: ReadingBudget) -> Iterator[bytes]:
        """What a document says, as lines of N-Quads that may end anywhere. BadData where it is not of its form,
        TooLarge where it takes too much memory, Overload where too many others are parsed."""
        with self.queue.turn(reading.check) as turn:
            parser = self._one()
            try:
                parser.is_fresh = False
                yield from parser.lines(format_name, base, pieces, reading, turn)
            finally:
                self._give_back(parser)

    def idle(self) -> list[int]:
        """The processes that wait for a document, by their ids."""
        with self._lock:
            return [parser.process_id for parser in self._idle]

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for parser in idle:
            if parser.pid == os.getpid():
                parser.end()

    def _one(self) -> _Parser:
        with self._lock:
            while self._idle:
                parser = self._idle.pop()
                if parser.pid == os.getpid() and parser.is_there:
                    return parser
        return _Parser()

    def _give_back(self, parser: _Parser) -> None:
        with self._lock:
            keep = parser.is_fresh and len(self._idle) < _IDLE_MAX
            if keep:
                self._idle.append(parser)
        if not keep:
            parser.end()


#: Those of this process.
PARSERS = Parsers()
atexit.register(PARSERS.close)
