"""The edges that this process reads: layers for each span of snapshots that is in use.

The newest layers follow the head. When a fold moves the start of the overlay up, the layers before are retained for
readers that follow a little behind; for older snapshots, layers are built on demand, from the runs of that time and
the slabs between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hbase_store.arrays import Columns, Mask
from hbase_store.backends.keyvalue import KeyValue
from hbase_store.cache import CACHE_BYTES, Cache, RecentlyUsed
from hbase_store.edges.layers import Layers
from hbase_store.edges.overlay import Overlay
from hbase_store.errors import SnapshotGone
from hbase_store.layout.blocks import by_predicate
from hbase_store.layout.rows import Sn, SnRow
from hbase_store.layout.run import Cached, Run, Runs
from hbase_store.layout.run_blocks import NAMED_EDGES, is_edges
from hbase_store.layout.run_list import NO_RUNS, RunList
from hbase_store.layout.slab import Slab
from hbase_store.layout.stream_columns import graphs_of
from hbase_store.sorted.view import FORWARD

#: Layers of so many spans of older snapshots are kept.
SPANS_MAX = 3

#: (named, predicate, columns (s, o[, g]), which rows were inserted)
Changes = tuple[bool, int, Columns, Mask]


@dataclass(frozen=True, slots=True)
class _Span:
    """Layers that answer for layers.start..last."""

    layers: Layers
    last: int


class Edges:
    """One thread at a time appends and adopts; any number read. `read_slabs` reads the slabs of some snapshots."""

    def __init__(
        self,
        kv: KeyValue,
        read_slabs: Callable[[range], Iterator[tuple[SnRow, Slab]]],
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.cache: Cache[Cached] = Cache(cache_bytes)
        self.runs = Runs(kv, self.cache)
        self.list = NO_RUNS
        self._kv = kv
        self.newest = Layers(kv, (), self.cache)
        self._read_slabs = read_slabs
        self._spans: RecentlyUsed[int, _Span] = RecentlyUsed(SPANS_MAX)
        self._lock = threading.RLock()

    # ---- following the head

    def adopt(self, runs: RunList, sn: Sn, head: int) -> None:
        """Uses another run list from now on; `sn` is the last snapshot whose changes have been appended."""
        cover = runs.cover(head)
        opened = self.runs.open(cover)
        with self._lock:
            start = cover[-1].last if cover else 0
            before = self.newest
            if opened != before.runs:
                overlay = before.overlay if before.start <= start <= sn else None
                self.newest = Layers(self._kv, opened, self.cache, overlay)
                if before.start < start and before.start < sn:
                    self._keep(_Span(before, sn))
            self.list = runs
            self.runs.keep(runs.runs)

    def append(self, sn: Sn, changes: Iterable[Changes]) -> None:
        for named, predicate, columns, inserted in changes:
            self.newest.overlay.append(sn, named, predicate, columns, inserted)

    # ---- reading

    def at(self, sn: int) -> Layers:
        newest = self.newest
        if sn >= newest.start:
            return newest
        with self._lock:
            for span in self._spans.values():
                if span.layers.start <= sn <= span.last:
                    self._spans.get(span.layers.start)  # it was used
                    return span.layers
            span = self._rebuilt(sn)
            self._keep(span)
            return span.layers

    def _keep(self, span: _Span) -> None:
        known = self._spans.get(span.layers.start)
        if known is None or known.last < span.last:
            self._spans.put(span.layers.start, span)

    def _rebuilt(self, sn: int) -> _Span:
        """Layers for an old snapshot: the runs of that time, and the slabs that were folded into the next run."""
        self.check_retained(sn)
        cover = self.list.cover(sn)
        layers = Layers(self._kv, self.runs.open(cover), self.cache)
        last = min((run.last for run in self.list.runs if run.first == layers.start + 1), default=sn)
        if layers.start == sn:
            last = sn
        for row, slab in self._read_slabs(range(layers.start + 1, last + 1)):
            for named, predicate, columns, inserted in changes_of(slab):
                layers.overlay.append(Sn(row.sn), named, predicate, columns, inserted)
        return _Span(layers, last)

    def forget_spans(self) -> None:
        with self._lock:
            self._spans.clear()

    def check_retained(self, sn: int) -> None:
        if sn < self.list.floor:
            raise SnapshotGone(f"snapshot {sn} is no longer retained; the oldest one is {self.list.floor}")

    def changes(self, row: SnRow) -> Iterable[Changes]:
        """The net changes that a snapshot wrote, also those that changed nothing; those of a load are read one
        predicate after the other."""
        sn = Sn(row.sn)
        if row.load_run:
            return self._changes_of_load(row)
        with self._lock:
            spans = [_Span(self.newest, sn), *self._spans.values()]
        for span in spans:
            if span.layers.start < sn <= span.last:
                return list(_logged(span.layers.overlay, sn))
        overlay = Overlay(Sn(sn - 1), lambda named, predicate: True)
        for _, slab in self._read_slabs(range(sn, sn + 1)):
            for named, predicate, columns, inserted in changes_of(slab):
                overlay.append(sn, named, predicate, columns, inserted)
        return list(_logged(overlay, sn))

    def _changes_of_load(self, row: SnRow) -> Iterator[Changes]:
        entry = next((run for run in self.list.runs if run.number == row.load_run), None)
        if entry is None:
            raise SnapshotGone(
                f"the changes of the load in snapshot {row.sn} are no longer retained: its run was merged"
            )
        (run,) = self.runs.open([entry])
        yield from _whole(run)


def _whole(run: Run) -> Iterator[Changes]:
    for key, column in run.columns.items():
        if is_edges(key) and key.order == FORWARD:
            view = column.whole()
            inserted = np.ones(len(view), np.bool_) if view.inserted is None else view.inserted
            yield key.kind == NAMED_EDGES, key.predicate, view.columns, inserted


def _logged(overlay: Overlay, sn: Sn) -> Iterator[Changes]:
    for named in (False, True):
        for predicate in overlay.predicates(named):
            column = overlay.column(named, predicate)
            if column is not None and column.changed(sn):
                yield named, predicate, *column.changes(sn)


def changes_of(slab: Slab) -> Iterator[Changes]:
    """The changes of a slab in the order in which they apply: absorbed stream columns come before the blocks."""
    for parts in slab.streams.values():
        for part, graphs in zip(parts, graphs_of(parts), strict=True):
            for named, predicate, columns, _ in by_predicate(part.s, part.p, part.o, graphs):
                yield named, predicate, columns, np.ones(len(columns[0]), np.bool_)
    for block in slab.blocks:
        yield block.named, block.predicate, block.columns, np.full(len(block.columns[0]), block.inserted)
