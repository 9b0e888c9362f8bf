"""Proxies in front of a Thrift server, as an administrator would put them: one that ends TLS, one that asks for a login
(SASL) and unpacks what comes in its frames.

They know Thrift's frames from its specification, and none of our code."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

START, OK, BAD, COMPLETE = 1, 2, 3, 5


class Conversation(Protocol):
    """A login at the server. `step` returns what to answer, and whether it is complete; raises PermissionError."""

    def step(self, message: bytes) -> tuple[bytes, bool]: ...

    def wrap(self, data: bytes) -> bytes: ...

    def unwrap(self, data: bytes) -> bytes: ...


class PlainConversation:
    def __init__(self, passwords: dict[str, str]) -> None:
        self._passwords = passwords

    def step(self, message: bytes) -> tuple[bytes, bool]:
        _, user, password = message.decode().split("\0")
        if self._passwords.get(user) != password:
            raise PermissionError("wrong name or password")
        return b"", True

    def wrap(self, data: bytes) -> bytes:
        return data

    def unwrap(self, data: bytes) -> bytes:
        return data


@contextlib.contextmanager
def proxy(
    target: tuple[str, int], tls: ssl.SSLContext | None = None, login: Callable[[], Conversation] | None = None
) -> Iterator[int]:
    """The port of the proxy."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError, EOFError), client:
            secured = client if tls is None else tls.wrap_socket(client, server_side=True)
            with secured, socket.create_connection(target) as server:
                _joined(secured, server, None if login is None else login())

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def _joined(client: socket.socket, server: socket.socket, login: Conversation | None) -> None:
    if login is not None and not _let_in(client, login):
        return

    def back() -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                wrapped = data if login is None else login.wrap(data)
                client.sendall(wrapped if login is None else struct.pack(">I", len(wrapped)) + wrapped)
            client.shutdown(socket.SHUT_RDWR)

    answers = threading.Thread(target=back, daemon=True)
    answers.start()
    with contextlib.suppress(OSError, EOFError):
        while data := client.recv(65536) if login is None else login.unwrap(_frame(client)):
            server.sendall(data)
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)
    answers.join()


def _let_in(client: socket.socket, login: Conversation) -> bool:
    status, _ = _message(client)
    assert status == START
    complete = False
    while not complete:
        status, message = _message(client)
        if status != OK:
            return False
        try:
            answer, complete = login.step(message)
        except PermissionError as error:
            _send(client, BAD, str(error).encode())
            return False
        _send(client, COMPLETE if complete else OK, answer)
    return True


def _send(client: socket.socket, status: int, body: bytes) -> None:
    client.sendall(struct.pack(">BI", status, len(body)) + body)


def _message(client: socket.socket) -> tuple[int, bytes]:
    status, length = struct.unpack(">BI", _exactly(client, 5))
    return status, _exactly(client, length)


def _frame(client: socket.socket) -> bytes:
    (length,) = struct.unpack(">I", _exactly(client, 4))
    return _exactly(client, length)


def _exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
