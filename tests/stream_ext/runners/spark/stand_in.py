"""Stands for the driver and the JVM: a process that runs one task after the other, each in a worker that lives on.

What it lacks of Spark is Spark: seats, workers, their deaths and the bell are the real ones, so that a test of them
takes a second or two, and a thousand of them are possible."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

import msgspec

from stream_ext import frames, warm
from stream_ext.runners.spark import wire
from stream_ext.runners.spark.driver import DriverJob
from stream_ext.runners.spark.seat import serve

DRIVER = "tests.stream_ext.runners.spark.stand_in"


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=DriverJob)
    threading.Thread(target=_watch_input, daemon=True).start()
    threading.Thread(target=_signs_of_life, daemon=True).start()
    wire.Codec(job.settings.shard_factory)  # imports what it needs
    warm.warm()
    epoch = 0
    while True:
        epoch += 1
        worker = os.fork()
        if worker == 0:
            _work(Path(job.address_file), job.settings.epoch_s == 0)
        os.waitpid(worker, 0)


def _work(address_file: Path, asks_first: bool) -> None:
    """A worker: it takes one seat after the other, until it dies, or nobody is there any more."""
    address, epoch = wire.Address.read(address_file), 0
    with contextlib.suppress(OSError):
        while True:
            epoch += 1
            if asks_first:
                with address.connect() as connection:
                    connection.sendall(wire.frame(wire.Await()))
                    frames.receive(connection)
            serve(address, 0, epoch)
    os._exit(0)


def _signs_of_life() -> None:
    pause = threading.Event()
    while True:
        os.write(1, b'{"state":"running"}\n')
        pause.wait(0.1)


def _watch_input() -> None:
    while os.read(0, 1 << 12):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
