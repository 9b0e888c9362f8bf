"""A preview: the store as it would be if a batch that is still being filled were committed now.

The batch's changes lie over the snapshot below as one more layer. They are taken in when a snapshot of them is asked
for, each once; such a snapshot does not see what the batch is told later. New terms of the batch can be looked up and
decoded, though nobody else knows them yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hbase_store.arrays import NO_IDS, Columns, Ids, Offsets, distinct_values
from hbase_store.edges.layers import Reads, deleted_keys, united
from hbase_store.edges.overlay import Overlay
from hbase_store.edges.snapshot import Answer, Snapshot
from hbase_store.layout.rows import Sn
from hbase_store.sorted.view import BY_GRAPH, FORWARD, Room, View, lay_over, nothing, rows_of, settled
from hbase_store.writing.batch import Batch


class Preview:
    """For the thread that fills the batch."""

    def __init__(self, below: Snapshot, batch: Batch) -> None:
        self._below, self._batch = below, batch
        self._changes = Overlay(Sn(0), lambda named, predicate: True)
        self._taken_in = 0
        self._newest: Snapshot | None = None

    def ids(self, texts: Sequence[bytes]) -> Ids:
        """0 for a term that neither the store nor the batch has."""
        return self._batch.ids(texts)

    def terms(self, ids: Ids) -> list[bytes]:
        return self._batch.terms(ids)

    def snapshot(self) -> Snapshot:
        """With all that the batch was told up to now; its number is the one that the batch would get."""
        said = self._batch.operations()
        if self._newest is None or said != self._taken_in:
            for change in self._batch.edges(self._taken_in):
                self._changes.append(Sn(said), change.named, change.predicate, change.columns, change.inserted)
            self._taken_in = said
            layers = _PreviewLayers(self._below, self._changes, Sn(said))
            self._newest = Snapshot(layers, Sn(self._below.sn + 1), lambda _: layers)
        return self._newest


class _PreviewLayers:
    """What `changes` say up to `said`, over a snapshot; what they do not speak of is read as it is below.

    Whoever asks gives the number of the snapshot; it means nothing here, where both numbers are known."""

    def __init__(self, below: Snapshot, changes: Overlay, said: Sn) -> None:
        self._below, self._changes, self._said = below, changes, said
        self._views: dict[tuple[bool, int, int], View] = {}
        self._counts: dict[tuple[bool, int], int] = {}

    def _changed(self, named: bool, predicate: int, order: int) -> View:
        return self._changes.view(named, predicate, order, self._said)

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
        changed = self._changed(named, predicate, order)
        if len(changed) == 0:
            return self._below_said(lambda layers, number: layers.reach(named, predicate, order, keys, number))
        whole = self._views.get((named, predicate, order))
        if whole is not None:
            return whole
        if len(keys) == 0:
            return nothing(named)
        distinct = distinct_values(keys)
        below = self._below_said(lambda layers, number: layers.reach(named, predicate, order, distinct, number))
        return lay_over(rows_of(below, distinct), rows_of(changed, distinct), False)

    def neighbours(
        self, named: bool, predicate: int, order: int, keys: Ids, sn: Sn, room: Room
    ) -> tuple[Offsets, *Columns] | None:
        if len(self._changed(named, predicate, order)):
            return None
        return self._below_said(lambda layers, number: layers.neighbours(named, predicate, order, keys, number, room))

    def at_hand(self, named: bool, predicate: int, order: int, sn: Sn) -> tuple[View, Ids] | None:
        if len(self._changed(named, predicate, order)):
            view = self._views.get((named, predicate, order))
            return None if view is None else (view, NO_IDS)
        return self._below_said(lambda layers, number: layers.at_hand(named, predicate, order, number))

    def count(self, named: bool, predicate: int, sn: Sn) -> int:
        count = self._counts.get((named, predicate))
        if count is None:
            count = self._counts[named, predicate] = self._counted(named, predicate)
        return count

    def least(self, predicate: int, graph: np.uint64, sn: Sn) -> int:
        changes = self._changed(True, predicate, BY_GRAPH).columns[0]
        above = int(changes.searchsorted(graph, "right") - changes.searchsorted(graph, "left"))
        return max(above, self._below_said(lambda layers, number: layers.least(predicate, graph, number)))

    def has_deleted(self, named: bool, predicate: int, sn: Sn) -> bool:
        if self._changed(named, predicate, FORWARD).inserted is not None:
            return True
        return self._below_said(lambda layers, number: layers.has_deleted(named, predicate, number))

    def fan(self, named: bool, predicate: int, order: int, sn: Sn) -> float:
        return self._below_said(lambda layers, number: layers.fan(named, predicate, order, number))

    def _counted(self, named: bool, predicate: int) -> int:
        below = self._below_said(lambda layers, number: layers.count(named, predicate, number))
        changed = self._changed(named, predicate, FORWARD)
        if len(changed) == 0:
            return below
        there = self._below.contains_rows(named, predicate, changed.columns)
        inserted = np.ones(len(changed), np.bool_) if changed.inserted is None else changed.inserted
        return below + int(np.count_nonzero(inserted & ~there)) - int(np.count_nonzero(~inserted & there))

    def predicates(self, named: bool) -> list[int]:
        below = self._below_said(lambda layers, _: layers.predicates(named))
        return sorted({*below, *self._changes.predicates(named)})

    def predicates_of(self, named: bool, order: int, keys: Ids, sn: Sn) -> Columns:
        parts = [self._below_said(lambda layers, number: layers.predicates_of(named, order, keys, number))]
        for predicate in self._changes.predicates(named):
            found = distinct_values(rows_of(self._changed(named, predicate, order), keys).columns[0])
            parts.append((found, np.full(len(found), predicate, np.uint64)))
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def graphs(self, sn: Sn) -> tuple[Ids, Ids]:
        listed, doubtful = self._below_said(lambda layers, number: layers.graphs(number))
        changed = [self._changed(True, predicate, BY_GRAPH) for predicate in self._changes.predicates(True)]
        came = [settled(view).columns[0] for view in changed]
        went = [deleted_keys(view) for view in changed]
        return united([listed, *came]), united([doubtful, *went])

    def _below_said(self, read: Callable[[Reads, Sn], Answer]) -> Answer:
        return self._below.read(lambda layers: read(layers, self._below.sn))
