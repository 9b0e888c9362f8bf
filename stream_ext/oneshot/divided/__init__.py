"""Divided queries: a one-shot query over a large store, most of whose work is done by several processes.

    division.py     what of the query is divided, and into which tasks
    task.py         a task as a value, and its evaluation in whatever process
    merging.py      partial results become one, and the answer
    open_stores.py  the stores that a process of tasks has open

Who runs the tasks is the business of others (`Jobs`): `stream_ext.runners.spark` has them run by Spark."""

from __future__ import annotations
