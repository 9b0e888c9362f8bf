"""What is read of the log: the row of each snapshot, its slab, its stream columns.

Several writers may have written rows of one number; whose counts, the head says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hbase_store.head import HeadCell
from hbase_store.keyvalue import KeyValue
from hbase_store.rows import SnRow, StreamPlace, sn_key, unpack_row
from hbase_store.slab import STREAM, Slab, unpack_slab
from hbase_store.streams import StreamColumns, merge

#: How much is read at once by who catches up.
ROWS_AT_ONCE = 256
BYTES_AT_ONCE = 8 << 20


class RowReader:
    def __init__(self, kv: KeyValue, cell: HeadCell) -> None:
        self._kv, self._cell = kv, cell

    def rows(self, sns: Sequence[int]) -> list[SnRow]:
        head = self._cell.head
        keys = [sn_key(head.epoch_of(sn), sn) for sn in sns]
        return [unpack_row(value, key) for key, value in zip(keys, self._kv.get_many("sn", keys), strict=True)]

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
            values = iter(self._kv.get_many("slab", keys) if keys else ())
            for row in rows[start:stop]:
                yield row, unpack_slab("slab", [(key, next(values)) for key in row.slab_keys()], kinds)
            start = stop

    def stream(self, row: SnRow, place: StreamPlace) -> StreamColumns:
        parts = []
        if place.in_slab:
            keys = row.slab_keys()
            slab = unpack_slab("slab", zip(keys, self._kv.get_many("slab", keys), strict=True), (STREAM,))
            parts += slab.streams.get(place.stream, [])
        if place.slice_pieces:
            keys = row.slice_keys(place)
            timing = unpack_slab("slice", zip(keys, self._kv.get_many("slice", keys), strict=True))
            parts += timing.streams.get(place.stream, [])
        return merge(parts)
