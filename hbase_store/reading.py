"""Reading the store: what this process has read of the log of snapshots, and answers about each of them.

    reader.refresh()         takes in the slabs that any process published meanwhile
    reader.at(7)             the store as it was at snapshot 7
    reader.stream(7, 2)      the elements that snapshot 7 brought to stream 2

Each answer comes from the memory of this process, as far as it is in memory. Threads share one reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from weakref import WeakValueDictionary

import numpy as np

from hbase_store.arrays import NO_IDS, Columns, Ids, Mask, concatenate
from hbase_store.backends.checked_reads import with_checked_reads
from hbase_store.backends.keyvalue import KeyValue
from hbase_store.cache import CACHE_BYTES
from hbase_store.clock import Clock
from hbase_store.edges.edges import Changes, Edges, changes_of
from hbase_store.edges.layers import Layers
from hbase_store.edges.snapshot import Rows, Snapshot
from hbase_store.errors import Corrupt, SnapshotGone
from hbase_store.layout.rows import Sn, SnRow, StreamPlace, StreamPosition
from hbase_store.layout.run_list import RunList, list_key, unpack_list
from hbase_store.layout.slab import Slab
from hbase_store.layout.stream_columns import RecentStreams, StreamColumns, merge
from hbase_store.layout.terms import HELD_BASE
from hbase_store.layout.terms import held as held_predicate
from hbase_store.log.emissions import EmissionLog
from hbase_store.log.head import Head, HeadCell
from hbase_store.log.history import History
from hbase_store.log.row_reader import ROWS_AT_ONCE, RowReader
from hbase_store.memory_only import ShortLock, check_may_wait
from hbase_store.reading_ahead import read_ahead
from hbase_store.terms.dictionary import Dictionary

RECENT_STREAM_BYTES = 64 << 20
#: The texts of so many ids are brought together.
_FETCHED_IDS = 1 << 16
#: So many changes are compared at a time with the snapshot before.
_CHANGES_COMPARED = 1 << 13


class StoreReader:
    """What one process knows of a store, and its snapshots."""

    def __init__(self, kv: KeyValue, url: str, clock: Clock, cache_bytes: int = CACHE_BYTES) -> None:
        """`cache_bytes`: for rows; half as much again is for texts."""
        self.kv = kv
        self.url = url
        self.cache_bytes = cache_bytes
        kv = with_checked_reads(kv)
        self.emissions = EmissionLog(kv, clock)
        self._cell = HeadCell(kv, b"head")
        self._dictionary = Dictionary(
            kv, lambda: self._reader.transient(1, self._edges.list.terms_from - 1), cache_bytes // 2
        )
        self._reader = RowReader(kv, self._cell, lambda: self._edges.list.floor)
        self._edges = Edges(kv, self._reader.slabs, cache_bytes)
        self._history = History(self._reader.rows, self._reader.present, self._reader.whole)
        self._recent = RecentStreams(RECENT_STREAM_BYTES)
        self._snapshots: WeakValueDictionary[int, Snapshot] = WeakValueDictionary()
        self._snapshots_lock = ShortLock()
        self._newest = Snapshot(self._edges.newest, Sn(0), self._renewed)
        self._taking_in = threading.Lock()  # held while something is added to what readers see
        self._unfolded_bytes = 0
        self._sn = Sn(0)
        self._known_change = (0, False)  # a snapshot, and whether it changed something

    def probe(self) -> None:
        """A small call, to see whether the store answers. Raises StoreUnavailable."""
        self.kv.get_many("meta", [self._cell.key])

    def read_ahead(self, bytes_max: int, goes_on: Callable[[], bool] = lambda: True) -> int:
        """Brings as much of a store of another process into memory as takes `bytes_max`, and half as much of texts;
        the bytes of what was brought. 0 for a store of this machine, which is in its memory anyway."""
        if not self.kv.is_remote:
            return 0
        return read_ahead(self.kv, self._edges.newest.runs, self._dictionary.pages, bytes_max, goes_on)

    # ---- snapshots

    def head(self) -> Sn:
        """The last snapshot that this process has read."""
        return self._sn

    @property
    def runs(self) -> RunList:
        """The runs that this process knows; newer snapshots are not folded yet."""
        return self._edges.list

    def refresh(self) -> Sn:
        """Reads what any process committed meanwhile; returns the new head."""
        check_may_wait()
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

    def snapshots_with_elements(self, stream: int, sn: int) -> Iterator[tuple[SnRow | None, int, int | None]]:
        """The snapshots up to `sn` that brought elements of a stream, newest first: the row, its number, and the
        stream's time after it. The first one that is not retained comes last, and without a row."""
        position = self.vts(max(sn, self.oldest())).get(stream)
        for row, number, time in self._history.snapshots_with_elements(position, self.horizon(stream)):
            if row is None or number <= sn:
                yield row, number, time

    def streams(self, stream: int, rows: Sequence[SnRow]) -> list[StreamColumns]:
        """The elements of a stream in each of these snapshots. Each snapshot must have some."""
        found = [self._recent.get(row.sn, stream) for row in rows]
        places = [(row, next(place for place in row.places if place.stream == stream)) for row in rows]
        missing = [place for place, columns in zip(places, found, strict=True) if columns is None]
        read = iter(self._read_streams(stream, missing))
        return [next(read) if columns is None else columns for columns in found]

    def _read_streams(self, stream: int, places: Sequence[tuple[SnRow, StreamPlace]]) -> list[StreamColumns]:
        """The elements of a stream in these snapshots. If they are collected meanwhile, this raises SnapshotGone, and
        not Corrupt."""
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
        for change in written:
            _, predicate, columns, inserted = change
            parts.append(_quads(predicate, columns, inserted, _really_changed(before, change)))
        *quads, signs = zip(*parts, strict=True)
        s, p, o, g = (concatenate(column) for column in quads)
        return Rows(s, p, o, g, np.where(np.concatenate(signs), 1, -1))

    def has_changed(self, sn: int) -> bool:
        """Whether a snapshot really inserted or deleted something, held edges included. It looks at a part of the
        changes after the other, and no further than to the first that did."""
        known_of, known = self._known_change
        if known_of == sn:
            return known
        number = self._existing(sn)
        parts = _in_parts(self._edges.changes(self.row(number)))
        found = (first := next(parts, None)) is not None
        if first is not None:
            before = self.at(number - 1)
            found = any(_really_changed(before, part).any() for part in chain((first,), parts))
        self._known_change = (sn, found)
        return found

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

    def fetch_terms(self, columns: Sequence[Ids]) -> None:
        """Brings what `terms` will read for these ids into memory, with one request, where each would be a round
        trip; of many ids, for the first ones."""
        if self.kv.is_remote and columns:
            each = max(1, _FETCHED_IDS // len(columns))
            self._dictionary.pages.fetch(concatenate([column[:each] for column in columns]))

    def transient_terms(self) -> tuple[int, int]:
        """How many there are, where each counts in every generation that has it; and the bytes that they take here."""
        return self._dictionary.transient.count, self._dictionary.transient.nbytes

    def terms_version(self) -> object:
        """A value that changes whenever terms are added: if it is equal, no term is new."""
        return self._dictionary.version()

    # ---- taking in

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


def _in_parts(changes: Iterable[Changes]) -> Iterator[Changes]:
    for named, predicate, columns, inserted in changes:
        for start in range(0, len(inserted), _CHANGES_COMPARED):
            part = slice(start, start + _CHANGES_COMPARED)
            yield named, predicate, tuple(column[part] for column in columns), inserted[part]


def _really_changed(before: Snapshot, change: Changes) -> Mask:
    """Which of these rows were not already as they were written."""
    named, predicate, columns, inserted = change
    changed: Mask = before.contains_rows(named, predicate, columns) != inserted
    return changed


def _quads(predicate: int, columns: Columns, inserted: Mask, changed: Mask) -> tuple[Ids, Ids, Ids, Ids, Mask]:
    s, o = columns[0][changed], columns[1][changed]
    p = np.full(len(s), predicate, np.uint64)
    g = columns[2][changed] if len(columns) == 3 else np.zeros(len(s), np.uint64)
    return s, p, o, g, inserted[changed]
