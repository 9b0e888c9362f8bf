"""Stands for Spark's driver and its tasks: epochs of several seats, each in a process that lives on.

A seat goes to another process in each epoch, as on Spark. A process that dies is replaced, and its seat is tried again
within the epoch."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from stream_ext import warm
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.seat import serve
from stream_ext.runners.spark.settings import SparkSettings

_spawn = multiprocessing.get_context("spawn")
#: The planner has one thread, and has imported what its workers need, like the daemon of Spark's workers.
_fork = multiprocessing.get_context("fork")


class SeatsWithoutSpark:
    def __init__(self, settings: SparkSettings, admit: Callable[[Path], wire.Address], *_: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rillet-seats-")
        address = admit(Path(self._folder.name))
        self._process = _spawn.Process(target=_plan_for_ever, args=(address, settings.shard_factory))
        self._process.start()
        self.pid = self._process.pid

    def reports(self, within_s: float) -> Iterator[Any]:
        self._process.join()
        return iter(())

    def bury(self) -> str:
        self._folder.cleanup()
        return f"it ended with {self._process.exitcode}"

    def kill(self) -> None:
        self._process.kill()


class _Worker:
    def __init__(self, address: wire.Address, others: list[_Worker]) -> None:
        self.to, theirs = _fork.Pipe()
        # It ends when the planner does, so nobody else may hold the planner's end of a pipe.
        of_planner = [self.to, *(other.to for other in others)]
        self.process = _fork.Process(target=_work, args=(address, theirs, of_planner), daemon=True)
        self.process.start()
        theirs.close()


def _plan_for_ever(address: wire.Address, factory: str) -> None:
    wire.Codec(factory)  # imports what it needs
    warm.warm()
    chance, workers, epoch = random.Random(1), list[_Worker](), 0
    with contextlib.suppress(ConnectionError):
        while True:
            epoch += 1
            with address.connect() as connection:
                connection.sendall(wire.frame(wire.Await()))
                planned = wire.receive_message(wire.from_bell, connection)
            assert isinstance(planned, wire.HeadMoved)
            while len(workers) < planned.seats:
                workers.append(_Worker(address, workers))
            chance.shuffle(workers)
            _run_epoch(address, workers, planned.seats, epoch)


def _run_epoch(address: wire.Address, workers: list[_Worker], seats: int, epoch: int) -> None:
    left = dict(enumerate(workers[:seats]))
    for seat, worker in left.items():
        worker.to.send((seat, epoch))
    while left:
        for ready in wait([worker.to for worker in left.values()]):
            seat, worker = next((seat, worker) for seat, worker in left.items() if worker.to is ready)
            try:
                worker.to.recv()
                del left[seat]
            except EOFError:  # it has died
                worker.process.join()
                worker.to.close()
                others = [each for each in workers if each is not worker]
                again = left[seat] = _Worker(address, others)
                workers[workers.index(worker)] = again
                again.to.send((seat, epoch))


def _work(address: wire.Address, orders: Connection, of_planner: list[Connection]) -> None:
    for each in of_planner:
        each.close()
    with contextlib.suppress(EOFError, OSError):
        while True:
            seat, epoch = orders.recv()
            serve(address, seat, epoch)
            orders.send("done")
