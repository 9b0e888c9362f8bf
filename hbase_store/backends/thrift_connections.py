"""Connections to the Thrift servers of one HBase: one for each thread, as a client is not thread-safe.

Threads are spread over the servers. A server that cannot be reached, or breaks a connection, is left out for some
seconds; then it is tried again."""

from __future__ import annotations

import os
import re
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar

import happybase
import Hbase_thrift as thrift  # happybase makes this module when it is imported
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TClient, TException

from hbase_store.backends.thrift_transports import (
    IN_THE_CLEAR,
    LoginFailed,
    ThriftAccess,
    logged_in,
    why_not_connected,
)
from hbase_store.errors import BadRow, StoreUnavailable

__all__ = ["ConnectionDied", "Connections", "NoAnswer", "ServerAddress", "first_line", "thrift"]

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
#: Host and port of a Thrift server.
ServerAddress = tuple[str, int]

#: The server drops connections that were idle for a minute; ours are replaced before.
IDLE_S_MAX = 30.0
#: For so long a server that failed is left out, if there is another one.
_LEFT_OUT_S = 5.0

#: What HBase says of a cell that it takes from nobody; of other arguments that it does not like we are not the cause.
_TOO_LARGE = re.compile("too large|exceeds", re.IGNORECASE)


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


class Connections:
    """One connection per thread."""

    def __init__(self, servers: Sequence[ServerAddress], timeout_ms: int, access: ThriftAccess = IN_THE_CLEAR) -> None:
        self._servers, self._timeout_ms, self._access = list(servers), timeout_ms, access
        self._failed_s: dict[ServerAddress, float] = {}  # when it failed last
        self._next = count()
        self._of_thread = threading.local()
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()
        self._closed = False
        _every.add(self)

    def call(
        self,
        verb: Callable[Concatenate[Any, Parameters], Answer],
        *arguments: Parameters.args,
        **options: Parameters.kwargs,
    ) -> Answer:
        client = self._client()
        server: ServerAddress = self._of_thread.server
        try:
            answer = verb(client, *arguments, **options)
        except thrift.IOError as error:
            raise StoreUnavailable(f"HBase at {_shown(server)} failed: {first_line(error)}") from error
        except thrift.IllegalArgument as error:
            why = first_line(error)
            if _TOO_LARGE.search(why):
                raise BadRow(f"HBase at {_shown(server)} refused a call: {why}") from error
            # A scanner that has expired, a region that has no place just now: what was asked for is not to blame.
            raise ConnectionDied(why) from error
        except TimeoutError as error:
            self._failed(server)
            raise NoAnswer(
                f"HBase at {_shown(server)} did not answer within {self._timeout_ms} ms; is it overloaded?"
            ) from error
        except (TException, OSError, EOFError, struct.error, UnicodeDecodeError) as error:
            self._failed(server)
            raise ConnectionDied(str(error) or type(error).__name__) from error
        except BaseException as error:
            self._discard()  # half of a reply may still be on its way
            if self._closed:  # under our hands
                raise StoreUnavailable(f"the store at {_shown(server)} is closed; open it again") from error
            raise
        self._of_thread.used_s = time.monotonic()
        return answer

    def health(self) -> list[tuple[str, bool]]:
        """The servers, and whether each is used now."""
        return [(_shown(server), self._is_used(server)) for server in self._servers]

    def _failed(self, server: ServerAddress) -> None:
        self._failed_s[server] = time.monotonic()
        self._discard()

    def _is_used(self, server: ServerAddress) -> bool:
        failed_s = self._failed_s.get(server)
        return failed_s is None or time.monotonic() - failed_s >= _LEFT_OUT_S

    def _client(self) -> Any:
        if self._closed:
            raise StoreUnavailable(f"the store at {_shown(self._servers[0])} is closed; open it again")
        connection = getattr(self._of_thread, "connection", None)
        if connection is not None and time.monotonic() - self._of_thread.used_s > IDLE_S_MAX:
            self._discard()
            connection = None
        if connection is None:
            connection = self._of_thread.connection = self._connect_to_one()
            self._of_thread.used_s = time.monotonic()  # now, and not after its first answer, which may be an error
            self._all.add(connection)
        return connection.client

    def _connect_to_one(self) -> Any:
        """The next server in turn that is not left out; if none answers, those that are left out are tried, too."""
        first = next(self._next)
        in_turn = [self._servers[(first + i) % len(self._servers)] for i in range(len(self._servers))]
        in_turn.sort(key=lambda server: not self._is_used(server))
        failure: StoreUnavailable | None = None
        for server in in_turn:
            try:
                connection = self._connect(server)
            except StoreUnavailable as error:
                self._failed_s[server] = time.monotonic()
                failure = failure or error
            else:
                self._of_thread.server = server
                return connection
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

    def _discard(self) -> None:
        connection = self._of_thread.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        self._closed = True
        for connection in list(self._all):
            connection.close()

    def disown(self) -> None:
        """In a forked child: forget the parent's sockets without the shutdown that would cut the parent off."""
        for connection in list(self._all):
            connection.disown()
        self._all = weakref.WeakSet()
        self._of_thread = threading.local()


_every: weakref.WeakSet[Connections] = weakref.WeakSet()


def _disown_all() -> None:
    for connections in list(_every):
        connections.disown()


os.register_at_fork(after_in_child=_disown_all)


def first_line(error: Any) -> str:
    """HBase sends the whole Java stack trace."""
    message = error.message or b""
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    return text.strip().partition("\n")[0]


def _shown(server: ServerAddress) -> str:
    return f"{server[0]}:{server[1]}"
