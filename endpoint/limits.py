"""The limits of one request and of all requests together. Each limit has its own error."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stream_ext.evaluation_budget import TERM_BYTES, Control
from stream_ext.query_memory import QueryMemory, usual_bytes


@dataclass(frozen=True, slots=True)
class HttpLimits:
    body_bytes: int = 64 << 20  #: largest body, as it is sent
    inflated_bytes: int = 256 << 20  #: largest compressed body, after unpacking
    bodies_bytes: int = 256 << 20  #: all bodies of running requests together, after unpacking
    text_bytes: int = 1 << 20  #: longest text of a query or update
    query_s: float = 300.0  #: time of a query, unless its `timeout` is shorter
    slow_query_s: float = 10.0  #: a query or update that takes longer is logged; 0: none
    query_bytes: int = 2 << 30  #: memory of one query at a time
    queries_bytes: int | None = None  #: memory of all running queries together; None: half of the machine's memory
    term_bytes: int = TERM_BYTES  #: longest term that an expression creates
    rows: int = 10_000_000  #: rows of an answer
    #: A query whose operators are estimated to make more rows is divided among tasks of Spark, if it can be.
    spark_rows: float = math.inf
    remembered_bytes: int = 16 << 20  #: cache of small answers of the latest snapshot
    readers: int = 16  #: threads that answer queries
    writers: int = 64  #: threads that run pushes and updates until they are acknowledged
    waiters: int = 64  #: threads that wait until a push or update is evaluated (wait=evaluated)
    unpackers: int = 2  #: threads that unpack compressed bodies
    followers: int = 4  #: threads that fetch emissions for subscriptions
    live: int = 256  #: live queries on /sparql at a time
    waiting: int = 1024  #: requests that may wait for a thread of each kind; further ones get Overload
    heartbeat_s: float = 15.0  #: after this time without an emission a subscription gets a comment
    connections: int = 4096  #: open connections; one more closes the oldest waiting one
    head_s: float = 10.0  #: time for the head of a request, from its first byte on
    head_bytes: int = 4 << 20  #: largest head of a request; its URL may have the text of a query
    idle_s: float = 60.0  #: time without a request after which a connection is closed
    slow_s: float = 10.0  #: in each such period a body must arrive, and an answer be read, with `rate_bytes` a second
    rate_bytes: int = 4 << 10
    unread_bytes: int = 256 << 20  #: unread bytes of all answers together

    def control(self, timeout_s: float, what: str = "query", memory: QueryMemory | None = None) -> Control:
        """The budget of one query or update; its memory is a part of `memory`, if given."""
        return Control(timeout_s, self.query_bytes, what=what, term_bytes=self.term_bytes, memory=memory)

    def query_memory(self) -> QueryMemory:
        return QueryMemory(self.queries_bytes or usual_bytes(self.query_bytes))

    def control_of_graphs(self, memory: QueryMemory | None = None, what: str = "write of a graph") -> Control:
        """The budget of a request that reads or writes whole graphs."""
        return Control(
            self.query_s, self.query_bytes, what=what, settings=("--query-timeout", "--query-bytes"),
            memory=memory,
        )  # fmt: skip
