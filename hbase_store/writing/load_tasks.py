"""The tasks of a divided load that know nothing of files of RDF: they sort and pack what becomes rows of tables.

    SortRows     all rows whose first key is in a range, in one order   ->  blocks of the run, and their index
    SortHashes   the hashes of new terms that are in a range            ->  the same
    PackPages    the texts of new terms, by whole pages                 ->  the pages

A task is a value that any process can run which sees the folder: beside the server or on Spark. It writes files, and
answers with what the writer has to know of them. To a `store` that several processes may write to, it writes the rows
itself: nobody looks at them before the load counts. Run twice, it writes the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec
import numpy as np

from hbase_store.arrays import Columns, Ids, Mask, concatenate
from hbase_store.backends.keyvalue import KeyValue, Put
from hbase_store.layout.run_blocks import HASH_COLUMN, ColumnKey, RunWriter, pack_index, unpack_columns
from hbase_store.layout.slab import TermsChunk
from hbase_store.sorted.view import BY_GRAPH, FORWARD, INVERSE, View, view_of
from hbase_store.terms.pages import full_page_puts
from hbase_store.writing.folding import PackedColumns, with_predicates
from hbase_store.writing.load_files import LoadFolder, part_name
from hbase_store.writing.loading import Numbers32, ranks_of, sorted_columns, sorted_hashes

#: Where the first key of an order is among s, p, o and g.
KEY_COLUMNS = {FORWARD: 0, INVERSE: 2, BY_GRAPH: 3}
#: The names of what the writer leaves for its tasks: all terms, the new ones among them, and how they are found.
ALL_TERMS, NEW_TERMS, NEW_HASHES, NEW_IDS = "all-", "new", "new-hashes", "new-ids"


#: Opens the store of an address.
Opened = Callable[[str], AbstractContextManager[KeyValue]]


class LoadTasks(Protocol):
    """Who runs tasks: `submit` may be called at any time, `most` run at once."""

    @property
    def most(self) -> int: ...

    def submit(self, task: Any) -> Future[Any]: ...

    def rest(self) -> None:
        """A load has ended: what was held for it may go."""
        ...


def end_tasks(tasks: Iterable[Future[Any]]) -> None:
    """Cancels those that have not begun, and waits for the others: none of them writes any more."""
    wait([task for task in tasks if not task.cancel()])


class KeyRange(msgspec.Struct, frozen=True, array_like=True):
    """low <= key <= high."""

    low: int
    high: int

    def holds(self, keys: Ids) -> Mask:
        return (keys >= np.uint64(self.low)) & (keys <= np.uint64(self.high))


class PackedRun(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Rows of table run: the file (empty: they are in the store), the index of their columns, and their bytes."""

    name: str
    index: bytes
    nbytes: int


class PackedPages(msgspec.Struct, frozen=True, array_like=True, tag=True):
    name: str


class SortRows(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """`graphs`: whether any row is in a named graph; `graph`: the id of the graph of what names none."""

    folder: str
    name: str
    parts: int
    order: int
    keys: KeyRange
    graphs: bool
    graph: int
    run: int
    time: int
    store: str = ""

    def run_task(self, opened: Opened) -> PackedRun:
        folder = LoadFolder(self.folder)
        picked = [self._picked(folder, part) for part in range(self.parts)]
        predicates = np.unique(np.concatenate([of_part for of_part, _, _ in picked]))
        narrow = np.uint16 if len(predicates) < 1 << 16 else np.uint32
        ranks = np.concatenate([predicates.searchsorted(of_part).astype(narrow)[own] for of_part, own, _ in picked])
        rows = tuple(map(concatenate, zip(*(columns for _, _, columns in picked), strict=True)))
        del picked
        return _packed(self, with_predicates(sorted_columns(predicates, ranks, rows, (self.order,))), opened)

    def _picked(self, folder: LoadFolder, part: int) -> tuple[Ids, Any, Columns]:
        """The predicates of the part, which of them each picked row has, and the rows."""
        rows, ids = folder.rows(part), folder.array(part_name(part, "ids"))
        places = np.flatnonzero(self.keys.holds(self._keys(rows, ids)))
        s, p, o = (rows[i][places] for i in range(3))
        columns: Columns = (ids[s], ids[o])
        if self.graphs:
            columns = (*columns, self._graphs(rows, ids)[places])
        numbers = folder.array(part_name(part, "predicates"))
        return ids[numbers], ranks_of(numbers, np.arange(len(numbers)), len(ids))[p], columns

    def _keys(self, rows: Numbers32, ids: Ids) -> Ids:
        return self._graphs(rows, ids) if self.order == BY_GRAPH else ids[rows[KEY_COLUMNS[self.order]]]

    def _graphs(self, rows: Numbers32, ids: Ids) -> Ids:
        if len(rows) == 3:
            return np.full(rows.shape[1], self.graph, np.uint64)
        found: Ids = np.append(ids, np.uint64(self.graph))[rows[3]]  # of -1, which is none, it takes the last
        return found


class SortHashes(msgspec.Struct, frozen=True, array_like=True, tag=True):
    folder: str
    name: str
    keys: KeyRange
    run: int
    time: int
    store: str = ""

    def run_task(self, opened: Opened) -> PackedRun:
        folder = LoadFolder(self.folder)
        hashes, ids = folder.array(NEW_HASHES), folder.array(NEW_IDS)
        places = np.flatnonzero(self.keys.holds(hashes))
        return _packed(self, [(HASH_COLUMN, view_of(sorted_hashes(hashes[places], ids[places]), None))], opened)


class PackPages(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The terms start..stop of the new ones; `first`: the id of the first of these."""

    folder: str
    name: str
    start: int
    stop: int
    first: int
    time: int
    store: str = ""

    def run_task(self, opened: Opened) -> PackedPages:
        from hbase_store.layout.text_kernels import gather_texts

        folder = LoadFolder(self.folder)
        texts, offsets, _ = folder.terms(ALL_TERMS)
        numbers = folder.array(NEW_TERMS)[self.start : self.stop]
        starts = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(offsets[numbers + 1] - offsets[numbers], out=starts[1:])
        data = np.empty(int(starts[-1]), np.uint8)
        gather_texts(texts, offsets, numbers, data)
        puts = full_page_puts(TermsChunk(self.first, starts, data.tobytes()), self.time)
        return PackedPages(_written(self, puts, opened))


StoreTask = SortRows | SortHashes | PackPages


def packed_columns(packed: PackedRun, folder: LoadFolder, time: int) -> PackedColumns:
    puts = folder.puts(packed.name, "run", time) if packed.name else iter(())
    return PackedColumns(puts, unpack_columns(memoryview(packed.index)), packed.nbytes)


def packed_pages(packed: PackedPages, folder: LoadFolder, time: int) -> Iterator[Put]:
    return folder.puts(packed.name, "i2t", time) if packed.name else iter(())


def _packed(task: SortRows | SortHashes, columns: Iterable[tuple[ColumnKey, View]], opened: Opened) -> PackedRun:
    writer = RunWriter(task.run, task.time)
    name = _written(task, (put for key, view in columns for put in writer.add(key, view)), opened)
    return PackedRun(name, pack_index(writer.columns), writer.nbytes)


def _written(task: StoreTask, puts: Iterator[Put], opened: Opened) -> str:
    """The file that they are in now; empty: they are in the store."""
    if not task.store:
        LoadFolder(task.folder).write_puts(task.name, puts)
        return task.name
    with opened(task.store) as store:
        store.put_many(puts)
    return ""
