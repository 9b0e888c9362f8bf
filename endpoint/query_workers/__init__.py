"""Query workers: processes beside the server that answer questions expected to take long.

    asking --> QueryWorkers (this side) --- messages, over a socket pair ---> process (that side)

What an evaluation does in Python holds the interpreter of its process; in a process of its own it holds up neither
small questions nor streams. A worker reads the same store, and writes nothing."""

from endpoint.query_workers.crew import QueryWorkers, Worker, WorkerQuery
from endpoint.query_workers.messages import Ask, Start

__all__ = ["Ask", "QueryWorkers", "Start", "Worker", "WorkerQuery"]
