"""Frames: messages between processes over one socket, each behind its length (4 bytes)."""

from __future__ import annotations

import socket
import struct

#: A frame begins with the size of its body.
LENGTH = struct.Struct("<I")
FRAME_BYTES_MAX = (1 << 32) - 1


class Closed(ConnectionError):
    """The other process has closed the socket."""


def framed(body: bytes) -> bytes:
    if len(body) > FRAME_BYTES_MAX:
        raise ValueError(f"a message of {len(body)} bytes: the limit is {FRAME_BYTES_MAX}")
    return LENGTH.pack(len(body)) + body


def receive(connection: socket.socket, size_max: int = FRAME_BYTES_MAX) -> bytearray:
    """The body of the next frame; raises Closed at the end."""
    (size,) = LENGTH.unpack(exactly(connection, LENGTH.size))
    if size > size_max:
        raise Closed(f"a frame of {size} bytes where {size_max} are allowed")
    return exactly(connection, size)


def exactly(connection: socket.socket, size: int) -> bytearray:
    body = bytearray(size)
    view = memoryview(body)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise Closed("the other process closed the connection")
        view = view[count:]
    return body
