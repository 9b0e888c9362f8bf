"""Rows of transient terms: the texts of one generation as a snapshot writes them, and as they are looked up."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hbase_store.arrays import Ids, Mask, Offsets
from hbase_store.backends.keyvalue import Key, Value
from hbase_store.layout.columns import pack_column, unpack_column
from hbase_store.layout.sealed import corrupt, seal, unseal
from hbase_store.layout.slab import chunks_of

_MAGIC = b"RG"
_HEADER = struct.Struct("<QQ")


@dataclass(slots=True)
class Texts:
    """Texts of ascending ids: that of ids[i] is data[offsets[i]:offsets[i + 1]]."""

    ids: Ids
    offsets: Offsets
    data: bytes
    _by_hash: tuple[Ids, Ids] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        return len(self.data) + 32 * len(self.ids)

    def text(self, place: int) -> bytes:
        return self.data[int(self.offsets[place]) : int(self.offsets[place + 1])]

    def places(self, ids: Ids) -> tuple[Mask, Ids]:
        """Which of these ids it has, and where."""
        places = np.minimum(self.ids.searchsorted(ids), len(self.ids) - 1)
        return self.ids[places] == ids, places.astype(np.uint64)

    def by_hash(self) -> tuple[Ids, Ids]:
        """The hashes of the texts, ascending, and the place of each."""
        if self._by_hash is None:
            from hbase_store.layout.hashing import hash_column  # numba takes a third of a second to import

            hashes = hash_column(self.data, self.offsets)
            order = np.argsort(hashes, kind="stable")
            self._by_hash = hashes[order], order.astype(np.uint64)
        return self._by_hash

    def matches(self, hashes: Ids, texts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
        """(place among `texts`, id) of those that it has."""
        mine, places = self.by_hash()
        starts, ends = mine.searchsorted(hashes, "left"), mine.searchsorted(hashes, "right")
        for at in np.flatnonzero(ends > starts).tolist():
            for place in places[starts[at] : ends[at]].tolist():
                if self.text(place) == texts[at]:
                    yield at, int(self.ids[place])


def texts_of(terms: Mapping[bytes, int]) -> Texts:
    ids = np.fromiter(terms.values(), np.uint64, len(terms))
    order = np.argsort(ids)
    listed = list(terms)
    ordered = [listed[i] for i in order.tolist()]
    offsets = np.zeros(len(ordered) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, ordered), np.int64, len(ordered)), out=offsets[1:])
    return Texts(ids[order], offsets, b"".join(ordered))


def joined(parts: Sequence[Texts]) -> Texts:
    if len(parts) == 1:
        return parts[0]
    from hbase_store.layout.text_kernels import gather_texts  # numba takes a third of a second to import

    ids = np.concatenate([part.ids for part in parts])
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    order = np.argsort(ids, kind="stable")
    before, after = np.zeros(len(ids) + 1, np.int64), np.zeros(len(ids) + 1, np.int64)
    np.cumsum(lengths, out=before[1:])
    np.cumsum(lengths[order], out=after[1:])
    data = np.empty(int(after[-1]), np.uint8)
    gather_texts(np.frombuffer(b"".join(part.data for part in parts), np.uint8), before, order, data)
    return Texts(ids[order], after, data.tobytes())


@dataclass(frozen=True, slots=True)
class TransientRow:
    """What one snapshot adds to its generation: new texts, and the streams that have their first slices in it here.

    A generation is known by its first snapshot; `begun_ms` is when that was published."""

    generation: int
    begun_ms: int
    streams: tuple[int, ...]
    texts: Texts


def pack_transient(generation: int, begun_ms: int, streams: Collection[int], terms: Mapping[bytes, int]) -> list[Value]:
    """Layout: the generation's first snapshot and time, then as columns the streams, the ids and the lengths of the
    texts; the texts."""
    if not terms and not streams:
        return []
    ids = {id: text for text, id in terms.items()}
    ascending = sorted(ids)
    header, streams_left = _HEADER.pack(generation, begun_ms), np.array(sorted(streams), np.uint64)
    pieces, done = [], 0
    for chunk in chunks_of(1, [ids[id] for id in ascending]):
        stop = done + len(chunk.offsets) - 1
        columns = (streams_left, np.array(ascending[done:stop], np.uint64), np.diff(chunk.offsets).astype(np.uint64))
        pieces.append(seal(_MAGIC, header + b"".join(map(pack_column, columns)) + chunk.data))
        streams_left, done = streams_left[:0], stop
    nothing = np.empty(0, np.uint64)
    return pieces or [seal(_MAGIC, header + b"".join(map(pack_column, (streams_left, nothing, nothing))))]


def unpack_transient(value: Value | None, key: Key) -> TransientRow:
    payload = unseal(_MAGIC, value, "terms", key)
    try:
        if len(payload) < _HEADER.size:
            raise ValueError("a row of terms is cut off")
        generation, begun_ms = _HEADER.unpack_from(payload)
        streams, at = unpack_column(payload, _HEADER.size)
        ids, at = unpack_column(payload, at)
        lengths, at = unpack_column(payload, at)
    except ValueError as error:
        raise corrupt("terms", key, str(error)) from error
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths.astype(np.int64), out=offsets[1:])
    if len(ids) != len(lengths) or at + int(offsets[-1]) != len(payload):
        raise corrupt("terms", key, "its texts do not fit its ids")
    return TransientRow(generation, begun_ms, tuple(streams.tolist()), Texts(ids, offsets, bytes(payload[at:])))


def warm() -> None:
    """Compiles what joins texts."""
    parts = [texts_of({b"<a>": 1}), texts_of({b"<b>": 2})]
    joined(parts).by_hash()
