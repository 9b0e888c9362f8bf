"""Push readers: processes beside the server that parse long pushes, so that its one interpreter need not.

A push to read goes to a process that is free, or waits for one: briefly, if it is not very long, as the pushes before
it may take many seconds. What comes back has only to be given ids. Documents in forms that are no lines are parsed in
processes of their own anyway (`rdf/parsers.py`), so these are not sent here.
A process that ends, whatever the reason, costs nothing but time: the server reads that push itself."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from stream_ext.catalog.catalog import StreamDefinition
from stream_ext.child_environment import program_environment
from stream_ext.frames import LENGTH, Closed
from stream_ext.rdf.documents import N_QUADS, N_TRIPLES, NDJSON
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.writer.elements import Elements, read_push
from stream_ext.writer.push_reader import REUSED_BYTES, PushHead, decoded, request

#: Shorter pushes are read here: the way to another process and back takes about as long.
LONG_BYTES = 16 << 10
_LINES = (NDJSON, N_TRIPLES, N_QUADS)
#: A thread that waits for a process checks so often whether its request was cancelled.
_LOOK_S = 0.05
#: Pushes of this length wait so long for a process, and are then read here: that takes less than 50 ms.
_PATIENT_BYTES, _PATIENCE_S = 1 << 18, 0.25


class _Reader:
    """One process, used by one thread at a time."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "stream_ext.writer.push_reader", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=program_environment(os.environ),
            )
        self._ours.settimeout(_LOOK_S)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def read(self, head: PushHead, data: bytes, check: Callable[[], None]) -> bytearray:
        """The answer; Closed or another ConnectionError if the process has ended."""
        outgoing = memoryview(request(head, data))
        while outgoing:
            with suppress(TimeoutError):
                outgoing = outgoing[self._ours.send(outgoing) :]
            check()
        (size,) = LENGTH.unpack(self._exactly(LENGTH.size, check))
        return self._exactly(size, check)

    def _exactly(self, size: int, check: Callable[[], None]) -> bytearray:
        body = bytearray(size)
        view = memoryview(body)
        while view:
            with suppress(TimeoutError):
                count = self._ours.recv_into(view)
                if not count:
                    raise Closed("the process has ended")
                view = view[count:]
                continue
            check()
        return body

    def end(self) -> None:
        self._ours.close()
        self._process.kill()
        self._process.wait()


class PushReaders:
    """At most so many processes; each is started when it is needed. `read` may be called by any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._idle: list[_Reader] = []
        self._busy: set[_Reader] = set()
        self._starting = 0
        self._closed = False

    def read(
        self,
        stream: StreamDefinition,
        data: bytes,
        media_type: str,
        timestamp: int | None,
        base: str,
        reading: ReadingBudget,
    ) -> Elements:
        """`read_push`, wherever it is done."""
        answer = bytearray()
        if self._most and len(data) >= LONG_BYTES and media_type.partition(";")[0].strip().lower() in _LINES:
            head = PushHead(stream, media_type, timestamp, base, reading.bytes_max)
            answer = self._answer(head, data, reading.check)
        return decoded(answer) if answer else read_push(stream, data, media_type, timestamp, base, reading)

    def process_ids(self) -> list[int]:
        with self._changed:
            return [reader.process_id for reader in (*self._idle, *self._busy)]

    def close(self) -> None:
        """Ends the processes; a push that is being read then is read by the server."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for reader in idle:
            reader.end()

    def _answer(self, head: PushHead, data: bytes, check: Callable[[], None]) -> bytearray:
        """Nothing, if the server has to read this push."""
        reader = self._take(len(data), check)
        if reader is None:
            return bytearray()
        is_well = False
        try:
            answer = reader.read(head, data, check)
            is_well = len(data) <= REUSED_BYTES
        except OSError:
            return bytearray()
        finally:
            self._give_back(reader, is_well)
        return answer

    def _take(self, nbytes: int, check: Callable[[], None]) -> _Reader | None:
        """A process; None: the server has to read the push."""
        until_s = time.monotonic() + (_PATIENCE_S if nbytes <= _PATIENT_BYTES else math.inf)
        with self._changed:
            while not self._idle:
                if self._closed or time.monotonic() >= until_s:
                    return None
                if len(self._busy) + self._starting < self._most:
                    self._starting += 1
                    break
                self._changed.wait(_LOOK_S)
                check()
            else:
                reader = self._idle.pop()
                self._busy.add(reader)
                return reader
        return self._started()

    def _started(self) -> _Reader | None:
        """A new process; None: none can be started."""
        reader = None
        try:
            reader = _Reader()
        except OSError:
            return None
        finally:
            with self._changed:
                self._starting -= 1
                if reader is not None:
                    self._busy.add(reader)
                else:
                    self._changed.notify_all()
        return reader

    def _give_back(self, reader: _Reader, is_well: bool) -> None:
        with self._changed:
            self._busy.discard(reader)
            keep = is_well and not self._closed
            if keep:
                self._idle.append(reader)
            self._changed.notify()
        if not keep:
            reader.end()
