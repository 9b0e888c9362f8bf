"""TLS between the bell and tasks on other machines.

    bell:  a connection  ->  a thread that encrypts and decrypts  ->  a socket of this process, as of any local task
    task:  connects, and trusts one certificate only, which it has got with the address and the token

The bell makes its certificate itself. It has several threads for one connection, which OpenSSL does not allow: hence
the thread in between. A task has one thread, and none in between."""

from __future__ import annotations

import contextlib
import datetime
import os
import select
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Any

from stream_ext.errors import RilletError
from stream_ext.frames import Closed

_AT_ONCE = 1 << 16
_NAME = "rillet bell"
_CONNECT_S = 10.0
#: The clock of another machine may be wrong, and the key lives no longer than this process.
_SINCE, _UNTIL = datetime.datetime(2000, 1, 1), datetime.datetime(9999, 1, 1)


class BellUnreachable(RilletError):
    """A task cannot connect to the server's process."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate (PEM), and a context that has its key."""

    certificate: str
    context: ssl.SSLContext


def new_identity() -> Identity:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), _SINCE, _UNTIL)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no line is resumed, and a ticket would look like news
    _load(context, certificate + private)
    return Identity(certificate.decode(), context)


def _load(context: ssl.SSLContext, chain: bytes) -> None:
    """The module `ssl` reads keys from files only; this one is in memory, and has no name."""
    file = os.memfd_create(_NAME)
    try:
        with open(file, "wb", closefd=False) as out:
            out.write(chain)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


# ---- the bell's end ------------------------------------------------------------------------------------------------


def decrypted(connection: socket.socket, context: ssl.SSLContext) -> socket.socket:
    """A socket with what comes and goes on this connection, in clear. When one ends, so does the other."""
    ours, theirs = socket.socketpair()
    threading.Thread(
        target=_pass_on, args=(connection.dup(), theirs, context), name="rillet-bell-tls", daemon=True
    ).start()
    return ours


def _pass_on(connection: socket.socket, inner: socket.socket, context: ssl.SSLContext) -> None:
    # An error is the end of one of the two, or a stranger who does not speak TLS; the other is closed then.
    with inner, connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as line:
        line.setblocking(False)
        inner.setblocking(False)
        _pump(line, inner)


def _pump(line: ssl.SSLSocket, inner: socket.socket) -> None:
    incoming = outgoing = b""
    while True:
        moved = False
        if not incoming and (received := _received(line)) is not None:
            incoming, moved = received, True
            if not incoming:
                return
        if not outgoing and (received := _received(inner)) is not None:
            outgoing, moved = received, True
            if not outgoing:
                return
        incoming, passed_in = _passed(incoming, inner)
        outgoing, passed_out = _passed(outgoing, line)
        if not (moved or passed_in or passed_out):
            _wait(line, reads=not incoming, writes=bool(outgoing), inner=inner)


def _wait(line: ssl.SSLSocket, reads: bool, writes: bool, inner: socket.socket) -> None:
    waits = select.poll()
    for one, events in (
        (line, select.POLLIN * reads | select.POLLOUT * writes),
        (inner, select.POLLIN * (not writes) | select.POLLOUT * (not reads)),
    ):
        if events:  # else its end would be told again and again, while the other one is waited for
            waits.register(one, events)
    waits.poll()


def _received(source: socket.socket) -> bytes | None:
    """None: nothing now."""
    try:
        return source.recv(_AT_ONCE)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None


def _passed(data: bytes, to: socket.socket) -> tuple[bytes, bool]:
    """What is left of the data, and whether some of it was sent."""
    if not data:
        return data, False
    try:
        return data[to.send(data) :], True
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return data, False


# ---- a task's end --------------------------------------------------------------------------------------------------


class TaskLine(ssl.SSLSocket):
    """Its errors are those of a connection that has ended, as without TLS."""

    def recv_into(self, *arguments: Any, **named: Any) -> int:
        with _as_closed():
            return super().recv_into(*arguments, **named)

    def sendall(self, *arguments: Any, **named: Any) -> None:
        with _as_closed():
            super().sendall(*arguments, **named)


@contextlib.contextmanager
def _as_closed() -> Any:
    try:
        yield
    except ssl.SSLError as error:
        raise Closed(f"the line to the server ended: {error}") from error


def connect(host: str, port: int, certificate: str) -> socket.socket:
    """A connection to the one process that has the key of this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # it is known by its certificate, whatever its address is called
    context.load_verify_locations(cadata=certificate)
    context.sslsocket_class = TaskLine
    try:
        connection = socket.create_connection((host, port), timeout=_CONNECT_S)
        try:
            line = context.wrap_socket(connection)
        except BaseException:
            connection.close()
            raise
    except OSError as error:
        here = socket.gethostname()
        raise BellUnreachable(
            f"the machine {here} cannot connect to the server's process at {host}:{port} (--spark-address): {error}"
        ) from error
    line.settimeout(None)
    return line


def has_news(connection: socket.socket) -> bool:
    """Whether something can be read now."""
    if isinstance(connection, ssl.SSLSocket) and connection.pending():
        return True
    readable, _, _ = select.select([connection], [], [], 0)
    return bool(readable)
