"""A standalone cluster of Spark on this machine: the silence of each query when a part of it is killed or stopped.

There are three workers with a slot each and two shards, so that there is always a slot to go to. Where this user may
make networks, each worker has one of its own, and the server's line to the tasks is encrypted."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.spark_served import STEP_TIMEOUT, Served, family, silences_after, ten
from tests.stream_ext.runners.spark.standalone import Standalone

Figures = dict[str, Any]


def measure() -> Figures:
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name, Standalone(Path(name, "spark")) as cluster:
        cluster.start_workers(1, 2, 3)
        flags = ["--spark-master", cluster.url, *STEP_TIMEOUT]
        if cluster.has_networks:
            flags += ["--spark-address", cluster.address]
        with Served(Path(name, "ten"), 2, ten(), flags).running() as served:
            found = silences_after(served, _events(served, cluster))
            return {"has_networks": cluster.has_networks, "start_s": served.start["all_shards_s"], "silence_ms": found}


def _events(served: Served, cluster: Standalone) -> dict[str, Callable[[], None]]:
    there = [1, 2, 3]

    def place() -> tuple[int, int]:
        """The worker of the cluster that has the first shard, and its executor."""
        worker = served.worker()
        return next((n, each) for n in there for each in cluster.executors(n) if worker in family(each))

    def send(number: signal.Signals, find: Callable[[], int]) -> Callable[[], None]:
        return lambda: os.kill(find(), number)

    def worker_of_the_cluster() -> None:
        number, _ = place()
        there.remove(number)
        cluster.kill(f"worker{number}")

    return {
        "Python worker": send(signal.SIGKILL, served.worker),
        "executor": send(signal.SIGKILL, lambda: place()[1]),
        "driver": send(signal.SIGKILL, served.driver),
        "Python worker, stopped": send(signal.SIGSTOP, served.worker),
        "executor, stopped": send(signal.SIGSTOP, lambda: place()[1]),
        "driver, stopped": send(signal.SIGSTOP, served.driver),
        "worker of the cluster": worker_of_the_cluster,
    }
