"""A preview: the store as it would be if a batch that is still being filled were committed now.

The changes of the batch, over those of the batches that it follows, lie over the snapshot below as one more layer. A
preview does not see what is added to the batch later. New terms of the batch can be looked up and decoded, though no
other process knows them yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hbase_store.arrays import NO_IDS, Columns, Ids, Offsets, distinct_values
from hbase_store.cache import Lent
from hbase_store.edges.layers import Lookup, Reads, deleted_keys, united
from hbase_store.edges.overlay import Overlay
from hbase_store.edges.snapshot import Answer, Snapshot
from hbase_store.layout.rows import Sn
from hbase_store.layout.terms import HELD_BASE
from hbase_store.sorted.view import (
    BY_GRAPH,
    FORWARD,
    Room,
    View,
    lay_over,
    nothing,
    rows_of,
    span_of,
    without_deletions,
)
from hbase_store.writing.batch import Batch, Change


class Preview:
    """Previews of a batch, for the thread that fills it."""

    def __init__(self, below: Snapshot, batch: Batch) -> None:
        self._below, self._batch = below, batch
        self._changes = Overlay(Sn(0), lambda named, predicate: True)
        self._applied = 0
        self._written_before = sum(earlier.operations() for earlier in batch.earlier)
        self._newest: Snapshot | None = None

    def ids(self, texts: Sequence[bytes]) -> Ids:
        """The ids of terms; 0 for a term that neither the store nor a batch has."""
        return self._batch.ids(texts)

    def terms(self, ids: Ids) -> list[bytes]:
        return self._batch.terms(ids)

    def snapshot(self) -> Snapshot:
        """The store with all changes of the batch up to now, under the number that the batch would get."""
        operations = self._batch.operations()
        if self._newest is None or operations != self._applied:
            if self._newest is None:
                self._append_earlier()
            written = Sn(self._written_before + operations)
            self._append(written, self._batch.edges(self._applied))
            self._applied = operations
            layers = _PreviewLayers(self._below, self._changes, written)
            number = Sn(self._below.sn + len(self._batch.earlier) + 1)
            self._newest = Snapshot(layers, number, lambda _: layers)
        return self._newest

    def _append_earlier(self) -> None:
        written = 0
        for earlier in self._batch.earlier:
            written += earlier.operations()
            self._append(Sn(written), earlier.edges(0))

    def _append(self, written: Sn, changes: Iterable[Change]) -> None:
        for change in changes:
            self._changes.append(written, change.named, change.predicate, change.columns, change.inserted)


class _PreviewLayers:
    """A snapshot, with the first `written` of `changes` laid over it. Columns without changes are read from below.

    The parameter `sn` of the methods is not used: both numbers are fixed here."""

    def __init__(self, below: Snapshot, changes: Overlay, written: Sn) -> None:
        self._below, self._changes, self._written = below, changes, written
        self._views: dict[tuple[bool, int, int], View] = {}
        self._counts: dict[tuple[bool, int], int] = {}

    def _changed(self, named: bool, predicate: int, order: int) -> View:
        return self._changes.view(named, predicate, order, self._written)

    def view(self, named: bool, predicate: int, order: int, sn: Sn) -> View:
        changed = self._changed(named, predicate, order)
        if len(changed) == 0:
            return self._below.view(named, predicate, order)
        view = self._views.get((named, predicate, order))
        if view is None:
            view = lay_over(self._below.view(named, predicate, order), changed, False)
            self._views[named, predicate, order] = view
        return view

    def reach(self, named: bool, predicate: int, order: int, keys: Ids, sn: Sn) -> View:
        """The edges of a predicate that begin at some keys, with the changes of the batch laid over those of the
        store."""
        changed = self._changed(named, predicate, order)
        if len(changed) == 0:
            return self._read_below(lambda layers, number: layers.reach(named, predicate, order, keys, number))
        whole = self._views.get((named, predicate, order))
        if whole is not None:
            return whole
        if len(keys) == 0:
            return nothing(named)
        distinct = distinct_values(keys)
        below = self._read_below(lambda layers, number: layers.reach(named, predicate, order, distinct, number))
        return lay_over(rows_of(below, distinct), rows_of(changed, distinct), False)

    def between(self, named: bool, predicate: int, first: int, last: int, sn: Sn) -> View:
        return span_of(self.view(named, predicate, FORWARD, sn), first, last)

    def cuts(self, named: bool, predicate: int, rows: int, sn: Sn) -> Ids:
        return distinct_values(self.view(named, predicate, FORWARD, sn).columns[0][rows::rows])

    @property
    def is_remote(self) -> bool:
        return self._below.layers.is_remote

    def fetch(self, lookups: Sequence[Lookup]) -> None:
        self._read_below(lambda layers, _: layers.fetch(lookups))

    def fetch_around(self, key: Ids, order: int) -> None:
        self._read_below(lambda layers, _: layers.fetch_around(key, order))

    def neighbours(
        self, named: bool, predicate: int, order: int, keys: Ids, sn: Sn, room: Room
    ) -> tuple[Offsets, *Columns] | None:
        if len(self._changed(named, predicate, order)):
            return None
        return self._read_below(lambda layers, number: layers.neighbours(named, predicate, order, keys, number, room))

    def at_hand(self, named: bool, predicate: int, order: int, sn: Sn) -> tuple[View, Ids] | None:
        if len(self._changed(named, predicate, order)):
            view = self._views.get((named, predicate, order))
            return None if view is None else (view, NO_IDS)
        return self._read_below(lambda layers, number: layers.at_hand(named, predicate, order, number))

    def lend(self) -> Lent:
        return self._below.layers.lend()

    def count(self, named: bool, predicate: int, sn: Sn) -> int:
        """The number of edges of a predicate as it will be once the batch is committed."""
        count = self._counts.get((named, predicate))
        if count is None:
            count = self._counts[named, predicate] = self._counted(named, predicate)
        return count

    def least(self, predicate: int, graph: np.uint64, sn: Sn) -> int:
        changes = self._changed(True, predicate, BY_GRAPH).columns[0]
        above = int(changes.searchsorted(graph, "right") - changes.searchsorted(graph, "left"))
        return max(above, self._read_below(lambda layers, number: layers.least(predicate, graph, number)))

    def has_deleted(self, named: bool, predicate: int, sn: Sn) -> bool:
        if self._changed(named, predicate, FORWARD).inserted is not None:
            return True
        return self._read_below(lambda layers, number: layers.has_deleted(named, predicate, number))

    def fan(self, named: bool, predicate: int, order: int, sn: Sn) -> float:
        return self._read_below(lambda layers, number: layers.fan(named, predicate, order, number))

    def _counted(self, named: bool, predicate: int) -> int:
        below = self._read_below(lambda layers, number: layers.count(named, predicate, number))
        changed = self._changed(named, predicate, FORWARD)
        if len(changed) == 0:
            return below
        there = self._below.contains_rows(named, predicate, changed.columns)
        inserted = np.ones(len(changed), np.bool_) if changed.inserted is None else changed.inserted
        return below + int(np.count_nonzero(inserted & ~there)) - int(np.count_nonzero(~inserted & there))

    @property
    def has_held(self) -> bool:
        return self._changes.has_held or self._below.has_held

    def predicates(self, named: bool) -> list[int]:
        below = self._read_below(lambda layers, _: layers.predicates(named))
        return sorted({*below, *self._changes.predicates(named)})

    def predicates_of(self, named: bool, order: int, keys: Ids, sn: Sn) -> Columns:
        parts = [self._read_below(lambda layers, number: layers.predicates_of(named, order, keys, number))]
        for predicate in self._changes.predicates(named):
            found = distinct_values(rows_of(self._changed(named, predicate, order), keys).columns[0])
            parts.append((found, np.full(len(found), predicate, np.uint64)))
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def graphs(self, sn: Sn, held: bool) -> tuple[Ids, Ids]:
        listed, doubtful = self._read_below(lambda layers, number: layers.graphs(number, held))
        predicates = [p for p in self._changes.predicates(True) if (p >= HELD_BASE) == held]
        changed = [self._changed(True, predicate, BY_GRAPH) for predicate in predicates]
        came = [without_deletions(view).columns[0] for view in changed]
        went = [deleted_keys(view) for view in changed]
        return united([listed, *came]), united([doubtful, *went])

    def _read_below(self, read: Callable[[Reads, Sn], Answer]) -> Answer:
        return self._below.read(lambda layers: read(layers, self._below.sn))
