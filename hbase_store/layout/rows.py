"""The small rows: what a snapshot is made of, and where each stream has come to. Their keys and byte layouts.

Numbers in keys are big-endian, so that keys sort as the numbers do. Values are msgpack arrays, sealed."""

from __future__ import annotations

import struct
from itertools import islice
from typing import NewType

import msgspec

from hbase_store.backends.keyvalue import CALL_BYTES_MAX, Key, Value
from hbase_store.layout.sealed import seal_struct, unseal_struct

#: A stream remembers so many senders of numbered pushes.
SOURCES_MAX = 10_000

#: A snapshot number names one state of all streams and of the store.
Sn = NewType("Sn", int)

_SN_KEY = struct.Struct(">QQ")
_SLAB_KEY = struct.Struct(">QQI")
_SLICE_KEY = struct.Struct(">QQQI")
_SN_MAGIC = b"RN"


def sn_key(epoch: int, sn: int) -> Key:
    return _SN_KEY.pack(epoch, sn)


def whole_key(epoch: int, sn: int, piece: int) -> Key:
    """Of the sums that come with a row: behind it, so that both go together."""
    return _SLAB_KEY.pack(epoch, sn, piece)


def slab_key(epoch: int, sn: int, piece: int) -> Key:
    return _SLAB_KEY.pack(epoch, sn, piece)


def terms_key(epoch: int, sn: int, piece: int) -> Key:
    return _SLAB_KEY.pack(epoch, sn, piece)


def slice_key(stream: int, epoch: int, sn: int, piece: int) -> Key:
    return _SLICE_KEY.pack(stream, epoch, sn, piece)


class PushMark(msgspec.Struct, array_like=True, frozen=True):
    """A push, a heartbeat, or a mark that nothing came for a while (`idle`): its place among all of the snapshot, and
    the stream's time, greatest timestamp and greatest heartbeat after it."""

    ordinal: int
    time: int | None
    latest: int | None = None
    heartbeat: int | None = None
    idle: bool = False


class StreamMove(msgspec.Struct, array_like=True):
    """How far a stream went in one snapshot. None says that nothing changed since its last move."""

    stream: int
    batch: int
    time: int | None = None
    heartbeat: int | None = None
    first: int | None = None
    pushes: list[PushMark] = msgspec.field(default_factory=list)
    sources: dict[str, int] = msgspec.field(default_factory=dict)
    #: The snapshot that last brought elements before this one, and the stream's time after it; 0: none did. The
    #: writer of the row fills them in, where the move has elements itself (`elements`).
    before: int = 0
    time_before: int | None = None
    elements: bool = False
    #: The greatest timestamp; and whether nothing came for so long that time passes without it.
    latest: int | None = None
    idle: bool = False
    #: From where windows count: each time with the least lateness under which it does. None: nothing changed.
    openings: list[tuple[int, int]] | None = None
    #: How many elements and triples have ever come. None: nothing came.
    elements_total: int | None = None
    triples_total: int | None = None
    #: As in the position.
    silent: bytes = b""


class CatalogChange(msgspec.Struct, array_like=True, frozen=True):
    """A new value of the catalog under (kind, number); no body: the entry is deleted."""

    kind: str
    number: int
    body: bytes | None


class StreamPlace(msgspec.Struct, array_like=True, frozen=True):
    """Where the columns of a stream are in this snapshot: in the slab, in so many pieces of its slice, or both."""

    stream: int
    in_slab: bool
    slice_pieces: int
    slice_bytes: int = 0


class SnRow(msgspec.Struct, array_like=True):
    """The row of one snapshot: all but its slab. `epoch` is the writer epoch.

    A bulk load has a run (`load_run`) in place of a slab's changes. Every so often a row comes with all that the rows
    up to it add up to, in pieces of its own (`whole_pieces`). Transient terms are in `terms_pieces`."""

    sn: int
    epoch: int
    published_ms: int
    moves: list[StreamMove]
    catalog: list[CatalogChange]
    slab_pieces: int
    slab_bytes: int
    places: list[StreamPlace]
    load_run: int = 0
    whole_pieces: int = 0
    terms_pieces: int = 0

    def slab_sizes(self) -> list[int]:
        """Of each piece, at most."""
        return _sizes(self.slab_pieces, self.slab_bytes)

    def slice_sizes(self, place: StreamPlace) -> list[int]:
        return _sizes(place.slice_pieces, place.slice_bytes)

    def slab_keys(self) -> list[Key]:
        return [slab_key(self.epoch, self.sn, piece) for piece in range(self.slab_pieces)]

    def terms_keys(self) -> list[Key]:
        return [terms_key(self.epoch, self.sn, piece) for piece in range(self.terms_pieces)]

    def slice_keys(self, place: StreamPlace) -> list[Key]:
        return [slice_key(place.stream, self.epoch, self.sn, piece) for piece in range(place.slice_pieces)]


class StreamPosition(msgspec.Struct, array_like=True, frozen=True):
    """Where a stream has come to: the sum of its moves."""

    stream: int
    batch: int
    time: int | None = None
    heartbeat: int | None = None
    first: int | None = None
    #: The number of the last push of each sender; who pushed last comes last.
    sources: dict[str, int] = msgspec.field(default_factory=dict)
    #: The last snapshot that brought elements, and the stream's time after it; 0: none did.
    last: int = 0
    time_last: int | None = None
    latest: int | None = None
    idle: bool = False
    openings: list[tuple[int, int]] = msgspec.field(default_factory=list)
    #: How many elements and triples have ever come.
    elements_total: int = 0
    triples_total: int = 0
    #: Of a stream of emissions: which evaluation was the last, if that emitted nothing; for those who know queries.
    silent: bytes = b""


def _sizes(pieces: int, nbytes: int) -> list[int]:
    return [min(nbytes, CALL_BYTES_MAX)] * pieces


def pack_row(row: SnRow) -> Value:
    return seal_struct(_SN_MAGIC, row)


def unpack_row(value: Value | None, key: Key) -> SnRow:
    return unseal_struct(_SN_MAGIC, value, "sn", key, SnRow)


def chained(move: StreamMove, position: StreamPosition | None) -> StreamMove:
    """The move of a snapshot with elements, which knows the one before it."""
    before, time_before = (0, None) if position is None else (position.last, position.time_last)
    return msgspec.structs.replace(move, before=before, time_before=time_before, elements=True)


def moved(position: StreamPosition | None, move: StreamMove, sn: int) -> StreamPosition:
    """The position after a move in snapshot `sn`."""
    if position is None:
        position = StreamPosition(move.stream, 0)
    time = position.time if move.time is None else move.time
    return StreamPosition(
        move.stream,
        move.batch,
        time,
        position.heartbeat if move.heartbeat is None else move.heartbeat,
        position.first if move.first is None else move.first,
        _later_sources(position.sources, move.sources) if move.sources else position.sources,
        sn if move.elements else position.last,
        time if move.elements else position.time_last,
        position.latest if move.latest is None else move.latest,
        move.idle,
        position.openings if move.openings is None else move.openings,
        position.elements_total if move.elements_total is None else move.elements_total,
        position.triples_total if move.triples_total is None else move.triples_total,
        move.silent,
    )


def _later_sources(before: dict[str, int], pushed: dict[str, int]) -> dict[str, int]:
    """Those that pushed come last. Beyond `SOURCES_MAX` the first ones are forgotten."""
    later = dict(before)
    for source, seq in pushed.items():
        later.pop(source, None)
        later[source] = seq
    excess = len(later) - SOURCES_MAX
    return dict(islice(later.items(), excess, None)) if excess > 0 else later
