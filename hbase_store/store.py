"""The store: a log of snapshots, each written once, and what this process has read of it.

One process at a time writes: it collects a batch and commits it, and then there is one more snapshot, for all
processes at once. Any number of processes read: each takes in the slabs as they come, and answers for any
snapshot from its own memory. Nothing that was committed is ever changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np

from hbase_store.arrays import NO_IDS, Columns, Ids, Mask, concatenate
from hbase_store.batch import Batch, Change, Numbers, by_predicate
from hbase_store.dictionary import Dictionary
from hbase_store.emissions import EmissionLog
from hbase_store.errors import SnapshotGone, StoreError, StoreUnavailable, Unwritable
from hbase_store.head import Head, HeadCell
from hbase_store.history import History
from hbase_store.keyvalue import KeyValue, Put
from hbase_store.lease import Clock, Leasing
from hbase_store.meta_cells import check_put
from hbase_store.opening import Durability, WallClock, connect
from hbase_store.overlay import Overlay
from hbase_store.rows import Sn, SnRow, StreamPlace, StreamPosition, pack_row, sn_key, unpack_row
from hbase_store.slab import STREAM, Slab, pack_slab, pack_slice, unpack_slab
from hbase_store.snapshot import Rows, Snapshot, contains
from hbase_store.streams import RecentStreams, StreamColumns, graphs_of, merge

# How much is read from the backend at once when a process catches up.
ROWS_AT_ONCE = 256
BYTES_AT_ONCE = 8 << 20
RECENT_STREAM_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Publication:
    """A batch as it is written: the same bytes each time, however often it takes."""

    batch: Batch
    row: SnRow
    changes: list[Change]
    stages: list[list[Put]]
    head: Head


class Store:
    """Threads share one; a process opens an address once, and a forked child opens its own."""

    def __init__(self, kv: Leasing, url: str, clock: Clock) -> None:
        self.kv: KeyValue = kv
        self.url = url
        self.emissions = EmissionLog(kv)
        self._clock = clock
        self._lease = kv.lease(clock)
        self._address = ""
        self._cell = HeadCell(kv, b"head")
        self._dictionary = Dictionary()
        self._overlay = Overlay()
        self._history = History(self._read_rows)
        self._recent = RecentStreams(RECENT_STREAM_BYTES)
        self._snapshots: WeakValueDictionary[int, Snapshot] = WeakValueDictionary()
        self._snapshots_lock = threading.Lock()
        self._newest = Snapshot(self._overlay, Sn(0))
        self._terms, self._blanks = Numbers(kv.allocate, "term"), Numbers(kv.allocate, "blank")
        self._open_batch: Batch | None = None
        self._undecided: _Publication | None = None
        # Taken in this order: who writes, and who adds to what readers see.
        self._writing = threading.RLock()
        self._taking_in = threading.Lock()
        self._sn = Sn(0)
        self.refresh()

    def close(self) -> None:
        self._lease.release()
        self.kv.close()

    # ---- snapshots

    def head(self) -> Sn:
        """The last snapshot that this process has taken in."""
        return self._sn

    def refresh(self) -> Sn:
        """Takes in what was committed meanwhile, by whomever; the new head."""
        value, emitted = self.kv.get_many("meta", [self._cell.key, self.emissions.cell.key])
        self.emissions.cell.take_in(emitted)
        head = self._cell.take_in(value)
        if head.last > self._sn:
            with self._taking_in:
                self._catch_up()
        return self._sn

    def at(self, sn: int | None = None) -> Snapshot:
        """The store at a snapshot; None: at the head, after a refresh."""
        number = self.refresh() if sn is None else self._taken_in(sn, first=0)
        if self._newest.sn == number:
            return self._newest
        with self._snapshots_lock:
            snapshot = self._snapshots.get(number)
            if snapshot is None:
                snapshot = self._snapshots[number] = Snapshot(self._overlay, number)
            if number > self._newest.sn:
                self._newest = snapshot
            return snapshot

    def row(self, sn: int) -> SnRow:
        """What the snapshot says beside its edges and streams."""
        return self._history.row(self._taken_in(sn))

    def vts(self, sn: int) -> dict[int, StreamPosition]:
        """Where each stream had come to."""
        return self._history.vector(self._taken_in(sn, first=0))

    def catalog(self, sn: int) -> dict[tuple[str, int], bytes]:
        """What is known under each (kind, number)."""
        return self._history.catalog(self._taken_in(sn, first=0))

    def stream(self, sn: int, stream: int) -> StreamColumns | None:
        """What came in a stream in this snapshot, in document order; None: nothing."""
        row = self.row(sn)
        place = next((place for place in row.places if place.stream == stream), None)
        if place is None:
            return None
        columns = self._recent.get(sn, stream)
        if columns is None:
            columns = self._read_stream(row, place)
            self._recent.put(sn, columns)
        return columns

    def net_changes(self, sn: int, predicates: Iterable[int] | None = None) -> Rows:
        """How the store differs from the snapshot before, exactly; None: in all predicates."""
        number = self._taken_in(sn)
        before = self.at(number - 1)
        parts: list[tuple[Ids, Ids, Ids, Ids, Mask]] = []
        wanted = None if predicates is None else list(dict.fromkeys(predicates))
        for named in (False, True):
            for predicate in self._overlay.predicates(named) if wanted is None else wanted:
                column = self._overlay.column(named, predicate)
                if column is None or not column.changed(number):
                    continue
                columns, inserted = column.changes(number)
                changed = contains(before.view(named, predicate, False), columns) != inserted
                parts.append(_quads(predicate, columns, inserted, changed))
        if not parts:
            return Rows(NO_IDS, NO_IDS, NO_IDS, NO_IDS, np.empty(0, np.int64))
        *quads, signs = zip(*parts, strict=True)
        s, p, o, g = (concatenate(column) for column in quads)
        return Rows(s, p, o, g, np.where(np.concatenate(signs), 1, -1))

    def _taken_in(self, sn: int, first: int = 1) -> Sn:
        if sn > self._sn:
            self.refresh()
        if first <= sn <= self._sn:
            return Sn(sn)
        if sn > self._sn:
            raise SnapshotGone(f"{self.url} has no snapshot {sn} yet; the last one is {self._sn}")
        raise SnapshotGone(f"{self.url} has no snapshot {sn}; the first one is {first}")

    # ---- terms

    def ids(self, texts: Sequence[bytes]) -> Ids:
        """0 for a term that nobody has written."""
        return self._dictionary.ids(texts)

    def terms(self, ids: Ids) -> list[bytes]:
        return self._dictionary.terms(ids)

    # ---- writing

    def take_lease(self, address: str) -> None:
        """Becomes the one writer, or stays it; others learn that they reach it at `address` ('': not at all)."""
        with self._writing:
            stays = self._cell.epoch != 0 and self._lease.held
            self._lease.take(address)
            self._address = address
            if stays:
                return
            self._cell.take_epoch()
            self._terms.forget()
            self._blanks.forget()
            self._open_batch = None
            self.refresh()

    def begin(self) -> Batch:
        """A new batch. One begun earlier and not committed is dropped."""
        with self._writing:
            if self._cell.epoch == 0 or not self._lease.held:
                self.take_lease(self._address)
            if self._undecided is not None:
                self._publish(self._undecided)
            self._open_batch = Batch(self._dictionary, self._terms, self._blanks, self._clock.now_ms())
            return self._open_batch

    def commit(self, batch: Batch) -> Sn:
        """Publishes the batch as the next snapshot.

        After StoreUnavailable the outcome is not known: commit the same batch again. After Unwritable nothing was
        written, and another batch may be begun."""
        with self._writing:
            if self._undecided is not None and self._undecided.batch is batch:
                return self._publish(self._undecided)
            if batch is not self._open_batch:
                raise StoreError("this batch was committed, or another was begun after it; begin a new one")
            try:
                self._undecided = self._publication(batch)
            except Exception as error:
                self._forget_batch()
                raise Unwritable(f"this batch cannot be written, and nothing of it was: {error}") from error
            return self._publish(self._undecided)

    def _publication(self, batch: Batch) -> _Publication:
        head = self._cell.head.advanced()
        slab, changes = batch.pack()
        pieces = pack_slab(slab)
        slices = {stream: pack_slice(part) for stream, part in batch.slice_parts.items()}
        places = [StreamPlace(n, n in slab.streams, len(slices.get(n, ()))) for n in batch.columns]
        row = SnRow(
            sn=head.last,
            epoch=head.epoch,
            published_ms=batch.time,
            moves=batch.moves,
            catalog=batch.catalog_changes,
            slab_pieces=len(pieces),
            slab_bytes=sum(map(len, pieces)),
            places=places,
        )
        puts = [Put("slab", key, piece, row.sn) for key, piece in zip(row.slab_keys(), pieces, strict=True)]
        for place in places:
            keyed = zip(row.slice_keys(place), slices.get(place.stream, ()), strict=True)
            puts.extend(Put("slice", key, piece, row.sn) for key, piece in keyed)
        sn_put = Put("sn", sn_key(row.epoch, row.sn), pack_row(row), row.sn)
        for put in (*puts, sn_put):
            check_put(put)  # while nothing is written yet
        return _Publication(batch, row, changes, [puts, [sn_put]], head)

    def _publish(self, publication: _Publication) -> Sn:
        with self._taking_in:
            try:
                self._cell.publish(publication.stages, publication.head)
            except StoreError as error:
                # Only while the outcome is unknown is there something to repeat.
                if not isinstance(error, StoreUnavailable):
                    self._forget_batch()
                raise
            sn = Sn(publication.row.sn)
            if self._sn < sn:
                self._take_in_own(publication)
            self._forget_batch()
            return sn

    def _forget_batch(self) -> None:
        self._undecided = self._open_batch = None

    # ---- taking in

    def _take_in_own(self, publication: _Publication) -> None:
        sn = Sn(publication.row.sn)
        for chunk, texts in publication.batch.new_texts:
            self._dictionary.add(chunk, texts)
        for change in publication.changes:
            self._overlay.append(sn, change.named, change.predicate, change.columns, change.inserted)
        for columns in publication.batch.columns.values():
            self._recent.put(sn, columns)
        self._advance(publication.row)

    def _catch_up(self) -> None:
        head = self._cell.head
        while self._sn < head.last:
            last = min(head.last, self._sn + ROWS_AT_ONCE)
            rows = self._read_rows(range(self._sn + 1, last + 1))
            for row, slab in self._read_slabs(rows):
                self._take_in(row, slab)

    def _take_in(self, row: SnRow, slab: Slab) -> None:
        sn = Sn(row.sn)
        for chunk in slab.terms:
            self._dictionary.add(chunk)
        for parts in slab.streams.values():
            for part, graphs in zip(parts, graphs_of(parts), strict=True):
                for named, predicate, columns, _ in by_predicate(part.s, part.p, part.o, graphs):
                    self._overlay.append(sn, named, predicate, columns, np.ones(len(columns[0]), bool))
        for block in slab.blocks:
            flags = np.full(len(block.columns[0]), block.inserted)
            self._overlay.append(sn, block.named, block.predicate, block.columns, flags)
        for place in row.places:
            if place.slice_pieces == 0:
                self._recent.put(sn, merge(slab.streams[place.stream]))
        self._advance(row)

    def _advance(self, row: SnRow) -> None:
        self._history.take_in(row)
        self._sn = Sn(row.sn)  # last: from here on readers may ask for it

    # ---- reading rows

    def _read_rows(self, sns: Sequence[int]) -> list[SnRow]:
        head = self._cell.head
        keys = [sn_key(head.epoch_of(sn), sn) for sn in sns]
        return [unpack_row(value, key) for key, value in zip(keys, self.kv.get_many("sn", keys), strict=True)]

    def _read_slabs(self, rows: Sequence[SnRow]) -> Iterator[tuple[SnRow, Slab]]:
        """The rows with their slabs, read so many bytes at a time."""
        start = 0
        while start < len(rows):
            stop, size = start + 1, rows[start].slab_bytes
            while stop < len(rows) and size + rows[stop].slab_bytes <= BYTES_AT_ONCE:
                size += rows[stop].slab_bytes
                stop += 1
            keys = [key for row in rows[start:stop] for key in row.slab_keys()]
            values = iter(self.kv.get_many("slab", keys) if keys else ())
            for row in rows[start:stop]:
                yield row, unpack_slab("slab", [(key, next(values)) for key in row.slab_keys()])
            start = stop

    def _read_stream(self, row: SnRow, place: StreamPlace) -> StreamColumns:
        parts = []
        if place.in_slab:
            keys = row.slab_keys()
            slab = unpack_slab("slab", zip(keys, self.kv.get_many("slab", keys), strict=True), (STREAM,))
            parts += slab.streams.get(place.stream, [])
        if place.slice_pieces:
            keys = row.slice_keys(place)
            timing = unpack_slab("slice", zip(keys, self.kv.get_many("slice", keys), strict=True))
            parts += timing.streams.get(place.stream, [])
        return merge(parts)


def _quads(predicate: int, columns: Columns, inserted: Mask, changed: Mask) -> tuple[Ids, Ids, Ids, Ids, Mask]:
    s, o = columns[0][changed], columns[1][changed]
    p = np.full(len(s), predicate, np.uint64)
    g = columns[2][changed] if len(columns) == 3 else np.zeros(len(s), np.uint64)
    return s, p, o, g, inserted[changed]


def open_store(
    url: str, *, read_only: bool = False, clock: Clock | None = None, durability: Durability = "process"
) -> Store:
    """Opens the store at `url`, and makes it if it is not there (unless `read_only`)."""
    backend = connect(url, read_only, durability)
    try:
        return Store(backend, url, clock or WallClock())
    except BaseException:
        backend.close()
        raise
