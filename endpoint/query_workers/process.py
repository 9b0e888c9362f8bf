"""The process of a query worker: `python -m endpoint.query_workers.process FD MEMORY PLACE`.

It is started as a new program and not forked, so that it inherits no lock, no thread, and no open store. One thread
receives messages; the others evaluate queries. The process ends when the server closes its end of the socket."""

from __future__ import annotations

import logging
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import hbase_store
from endpoint.errors import describe
from endpoint.formats.writing import gathered, pieces_of
from endpoint.monitoring.log import Settings, logging_to
from endpoint.query_workers.messages import (
    Ask,
    Began,
    Cancel,
    Ended,
    Failed,
    FromWorker,
    More,
    Piece,
    Ready,
    Start,
    frame,
    to_worker,
)
from hbase_store import Store
from hbase_store.arrays import Ids
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.errors import StoreUnavailable
from stream_ext.clock import SystemClock
from stream_ext.errors import QueryCancelled, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.frames import Closed, receive
from stream_ext.oneshot.answers import Decoded, answer_once, decoded
from stream_ext.oneshot.dataset import Dataset
from stream_ext.oneshot.evaluate import Answer, Asking, KnownValues
from stream_ext.oneshot.question import Questions
from stream_ext.query_memory import QueryMemory

log = logging.getLogger("rillet.endpoint")

#: How often an idle worker refreshes its view of the store, so that its next query starts at once; and where each look
#: at the store is a call.
_IDLE_S, _IDLE_FAR_S = 1.0, 10.0
_NICENESS = 10
#: Memory for the process without its caches; and for how many whole budgets of a query there is memory besides.
PROCESS_BYTES, QUERIES_MOST = 768 << 20, 2
#: If the machine has no memory left, the kernel kills a worker rather than the server.
_EXPENDABLE = "500"


class _Question:
    def __init__(self, control: Control) -> None:
        self.control = control
        self.pieces: Iterator[bytes] = iter(())
        self.running = True  # in a thread; False: it waits for the message More
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        self.control.cancel()


class Answerer:
    """Evaluates the queries of one server."""

    def __init__(self, start: Start, store: Store, send: Callable[[FromWorker], None], memory: QueryMemory) -> None:
        self._start, self._store, self._send, self._memory = start, store, send, memory
        self._read, self._known, self._clock = Questions(), KnownValues(store.terms), SystemClock()
        self._threads = ThreadPoolExecutor(start.threads, thread_name_prefix="rillet-queries")
        self._lock = threading.Lock()  # guards the questions, and the order of the messages about each
        self._questions: dict[int, _Question] = {}

    @property
    def is_idle(self) -> bool:
        return not self._questions

    def handle(self, message: Ask | More | Cancel) -> None:
        match message:
            case Ask(id):
                start = self._start
                control = Control(
                    message.timeout_s, start.query_bytes, term_bytes=start.term_bytes, memory=self._memory
                )
                question = _Question(control)
                with self._lock:
                    self._questions[id] = question
                self._threads.submit(self._answer, id, question, lambda: self._begin(message, question))
            case More(id):
                with self._lock:
                    waiting = self._questions.get(id)
                    if waiting is None:
                        return
                    waiting.running = True
                self._threads.submit(self._answer, id, waiting, lambda: Piece(id, *gathered(waiting.pieces)))
            case Cancel(id):
                self._cancel(id)

    def _cancel(self, id: int) -> None:
        with self._lock:
            question = self._questions.get(id)
            if question is None:
                return
            question.cancel()
            if not question.running:
                self._end(id)
                self._send(Ended(id))

    def _answer(self, id: int, question: _Question, make: Callable[[], Began | Piece]) -> None:
        message: Began | Piece | Failed
        try:
            message = make()
        except MemoryError as error:
            too_large = QueryTooLarge(f"the query needs more memory than is available ({error}): ask for less")
            message = Failed(id, describe(too_large))
        except Exception as error:  # noqa: BLE001 -- it is sent to the client; our own faults are logged, too
            message = Failed(id, describe(error))
        with self._lock:
            if question.cancelled and not isinstance(message, Failed):
                message = Failed(id, describe(QueryCancelled("the query was cancelled")))
            question.running = False
            if isinstance(message, Failed) or message.last:
                self._end(id)
            self._send(message)

    def _end(self, id: int) -> None:
        """Called when no thread works on it any more."""
        self._questions.pop(id).control.close()

    def _begin(self, ask: Ask, question: _Question) -> Began:
        start = self._start
        asking = Asking(
            start.base,
            self._clock.now_ms(),
            os.urandom(8),
            question.control,
            start.allowed_urls,
            self._known,
        )
        dataset = Dataset(ask.default, ask.named)
        read = self._read.read(ask.text, start.base, question.control.check)
        answer = answer_once(self._store, read, ask.snapshot, ask.at, dataset or None, asking)
        question.control.keep(answer.nbytes)
        question.pieces = pieces_of(answer, ask.format, start.rows_max, _decoded)
        return Began(ask.id, int(answer.sn), *gathered(question.pieces))


def bound_memory(query_bytes: int, cache_bytes: int) -> None:
    """Limits the memory of the process: all its queries together, and the caches. An allocation beyond it fails.

    A budget counts what a query retains, not temporary memory within a step; and several queries may run at a time."""
    most = PROCESS_BYTES + cache_bytes * 3 // 2 + QUERIES_MOST * query_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _decoded(columns: Sequence[Ids], answer: Answer) -> Iterator[Decoded]:
    return decoded(columns, answer.vocabulary.decode, answer.count)


def run(connection: socket.socket, memory: tuple[int, int]) -> None:
    """Serves until the server closes the connection. `memory`: the file with the memory that all queries share, and
    the place of this worker in it."""
    sending = threading.Lock()

    def send(message: FromWorker) -> None:
        with sending, suppress(OSError):  # if the server is gone, the other thread notices
            connection.sendall(frame(message))

    start = to_worker.decode(receive(connection))
    assert isinstance(start, Start), "the first message to a worker names the store"
    with logging_to(sys.stderr, start.log or Settings()):
        try:
            _answer_until_server_ends(connection, start, send, QueryMemory(start.queries_bytes, memory))
        except (Closed, ConnectionError):
            raise
        except Exception:
            log.exception("a query worker has failed")
            raise


def _answer_until_server_ends(
    connection: socket.socket, start: Start, send: Callable[[FromWorker], None], memory: QueryMemory
) -> None:
    bound_memory(start.query_bytes, start.cache_bytes)
    store = hbase_store.open(start.store, read_only=True, cache_bytes=start.cache_bytes)
    idle_s = _IDLE_FAR_S
    if isinstance(store.kv, LmdbKeyValue):
        idle_s = _IDLE_S
        store.kv.reader_check()  # an earlier worker may have been killed while it read
    answerer = Answerer(start, store, send, memory)
    send(Ready(int(store.head())))
    while True:
        if select.select([connection], [], [], idle_s)[0]:
            message = to_worker.decode(receive(connection))
            assert not isinstance(message, Start), "only the first message to a worker names the store"
            answerer.handle(message)
        elif answerer.is_idle:
            with suppress(StoreUnavailable):  # who asks next will be told, or it answers again by then
                store.refresh()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which closes our connection
    os.nice(_NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_EXPENDABLE)
    status = 0
    try:
        connection, memory, place = map(int, sys.argv[1:])
        run(socket.socket(fileno=connection), (memory, place))
    except (Closed, ConnectionError):
        pass  # the server is gone
    except Exception:  # noqa: BLE001 -- the log has it
        status = 1
    # Nobody needs the results of running queries, and the store is only read: we do not wait for them.
    os._exit(status)


if __name__ == "__main__":
    main()
