"""A slab: all that one snapshot adds, in pieces of at most 4 MiB, written once and never changed.

A piece is a list of records: new terms, blocks of inserted or deleted edges, columns of streams. What a stream's
record in a slab holds is inserted into the store too, before the blocks of that slab. A slice has the same form,
and holds records of one stream that the store does not absorb. A record whose triples have graphs of their own is of
another kind: whoever does not know that kind refuses the slab, and does not take all triples for those of one graph.
Layout of a record: kind (1 byte), flags (1 byte),
2 bytes of zero, length (4 bytes), body."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from hbase_store.arrays import Ids, Offsets
from hbase_store.backends.keyvalue import Key, Value
from hbase_store.errors import BadRow
from hbase_store.layout.blocks import Block, pack_block, unpack_block
from hbase_store.layout.columns import pack_column, unpack_column
from hbase_store.layout.sealed import PAYLOAD_BYTES_MAX, corrupt, seal, unseal
from hbase_store.layout.stream_columns import StreamPart, pack_part, unpack_part

MAGIC = b"RS"
TERMS, BLOCK, STREAM, STREAM_OF_GRAPHS = 1, 2, 3, 4
#: The kinds of the records of streams.
STREAMS = (STREAM, STREAM_OF_GRAPHS)
_NAMED, _DELETED = 1, 2
_PROMOTED = 1
_RECORD = struct.Struct("<BBxxI")
_FIRST = struct.Struct("<Q")

CHUNK_BYTES = 1 << 20
CHUNK_TERMS = 1 << 16
#: The longest term: with lengths and headers it still fits into a piece.
TERM_BYTES_MAX = PAYLOAD_BYTES_MAX - 1024


@dataclass(frozen=True, slots=True)
class TermsChunk:
    """Terms of consecutive ids: term i is data[offsets[i]:offsets[i + 1]] and has the id first + i.

    `promoted`: they were transient before, so that their ids are older than others of the slab."""

    first: int
    offsets: Offsets
    data: bytes
    promoted: bool = False

    def texts(self) -> list[bytes]:
        ends = self.offsets.tolist()
        return [self.data[start:end] for start, end in pairwise(ends)]


@dataclass(slots=True)
class Slab:
    terms: list[TermsChunk] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    streams: dict[int, list[StreamPart]] = field(default_factory=dict)


# ---- writing


def chunks_of(first: int, texts: Sequence[bytes], promoted: bool = False) -> Iterator[TermsChunk]:
    """Terms of consecutive ids, cut into chunks."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    start = 0
    while start < len(texts):
        begin = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, begin + CHUNK_BYTES, "right"))
        stop = max(start + 1, min(stop, start + CHUNK_TERMS))
        offsets = np.zeros(stop - start + 1, np.int64)
        offsets[1:] = ends[start:stop] - begin
        yield TermsChunk(first + start, offsets, b"".join(texts[start:stop]), promoted)
        start = stop


def check_lengths(texts: Iterable[bytes]) -> None:
    longest = max(map(len, texts), default=0)
    if longest > TERM_BYTES_MAX:
        raise BadRow(f"a term has {longest} bytes; it may have at most {TERM_BYTES_MAX}: split it")


def pack_slab(slab: Slab, check: Callable[[], object] = lambda: None) -> list[Value]:
    """The bytes of a slab, in pieces. `check` is called again and again, and may raise to end the packing."""
    return _pieces(_records(slab, check))


def pack_slice(part: StreamPart) -> list[Value]:
    return _pieces(_stream_records(part))


def _stream_records(part: StreamPart) -> Iterator[bytes]:
    kind = STREAM if part.g is None else STREAM_OF_GRAPHS
    return (_record(kind, 0, body) for body in pack_part(part))


def _records(slab: Slab, check: Callable[[], object]) -> Iterator[bytes]:
    for chunk in slab.terms:
        check()
        lengths = pack_column(np.diff(chunk.offsets).astype(np.uint64))
        yield _record(TERMS, _PROMOTED * chunk.promoted, _FIRST.pack(chunk.first) + lengths + chunk.data)
    for parts in slab.streams.values():
        for part in parts:
            yield from _stream_records(part)
    for block in slab.blocks:
        check()
        flags = (_NAMED if block.named else 0) | (0 if block.inserted else _DELETED)
        yield _record(BLOCK, flags, pack_block(block))


def _record(kind: int, flags: int, body: bytes) -> bytes:
    return _RECORD.pack(kind, flags, len(body)) + body


def _pieces(records: Iterable[bytes]) -> list[Value]:
    pieces: list[Value] = []
    piece: list[bytes] = []
    size = 0
    for record in records:
        if piece and size + len(record) > PAYLOAD_BYTES_MAX:
            pieces.append(seal(MAGIC, b"".join(piece)))
            piece, size = [], 0
        piece.append(record)
        size += len(record)
    if piece:
        pieces.append(seal(MAGIC, b"".join(piece)))
    return pieces


# ---- reading


def unpack_slab(table: str, pieces: Iterable[tuple[Key, Value | None]], kinds: Sequence[int] = ()) -> Slab:
    """The records of a slab or slice; only those of `kinds` if any are named."""
    slab = Slab()
    for key, value in pieces:
        payload = unseal(MAGIC, value, table, key)
        try:
            for kind, flags, body in _read_records(payload):
                if not kinds or kind in kinds:
                    _take(slab, kind, flags, body)
        except ValueError as error:
            raise corrupt(table, key, str(error)) from error
    return slab


def _read_records(payload: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    at = 0
    while at < len(payload):
        if at + _RECORD.size > len(payload):
            raise ValueError("a record is cut off")
        kind, flags, length = _RECORD.unpack_from(payload, at)
        at += _RECORD.size
        if at + length > len(payload):
            raise ValueError("a record is cut off")
        yield kind, flags, payload[at : at + length]
        at += length


def _take(slab: Slab, kind: int, flags: int, body: memoryview) -> None:
    if kind == TERMS:
        slab.terms.append(_unpack_terms(body, bool(flags & _PROMOTED)))
    elif kind == BLOCK:
        slab.blocks.append(unpack_block(body, bool(flags & _NAMED), not flags & _DELETED))
    elif kind in STREAMS:
        part = unpack_part(body, kind == STREAM_OF_GRAPHS)
        slab.streams.setdefault(part.stream, []).append(part)
    else:
        raise ValueError(f"a record of kind {kind}")


def _unpack_terms(body: memoryview, promoted: bool) -> TermsChunk:
    if len(body) < _FIRST.size:
        raise ValueError("a chunk of terms is cut off")
    (first,) = _FIRST.unpack_from(body)
    lengths, at = unpack_column(body, _FIRST.size)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths.astype(np.int64), out=offsets[1:])
    if at + int(offsets[-1]) != len(body):
        raise ValueError("the texts of a chunk of terms do not fit its lengths")
    return TermsChunk(first, offsets, bytes(body[at:]), promoted)


def term_ids(chunk: TermsChunk) -> Ids:
    return np.arange(chunk.first, chunk.first + len(chunk.offsets) - 1, dtype=np.uint64)
