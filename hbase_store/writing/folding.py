"""Folding: the changes of many slabs become one run, and small runs become larger ones.

A fold reads what is in memory or in blocks, writes new blocks that nobody knows, and is then installed by one
compare-and-set of the head: killed anywhere before, it leaves garbage and changes no answer. It gives way to threads
that wait to publish. Runs are merged when the newest few together are not much smaller than the one before them, so
each row is rewritten a logarithmic number of times."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hbase_store.arrays import Ids, sort_distinct
from hbase_store.backends.keyvalue import KeyValue, Put
from hbase_store.edges.layers import Layers
from hbase_store.errors import StoreError, StoreUnavailable
from hbase_store.layout.rows import Sn
from hbase_store.layout.run import Run
from hbase_store.layout.run_blocks import (
    HASH_COLUMN,
    NAMED_EDGES,
    PLAIN,
    PREDICATES,
    ColumnIndex,
    ColumnKey,
    RunWriter,
    is_derived,
    is_edges,
    pages_key,
)
from hbase_store.layout.run_list import RunEntry
from hbase_store.layout.slab import TermsChunk, term_ids
from hbase_store.sorted.view import View, lay_over, nothing, orders, view_of, without_deletions
from hbase_store.terms.pages import PageRange, Pages, pack_range

#: The writer folds when so many slabs, or so many bytes of them, are not in runs; of a store of another process, four
#: times as many slabs: there a fold is some thirty calls, which take from publishing what they cost.
FOLD_SLABS, FOLD_SLABS_REMOTE = 256, 1024
FOLD_BYTES = 8 << 20
#: So many runs of like size are merged into one.
MERGE_RUNS = 4
_YIELD_BYTES = 1 << 20


class Gate:
    """Lets publishing go first: a fold waits between its transactions while a thread wants to publish."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._publishing = 0

    @contextmanager
    def first(self) -> Iterator[None]:
        with self._changed:
            self._publishing += 1
        try:
            yield
        finally:
            with self._changed:
                self._publishing -= 1
                self._changed.notify_all()

    def give_way(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._publishing == 0)


class Abandoned(StoreUnavailable):
    """The store is being closed: what was written of this run is garbage."""

    def __init__(self) -> None:
        super().__init__("the store is being closed; open it again")


@dataclass(frozen=True, slots=True)
class PackedColumns:
    """Columns of a run, or parts of them: their blocks, as they are written, and their index."""

    puts: Iterator[Put]
    columns: dict[ColumnKey, ColumnIndex]
    nbytes: int  # of the blocks


class FoldWriter:
    """Writes one run; columns come in any order."""

    def __init__(self, kv: KeyValue, last: int, give_way: Callable[[], None]) -> None:
        self._kv, self._give_way = kv, give_way
        self.time = last
        self._writer = RunWriter(kv.allocate("run", 1), last)

    @property
    def number(self) -> int:
        return self._writer.number

    def write_pages(self, pages: Pages, chunks: Iterable[TermsChunk]) -> None:
        """Writes the pages of texts; no reader looks for them before the run counts."""
        self._kv.put_many(self._paced(pages.puts(chunks, self.time)))

    def write_packed_pages(self, puts: Iterator[Put]) -> None:
        """As `write_pages`, of pages that were packed elsewhere."""
        self._kv.put_many(self._paced(puts))

    def announce_pages(self, pages: PageRange) -> None:
        """They are of terms that nobody knows before the run counts; a fold's are those of slabs."""
        number = self._writer.number
        self._kv.put_many([Put("runindex", pages_key(number), pack_range(pages), self.time)])

    def write(self, columns: Iterable[tuple[ColumnKey, View]], first: int) -> RunEntry:
        """Writes the run of these columns; the columns of pseudo-predicate 0 are derived from them."""
        self._kv.put_many(self._paced(self._puts(columns)))
        return self._entry(first)

    def _paced(self, puts: Iterator[Put]) -> Iterator[Put]:
        written = 0
        for put in puts:
            yield put
            written += len(put.value)
            if written >= _YIELD_BYTES:
                self._give_way()
                written = 0

    def _puts(self, columns: Iterable[tuple[ColumnKey, View]]) -> Iterator[Put]:
        for key, view in with_predicates(columns):
            yield from self._writer.add(key, view)

    def write_packed(self, parts: Iterable[PackedColumns], first: int) -> RunEntry:
        """Writes the run of columns that were packed elsewhere; the parts of one column come in its order."""
        self._kv.put_many(self._paced(self._packed_puts(parts)))
        return self._entry(first)

    def _packed_puts(self, parts: Iterable[PackedColumns]) -> Iterator[Put]:
        for part in parts:
            yield from part.puts
            self._writer.adopt(part.columns, part.nbytes)

    def _entry(self, first: int) -> RunEntry:
        index = self._writer.index_puts()
        self._kv.put_many(index)
        writer = self._writer
        return RunEntry(writer.number, first, self.time, len(index), writer.rows, writer.nbytes)


def with_predicates(columns: Iterable[tuple[ColumnKey, View]]) -> Iterator[tuple[ColumnKey, View]]:
    """The columns, and then those of pseudo-predicate 0, which are derived from them."""
    vertices: dict[tuple[int, int], list[tuple[Ids, int]]] = {}
    for key, view in columns:
        yield key, view
        if is_edges(key):
            keys = without_deletions(view).columns[0]
            keys = keys[np.concatenate((keys[:1] == keys[:1], keys[1:] != keys[:-1]))]  # they ascend
            vertices.setdefault((key.kind, key.order), []).append((keys, key.predicate))
    for (kind, order), parts in vertices.items():
        predicates = np.repeat(
            np.array([predicate for _, predicate in parts], np.uint64), [len(keys) for keys, _ in parts]
        )
        rows = sort_distinct((np.concatenate([keys for keys, _ in parts]), predicates))
        yield ColumnKey(kind, PREDICATES, order), view_of(rows, None)


def hash_rows(chunks: Sequence[TermsChunk]) -> Iterator[tuple[ColumnKey, View]]:
    """The column by which the terms are found."""
    if chunks:
        from hbase_store.layout.hashing import hash_column  # numba takes a third of a second to import

        hashes = np.concatenate([hash_column(chunk.data, chunk.offsets) for chunk in chunks])
        ids = np.concatenate([term_ids(chunk) for chunk in chunks])
        yield HASH_COLUMN, view_of(sort_distinct((hashes, ids)), None)


def folded_columns(layers: Layers, sn: Sn) -> Iterator[tuple[ColumnKey, View]]:
    """The net changes above the layers' runs."""
    for named in (False, True):
        for predicate in layers.overlay.predicates(named):
            for order in orders(named):
                key = ColumnKey(NAMED_EDGES if named else PLAIN, predicate, order)
                yield key, layers.overlay.view(named, predicate, order, sn)


def merged_columns(runs: Sequence[Run], keep: bool) -> Iterator[tuple[ColumnKey, View]]:
    """The runs merged, column by column; `keep` the deletions if there is a run below them."""
    keys = sorted({key for run in runs for key in run.columns if not is_derived(key)})
    for key in keys:
        view = nothing(key.kind == NAMED_EDGES)
        for run in runs:
            if key in run.columns:
                view = lay_over(view, run.columns[key].uncached(), True)
        yield key, view if keep else without_deletions(view)


def runs_to_merge(cover: Sequence[RunEntry]) -> Sequence[RunEntry]:
    """The newest runs, from the oldest on that is at most twice as large as all after it together; none if few."""
    start, rows = len(cover), 0
    while start > 0 and (start == len(cover) or cover[start - 1].rows <= 2 * rows):
        start -= 1
        rows += cover[start].rows
    return cover[start:] if len(cover) - start >= MERGE_RUNS else ()


class Folder:
    """The thread that folds when the writer has published enough."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._wanted = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self.failure: StoreError | None = None

    @property
    def closing(self) -> bool:
        return self._closing

    def wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._fold_until_closed, name="fold", daemon=True)
            self._thread.start()
        self._wanted.set()

    def _fold_until_closed(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closing:
                return
            try:
                self._work()
            except Abandoned:
                return
            except StoreError as failure:
                self.failure = failure  # the next write raises it; the next fold tries again

    def close(self) -> None:
        self._closing = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
