"""The door of the bell: admits connections with the right token.

    a connection  ->  a stranger: at most a few at a time, each for a limited time
                  ->  it sends the token, 64 bytes that are not decoded      (otherwise it is closed without an answer)
                  ->  its first message is Hello or Await                    (otherwise likewise)
                  ->  a friend, with a thread of its own

Any process of this machine may connect. Each driver gets a new token, in a file that only this user can read.
On an address that other machines reach, all of this is inside TLS."""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import socket
import threading
from collections.abc import Callable

from stream_ext.clock import Clock
from stream_ext.errors import BadArgument
from stream_ext.runners.spark import tls, wire

log = logging.getLogger("rillet.spark")

#: A stranger must send the token and its first message within this time.
HELLO_MS = 5_000
#: The greatest number of strangers; for a further one the oldest is closed.
STRANGERS_MAX = 8
_ACCEPT_PAUSE_MS = 250

First = wire.Hello | wire.Await


class Door:
    def __init__(
        self,
        clock: Clock,
        on_friend: Callable[[socket.socket, First, bytes], None],
        on_stranger: Callable[[], None],
        on_fault: Callable[[Exception], None],
        listens_on: tuple[str, int] = ("127.0.0.1", 0),
        identity: tls.Identity | None = None,
    ) -> None:
        """`on_friend` is called in a thread of its own, with the token that was shown, and may take as long as the
        connection lasts; `on_fault` if it fails. `on_stranger`: there is another time limit (`next_ms`).
        `identity`: connections are encrypted, and this is who we are."""
        self._clock, self._on_friend, self._on_stranger, self._on_fault = clock, on_friend, on_stranger, on_fault
        self._lock = threading.Lock()
        self._accepting = threading.Condition(self._lock)
        self._token = _new_token()
        self._connections: set[socket.socket] = set()
        self._strangers: dict[socket.socket, int] = {}  # the oldest first, and by when each must be admitted
        self._closed = False
        self.refused = 0
        self._identity = identity
        self._server = _listening(*listens_on)
        self._thread = threading.Thread(target=self._accept, name="rillet-bell", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def new_address(self) -> wire.Address:
        """A new address; connections with an older token are rejected from now on."""
        host, port = self._server.getsockname()[:2]
        with self._lock:
            self._token = _new_token()
            certificate = self._identity.certificate if self._identity is not None else ""
            return wire.Address(host, port, self._token, certificate)

    def shut(self) -> None:
        """Closes all connections, and makes the token invalid."""
        with self._lock:
            self._token = _new_token()
            for connection in self._connections:
                shut(connection)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._accepting.notify_all()
        self.shut()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        if self._thread.is_alive():
            self._thread.join(2)

    def admits(self, token: bytes) -> bool:
        with self._lock:
            return not self._closed and hmac.compare_digest(token, self._token.encode())

    # ---- time limits

    def next_ms(self) -> int | None:
        with self._lock:
            return next(iter(self._strangers.values()), None)

    def close_late(self, now: int) -> None:
        with self._lock:
            for stranger in [each for each, by_ms in self._strangers.items() if by_ms <= now]:
                self._refuse(stranger)

    def _refuse(self, stranger: socket.socket) -> None:
        del self._strangers[stranger]
        self.refused += 1
        shut(stranger)

    # ---- connections

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError as error:
                with self._lock:
                    if self._closed:
                        return
                    # It was reset, or there is no file descriptor left: the next one may be a seat.
                    log.warning("the bell cannot accept a connection", extra={"fields": {"error": str(error)}})
                    self._clock.wait(self._accepting, self._clock.now_ms() + _ACCEPT_PAUSE_MS)
                continue
            if not self._lets_in(connection):
                return
            threading.Thread(target=self._receive, args=(connection,), name="rillet-bell-line", daemon=True).start()

    def _lets_in(self, stranger: socket.socket) -> bool:
        with self._lock:
            if self._closed:
                stranger.close()
                return False
            if len(self._strangers) >= STRANGERS_MAX:
                self._refuse(next(iter(self._strangers)))
            self._strangers[stranger] = self._clock.now_ms() + HELLO_MS
            self._connections.add(stranger)
        self._on_stranger()
        return True

    def _receive(self, connection: socket.socket) -> None:
        with connection:
            try:
                wire.tune(connection)
                if self._identity is None:
                    self._answer(connection, connection)
                else:
                    with tls.decrypted(connection, self._identity.context) as line:
                        self._answer(line, connection)
            except OSError:
                pass  # whoever it was has gone, or said what nobody understands
            except Exception as error:  # noqa: BLE001 -- whoever takes friends says what it means
                self._on_fault(error)
            finally:
                with self._lock:
                    self._connections.discard(connection)
                    self._strangers.pop(connection, None)

    def _answer(self, line: socket.socket, connection: socket.socket) -> None:
        token = wire.token_of(line)
        first = self._first(line) if self.admits(token) else None
        with self._lock:
            in_time = self._strangers.pop(connection, None) is not None
            if first is None or not in_time:
                self.refused += 1
                return
        self._on_friend(line, first, token)

    def _first(self, connection: socket.socket) -> First | None:
        try:
            first = wire.receive_message(wire.from_seat, connection, wire.HELLO_BYTES_MAX)
        except wire.Garbled:
            return None
        return first if isinstance(first, First) else None


def shut(connection: socket.socket) -> None:
    """Whoever reads or writes it, here or there, sees its end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise BadArgument(f"--spark-address {host}: this process cannot listen there: {error}") from error


def _new_token() -> str:
    return secrets.token_hex(wire.TOKEN_BYTES // 2)
