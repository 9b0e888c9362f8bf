"""A run, read: its columns are found in its index, and their blocks come through a cache.

A read of some keys returns the blocks that may contain them. A read of most of a column returns it whole, as one array,
which then stays in the cache."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np

from hbase_store.arrays import Ids, Offsets, distinct_values, gather_ranges
from hbase_store.backends.keyvalue import Key, KeyValue
from hbase_store.cache import Cache
from hbase_store.layout.run_blocks import ColumnIndex, ColumnKey, block_key, index_key, unpack_block, unpack_index
from hbase_store.layout.run_list import RunEntry
from hbase_store.sorted.view import View, span_of, view_of

#: A column of so few blocks is read whole.
_SMALL = 2
#: A column of n blocks is kept whole once so many times n blocks of it were asked for.
_OFTEN = 8


class Runs:
    """The runs that this process reads, each known once; they share the cache."""

    def __init__(self, kv: KeyValue, cache: Cache[View]) -> None:
        self._kv, self.cache = kv, cache
        self._runs: dict[int, Run] = {}
        self._lock = threading.Lock()

    def open(self, entries: Sequence[RunEntry]) -> tuple[Run, ...]:
        with self._lock:
            missing = [entry for entry in entries if entry.number not in self._runs]
            keys = [index_key(entry.number, piece) for entry in missing for piece in range(entry.pieces)]
            values = dict(zip(keys, self._kv.get_many("runindex", keys) if keys else (), strict=True))
            for entry in missing:
                own = [index_key(entry.number, piece) for piece in range(entry.pieces)]
                index = unpack_index([(key, values[key]) for key in own]) if own else {}
                self._runs[entry.number] = Run(self._kv, self.cache, entry, index)
            return tuple(self._runs[entry.number] for entry in entries)

    def keep(self, entries: Sequence[RunEntry]) -> None:
        """Forgets all other runs; a reader that still has one goes on reading it."""
        with self._lock:
            wanted = {entry.number for entry in entries}
            self._runs = {number: run for number, run in self._runs.items() if number in wanted}


class Run:
    def __init__(self, kv: KeyValue, cache: Cache[View], entry: RunEntry, index: dict[ColumnKey, ColumnIndex]) -> None:
        self.entry = entry
        self.columns = {key: RunColumn(kv, cache, entry.number, key, column) for key, column in index.items()}


class RunColumn:
    def __init__(self, kv: KeyValue, cache: Cache[View], run: int, key: ColumnKey, index: ColumnIndex) -> None:
        self.key, self.index = key, index
        self.total = index.total
        self._kv, self._cache, self._run = kv, cache, run
        self._name = (run, key)
        self._blocks_read = 0

    def known(self) -> View | None:
        """The whole column, if it is in the cache."""
        return self._cache.get(self._name)

    def whole(self) -> View:
        view = self._cache.get(self._name)
        if view is None:
            blocks = self._blocks(list(range(len(self.index.rows))))
            view = _joined(blocks)
            self._cache.put(self._name, view, view.nbytes)
            for i in range(len(blocks)):
                self._cache.drop((self._name, i))
        return view

    def uncached(self) -> View:
        """The whole column, not put into the cache: for a single read."""
        return self.known() or _joined(self._blocks(list(range(len(self.index.rows))), cached=False))

    def between(self, first: int, last: int) -> View:
        """The rows of the keys from `first` to `last`, both included; their blocks are read, and not put into the
        cache."""
        firsts = self.index.first[0]
        start = max(int(firsts.searchsorted(np.uint64(first), "left")) - 1, 0)
        places = range(start, int(firsts.searchsorted(np.uint64(last), "right")))
        view = self.known() or _joined(self._blocks(list(places) or [0], cached=False))
        return span_of(view, first, last)

    def cuts(self, rows: int) -> Ids:
        """Ascending keys that divide the column into spans of about so many rows, found without reading blocks."""
        before = np.cumsum(self.index.rows) - self.index.rows
        at_cut = np.flatnonzero(np.diff(before // max(1, rows))) + 1
        return distinct_values(self.index.first[0][at_cut])

    def reach(self, keys: Ids) -> View:
        """Rows in order, with at least all those of `keys`, which ascend and are distinct."""
        view = self._cache.get(self._name)
        if view is not None:
            return view
        count = len(self.index.rows)
        if count <= _SMALL:
            return self.whole()
        wanted = self._places(keys)
        self._blocks_read += len(wanted)
        if 2 * len(wanted) > count or self._blocks_read > _OFTEN * count:
            # Whole it is found at once, and its blocks were all read by now, or nearly all.
            self._blocks_read = 0
            return self.whole()
        if len(wanted) == 0:
            wanted = np.zeros(1, np.int64)
        return _joined(self._blocks(wanted.tolist()))

    def missing(self, keys: Ids) -> list[int]:
        """The places of the blocks that `reach` of these keys will read from the store."""
        if self.known() is not None:
            return []
        count = len(self.index.rows)
        places = self._places(keys).tolist() if count > _SMALL else []
        if not 0 < 2 * len(places) <= count:  # then all are read, or the first one
            places = list(range(count)) if places or count <= _SMALL else [0]
        return [place for place in places if self._cache.get((self._name, place)) is None]

    def least(self, key: np.uint64) -> int:
        """A lower bound of the rows of a key, from the index: the rows of all blocks that have no other key."""
        first = self.index.first[0]
        start, end = int(first.searchsorted(key, "left")), int(first.searchsorted(key, "right"))
        return int(self.index.rows[start : max(start, end - 1)].sum())

    def _places(self, keys: Ids) -> Offsets:
        """The blocks that keys may be in: a key may begin at the end of the block before its own."""
        first = self.index.first[0]
        starts = np.maximum(first.searchsorted(keys, "left") - 1, 0)
        ends = first.searchsorted(keys, "right")
        if len(keys) == 1:
            return np.arange(starts[0], ends[0])
        _, places = gather_ranges(starts, np.maximum(ends, starts))
        marked = np.zeros(len(first), bool)
        marked[places] = True
        return np.flatnonzero(marked)

    def _blocks(self, places: list[int], cached: bool = True) -> list[View]:
        found = {place: self._cache.get((self._name, place)) for place in places}
        missing = [place for place, view in found.items() if view is None]
        if missing:
            keys = [self.block_key(place) for place in missing]
            for place, key, value in zip(missing, keys, self._kv.get_many("run", keys), strict=True):
                view = found[place] = unpack_block(value, key)
                if cached:
                    self.remember(place, view)
        return [view for view in found.values() if view is not None]

    def block_key(self, place: int) -> Key:
        return block_key(self._run, self.key, [int(column[place]) for column in self.index.first])

    def remember(self, place: int, block: View) -> None:
        self._cache.put((self._name, place), block, block.nbytes)


def fetch(kv: KeyValue, reads: Iterable[tuple[RunColumn, Ids]]) -> None:
    """Brings the blocks that `reach` of these columns will read into the cache, with one request for all of them."""
    missing = [(column, place, column.block_key(place)) for column, keys in reads for place in column.missing(keys)]
    values = kv.get_many("run", [key for _, _, key in missing]) if missing else ()
    for (column, place, key), value in zip(missing, values, strict=True):
        column.remember(place, unpack_block(value, key))


def _joined(blocks: list[View]) -> View:
    if len(blocks) == 1:
        return blocks[0]
    columns = tuple(np.concatenate(parts) for parts in zip(*(block.columns for block in blocks), strict=True))
    if all(block.inserted is None for block in blocks):
        return view_of(columns, None)
    flags = [np.ones(len(block), np.bool_) if block.inserted is None else block.inserted for block in blocks]
    return view_of(columns, np.concatenate(flags))
