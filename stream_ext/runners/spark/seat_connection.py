"""The connection to one seat: an attempt of a task of Spark to serve a shard."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Sequence
from typing import Literal, NamedTuple

from hbase_store import this_machine
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.door import shut
from stream_ext.runners.underway import Stepping, StepWatch, Underway

#: What a seat does: step the next snapshot, build its state, or catch up with queries that are behind.
Doing = Literal["step", "build", "catch up"]


class Worker(NamedTuple):
    """The process that has a seat. `machine`: where its number means something; hosts may have the same name."""

    host: str
    pid: int
    machine: str = ""

    @classmethod
    def of(cls, hello: wire.Hello) -> Worker:
        return cls(hello.host, hello.pid, hello.machine)


class SeatConnection:
    """The last head that was sent on it, and the last snapshot that is done. `place`: the partition and the Spark epoch
    of its task."""

    def __init__(
        self,
        connection: socket.socket,
        attempt: int,
        worker: Worker,
        watched: StepWatch,
        now_ms: int,
        place: tuple[int, int],
    ) -> None:
        self.connection, self.attempt, self.worker, self.watched = connection, attempt, worker, watched
        self._remote_underway: Underway | None = None  # of a worker on another machine, which sends what it steps
        self.partition, self.epoch = place
        self.ready = self.ended = self.bye = False
        self.sent_head = self.done = 0
        self.rung: dict[int, float] = {}
        self.behind: dict[int, int] = {}  # its queries that have fallen behind the others
        # The queries that are behind continue from the merge's states, once the seat has nothing to step; until then
        # it gets heads up to `limit` only.
        self.behind_handed_over = False
        self.limit: int | None = None
        self.more, self.is_catching_up = True, False
        self.snapshots_waited = False  # when it was asked to catch up
        self.left = threading.Event()
        self.suspended: frozenset[int] = frozenset()  # queries that it leaves out
        # Since when it owes an answer, or since its last sign of life.
        self.alive_ms = self.stepping_since_ms = now_ms
        self.changes = 0  # in `watched`, then
        self.is_read = True  # False while the bell itself handles one of its messages

    def is_over(self, hello: wire.Hello) -> bool:
        """Whether the task that has this seat has ended, because another one has begun."""
        return self.partition == hello.seat or self.epoch != hello.epoch

    @property
    def owes(self) -> bool:
        return not self.ready or self.sent_head > self.done or self.is_catching_up or self.ended

    def silent_ms(self, now_ms: int) -> int:
        """How long it has owed an answer without a sign of life."""
        if not self.owes or not self.is_read or self.changes != self.watched.changes:
            self.alive_ms, self.changes = now_ms, self.watched.changes
        return now_ms - self.alive_ms

    def doing(self) -> str:
        if not self.ready:
            return "was building its state"
        if self.sent_head > self.done:
            return f"was stepping snapshot {self.done + 1}"
        return "was catching up with queries that are behind" if self.is_catching_up else "was asked to end"

    def steps(self, sn: int, numbers: Sequence[int]) -> None:
        """Writes down what a worker on another machine is stepping."""
        self._remote_underway = self._remote_underway or Underway(self.watched.path)
        self._remote_underway.steps(sn, numbers)

    def rests(self) -> None:
        if self._remote_underway is not None:
            self._remote_underway.rests()

    def close(self) -> None:
        if self._remote_underway is not None:
            self._remote_underway.close()
        self.watched.close()

    def died_doing(self, stepping: Stepping | None) -> Doing:
        """What the worker was doing when it died."""
        if not self.ready:
            return "build"
        return "catch up" if self.is_catching_up and stepping is not None and stepping.sn <= self.done else "step"

    def send(self, message: wire.FromBell) -> None:
        # A connection that is gone is noticed where it is read.
        with contextlib.suppress(OSError):
            self.connection.sendall(wire.frame(message))

    def drop(self) -> None:
        shut(self.connection)


def kill_worker(worker: Worker) -> None:
    """Kills a worker of this machine, which may have ended already. One of another machine or user ends itself."""
    if worker.machine == this_machine() and worker.pid != os.getpid():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(worker.pid, signal.SIGKILL)
