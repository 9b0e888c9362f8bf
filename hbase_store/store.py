"""The store: a log of snapshots, each written once. Reading it is in `reading`; here is the one writer.

    batch = store.begin();  batch.insert(...);  sn = store.commit(batch)

One process at a time writes: it collects a batch and commits it, and then there is one more snapshot, for all
processes at once. Any number of processes read: each takes in the slabs as they come, and answers for any
snapshot from its own memory. Nothing that was committed is ever changed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from hbase_store.backends.calls import purpose
from hbase_store.backends.keyvalue import Put, Value
from hbase_store.backends.lease import Leasing
from hbase_store.backends.meta_cells import check_put
from hbase_store.backends.shared_cells import share_base, shared_base, shared_secret
from hbase_store.cache import CACHE_BYTES
from hbase_store.clock import Clock, WallClock
from hbase_store.errors import Fenced, StoreError, StoreUnavailable, Unwritable
from hbase_store.layout.rows import CatalogChange, Sn, SnRow, StreamMove, StreamPlace, chained
from hbase_store.layout.run_list import RunEntry, RunList, list_put
from hbase_store.layout.slab import pack_slice
from hbase_store.layout.transient_rows import TransientRow, texts_of
from hbase_store.log.head import Head
from hbase_store.log.row_reader import row_puts
from hbase_store.opening import Durability, connect, is_shared
from hbase_store.reading import StoreReader
from hbase_store.terms.transient import OpenGeneration
from hbase_store.writing.batch import Batch, Change, Numbers
from hbase_store.writing.divided_loading import DividedLoading
from hbase_store.writing.loading import Loading
from hbase_store.writing.preview import Preview
from hbase_store.writing.upkeep import Host, Turn, Upkeep


@dataclass(frozen=True, slots=True)
class _WrittenSnapshot:
    """A batch or a load as it is written."""

    batch: Batch | None  # None: a bulk load
    row: SnRow
    changes: list[Change]
    stages: list[list[Put]]
    runs: RunList | None = None  # the list that the load brings


@dataclass(frozen=True, slots=True)
class _SnapshotPublication:
    """One or more snapshots that one change of the head makes visible: the same bytes each time, however often it
    takes."""

    snapshots: list[_WrittenSnapshot]
    head: Head

    @property
    def batches(self) -> tuple[Batch | None, ...]:
        return tuple(snapshot.batch for snapshot in self.snapshots)


class Store(StoreReader):
    """Threads share one; a process opens an address once, and a forked child opens its own."""

    def __init__(
        self, kv: Leasing, url: str, clock: Clock, folding: bool = True, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """`folding`: the writer folds by itself, in a thread; else only when it is asked to."""
        super().__init__(kv, url, clock, cache_bytes)
        self._clock = clock
        self._lease = kv.lease(clock)
        self._address = ""
        self._terms, self._blanks = Numbers(kv.allocate, "term"), Numbers(kv.allocate, "blank")
        self._transient_terms = Numbers(kv.allocate, "term")  # of their own, so that permanent ones lie close together
        self._generation: OpenGeneration | None = None
        self._open_batches: tuple[Batch, ...] = ()
        self._undecided: _SnapshotPublication | None = None
        self._writing = threading.RLock()  # acquired before that of taking in
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
        self._forget_batches()  # they count, and are taken in now as they were published; or they never will
        self.refresh()

    @property
    def has_lost_lease(self) -> bool:
        """Whether this process lost the lease: another process is the writer, or may be. This one reads only."""
        return self._cell.is_lost or (self._cell.epoch != 0 and self._lease.lost)

    def now_ms(self) -> int:
        """The time of the clock that dates its snapshots."""
        return self._clock.now_ms()

    def resign(self) -> None:
        """Writes nothing more until `take_lease`: a publish whose outcome is unknown is not repeated either."""
        with self._writing:
            self._cell.resign()
            self.emissions.resign()

    def begin(self, after: Sequence[Batch] = ()) -> Batch:
        """A new batch. `after`: open batches that will be committed together with it, and before it; it sees their
        terms. All others that were begun earlier and not committed are dropped."""
        with self._writing:
            self._upkeep.raise_failure()
            self._hold_lease()
            self._resolve_outcome()
            now_ms, alive = self._clock.now_ms(), self._dictionary.transient
            generation = alive.next_generation(self._generation, now_ms, self._sn + 1)
            if generation is None:
                self._generation = None
            if tuple(after) != self._open_batches[: len(after)]:
                raise StoreError("a batch follows batches that are open, in the order in which they were begun")
            earlier = tuple(after)
            batch = Batch(
                self._dictionary, self._terms, self._transient_terms, self._blanks, generation, now_ms, earlier
            )
            self._open_batches = (*earlier, batch)
            return batch

    def preview(self, batch: Batch) -> Preview:
        """The store as it would be if the batch, and those that it follows, were committed now."""
        return Preview(self.at(self._sn), batch)

    def commit(self, *batches: Batch) -> Sn:
        """Publishes the batch as the next snapshot; or several, each as a snapshot, with one change of the head.
        Several move no stream, and change nothing in the catalog.

        After StoreUnavailable the outcome is not known: commit the same batches again. After Unwritable nothing was
        written, and another batch may be begun."""
        with self._upkeep.gate.first(), self._writing, purpose("publish"):
            if self._undecided is not None and self._undecided.batches == batches:
                return self._publish(self._undecided)
            if not batches or batches != self._open_batches[: len(batches)]:
                raise StoreError("this batch was already committed, or a later batch was begun; begin a new one")
            if len(batches) > 1 and any(batch.moves or batch.catalog_changes for batch in batches):
                raise StoreError("a batch that moves streams, or changes the catalog, is committed alone")
            self._resolve_outcome()
            try:
                self._undecided = self._publication(batches)
            except Exception as error:
                self._forget_batches()
                raise Unwritable(f"this batch cannot be written, and nothing of it was written: {error}") from error
            return self._publish(self._undecided)

    def _publication(self, batches: Sequence[Batch]) -> _SnapshotPublication:
        first, head = self._cell.head.last + 1, self._cell.head.advanced(count=len(batches))
        # One cell time for all of them, so that HBase takes their rows in one call for each table.
        written = [self._written(batch, sn, head.epoch, first) for sn, batch in enumerate(batches, first)]
        return _SnapshotPublication(written, head)

    def _written(self, batch: Batch, sn: int, epoch: int, cell_time: int) -> _WrittenSnapshot:
        packed = batch.pack()
        pieces, terms_pieces = packed.pieces, batch.pack_transient()
        slices = {stream: pack_slice(part) for stream, part in batch.slice_parts.items()}
        places = [_place(n, n in packed.streams, slices.get(n, ())) for n in batch.columns]
        row = SnRow(
            sn=sn,
            epoch=epoch,
            published_ms=batch.time,
            moves=[self._chained(move) if move.stream in batch.columns else move for move in batch.moves],
            catalog=batch.catalog_changes,
            slab_pieces=len(pieces),
            slab_bytes=sum(map(len, pieces)),
            places=places,
            terms_pieces=len(terms_pieces),
        )
        puts = [Put("slab", key, piece, cell_time) for key, piece in zip(row.slab_keys(), pieces, strict=True)]
        puts += [Put("terms", key, piece, cell_time) for key, piece in zip(row.terms_keys(), terms_pieces, strict=True)]
        for place in places:
            keyed = zip(row.slice_keys(place), slices.get(place.stream, ()), strict=True)
            puts.extend(Put("slice", key, piece, cell_time) for key, piece in keyed)
        row_of = self._row_puts(row, cell_time)
        for put in (*puts, *row_of):
            check_put(put)  # while nothing is written yet
        return _WrittenSnapshot(batch, row, packed.changes, [puts, row_of])

    def _chained(self, move: StreamMove) -> StreamMove:
        return chained(move, self._history.position(move.stream))

    def _row_puts(self, row: SnRow, cell_time: int) -> list[Put]:
        return row_puts(row, self._history.whole_after(row), cell_time)

    def _publish(self, publication: _SnapshotPublication) -> Sn:
        with self._taking_in:
            stages = [stage for snapshot in publication.snapshots for stage in snapshot.stages]
            first = publication.snapshots[0].row.sn
            try:
                self._cell.publish(stages, publication.head, first)
            except StoreError as error:
                # Only while the outcome is unknown is there something to repeat.
                if not isinstance(error, StoreUnavailable):
                    self._forget_batches()
                raise
            for snapshot in publication.snapshots:
                if self._sn < snapshot.row.sn:
                    self._take_in_own(snapshot)
            self._forget_batches()
        self._upkeep.published(self._unfolded_bytes)
        return Sn(publication.head.last)

    def _forget_batches(self) -> None:
        self._undecided, self._open_batches = None, ()

    # ---- loading, folding, collecting

    def load(
        self,
        loading: Loading | DividedLoading,
        *,
        graph: bytes | None = None,
        name: bytes = b"",
        turn: Turn = lambda publish: publish(),
    ) -> Sn:
        """Publishes what was loaded as one snapshot; `graph` is for statements that name none.

        `name` describes the load; the catalog has it under ("load", SN). Before the snapshot nothing of it can be
        seen. The long work is done in this thread; `turn` runs the last step in the thread that publishes batches."""

        def publish(entry: RunEntry, runs: RunList) -> Sn:
            self._undecided = self._load_publication(entry, runs, name)
            return self._publish(self._undecided)

        if isinstance(loading, DividedLoading) and is_shared(self.url):
            loading.store = self.url
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

    def _load_publication(self, entry: RunEntry, known: RunList, name: bytes) -> _SnapshotPublication:
        number = self.kv.allocate("run", 1)
        head = self._cell.head.advanced(number)
        entry = msgspec.structs.replace(entry, first=head.last, last=head.last)
        runs = msgspec.structs.replace(known, number=number, epoch=head.epoch, runs=(*known.runs, entry))
        changes = [CatalogChange("load", head.last, name)] if name else []
        row = SnRow(head.last, head.epoch, self._clock.now_ms(), [], changes, 0, 0, [], entry.number)
        stages = [[list_put(runs, row.sn)], self._row_puts(row, row.sn)]
        return _SnapshotPublication([_WrittenSnapshot(None, row, [], stages, runs)], head)

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

    def _take_in_own(self, written: _WrittenSnapshot) -> None:
        sn = Sn(written.row.sn)
        if written.runs is not None:
            self._take_in_runs(written.runs, sn)
        if written.batch is not None:
            self._take_in_batch(written, written.batch)
        self._advance(written.row)

    def _take_in_batch(self, written: _WrittenSnapshot, batch: Batch) -> None:
        sn = Sn(written.row.sn)
        for chunk, texts in batch.new_texts:
            self._dictionary.add(sn, chunk, texts)
        if written.row.terms_pieces:
            self._take_in_transient(batch)
        changes = ((change.named, change.predicate, change.columns, change.inserted) for change in written.changes)
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


def _place(stream: int, in_slab: bool, pieces: Sequence[Value]) -> StreamPlace:
    return StreamPlace(stream, in_slab, len(pieces), sum(map(len, pieces)))


def open_store(
    url: str,
    *,
    read_only: bool = False,
    clock: Clock | None = None,
    durability: Durability = "process",
    folding: bool = True,
    cache_bytes: int = CACHE_BYTES,
) -> Store:
    """Opens the store at `url`, and makes it if it is not there (unless `read_only`).

    `cache_bytes`: the most memory for rows that were read; half as much again is for texts."""
    backend = connect(url, read_only, durability)
    try:
        return Store(backend, url, clock or WallClock(), folding, cache_bytes)
    except BaseException:
        backend.close()
        raise
