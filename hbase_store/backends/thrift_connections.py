"""Connections to the Thrift servers of one HBase: one for each call that is under way, as a client is not thread-safe.

They are spread over the servers. A server that cannot be reached, or breaks a connection, is left out for some seconds;
then it is tried again."""

from __future__ import annotations

import os
import re
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar

import happybase
import Hbase_thrift as thrift  # happybase makes this module when it is imported
from thriftpy2.protocol.cybin import ProtocolError, TCyBinaryProtocol
from thriftpy2.thrift import TClient, TException

from hbase_store.backends.thrift_transports import (
    IN_THE_CLEAR,
    LoginFailed,
    ThriftAccess,
    logged_in,
    why_not_connected,
)
from hbase_store.errors import BadRow, StoreRefused, StoreUnavailable

__all__ = ["ConnectionDied", "Connections", "NoAnswer", "ServerAddress", "broken", "first_line", "thrift"]

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
#: Host and port of a Thrift server.
ServerAddress = tuple[str, int]

#: So many reads are under way at a time; others wait, but no write and no look at a lease or head does.
READS_MAX = 32
#: The server drops connections that were idle for a minute; ours are replaced before.
IDLE_S_MAX = 30.0
#: For so long a server that failed is left out, if there is another one.
_LEFT_OUT_S = 5.0

#: What HBase says of a cell that it takes from nobody; of other arguments that it does not like we are not the cause.
_TOO_LARGE = re.compile("too large|exceeds", re.IGNORECASE)


#: What HBase says of a table that is not there; of one that is written to it says the name, and that nobody has it.
_ABSENT = re.compile(r"TableNotFound|Unknown table|Failed \d+ actions?: \S+: \d+ times?, servers with issues: null")


class NoAnswer(StoreUnavailable):
    """A call had no answer in time. It may be done nevertheless."""


class ConnectionDied(Exception):
    """The connection broke during a call, which may or may not have been done; or HBase has forgotten a scanner."""


class _Connection(happybase.Connection):  # type: ignore[misc]  # happybase has no types
    """A connection that several threads may close at once, which thriftpy2 does not allow: the thread that closes the
    store, the thread whose call fails of that, and the garbage collector when the thread has ended."""

    def __init__(self, host: str, port: int, timeout_ms: int, access: ThriftAccess) -> None:
        self._closing = threading.RLock()
        self._access, self._socket = access, access.socket(host, port, timeout_ms)
        super().__init__(host, port, timeout=timeout_ms, autoconnect=False)

    def _refresh_thrift_client(self) -> None:
        """As the class above makes it, over our transport. The compact protocol has no C codec in thriftpy2, and is
        several times slower."""
        self.transport = self._access.over(self._socket, self.host)
        self.client = TClient(thrift.Hbase, TCyBinaryProtocol(self.transport, decode_response=False))

    def open(self) -> None:
        self._socket.open()
        if self._access.login is not None:
            logged_in(self.transport)

    def close(self) -> None:
        with self._closing:
            super().close()

    def disown(self) -> None:
        """As `Connections.disown`; the lock may have been held by a thread that is not in this process."""
        self._closing = threading.RLock()
        if self._socket.is_open():
            self._socket.sock.close()


@dataclass(frozen=True, slots=True)
class _Idle:
    connection: Any
    server: ServerAddress
    since_s: float


class Connections:
    """A call takes a connection that is idle, or a new one: there are as many as there were calls at a time, not as
    many as there are threads. A Thrift server has a thread for each connection for as long as it is open, and lets
    further ones wait without a word."""

    def __init__(
        self,
        servers: Sequence[ServerAddress],
        timeout_ms: int,
        access: ThriftAccess = IN_THE_CLEAR,
        reads_max: int = READS_MAX,
    ) -> None:
        self._servers, self._timeout_ms, self._access = list(servers), timeout_ms, access
        self._reads_max, self._reads = reads_max, threading.BoundedSemaphore(reads_max)
        self._failed_s: dict[ServerAddress, float] = {}  # when it failed last
        self._next = count()
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []  # the last used one at the end
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()
        self._closed = False
        _every.add(self)

    def call(
        self,
        verb: Callable[Concatenate[Any, Parameters], Answer],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Answer:
        connection, server = self._take()
        try:
            answer = verb(connection.client, *arguments, **options)
        except thrift.IOError as error:
            self._give_back(connection, server)
            raise _failure(first_line(error), _shown(server)) from error
        except thrift.IllegalArgument as error:
            self._give_back(connection, server)
            why = first_line(error)
            if _TOO_LARGE.search(why):
                raise BadRow(f"HBase at {_shown(server)} refused a call: {why}") from error
            # A scanner that has expired, a region that has no place just now: what was asked for is not to blame.
            raise ConnectionDied(why) from error
        except TimeoutError as error:
            self._failed(connection, server)
            raise NoAnswer(
                f"HBase at {_shown(server)} did not answer within {self._timeout_ms} ms; is it overloaded, are all "
                "threads of its Thrift server busy (hbase.thrift.maxWorkerThreads), or was it started with another "
                "transport than the address says (transport=)?"
            ) from error
        except (TException, ProtocolError, OSError, EOFError, struct.error, UnicodeDecodeError) as error:
            self._failed(connection, server)
            raise ConnectionDied(str(error) or type(error).__name__) from error
        except BaseException as error:
            connection.close()  # half of a reply may still be on its way
            if self._closed:  # under our hands
                raise StoreUnavailable(f"the store at {_shown(server)} is closed; open it again") from error
            raise
        self._give_back(connection, server)
        return answer

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Waits until there is room for one more read."""
        reads = self._reads  # a forked child has others
        if not reads.acquire(timeout=self._timeout_ms / 1000):
            raise NoAnswer(
                f"HBase at {_shown(self._servers[0])} did not answer one of {self._reads_max} reads within "
                f"{self._timeout_ms} ms; is it overloaded?"
            )
        try:
            yield
        finally:
            reads.release()

    def health(self) -> list[tuple[str, bool]]:
        """The servers, and whether each is used now."""
        return [(_shown(server), self._is_used(server)) for server in self._servers]

    def _failed(self, connection: Any, server: ServerAddress) -> None:
        """The other connections to this server have most probably died, too."""
        self._failed_s[server] = time.monotonic()
        with self._lock:
            died = [idle.connection for idle in self._idle if idle.server == server]
            self._idle = [idle for idle in self._idle if idle.server != server]
        for each in (connection, *died):
            each.close()

    def _is_used(self, server: ServerAddress) -> bool:
        failed_s = self._failed_s.get(server)
        return failed_s is None or time.monotonic() - failed_s >= _LEFT_OUT_S

    def _take(self) -> tuple[Any, ServerAddress]:
        if self._closed:
            raise StoreUnavailable(f"the store at {_shown(self._servers[0])} is closed; open it again")
        with self._lock:
            idle = self._idle.pop(self._place()) if self._idle else None
            if idle is not None and time.monotonic() - idle.since_s <= IDLE_S_MAX:
                return idle.connection, idle.server
        if idle is not None:
            idle.connection.close()
        connection, server = self._connect_to_one()
        self._all.add(connection)
        return connection, server

    def _place(self) -> int:
        """Of the idle connections, the last used one of the server whose turn it is, or of any."""
        server = self._servers[next(self._next) % len(self._servers)]
        return max((i for i, idle in enumerate(self._idle) if idle.server == server), default=len(self._idle) - 1)

    def _give_back(self, connection: Any, server: ServerAddress) -> None:
        now_s = time.monotonic()
        with self._lock:
            self._idle.append(_Idle(connection, server, now_s))
            fresh = next(i for i, idle in enumerate(self._idle) if now_s - idle.since_s <= IDLE_S_MAX)
            old, self._idle = self._idle[:fresh], self._idle[fresh:]
        for each in old:
            each.connection.close()
        if self._closed:
            connection.close()

    def _connect_to_one(self) -> tuple[Any, ServerAddress]:
        """The next server in turn that is not left out; if none answers, those that are left out are tried, too."""
        first = next(self._next)
        in_turn = [self._servers[(first + i) % len(self._servers)] for i in range(len(self._servers))]
        in_turn.sort(key=lambda server: not self._is_used(server))
        failure: StoreUnavailable | None = None
        for server in in_turn:
            try:
                return self._connect(server), server
            except StoreUnavailable as error:
                self._failed_s[server] = time.monotonic()
                failure = failure or error
        assert failure is not None
        raise failure

    def _connect(self, server: ServerAddress) -> Any:
        connection = _Connection(*server, self._timeout_ms, self._access)
        try:
            connection.open()
        except (TException, OSError, LoginFailed) as error:
            connection.close()
            raise StoreUnavailable(why_not_connected(error, _shown(server), self._access)) from error
        return connection

    def close(self) -> None:
        self._closed = True
        for connection in list(self._all):
            connection.close()

    def disown(self) -> None:
        """In a forked child: forget the parent's sockets without the shutdown that would cut the parent off."""
        for connection in list(self._all):
            connection.disown()
        self._all, self._idle, self._lock = weakref.WeakSet(), [], threading.Lock()
        self._reads = threading.BoundedSemaphore(self._reads_max)


_every: weakref.WeakSet[Connections] = weakref.WeakSet()


def _disown_all() -> None:
    for connections in list(_every):
        connections.disown()


os.register_at_fork(after_in_child=_disown_all)


def _failure(why: str, shown: str) -> StoreUnavailable:
    if "AccessDenied" in why:
        return StoreRefused(
            f"HBase at {shown} does not permit a call: {why}. Let an administrator grant the user of the Thrift server "
            "the rights to read and write (RW) the tables that `rillet hbase check` lists"
        )
    if "NamespaceNotFound" in why:
        return StoreRefused(
            f"HBase at {shown} has no such namespace: {why}. Let an administrator create it, in hbase shell: "
            "create_namespace 'NAME'"
        )
    if _ABSENT.search(why):
        return StoreRefused(
            f"HBase at {shown} has no table for a call: {why}. `rillet hbase check` says which tables are absent, "
            "`rillet hbase create` makes them, without the data that was there"
        )
    return StoreUnavailable(f"HBase at {shown} failed: {why}")


def broken(where: str, died: ConnectionDied) -> StoreUnavailable:
    """For a call that is not made again."""
    return StoreUnavailable(
        f"{where} broke the connection: {died}; is HBase running, and does it expect TLS, a login or another transport?"
    )


def first_line(error: Any) -> str:
    """HBase sends the whole Java stack trace."""
    message = error.message or b""
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    return text.strip().partition("\n")[0]


def _shown(server: ServerAddress) -> str:
    return f"{server[0]}:{server[1]}"
