"""Upkeep: what the writer does beside publishing: fold, merge, load, collect. Each ends in one change of the head."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

import msgspec

from hbase_store.backends.keyvalue import KeyValue
from hbase_store.clock import Clock
from hbase_store.edges.edges import Edges
from hbase_store.errors import Fenced
from hbase_store.layout.rows import Sn
from hbase_store.layout.run_list import RunEntry, RunList, list_put
from hbase_store.log.head import HeadCell
from hbase_store.terms.dictionary import Dictionary
from hbase_store.writing.collection import Collector, retained
from hbase_store.writing.divided_loading import DividedLoading
from hbase_store.writing.folding import (
    FOLD_BYTES,
    FOLD_SLABS,
    FOLD_SLABS_REMOTE,
    Abandoned,
    Folder,
    FoldWriter,
    Gate,
    folded_columns,
    hash_rows,
    merged_columns,
    runs_to_merge,
)
from hbase_store.writing.load_writer import LoadWriter
from hbase_store.writing.loading import Loading, Numbers32

#: Runs the step of a load that publishes: at once, or where all else is published.
Turn = Callable[[Callable[[], Sn | None]], Sn | None]


@dataclass(frozen=True, slots=True)
class Host:
    """What upkeep needs of the store: its locks, in the order in which they are taken, and some of its verbs."""

    writing: threading.RLock
    taking_in: threading.Lock
    head: Callable[[], Sn]
    streams: Callable[[], list[int]]
    hold_lease: Callable[[], None]
    resolve_outcome: Callable[[], None]
    take_in_runs: Callable[[RunList, int], None]


class Upkeep:
    def __init__(
        self,
        kv: KeyValue,
        clock: Clock,
        cell: HeadCell,
        edges: Edges,
        dictionary: Dictionary,
        host: Host,
        in_background: bool,
    ) -> None:
        self._kv, self._clock, self._cell = kv, clock, cell
        self._edges, self._dictionary, self._host = edges, dictionary, host
        # One at a time; it is held longer than the locks of the host, and taken before them.
        self._one = threading.Lock()
        self.gate = Gate()
        self.folder = Folder(self._work) if in_background else None
        self._collector: tuple[int, Collector] | None = None
        # What left the list, when, and under which epoch; the collector takes it over.
        self._left: list[tuple[int, int, list[RunEntry]]] = []
        self._unfolded_bytes = 0

    def close(self) -> None:
        if self.folder is not None:
            self.folder.close()

    def published(self, unfolded_bytes: int) -> None:
        self._unfolded_bytes = unfolded_bytes
        if self.folder is not None and self._is_much_unfolded():
            self.folder.wake()

    def _is_much_unfolded(self) -> bool:
        slabs = self._host.head() - self._edges.newest.start
        most = FOLD_SLABS_REMOTE if self._kv.is_remote else FOLD_SLABS
        return slabs >= most or self._unfolded_bytes >= FOLD_BYTES

    def raise_failure(self) -> None:
        if self.folder is not None and self.folder.failure is not None:
            failure, self.folder.failure = self.folder.failure, None
            raise failure

    def _work(self) -> None:
        """In the folder's thread."""
        with self._one:
            try:
                if self._is_much_unfolded():
                    self._fold_slabs()
                    self._unfolded_bytes = 0
                while self._merge_runs():
                    pass
                self._collect()
            except Fenced:
                return  # another writer folds now; the next write here raises it

    def _give_way(self) -> None:
        if self.folder is not None and self.folder.closing:
            raise Abandoned
        self.gate.give_way()

    # ---- folding

    def fold(self) -> bool:
        self._host.hold_lease()
        with self._one:
            folded = self._fold_slabs()
            while self._merge_runs():
                folded = True
            return folded

    def _fold_slabs(self, paced: bool = True) -> bool:
        """`paced`: publishing goes first; else it waits for the fold."""
        epoch = self._cell.epoch
        with self._host.taking_in:
            layers, sn = self._edges.newest, self._host.head()
            chunks = self._dictionary.recent_chunks(sn)
        if layers.start == sn:
            return False
        writer = FoldWriter(self._kv, sn, self._give_way if paced else _at_once)
        writer.write_pages(self._dictionary.pages, chunks)
        entry = writer.write(chain(hash_rows(chunks), folded_columns(layers, sn)), layers.start + 1)
        self._install(lambda runs: _with_run(runs, entry), epoch)
        return True

    def _merge_runs(self) -> bool:
        epoch = self._cell.epoch
        entries = runs_to_merge(self._edges.list.cover(self._host.head()))
        if not entries:
            return False
        first = entries[0].first
        columns = merged_columns(self._edges.runs.open(entries), keep=first > 1)
        entry = FoldWriter(self._kv, entries[-1].last, self._give_way).write(columns, first)
        self._install(lambda runs: _with_run(runs, entry), epoch)
        return True

    def _install(self, change: Callable[[RunList], RunList], epoch: int, needed_from: int = 0) -> None:
        with self._host.writing:
            self._host.resolve_outcome()
            if self._cell.epoch != epoch:
                raise Fenced(
                    f"the fold of writer epoch {epoch} is too late: this process now writes in epoch {self._cell.epoch}"
                )
            sn = self._host.head()
            number = self._kv.allocate("run", 1)
            runs = msgspec.structs.replace(change(self._edges.list), number=number, epoch=epoch)
            self._cell.install([[list_put(runs, sn)]], number, needed_from)
            with self._host.taking_in:
                self._host.take_in_runs(runs, sn)

    # ---- loading

    def load(
        self,
        loading: Loading | DividedLoading,
        graph: bytes | None,
        publish: Callable[[RunEntry, RunList], Sn],
        turn: Turn,
    ) -> Sn:
        """Publishes a load. `publish` writes the snapshot; it is given the run list without the run of the load."""
        if isinstance(loading, DividedLoading):
            loading.use_graph(graph)
            rows: DividedLoading | list[Numbers32] = loading
        else:
            rows = loading.columns(graph)
        self._host.hold_lease()
        with self._one:
            self._fold_slabs()
            load = LoadWriter(self._kv, self._dictionary, loading.terms, self._give_way)
            sn: Sn | None = None
            while sn is None:
                entry = load.write(rows, self._host.head() + 1)
                sn = turn(partial(self._publish_load, load, entry, publish))
        if self.folder is not None and runs_to_merge(self._edges.list.cover(sn)):
            self.folder.wake()
        return sn

    def _publish_load(self, load: LoadWriter, entry: RunEntry, publish: Callable[[RunEntry, RunList], Sn]) -> Sn | None:
        """The snapshot; None if one of the new terms was published meanwhile: then the run has to be written again."""
        with self.gate.first(), self._host.writing:
            self._host.resolve_outcome()
            if not load.agrees_with(self._dictionary.recent_ids(), self._dictionary.transient):
                return None
            self._fold_slabs(paced=False)
            return publish(entry, self._edges.list)

    # ---- collecting

    def retain(self, floor: int, horizons: Mapping[int, int]) -> None:
        """Publishes floor and horizons; none of them ever goes back."""
        self._host.hold_lease()
        epoch = self._cell.epoch
        with self._host.writing:
            before = self._edges.list
            streams = {*self._host.streams()}

            def change(runs: RunList) -> RunList:
                after = retained(runs, self._host.head(), floor, horizons, streams)
                return msgspec.structs.replace(after, terms_from=self._terms_from(after, streams))

            if change(before) == before:
                return
            self._install(change, epoch)
            left = {run.number for run in before.runs} - {run.number for run in self._edges.list.runs}
            self._left.append((epoch, self._clock.now_ms(), [run for run in before.runs if run.number in left]))
        if self.folder is not None:
            self.folder.wake()

    def _terms_from(self, runs: RunList, streams: Collection[int]) -> int:
        """Of a stream that was dropped, no slice below the floor is retained."""
        transient = self._dictionary.transient
        used = {stream for generation in transient.generations for stream in generation.streams}
        dropped = {stream: max(runs.floor, runs.horizons.get(stream, 0)) for stream in used.difference(streams)}
        return max(runs.terms_from, transient.first_needed({**runs.horizons, **dropped}))

    def collect(self) -> None:
        self._host.hold_lease()
        with self._one:
            self._collect()

    def _collect(self) -> None:
        """Deletes what the published run list does not retain."""
        epoch = self._cell.epoch
        collector = self._collector_of(epoch)
        runs, head, streams = self._edges.list, self._cell.head, self._host.streams()
        if runs.number == 0:
            return
        while self._left:
            of_epoch, at_ms, left = self._left.pop(0)
            if of_epoch == epoch:
                collector.leave(at_ms, left)
        if runs.collected < epoch - 1:
            ids_of, pages = self._dictionary.ids, self._dictionary.pages
            collector.collect_orphans(runs, head, streams, lambda range_: pages.sweep(range_, ids_of))
            self._install(lambda runs: msgspec.structs.replace(runs, collected=epoch - 1), epoch)
        collector.collect(self._edges.list, head, streams, self._clock.now_ms())
        needed_from = collector.needed_from(head)
        if head.ranges and head.ranges[0].last < needed_from:
            self._install(lambda runs: runs, epoch, needed_from)

    def _collector_of(self, epoch: int) -> Collector:
        if self._collector is None or self._collector[0] != epoch:
            # No fold of ours runs now, so every run that counts is listed, and later ones have later numbers.
            self._collector = epoch, Collector(self._kv, self._kv.allocate("run", 1))
        return self._collector[1]


def _with_run(runs: RunList, entry: RunEntry) -> RunList:
    return msgspec.structs.replace(runs, runs=(*runs.runs, entry))


def _at_once() -> None:
    """A gate that is always open."""
