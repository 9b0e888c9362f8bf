"""For `spark.python.daemon.module`: Spark's own daemon, with the heavy imports done once, before it forks workers.

A worker that must import numpy, numba and pyarrow itself takes over a second longer to be back after a death,
and one that must load the compiled loops a few tenths. No store is opened and no thread started here, since
neither survives a fork."""

from __future__ import annotations

import gc
import importlib
import os
import sys

from stream_ext.runners.spark.task_process import TASKS_ENVIRON, give_way

#: Spark starts a daemon for each of its kinds of worker; only those for seats and for tasks need all of this.
_HEAVY = (
    "lmdb",
    "msgspec",
    "numba",
    "numpy",
    "pyarrow",
    "pyspark.worker",
)
_OF_SEATS = (
    "stream_ext.runners.spark.source",
    os.environ.get("RILLET_SHARD_MODULE", "stream_ext.continuous.shard"),
)
#: As in the server. A step makes thousands of objects, of which few are cycles: to look for them with Python's default
#: of 700 took 4 % of a step, and 12 % where it looked through all.
_COLLECTED_AFTER = (50_000, 20, 100)


def main() -> None:
    from pyspark.daemon import manager

    if TASKS_ENVIRON in os.environ:
        _prepare((*_HEAVY, "stream_ext.oneshot.divided.task"))
        give_way()
    elif "stream_ext.runners.spark.worker_module" in sys.argv:
        _prepare((*_HEAVY, *_OF_SEATS))
    manager()


def _prepare(modules: tuple[str, ...]) -> None:
    import pyspark.worker

    from stream_ext import warm
    from stream_ext.runners.spark import worker_module

    for name in modules:
        importlib.import_module(name)
    warm.warm()
    # Spark's daemon takes a worker module of another package for its own, so ours is put in that place.
    worker_module.stock, pyspark.worker.main = pyspark.worker.main, worker_module.main
    # The daemon collects after every task; what is frozen is not looked through, in any worker.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)


if __name__ == "__main__":
    main()
