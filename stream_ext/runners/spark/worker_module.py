"""For `spark.python.worker.module`: Spark's own worker, which freezes its heap after its first task.

By then the shard is built and its modules are loaded: thousands of objects that stay, and that the daemon's
full collection after each task would look through again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

#: Spark's worker; `worker_daemon` sets it before it forks.
stock: Callable[[Any, Any], None] | None = None
_tasks = 0


def main(infile: Any, outfile: Any) -> None:
    global _tasks
    assert stock is not None, "this module is run by stream_ext.runners.spark.worker_daemon"
    _tasks += 1
    if _tasks == 2:
        gc.collect()
        gc.freeze()
    stock(infile, outfile)
