"""The store: a log of snapshots, each written once, and what this process has read of it.

One process at a time writes: it collects a batch and commits it, and then there is one more snapshot, for all
processes at once. Any number of processes read: each takes in the slabs as they come, and answers for any
snapshot from its own memory. Nothing that was committed is ever changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from hbase_store.arrays import NO_IDS, Columns, Ids, Mask, concatenate
from hbase_store.batch import Batch, Change, Numbers
from hbase_store.dictionary import Dictionary
from hbase_store.edges import Edges, changes_of
from hbase_store.emissions import EmissionLog
from hbase_store.errors import Fenced, SnapshotGone, StoreError, StoreUnavailable
from hbase_store.folding import (
    FOLD_BYTES,
    FOLD_SLABS,
    Abandoned,
    Folder,
    FoldWriter,
    Gate,
    folded_columns,
    hash_rows,
    merged_columns,
    runs_to_merge,
)
from hbase_store.head import Head, HeadCell
from hbase_store.history import History
from hbase_store.keyvalue import KeyValue, Put
from hbase_store.lease import Clock, Leasing
from hbase_store.load_writer import LoadWriter
from hbase_store.loading import Loading
from hbase_store.opening import Durability, WallClock, connect
from hbase_store.row_reader import ROWS_AT_ONCE, RowReader
from hbase_store.rows import CatalogChange, Sn, SnRow, StreamPlace, StreamPosition, pack_row, sn_key
from hbase_store.run_list import RunEntry, RunList, list_key, list_put, unpack_list
from hbase_store.slab import Slab, pack_slab, pack_slice
from hbase_store.snapshot import Rows, Snapshot
from hbase_store.streams import RecentStreams, StreamColumns, merge

RECENT_STREAM_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Publication:
    """A batch or a load as it is written: the same bytes each time, however often it takes."""

    batch: Batch | None  # None: a bulk load
    row: SnRow
    changes: list[Change]
    stages: list[list[Put]]
    head: Head
    runs: RunList | None = None  # the list that the load brings


class Store:
    """Threads share one; a process opens an address once, and a forked child opens its own."""

    def __init__(self, kv: Leasing, url: str, clock: Clock, folding: bool = True) -> None:
        """`folding`: the writer folds by itself, in a thread; else only when it is asked to."""
        self.kv: KeyValue = kv
        self.url = url
        self.emissions = EmissionLog(kv)
        self._clock = clock
        self._lease = kv.lease(clock)
        self._address = ""
        self._cell = HeadCell(kv, b"head")
        self._dictionary = Dictionary(kv)
        self._reader = RowReader(kv, self._cell)
        self._edges = Edges(kv, self._reader.slabs)
        self._history = History(self._reader.rows)
        self._recent = RecentStreams(RECENT_STREAM_BYTES)
        self._snapshots: WeakValueDictionary[int, Snapshot] = WeakValueDictionary()
        self._snapshots_lock = threading.Lock()
        self._newest = Snapshot(self._edges.newest, Sn(0))
        self._terms, self._blanks = Numbers(kv.allocate, "term"), Numbers(kv.allocate, "blank")
        self._open_batch: Batch | None = None
        self._undecided: _Publication | None = None
        # Taken in this order: who writes, and who adds to what readers see.
        self._writing = threading.RLock()
        self._taking_in = threading.Lock()
        # One fold at a time; it holds this lock longer than the others, and takes it before them.
        self._one_fold = threading.Lock()
        self._gate = Gate()
        self._folder = Folder(self._fold_all) if folding else None
        self._unfolded_bytes = 0
        self._sn = Sn(0)
        self.refresh()

    def close(self) -> None:
        if self._folder is not None:
            self._folder.close()
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
        if head.last > self._sn or head.run_list != self._edges.list.number:
            with self._taking_in:
                self._catch_up()
        return self._sn

    def at(self, sn: int | None = None) -> Snapshot:
        """The store at a snapshot; None: at the head, after a refresh."""
        number = self.refresh() if sn is None else self._taken_in(sn, first=0)
        if self._newest.sn == number and self._newest.layers is self._edges.newest:
            return self._newest
        with self._snapshots_lock:
            snapshot = self._snapshots.get(number)
            newest = self._edges.newest
            # After a fold, the head is read by way of the new run.
            if snapshot is None or (number >= newest.start and snapshot.layers is not newest):
                snapshot = self._snapshots[number] = Snapshot(self._edges.at(number), number)
            if number >= self._newest.sn:
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
            columns = self._reader.stream(row, place)
            self._recent.put(sn, columns)
        return columns

    def net_changes(self, sn: int, predicates: Iterable[int] | None = None) -> Rows:
        """How the store differs from the snapshot before, exactly; None: in all predicates."""
        number = self._taken_in(sn)
        before = self.at(number - 1)
        parts: list[tuple[Ids, Ids, Ids, Ids, Mask]] = []
        wanted = None if predicates is None else set(predicates)
        for named, predicate, columns, inserted in self._edges.changes(self.row(number)):
            if wanted is None or predicate in wanted:
                changed = before.contains_rows(named, predicate, columns) != inserted
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
            self._raise_fold_failure()
            self._hold_lease()
            self._settle()
            self._open_batch = Batch(self._dictionary, self._terms, self._blanks, self._clock.now_ms())
            return self._open_batch

    def commit(self, batch: Batch) -> Sn:
        """Publishes the batch as the next snapshot.

        After StoreUnavailable the outcome is not known: commit the same batch again."""
        with self._gate.first(), self._writing:
            if self._undecided is not None and self._undecided.batch is batch:
                return self._publish(self._undecided)
            if batch is not self._open_batch:
                raise StoreError("this batch was committed, or another was begun after it; begin a new one")
            self._undecided = self._publication(batch)
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
        if self._folder is not None and self._has_much_to_fold():
            self._folder.wake()
        return sn

    def _forget_batch(self) -> None:
        self._undecided = self._open_batch = None

    # ---- loading

    def load(self, loading: Loading, *, graph: bytes | None = None, name: bytes = b"") -> Sn:
        """Publishes what was loaded as one snapshot; `graph` is for statements that name none.

        `name` says what it was: the catalog keeps it under ("load", SN). Before that, nothing of it is to be seen."""
        columns = loading.columns(graph)
        with self._one_fold:
            self._hold_lease()
            self._fold_slabs()
            load = LoadWriter(self.kv, self._dictionary, loading.terms, self._give_way)
            while True:
                entry = load.write(columns, self._sn + 1)
                with self._gate.first(), self._writing:
                    self._settle()
                    if load.agrees_with(self._dictionary.recent_ids()):
                        self._fold_slabs(paced=False)
                        self._undecided = self._load_publication(entry, name)
                        return self._publish(self._undecided)

    def _load_publication(self, entry: RunEntry, name: bytes) -> _Publication:
        number = self.kv.allocate("run", 1)
        head = self._cell.head.advanced(number)
        entry = msgspec.structs.replace(entry, first=head.last, last=head.last)
        known = self._edges.list
        runs = msgspec.structs.replace(known, number=number, epoch=head.epoch, runs=(*known.runs, entry))
        changes = [CatalogChange("load", head.last, name)] if name else []
        row = SnRow(head.last, head.epoch, self._clock.now_ms(), [], changes, 0, 0, [], entry.number)
        stages = [[list_put(runs, row.sn), Put("sn", sn_key(row.epoch, row.sn), pack_row(row), row.sn)]]
        return _Publication(None, row, [], stages, head, runs)

    def _hold_lease(self) -> None:
        with self._writing:
            if self._cell.epoch == 0 or not self._lease.held:
                self.take_lease(self._address)

    def _settle(self) -> None:
        """Of an earlier batch whose outcome is unknown, decides it."""
        if self._undecided is not None:
            self._publish(self._undecided)

    # ---- folding

    def fold(self) -> bool:
        """Folds all that is not in runs yet, and merges runs that have become many; whether there was anything.

        The writer does it by itself when there is enough. It changes no answer."""
        self._hold_lease()
        with self._one_fold:
            folded = self._fold_slabs()
            while self._merge_runs():
                folded = True
            return folded

    def _fold_all(self) -> None:
        """In the folder's thread."""
        with self._one_fold:
            try:
                self._fold_slabs()
                while self._merge_runs():
                    pass
            except Fenced:
                return  # another writer folds now, and whoever writes here is told so

    def _has_much_to_fold(self) -> bool:
        return self._sn - self._edges.newest.start >= FOLD_SLABS or self._unfolded_bytes >= FOLD_BYTES

    def _give_way(self) -> None:
        if self._folder is not None and self._folder.closing:
            raise Abandoned
        self._gate.give_way()

    def _fold_slabs(self, paced: bool = True) -> bool:
        """Unless it is `paced`, whoever wants to publish waits."""
        epoch = self._cell.epoch
        with self._taking_in:
            layers, sn = self._edges.newest, self._sn
            chunks = self._dictionary.recent_chunks(sn)
        if layers.start == sn:
            return False
        writer = FoldWriter(self.kv, sn, self._give_way if paced else _at_once)
        writer.write_pages(self._dictionary.pages, chunks)
        entry = writer.write(chain(hash_rows(chunks), folded_columns(layers, sn)), layers.start + 1)
        self._install(lambda runs: (*runs, entry), epoch)
        return True

    def _merge_runs(self) -> bool:
        epoch = self._cell.epoch
        entries = runs_to_merge(self._edges.list.cover(self._sn))
        if not entries:
            return False
        first = entries[0].first
        columns = merged_columns(self._edges.runs.open(entries), keep=first > 1)
        entry = FoldWriter(self.kv, entries[-1].last, self._give_way).write(columns, first)
        self._install(lambda runs: (*runs, entry), epoch)
        return True

    def _install(self, change: Callable[[tuple[RunEntry, ...]], tuple[RunEntry, ...]], epoch: int) -> None:
        with self._writing:
            self._settle()
            if self._cell.epoch != epoch:
                raise Fenced(f"the fold of epoch {epoch} is too late: this process writes under {self._cell.epoch}")
            known = self._edges.list
            runs = msgspec.structs.replace(
                known, number=self.kv.allocate("run", 1), epoch=epoch, runs=change(known.runs)
            )
            self._cell.install([[list_put(runs, self._sn)]], runs.number)
            with self._taking_in:
                self._take_in_runs(runs, self._sn)

    def _raise_fold_failure(self) -> None:
        if self._folder is not None and self._folder.failure is not None:
            failure, self._folder.failure = self._folder.failure, None
            raise failure

    # ---- taking in

    def _take_in_own(self, publication: _Publication) -> None:
        sn = Sn(publication.row.sn)
        if publication.runs is not None:
            self._take_in_runs(publication.runs, sn)
        if publication.batch is not None:
            self._take_in_batch(publication, publication.batch)
        self._advance(publication.row)

    def _take_in_batch(self, publication: _Publication, batch: Batch) -> None:
        sn = Sn(publication.row.sn)
        for chunk, texts in batch.new_texts:
            self._dictionary.add(sn, chunk, texts)
        changes = ((change.named, change.predicate, change.columns, change.inserted) for change in publication.changes)
        self._edges.append(sn, changes)
        for columns in batch.columns.values():
            self._recent.put(sn, columns)

    def _catch_up(self) -> None:
        head = self._cell.head
        if head.run_list != self._edges.list.number:
            self._adopt(head)
        for row, slab in self._reader.slabs(range(self._sn + 1, head.last + 1)):
            self._take_in(row, slab)

    def _adopt(self, head: Head) -> None:
        """The list that the head names. What its runs cover is not read from slabs."""
        value = self.kv.get_many("runs", [list_key(head.run_list)])[0]
        if value is None:
            # A list is replaced in time: then the head names another by now.
            head = self._cell.refresh()
            value = self.kv.get_many("runs", [list_key(head.run_list)])[0]
        runs = unpack_list(value, head.run_list)
        cover = runs.cover(head.last)
        covered = cover[-1].last if cover else 0
        rows: list[SnRow] = []
        for start in range(self._sn + 1, covered + 1, ROWS_AT_ONCE):
            rows += self._reader.rows(range(start, min(start + ROWS_AT_ONCE, covered + 1)))
        self._take_in_runs(runs, head.last)
        for row in rows:
            self._advance(row)

    def _take_in_runs(self, runs: RunList, head: int) -> None:
        self._edges.adopt(runs, self._sn, head)
        newest = self._edges.newest
        self._dictionary.adopt(newest.runs, newest.start)
        self._unfolded_bytes = 0

    def _take_in(self, row: SnRow, slab: Slab) -> None:
        for chunk in slab.terms:
            self._dictionary.add(row.sn, chunk)
        self._edges.append(Sn(row.sn), changes_of(slab))
        for place in row.places:
            if place.slice_pieces == 0:
                self._recent.put(row.sn, merge(slab.streams[place.stream]))
        self._advance(row)

    def _advance(self, row: SnRow) -> None:
        self._history.take_in(row)
        self._unfolded_bytes += row.slab_bytes
        self._sn = Sn(row.sn)  # last: from here on readers may ask for it


def _at_once() -> None:
    """Gives way to nobody."""


def _quads(predicate: int, columns: Columns, inserted: Mask, changed: Mask) -> tuple[Ids, Ids, Ids, Ids, Mask]:
    s, o = columns[0][changed], columns[1][changed]
    p = np.full(len(s), predicate, np.uint64)
    g = columns[2][changed] if len(columns) == 3 else np.zeros(len(s), np.uint64)
    return s, p, o, g, inserted[changed]


def open_store(
    url: str,
    *,
    read_only: bool = False,
    clock: Clock | None = None,
    durability: Durability = "process",
    folding: bool = True,
) -> Store:
    """Opens the store at `url`, and makes it if it is not there (unless `read_only`)."""
    backend = connect(url, read_only, durability)
    try:
        return Store(backend, url, clock or WallClock(), folding)
    except BaseException:
        backend.close()
        raise
