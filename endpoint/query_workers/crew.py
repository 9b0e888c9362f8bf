"""The server's side of its query workers: starts them, sends them queries, replaces those that end.

Everything here happens on the event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from endpoint.errors import WorkerEnded, WorkerProblem
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
    ToWorker,
    frame,
    from_worker,
)
from stream_ext.child_environment import environment
from stream_ext.errors import QueryCancelled
from stream_ext.frames import LENGTH
from stream_ext.query_memory import QueryMemory

log = logging.getLogger("rillet.endpoint")

#: If a process ends before it is ready, the next one starts after this time; twice as long each time.
_RETRY_S, _RETRY_MAX_S = 0.5, 30.0


class WorkerQuery:
    """One query in a worker."""

    def __init__(self, worker: Worker, id: int) -> None:
        self._worker, self._id = worker, id
        self._next: asyncio.Future[Piece] = asyncio.get_running_loop().create_future()
        self.began: asyncio.Future[Began] = asyncio.get_running_loop().create_future()

    @property
    def worker(self) -> int:
        return self._worker.number

    async def more(self) -> tuple[bytes, bool]:
        """The next pieces of the answer, and whether they are the last."""
        piece = await self._next
        self._expect_more(piece.last)
        return piece.piece, piece.last

    def cancel(self) -> None:
        """Called when the client needs no answer any more; does nothing if the answer is complete."""
        self._worker.cancel(self._id)
        self.failed(QueryCancelled("the query was cancelled"))

    def received(self, message: Began | Piece) -> None:
        if isinstance(message, Piece):
            _complete(self._next, message)
        else:
            # One piece is computed ahead, while the piece before it is sent.
            self._expect_more(message.last)
            _complete(self.began, message)

    def failed(self, error: Exception) -> None:
        for future in (self.began, self._next):
            if not future.done():
                future.set_exception(error)
                future.exception()  # retrieved, so that asyncio logs nothing if the client is gone

    def _expect_more(self, last: bool) -> None:
        self._next = asyncio.get_running_loop().create_future()
        if not last:
            self._worker.send(More(self._id))


def _complete(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


class Worker:
    """The process of one query worker."""

    def __init__(self, number: int, crew: QueryWorkers, start: Start, memory: QueryMemory) -> None:
        self.number, self._crew, self.place = number, crew, memory.place()
        self.is_ready = self.is_retired = False
        self.questions: dict[int, WorkerQuery] = {}
        self._cancelled: set[int] = set()
        self._last_id = 0
        ours, theirs = socket.socketpair()
        with theirs:
            files = [theirs.fileno(), memory.file]
            command = [sys.executable, "-P", "-m", "endpoint.query_workers.process", *map(str, [*files, self.place])]
            # The worker imports from the same folders as we do, not from the current folder.
            found_in = os.pathsep.join(place for place in sys.path if place)
            self.process = subprocess.Popen(
                command,
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                env={**environment(os.environ), "PYTHONPATH": found_in},
            )
        self._task = asyncio.get_running_loop().create_task(self._live(ours, start))

    # ---- questions ----------------------------------------------------------------------------------------------

    def ask(self, question: Callable[[int], Ask]) -> WorkerQuery:
        self._last_id += 1
        remote = self.questions[self._last_id] = WorkerQuery(self, self._last_id)
        self.send(question(self._last_id))
        return remote

    def cancel(self, id: int) -> None:
        if id in self.questions and id not in self._cancelled:
            self._cancelled.add(id)
            self.send(Cancel(id))
            asyncio.get_running_loop().call_later(self._crew.cancel_grace_s, self._check_ended, id)

    def send(self, message: ToWorker) -> None:
        if not self._writer.is_closing():
            self._writer.write(frame(message))

    def _check_ended(self, id: int) -> None:
        """If a cancelled query still runs (its operator does not check its control), its process is replaced, and
        killed when no other query runs in it."""
        if id in self.questions:
            self._crew.retire(self)
            self._kill_if_abandoned()

    def _kill_if_abandoned(self) -> None:
        """Kills the process of a replaced worker when only cancelled queries still run in it."""
        if self.is_retired and not self.questions.keys() - self._cancelled:
            self.process.kill()

    # ---- life of the process -------------------------------------------------------------------------------------

    async def _live(self, ours: socket.socket, start: Start) -> None:
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self.send(start)
        try:
            while True:
                (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                self._receive(from_worker.decode(await reader.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writer.close()
            self.process.kill()  # its socket is closed: the process has ended or is about to
            how = _how(await asyncio.to_thread(self.process.wait))
            for remote in list(self.questions.values()):
                remote.failed(WorkerEnded(how))
            self.questions.clear()
            self._crew.ended(self, how)

    def _receive(self, message: FromWorker) -> None:
        if isinstance(message, Ready):
            self.is_ready = True
            self._crew.ready()
            return
        remote = self.questions.get(message.id)
        if remote is None:
            return
        match message:
            case Began() | Piece():
                if message.last:
                    self._forget(message.id)
                remote.received(message)
            case Failed(problem=problem):
                self._forget(message.id)
                remote.failed(WorkerProblem(problem))
            case Ended():
                self._forget(message.id)

    def _forget(self, id: int) -> None:
        del self.questions[id]
        self._cancelled.discard(id)
        self._kill_if_abandoned()

    def status(self) -> dict[str, Any]:
        state = "retired" if self.is_retired else "ready" if self.is_ready else "starting"
        return {
            "worker": self.number,
            "pid": self.process.pid,
            "state": state,
            "queries": len(self.questions),
            "asked": self._last_id,
        }


class QueryWorkers:
    """`count` query workers. They are started on the event loop, by `start`."""

    def __init__(
        self, start: Start | None = None, count: int = 0, cancel_grace_s: float = 5.0, memory: QueryMemory | None = None
    ) -> None:
        """`cancel_grace_s`: how long a cancelled evaluation may go on before its process is replaced; `memory`: the
        memory that all queries share, those of the server included."""
        self._start, self.count, self.cancel_grace_s, self._memory = start, count, cancel_grace_s, memory
        self.workers: list[Worker] = []
        self.replaced = 0  # processes that ended or were killed
        self._number = self._failures = 0
        self._closed = False

    def start(self) -> None:
        for _ in range(self.count):
            self._hire()

    def free(self) -> Worker | None:
        """The worker with the fewest queries; None: no worker is ready."""
        able = [worker for worker in self.workers if worker.is_ready and not worker.is_retired]
        return min(able, key=lambda worker: len(worker.questions), default=None)

    def status(self) -> list[dict[str, Any]]:
        return [worker.status() for worker in self.workers]

    def close(self) -> None:
        """Kills the workers: they only read, so they can be killed at any time."""
        self._closed = True
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.process.wait()

    # ---- events of workers --------------------------------------------------------------------------------------

    def ready(self) -> None:
        self._failures = 0

    def retire(self, worker: Worker) -> None:
        """The worker gets no more queries; another one is started at once."""
        if not worker.is_retired and not self._closed:
            log.warning(
                "query worker %d does not react to the cancellation of its query: it is replaced", worker.number
            )
            worker.is_retired = True
            self.replaced += 1
            self._hire()

    def ended(self, worker: Worker, how: str) -> None:
        self.workers.remove(worker)
        if self._memory is not None:
            self._memory.vacate(worker.place)
        if self._closed or worker.is_retired:
            return
        log.warning("query worker %d ended (%s): another one takes its place", worker.number, how)
        self.replaced += 1
        wait_s = 0.0
        if not worker.is_ready:
            self._failures += 1
            wait_s = min(_RETRY_S * 2**self._failures, _RETRY_MAX_S)
        asyncio.get_running_loop().call_later(wait_s, self._hire)

    def _hire(self) -> None:
        if not self._closed:
            assert self._start is not None and self._memory is not None, "workers need the store that they read"
            self._number += 1
            self.workers.append(Worker(self._number, self, self._start, self._memory))


def _how(status: int) -> str:
    if status >= 0:
        return f"status {status}"
    name = signal.Signals(-status).name
    return f"{name}: the machine may have had too little memory" if name == "SIGKILL" else name
