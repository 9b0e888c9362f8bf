"""Reads the log: the row of each snapshot, its slab, its stream columns.

Several writers may have written rows of one number; the head says whose row counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from hbase_store.backends.keyvalue import CALL_BYTES_MAX, Key, KeyValue, Put, Value
from hbase_store.errors import SnapshotGone
from hbase_store.layout.rows import SnRow, StreamPlace, pack_row, sn_key, terms_key, unpack_row, whole_key
from hbase_store.layout.sealed import corrupt, cut, of_pieces, seal, unseal
from hbase_store.layout.slab import STREAMS, Slab, unpack_slab
from hbase_store.layout.stream_columns import StreamColumns, merge
from hbase_store.layout.transient_rows import TransientRow, unpack_transient
from hbase_store.log.head import HeadCell
from hbase_store.log.history import Whole

#: How much is read at once when a process catches up.
ROWS_AT_ONCE = 256
BYTES_AT_ONCE = 8 << 20

_WHOLE_MAGIC = b"RW"


def row_puts(row: SnRow, whole: Whole | None, cell_time: int) -> list[Put]:
    """The row, with the sums up to it if it is to have them."""
    pieces = [] if whole is None else cut(msgspec.msgpack.encode(whole))
    row.whole_pieces = len(pieces)
    puts = [
        Put("sn", whole_key(row.epoch, row.sn, i), seal(_WHOLE_MAGIC, piece), cell_time)
        for i, piece in enumerate(pieces)
    ]
    return [*puts, Put("sn", sn_key(row.epoch, row.sn), pack_row(row), cell_time)]


class RowReader:
    """`retained_from` tells below which snapshot rows may be gone."""

    def __init__(self, kv: KeyValue, cell: HeadCell, retained_from: Callable[[], int]) -> None:
        self._kv, self._cell, self.retained_from = kv, cell, retained_from

    def rows(self, sns: Sequence[int]) -> list[SnRow]:
        head = self._cell.head
        keys = [sn_key(head.epoch_of(sn), sn) for sn in sns]
        found = list(zip(keys, self._kv.get_many("sn", keys), strict=True))
        for sn, (_, value) in zip(sns, found, strict=True):
            if value is None and sn <= self.retained_from():
                raise SnapshotGone(f"the row of snapshot {sn} is no longer retained")
        return [unpack_row(value, key) for key, value in found]

    def present(self, sns: Sequence[int]) -> list[SnRow]:
        """The rows of these snapshots that still exist."""
        head = self._cell.head
        keys = [sn_key(head.epoch_of(sn), sn) for sn in sns]
        found = zip(keys, self._kv.get_many("sn", keys), strict=True)
        return [unpack_row(value, key) for key, value in found if value is not None]

    def whole(self, row: SnRow) -> Whole:
        """The sums that are stored with a row."""
        keys = [whole_key(row.epoch, row.sn, piece) for piece in range(row.whole_pieces)]
        values = self._kv.get_many("sn", keys, of_pieces(len(keys)))
        body = b"".join(bytes(unseal(_WHOLE_MAGIC, value, "sn", key)) for key, value in zip(keys, values, strict=True))
        try:
            return msgspec.msgpack.decode(body, type=Whole)
        except msgspec.DecodeError as error:
            raise corrupt("sn", sn_key(row.epoch, row.sn), str(error)) from error

    def slabs(self, sns: range, kinds: Sequence[int] = ()) -> Iterator[tuple[SnRow, Slab]]:
        """The rows with their slabs; of these only the records of `kinds`, if any are named."""
        for start in range(sns.start, sns.stop, ROWS_AT_ONCE):
            rows = self.rows(range(start, min(start + ROWS_AT_ONCE, sns.stop)))
            yield from self._with_slabs(rows, kinds)

    def _with_slabs(self, rows: Sequence[SnRow], kinds: Sequence[int]) -> Iterator[tuple[SnRow, Slab]]:
        """So many bytes at a time."""
        start = 0
        while start < len(rows):
            stop, size = start + 1, rows[start].slab_bytes
            while stop < len(rows) and size + rows[stop].slab_bytes <= BYTES_AT_ONCE:
                size += rows[stop].slab_bytes
                stop += 1
            keys = [key for row in rows[start:stop] for key in row.slab_keys()]
            sizes = [size for row in rows[start:stop] for size in row.slab_sizes()]
            values = iter(self._kv.get_many("slab", keys, sizes) if keys else ())
            for row in rows[start:stop]:
                yield row, unpack_slab("slab", [(key, next(values)) for key in row.slab_keys()], kinds)
            start = stop

    def transient_of(self, rows: Sequence[SnRow]) -> Iterator[TransientRow]:
        """The transient terms that came with these rows."""
        keys = [key for row in rows for key in row.terms_keys()]
        # Of one piece nobody knows how large it is; of several, all but the last are as large as can be.
        sizes = [CALL_BYTES_MAX] * len(keys) if any(row.terms_pieces > 1 for row in rows) else []
        for key, value in zip(keys, self._kv.get_many("terms", keys, sizes) if keys else (), strict=True):
            yield unpack_transient(value, key)

    def transient(self, first: int, last: int) -> Iterator[TransientRow]:
        """All transient terms that came in these snapshots and are there still, in order."""
        for granted in self._cell.head.ranges:
            start, stop = max(first, granted.first), min(last, granted.last) + 1
            if start < stop:
                keys = terms_key(granted.epoch, start, 0), terms_key(granted.epoch, stop, 0)
                yield from (unpack_transient(value, key) for key, value in self._kv.scan("terms", *keys))

    def streams(self, places: Sequence[tuple[SnRow, StreamPlace]]) -> list[StreamColumns]:
        """What each snapshot brought of a stream, in two round trips at most."""
        in_slabs = {row.sn: row for row, place in places if place.in_slab}
        slab_keys = {sn: row.slab_keys() for sn, row in in_slabs.items()}
        slab_sizes = [size for row in in_slabs.values() for size in row.slab_sizes()]
        slabs = self._pieces("slab", [key for keys in slab_keys.values() for key in keys], slab_sizes)
        slice_sizes = [size for row, place in places for size in row.slice_sizes(place)]
        slices = self._pieces("slice", [key for row, place in places for key in row.slice_keys(place)], slice_sizes)
        found = []
        for row, place in places:
            parts = []
            if place.in_slab:
                slab = unpack_slab("slab", [(key, slabs[key]) for key in slab_keys[row.sn]], STREAMS)
                parts += slab.streams.get(place.stream, [])
            if place.slice_pieces:
                timing = unpack_slab("slice", [(key, slices[key]) for key in row.slice_keys(place)])
                parts += timing.streams.get(place.stream, [])
            found.append(merge(parts))
        return found

    def _pieces(self, table: str, keys: Sequence[Key], sizes: Sequence[int]) -> dict[Key, Value | None]:
        return dict(zip(keys, self._kv.get_many(table, keys, sizes) if keys else (), strict=True))
