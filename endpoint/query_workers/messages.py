"""The messages between the server and a query worker: frames of a length (4 bytes) and a message in msgpack.

    Start ->   <- Ready                     once
    Ask ->     <- Began | Failed            the first piece of an answer
    More ->    <- Piece | Failed            the next piece: no piece is written before the server wants it
    Cancel ->  <- Failed | Ended            at any time; no message, if the answer is complete

An answer is complete with its last piece, with Failed, and with Ended."""

from __future__ import annotations

import msgspec

from endpoint.errors import Problem
from endpoint.monitoring.log import Settings as LogSettings
from stream_ext.frames import framed
from stream_ext.remote.allowed_urls import AllowedUrls


class Start(msgspec.Struct, tag=True, frozen=True):
    """The first message: what the worker needs to open the store and to evaluate."""

    store: str
    base: str
    query_bytes: int
    queries_bytes: int
    term_bytes: int
    rows_max: int
    threads: int
    allowed_urls: AllowedUrls
    cache_bytes: int
    log: LogSettings | None = None


class Ask(msgspec.Struct, tag=True, frozen=True):
    id: int
    text: str
    snapshot: int
    at: int | None
    default: tuple[str, ...]  # the dataset of the request
    named: tuple[str, ...]
    format: str
    timeout_s: float


class More(msgspec.Struct, tag=True, frozen=True):
    id: int


class Cancel(msgspec.Struct, tag=True, frozen=True):
    id: int


class Ready(msgspec.Struct, tag=True, frozen=True):
    snapshot: int


class Began(msgspec.Struct, tag=True, frozen=True):
    id: int
    snapshot: int
    piece: bytes
    last: bool


class Piece(msgspec.Struct, tag=True, frozen=True):
    id: int
    piece: bytes
    last: bool


class Failed(msgspec.Struct, tag=True, frozen=True):
    id: int
    problem: Problem


class Ended(msgspec.Struct, tag=True, frozen=True):
    id: int


ToWorker = Start | Ask | More | Cancel
FromWorker = Ready | Began | Piece | Failed | Ended

to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


def frame(message: ToWorker | FromWorker) -> bytes:
    return framed(msgspec.msgpack.encode(message))
