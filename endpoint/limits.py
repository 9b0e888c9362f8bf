"""The limits of one request and of all requests together. Each limit has its own error."""

from __future__ import annotations

from dataclasses import dataclass

from stream_ext.evaluation_budget import TERM_BYTES, Control
from stream_ext.query_memory import QueryMemory, usual_bytes


@dataclass(frozen=True, slots=True)
class HttpLimits:
    body_bytes: int = 64 << 20  #: of a body as it is sent
    inflated_bytes: int = 256 << 20  #: of a compressed body, unpacked
    bodies_bytes: int = 256 << 20  #: of all bodies under way, as they are unpacked
    text_bytes: int = 1 << 20  #: of a query or update
    query_s: float = 300.0  #: for a query, unless its `timeout` is shorter
    slow_query_s: float = 10.0  #: after which a query or update is in the log; 0: none is
    query_bytes: int = 2 << 30  #: of all that is alive in a query at a time
    queries_bytes: int | None = None  #: of all queries that are evaluated, together; None: half of the machine's memory
    term_bytes: int = TERM_BYTES  #: of a term that an expression makes
    rows: int = 10_000_000  #: of an answer
    remembered_bytes: int = 16 << 20  #: of small answers that are kept while their snapshot is the latest
    readers: int = 16  #: threads that answer queries
    writers: int = 64  #: threads that hold pushes and updates until they are acknowledged
    waiters: int = 64  #: threads that hold them until they are evaluated, where that is asked for
    unpackers: int = 2  #: threads that unpack compressed bodies
    followers: int = 4  #: threads that fetch emissions for those who listen
    live: int = 256  #: queries on /sparql that live as long as one listens
    waiting: int = 1024  #: requests that may wait for a thread, per kind; one more is told to come back
    heartbeat_s: float = 15.0  #: silence after which a listener hears a comment
    connections: int = 4096  #: that are open at a time; one more takes the place of the oldest that waits
    head_s: float = 10.0  #: for the head of a request, from its first byte on
    head_bytes: int = 4 << 20  #: of a request's head, which has the text of a query in its URL
    idle_s: float = 60.0  #: for the next request of a connection, or its first
    slow_s: float = 10.0  #: in each of which a body brings `rate_bytes` a second, and an answer is read so fast
    rate_bytes: int = 4 << 10
    unread_bytes: int = 256 << 20  #: of all answers that are written and not read

    def control(self, timeout_s: float, what: str = "query", memory: QueryMemory | None = None) -> Control:
        """The budget of one query or update; its memory is a part of `memory`, if given."""
        return Control(timeout_s, self.query_bytes, what=what, term_bytes=self.term_bytes, memory=memory)

    def query_memory(self) -> QueryMemory:
        return QueryMemory(self.queries_bytes or usual_bytes(self.query_bytes))

    def control_of_graphs(self, memory: QueryMemory | None = None) -> Control:
        """The budget of a request that writes whole graphs."""
        return Control(
            self.query_s, self.query_bytes, what="write of a graph", settings=("--query-timeout", "--query-bytes"),
            memory=memory,
        )  # fmt: skip
