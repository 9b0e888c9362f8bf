"""What a Python process of Spark does with a task of a query."""

from __future__ import annotations

import os
import pickle
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_ext.runners.spark.tasks import PROCESS_DIED

#: In the environment of the processes that evaluate tasks: how far they give way to others (0 to 19).
TASKS_ENVIRON = "RILLET_TASKS"
#: A task whose process has died so often is not tried again.
TRIES_MAX = 2
#: Results that go through Spark's driver, which has half a gigabyte of memory.
_RESULT_BYTES_MAX, _PART_BYTES = 48 << 20, 1 << 20
#: If the machine has no memory left, the kernel kills such a process rather than others.
_EXPENDABLE = "600"
_SCHEMA = pa.schema([("place", pa.string()), ("part", pa.binary()), ("failed", pa.string())])
#: The same for Spark.
COLUMNS = "place string, part binary, failed string"


def give_way() -> None:
    """Called in a process that evaluates tasks."""
    os.nice(int(os.environ[TASKS_ENVIRON]))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_EXPENDABLE)


def in_spark(task: bytes, results: str | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`results`: the folder for results; None: they go through Spark."""
    from pyspark import TaskContext

    for _ in batches:
        pass
    context = TaskContext.get()
    assert context is not None, "this is called by a task of Spark"
    if context.attemptNumber() >= TRIES_MAX:
        yield _row(failed=f"{PROCESS_DIED} {TRIES_MAX} times; it may need more memory than there is")
        return
    try:
        # It comes from our own driver, as all code of Spark's tasks does.
        found: bytes = pickle.loads(task).run_task()
        place = "" if results is None else _written(Path(results), found)
    except Exception as error:  # noqa: BLE001 -- repeated, it would be the same
        yield _row(failed=f"{type(error).__name__}: {error}")
        return
    if place:
        yield _row(place)
    elif len(found) > _RESULT_BYTES_MAX:
        yield _row(failed=f"its result has {len(found) >> 20} MiB, and {_RESULT_BYTES_MAX >> 20} MiB go through Spark")
    else:
        for start in range(0, len(found), _PART_BYTES):
            yield _row(part=found[start : start + _PART_BYTES])


def _written(folder: Path, found: bytes) -> str:
    file = folder / f"result-{secrets.token_hex(8)}"
    file.write_bytes(found)
    return str(file)


def _row(place: str = "", part: bytes = b"", failed: str = "") -> Any:
    columns = [pa.array([place], pa.string()), pa.array([part], pa.binary()), pa.array([failed], pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
