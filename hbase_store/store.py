"""The store: a log of snapshots, each written once, and what this process has read of it.

One process at a time writes: it collects a batch and commits it, and then there is one more snapshot, for all
processes at once. Any number of processes read: each takes in the slabs as they come, and answers for any
snapshot from its own memory. Nothing that was committed is ever changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from hbase_store.arrays import NO_IDS, Columns, Ids, Mask, concatenate
from hbase_store.backends.calls import purpose
from hbase_store.backends.keyvalue import KeyValue, Put, Value
from hbase_store.backends.lease import Clock, Leasing
from hbase_store.backends.meta_cells import check_put
from hbase_store.backends.shared_cells import share_base, shared_base, shared_secret
from hbase_store.edges.edges import Edges, changes_of
from hbase_store.edges.layers import Layers
from hbase_store.edges.snapshot import Rows, Snapshot
from hbase_store.errors import Corrupt, Fenced, SnapshotGone, StoreError, StoreUnavailable, Unwritable
from hbase_store.layout.rows import CatalogChange, Sn, SnRow, StreamMove, StreamPlace, StreamPosition, chained
from hbase_store.layout.run_list import RunEntry, RunList, list_key, list_put, unpack_list
from hbase_store.layout.slab import Slab, pack_slice
from hbase_store.layout.stream_columns import RecentStreams, StreamColumns, merge
from hbase_store.layout.terms import HELD_BASE
from hbase_store.layout.terms import held as held_predicate
from hbase_store.layout.transient_rows import TransientRow, texts_of
from hbase_store.log.emissions import EmissionLog
from hbase_store.log.head import Head, HeadCell
from hbase_store.log.history import History
from hbase_store.log.row_reader import ROWS_AT_ONCE, RowReader, row_puts
from hbase_store.opening import Durability, WallClock, connect
from hbase_store.terms.dictionary import Dictionary
from hbase_store.terms.transient import OpenGeneration
from hbase_store.writing.batch import Batch, Change, Numbers
from hbase_store.writing.loading import Loading
from hbase_store.writing.preview import Preview
from hbase_store.writing.upkeep import Host, Turn, Upkeep

RECENT_STREAM_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _BatchCommit:
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
        self.emissions = EmissionLog(kv, clock)
        self._clock = clock
        self._lease = kv.lease(clock)
        self._address = ""
        self._cell = HeadCell(kv, b"head")
        self._dictionary = Dictionary(kv, lambda: self._reader.transient(1, self._edges.list.terms_from - 1))
        self._reader = RowReader(kv, self._cell, lambda: self._edges.list.floor)
        self._edges = Edges(kv, self._reader.slabs)
        self._history = History(self._reader.rows, self._reader.present, self._reader.whole)
        self._recent = RecentStreams(RECENT_STREAM_BYTES)
        self._snapshots: WeakValueDictionary[int, Snapshot] = WeakValueDictionary()
        self._snapshots_lock = threading.Lock()
        self._newest = Snapshot(self._edges.newest, Sn(0), self._renewed)
        self._terms, self._blanks = Numbers(kv.allocate, "term"), Numbers(kv.allocate, "blank")
        self._transient_terms = Numbers(kv.allocate, "term")  # of their own, so that permanent ones lie close together
        self._generation: OpenGeneration | None = None
        self._open_batch: Batch | None = None
        self._undecided: _BatchCommit | None = None
        # Acquired in this order: the lock of writing, and that of adding to what readers see.
        self._writing = threading.RLock()
        self._taking_in = threading.Lock()
        self._unfolded_bytes = 0
        self._sn = Sn(0)
        host = Host(
            self._writing,
            self._taking_in,
            self.head,
            lambda: list(self._history.vector(self._sn)),
            self._hold_lease,
            self._resolve_outcome,
            self._take_in_runs,
        )
        self._upkeep = Upkeep(kv, clock, self._cell, self._edges, self._dictionary, host, folding)
        self.refresh()

    def close(self) -> None:
        self._upkeep.close()
        self._lease.release()
        self.kv.close()

    @property
    def address(self) -> str:
        """The address of this process, as it was given to `take_lease`."""
        return self._address

    def probe(self) -> None:
        """A small call, to see whether the store answers. Raises StoreUnavailable."""
        self.kv.get_many("meta", [self._cell.key])

    # ---- several servers of one store

    def secret(self) -> bytes:
        """A secret of all processes that can open this store."""
        return shared_secret(self.kv)

    def base(self) -> str | None:
        """The base IRI of the server that wrote last; None: no server has written yet."""
        return shared_base(self.kv)

    def share_base(self, base: str) -> None:
        """Tells the other servers the base IRI of this one, which is the writer."""
        share_base(self.kv, base)

    # ---- snapshots

    def head(self) -> Sn:
        """The last snapshot that this process has read."""
        return self._sn

    def refresh(self) -> Sn:
        """Reads what any process committed meanwhile; returns the new head."""
        value, emitted = self.kv.get_many("meta", [self._cell.key, self.emissions.cell.key])
        self.emissions.cell.take_in(emitted)
        head = self._cell.take_in(value)
        if head.last > self._sn or head.run_list != self._edges.list.number:
            with self._taking_in:
                self._catch_up()
        return self._sn

    def at(self, sn: int | None = None) -> Snapshot:
        """The store at a snapshot; None: at the head, after a refresh."""
        number = self.refresh() if sn is None else self._existing(sn, first=0)
        self._edges.check_retained(number)
        if self._newest.sn == number and self._newest.layers is self._edges.newest:
            return self._newest
        with self._snapshots_lock:
            snapshot = self._snapshots.get(number)
            newest = self._edges.newest
            # After a fold, the head is read by way of the new run.
            if snapshot is None or (number >= newest.start and snapshot.layers is not newest):
                snapshot = self._snapshots[number] = Snapshot(self._edges.at(number), number, self._renewed)
            if number >= self._newest.sn:
                self._newest = snapshot
            return snapshot

    def _renewed(self, sn: Sn) -> Layers:
        self.refresh()
        self._edges.check_retained(sn)
        self._edges.forget_spans()
        return self._edges.at(sn)

    def row(self, sn: int) -> SnRow:
        """The small row of a snapshot: its time, catalog changes and stream positions, without edges and elements."""
        return self._history.row(self._existing(sn))

    def newest_row(self) -> SnRow | None:
        """The newest row that is in memory: that of the last snapshot that this process read one by one."""
        return self._history.newest

    def vts(self, sn: int) -> dict[int, StreamPosition]:
        """The position of each stream at a snapshot."""
        return self._history.vector(self._existing(sn, first=0))

    def catalog(self, sn: int) -> dict[tuple[str, int], bytes]:
        """The catalog at a snapshot, by (kind, number)."""
        return self._history.catalog(self._existing(sn, first=0))

    def stream(self, sn: int, stream: int) -> StreamColumns | None:
        """The elements that a stream got in this snapshot, in document order; None: nothing."""
        row = self.row(sn)
        place = next((place for place in row.places if place.stream == stream), None)
        if place is None:
            return None  # a heartbeat, perhaps: that is known however old it is
        if sn < self.horizon(stream):
            raise SnapshotGone(f"the elements of stream {stream} in snapshot {sn} are no longer retained")
        columns = self._recent.get(sn, stream)
        if columns is None:
            (columns,) = self._read_streams(stream, [(row, place)])
            self._recent.put(sn, columns)
        return columns

    def brought(self, stream: int, sn: int) -> Iterator[tuple[SnRow | None, int, int | None]]:
        """The snapshots up to `sn` that brought elements of a stream, newest first: the row, its number, and the
        stream's time after it. The first one that is not retained comes last, and without a row."""
        position = self.vts(max(sn, self.oldest())).get(stream)
        for row, number, time in self._history.brought(position, self.horizon(stream)):
            if row is None or number <= sn:
                yield row, number, time

    def streams(self, stream: int, rows: Sequence[SnRow]) -> list[StreamColumns]:
        """The elements that a stream got in each of these snapshots, which all have some."""
        found = [self._recent.get(row.sn, stream) for row in rows]
        places = [(row, next(place for place in row.places if place.stream == stream)) for row in rows]
        missing = [place for place, columns in zip(places, found, strict=True) if columns is None]
        read = iter(self._read_streams(stream, missing))
        return [next(read) if columns is None else columns for columns in found]

    def _read_streams(self, stream: int, places: Sequence[tuple[SnRow, StreamPlace]]) -> list[StreamColumns]:
        """Rows may be collected while they are read: then this raises SnapshotGone, and not Corrupt."""
        try:
            return self._reader.streams(places)
        except Corrupt:
            if gone := [row.sn for row, _ in places if row.sn < self.horizon(stream)]:
                raise SnapshotGone(
                    f"the elements of stream {stream} in snapshot {gone[0]} are no longer retained"
                ) from None
            raise

    def oldest(self) -> Sn:
        """The oldest snapshot that is retained."""
        return Sn(self._edges.list.floor)

    def horizon(self, stream: int) -> Sn:
        """The oldest snapshot whose elements of the stream are retained; for a dropped stream, at least the floor."""
        known = self._edges.list.horizons.get(stream, 0)
        return Sn(known if self._history.position(stream) is not None else max(known, self._edges.list.floor))

    def net_changes(self, sn: int, predicates: Iterable[int] | None = None, held: bool = False) -> Rows:
        """What a snapshot really inserted and deleted, compared with the one before. `predicates`: None for all.
        `held`: also of the held edges of these predicates, whose predicates have the tag then."""
        number = self._existing(sn)
        wanted = None if predicates is None else set(predicates)
        if wanted is not None and held:
            wanted |= set(map(held_predicate, wanted))
        written = self._edges.changes(self.row(number))
        if wanted is not None:
            written = [each for each in written if each[1] in wanted]
        elif not held:
            written = [each for each in written if each[1] < HELD_BASE]
        if not written:
            return Rows(NO_IDS, NO_IDS, NO_IDS, NO_IDS, np.empty(0, np.int64))
        before = self.at(number - 1)
        parts: list[tuple[Ids, Ids, Ids, Ids, Mask]] = []
        for named, predicate, columns, inserted in written:
            changed = before.contains_rows(named, predicate, columns) != inserted
            parts.append(_quads(predicate, columns, inserted, changed))
        *quads, signs = zip(*parts, strict=True)
        s, p, o, g = (concatenate(column) for column in quads)
        return Rows(s, p, o, g, np.where(np.concatenate(signs), 1, -1))

    def _existing(self, sn: int, first: int = 1) -> Sn:
        """`sn`, if there is such a snapshot by now; SnapshotGone if not."""
        if sn > self._sn:
            self.refresh()
        if first <= sn <= self._sn:
            return Sn(sn)
        if sn > self._sn:
            raise SnapshotGone(f"{self.url} has no snapshot {sn} yet; the last one is {self._sn}")
        raise SnapshotGone(f"{self.url} has no snapshot {sn}; the first one is {first}")

    # ---- terms

    def ids(self, texts: Sequence[bytes]) -> Ids:
        """The ids of terms; 0 for a term that was never written, or was in timing data only and is deleted."""
        return self._dictionary.ids_of_all(texts)

    def permanent_ids(self, texts: Sequence[bytes]) -> Ids:
        """The ids of permanent terms; 0 for all others, also for transient terms, whose ids may be deleted."""
        return self._dictionary.ids(texts)

    def lasting_terms(self) -> tuple[Callable[[Sequence[bytes]], Ids], Callable[[Ids], list[bytes]]]:
        """`ids` and `terms` for one query: terms that exist when it begins stay known, even if they are deleted."""
        return self._dictionary.lasting()

    def are_transient(self, ids: Ids) -> Mask:
        """Which of these ids are those of transient terms, which are deleted with the timing data that has them."""
        return self._dictionary.are_transient(ids)

    def terms(self, ids: Ids) -> list[bytes]:
        return self._dictionary.terms(ids)

    def transient_terms(self) -> tuple[int, int]:
        """How many there are, where each counts in every generation that has it; and the bytes that they take here."""
        return self._dictionary.transient.count, self._dictionary.transient.nbytes

    def terms_version(self) -> object:
        """A value that changes whenever terms are added: if it is equal, no term is new."""
        return self._dictionary.version()

    # ---- writing

    def take_lease(self, address: str) -> None:
        """Becomes the one writer, or stays it. Other processes learn its `address` ('': it has none).

        A writer that lost the lease writes again only after this. What others wrote meanwhile is read here; what the
        caller remembers of the store, it has to read anew."""
        with self._writing:
            stays = self._cell.epoch != 0 and self._lease.owned
            self._address = address
            self._lease.take(address)
            if not stays:
                self._take_epoch()

    def _take_epoch(self) -> None:
        self._cell.take_epoch()
        for numbers in (self._terms, self._transient_terms, self._blanks):
            numbers.forget()
        self._generation = None
        self._forget_batch()  # it counts, and is taken in now as it was published; or it never will
        self.refresh()

    @property
    def has_lost_lease(self) -> bool:
        """Whether this process lost the lease: another process is the writer, or may be. This one reads only."""
        return self._cell.is_lost or (self._cell.epoch != 0 and self._lease.lost)

    def resign(self) -> None:
        """Writes nothing more until `take_lease`: a publish whose outcome is unknown is not repeated either."""
        with self._writing:
            self._cell.resign()
            self.emissions.resign()

    def begin(self) -> Batch:
        """A new batch. One begun earlier and not committed is dropped."""
        with self._writing:
            self._upkeep.raise_failure()
            self._hold_lease()
            self._resolve_outcome()
            now_ms, alive = self._clock.now_ms(), self._dictionary.transient
            generation = alive.next_generation(self._generation, now_ms, self._sn + 1)
            if generation is None:
                self._generation = None
            self._open_batch = Batch(
                self._dictionary, self._terms, self._transient_terms, self._blanks, generation, now_ms
            )
            return self._open_batch

    def preview(self, batch: Batch) -> Preview:
        """The store as it would be if the batch were committed now."""
        return Preview(self.at(self._sn), batch)

    def commit(self, batch: Batch) -> Sn:
        """Publishes the batch as the next snapshot.

        After StoreUnavailable the outcome is not known: commit the same batch again. After Unwritable nothing was
        written, and another batch may be begun."""
        with self._upkeep.gate.first(), self._writing, purpose("publish"):
            if self._undecided is not None and self._undecided.batch is batch:
                return self._publish(self._undecided)
            if batch is not self._open_batch:
                raise StoreError("this batch was already committed, or a later batch was begun; begin a new one")
            self._resolve_outcome()
            try:
                self._undecided = self._publication(batch)
            except Exception as error:
                self._forget_batch()
                raise Unwritable(f"this batch cannot be written, and nothing of it was written: {error}") from error
            return self._publish(self._undecided)

    def _publication(self, batch: Batch) -> _BatchCommit:
        head = self._cell.head.advanced()
        packed = batch.pack()
        pieces, terms_pieces = packed.pieces, batch.pack_transient()
        slices = {stream: pack_slice(part) for stream, part in batch.slice_parts.items()}
        places = [_place(n, n in packed.streams, slices.get(n, ())) for n in batch.columns]
        row = SnRow(
            sn=head.last,
            epoch=head.epoch,
            published_ms=batch.time,
            moves=[self._chained(move) if move.stream in batch.columns else move for move in batch.moves],
            catalog=batch.catalog_changes,
            slab_pieces=len(pieces),
            slab_bytes=sum(map(len, pieces)),
            places=places,
            terms_pieces=len(terms_pieces),
        )
        puts = [Put("slab", key, piece, row.sn) for key, piece in zip(row.slab_keys(), pieces, strict=True)]
        puts += [Put("terms", key, piece, row.sn) for key, piece in zip(row.terms_keys(), terms_pieces, strict=True)]
        for place in places:
            keyed = zip(row.slice_keys(place), slices.get(place.stream, ()), strict=True)
            puts.extend(Put("slice", key, piece, row.sn) for key, piece in keyed)
        row_of = self._row_puts(row)
        for put in (*puts, *row_of):
            check_put(put)  # while nothing is written yet
        return _BatchCommit(batch, row, packed.changes, [puts, row_of], head)

    def _chained(self, move: StreamMove) -> StreamMove:
        return chained(move, self._history.position(move.stream))

    def _row_puts(self, row: SnRow) -> list[Put]:
        return row_puts(row, self._history.whole_after(row))

    def _publish(self, publication: _BatchCommit) -> Sn:
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
        self._upkeep.published(self._unfolded_bytes)
        return sn

    def _forget_batch(self) -> None:
        self._undecided = self._open_batch = None

    # ---- loading, folding, collecting

    def load(
        self, loading: Loading, *, graph: bytes | None = None, name: bytes = b"", turn: Turn = lambda publish: publish()
    ) -> Sn:
        """Publishes what was loaded as one snapshot; `graph` is for statements that name none.

        `name` describes the load; the catalog has it under ("load", SN). Before the snapshot nothing of it can be
        seen. The long work is done in this thread; `turn` runs the last step in the thread that publishes batches."""

        def publish(entry: RunEntry, runs: RunList) -> Sn:
            self._undecided = self._load_publication(entry, runs, name)
            return self._publish(self._undecided)

        return self._upkeep.load(loading, graph, publish, turn)

    def resolve_outcome(self) -> Sn:
        """Finds out whether a publish with an unknown outcome counts, and returns the head."""
        with self._writing:
            self._resolve_outcome()
            return self._sn

    def fold(self) -> bool:
        """Folds all slabs that are not in runs yet, and merges runs; returns whether there was anything to do.

        The writer does it by itself when there is enough. It changes no answer."""
        return self._upkeep.fold()

    def floor(self, sn: int, horizons: Mapping[int, int] | None = None) -> None:
        """Ends the retention of snapshots below `sn`, and of each stream's elements below its horizon.

        When this returns, it applies to all processes; the data is deleted in the background. Without a call of it,
        everything is retained; of a stream without a horizon, all elements are."""
        self._upkeep.retain(sn, horizons or {})

    def collect(self) -> None:
        """Deletes what is below floor and horizons; the writer does it by itself, too."""
        self._upkeep.collect()

    def _load_publication(self, entry: RunEntry, known: RunList, name: bytes) -> _BatchCommit:
        number = self.kv.allocate("run", 1)
        head = self._cell.head.advanced(number)
        entry = msgspec.structs.replace(entry, first=head.last, last=head.last)
        runs = msgspec.structs.replace(known, number=number, epoch=head.epoch, runs=(*known.runs, entry))
        changes = [CatalogChange("load", head.last, name)] if name else []
        row = SnRow(head.last, head.epoch, self._clock.now_ms(), [], changes, 0, 0, [], entry.number)
        stages = [[list_put(runs, row.sn)], self._row_puts(row)]
        return _BatchCommit(None, row, [], stages, head, runs)

    def _hold_lease(self) -> None:
        """Takes the lease, the first time. A lost lease is taken by `take_lease` only, as its caller must know."""
        with self._writing:
            if self._cell.epoch == 0 and not self._cell.is_lost:
                self.take_lease(self._address)
            elif self._cell.is_lost or not (self._lease.owned or self._lease.regain()):
                self.resign()
                raise Fenced(
                    f"this process is no longer the writer of {self.url}; it writes again after it has taken the "
                    "lease again and read what other processes wrote"
                )

    def _resolve_outcome(self) -> None:
        """Finds out whether an earlier batch counts, if its outcome is unknown."""
        if self._undecided is not None:
            self._publish(self._undecided)
        self._cell.repeat_installation()
        if self._cell.head.run_list != self._edges.list.number:
            with self._taking_in:  # an installation that was not answered was decided just now
                self._catch_up()

    # ---- taking in

    def _take_in_own(self, publication: _BatchCommit) -> None:
        sn = Sn(publication.row.sn)
        if publication.runs is not None:
            self._take_in_runs(publication.runs, sn)
        if publication.batch is not None:
            self._take_in_batch(publication, publication.batch)
        self._advance(publication.row)

    def _take_in_batch(self, publication: _BatchCommit, batch: Batch) -> None:
        sn = Sn(publication.row.sn)
        for chunk, texts in batch.new_texts:
            self._dictionary.add(sn, chunk, texts)
        if publication.row.terms_pieces:
            self._take_in_transient(batch)
        changes = ((change.named, change.predicate, change.columns, change.inserted) for change in publication.changes)
        self._edges.append(sn, changes)
        for columns in batch.columns.values():
            self._recent.put(sn, columns)

    def _take_in_transient(self, batch: Batch) -> None:
        generation, streams = batch.generation, batch.new_streams()
        assert generation is not None
        row = TransientRow(generation.first, generation.begun_ms, tuple(streams), texts_of(batch.transient))
        self._dictionary.transient.add(row)
        generation.streams.update(streams)
        generation.written.update(batch.transient)
        self._generation = generation

    def _catch_up(self) -> None:
        head = self._cell.head
        if head.run_list != self._edges.list.number:
            self._adopt(head)
        for row, slab in self._reader.slabs(range(self._sn + 1, head.last + 1)):
            self._take_in(row, slab)

    def _adopt(self, head: Head) -> None:
        """Reads the run list that the head names; snapshots that its runs cover are not read from slabs."""
        value = self.kv.get_many("runs", [list_key(head.run_list)])[0]
        if value is None:
            # A list is replaced in time: then the head names another by now.
            head = self._cell.refresh()
            value = self.kv.get_many("runs", [list_key(head.run_list)])[0]
        runs = unpack_list(value, head.run_list)
        cover = runs.cover(head.last)
        covered = cover[-1].last if cover else 0
        rows: list[SnRow] = []
        self._history.skip_to(covered)
        for start in range(max(self._history.sn, self._sn) + 1, covered + 1, ROWS_AT_ONCE):
            rows += self._reader.rows(range(start, min(start + ROWS_AT_ONCE, covered + 1)))
        self._take_in_runs(runs, head.last)
        for terms in self._reader.transient(max(runs.terms_from, self._sn + 1), covered):
            self._dictionary.transient.add(terms)
        for row in rows:
            self._history.take_in(row)
        self._sn = Sn(max(self._sn, covered))

    def _take_in_runs(self, runs: RunList, head: int) -> None:
        before = self._edges.newest
        self._edges.adopt(runs, self._sn, head)
        self._dictionary.transient.drop(runs.terms_from)
        self._recent.drop_below(self.horizon)
        newest = self._edges.newest
        if newest is not before:
            self._dictionary.adopt(newest.runs, newest.start)
            self._unfolded_bytes = 0

    def _take_in(self, row: SnRow, slab: Slab) -> None:
        for chunk in slab.terms:
            self._dictionary.add(row.sn, chunk)
        if row.sn >= self._edges.list.terms_from:
            for terms in self._reader.transient_of([row]):
                self._dictionary.transient.add(terms)
        self._edges.append(Sn(row.sn), changes_of(slab))
        for place in row.places:
            if place.slice_pieces == 0:
                self._recent.put(row.sn, merge(slab.streams[place.stream]))
        self._advance(row)

    def _advance(self, row: SnRow) -> None:
        self._history.take_in(row)
        self._unfolded_bytes += row.slab_bytes
        self._sn = Sn(row.sn)  # last: from here on readers may ask for it


def _place(stream: int, in_slab: bool, pieces: Sequence[Value]) -> StreamPlace:
    return StreamPlace(stream, in_slab, len(pieces), sum(map(len, pieces)))


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
