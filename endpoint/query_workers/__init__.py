"""Query workers: processes that answer queries which are expected to take long.

    route --> QueryWorkers (in the server) --- messages, over a socket pair ---> process (the worker)

Python code of an evaluation holds the interpreter lock of its process. In a process of its own it delays neither
small queries nor streams. A worker reads the same store, and writes nothing."""

from endpoint.query_workers.crew import QueryWorkers, Worker, WorkerQuery
from endpoint.query_workers.messages import Ask, Start

__all__ = ["Ask", "QueryWorkers", "Start", "Worker", "WorkerQuery"]
