"""A run, read: its columns are found in its index, and their blocks come through a cache.

A read of some keys returns the blocks that may contain them. A read of most of a column returns it whole, as one array,
which then stays in the cache. Of a column that does not fit into the cache the blocks are retained as they are stored,
and the rows of the keys are picked out of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from hbase_store.arrays import Ids, Offsets, distinct_values, gather_ranges
from hbase_store.backends.keyvalue import Key, KeyValue, Value
from hbase_store.cache import Cache
from hbase_store.layout.run_blocks import (
    ColumnIndex,
    ColumnKey,
    StoredBlock,
    block_bytes_max,
    block_key,
    checked_block,
    index_key,
    unpack_block,
    unpack_index,
)
from hbase_store.layout.run_list import RunEntry
from hbase_store.memory_only import check_may_wait
from hbase_store.sorted.view import View, span_of, view_of

#: A column of so few blocks is read whole.
_SMALL = 2
#: A column of n blocks is kept whole once so many times n blocks of it were asked for.
_OFTEN = 8
#: A column of so many blocks is brought as a whole before it is known which of them are needed.
_AHEAD = 16
#: So many blocks as they are stored are worked on at once.
_STORED_AT_ONCE = 256
_COLUMN_BYTES = 8

#: What is cached: rows, or a block as it is stored.
Cached = View | StoredBlock
Kind = TypeVar("Kind", View, StoredBlock)


class Runs:
    """The runs that this process reads, each known once; they share the cache."""

    def __init__(self, kv: KeyValue, cache: Cache[Cached]) -> None:
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
    def __init__(
        self, kv: KeyValue, cache: Cache[Cached], entry: RunEntry, index: dict[ColumnKey, ColumnIndex]
    ) -> None:
        self.entry = entry
        self.columns = {key: RunColumn(kv, cache, entry.number, key, column) for key, column in index.items()}


class RunColumn:
    def __init__(self, kv: KeyValue, cache: Cache[Cached], run: int, key: ColumnKey, index: ColumnIndex) -> None:
        self.key, self.index = key, index
        self.total = index.total
        self._kv, self._cache, self._run = kv, cache, run
        self._name = (run, key)
        self._blocks_read = 0
        #: What the whole column takes in memory, and whether it may be in the cache.
        self.nbytes = self.total * (_COLUMN_BYTES * len(index.first) + bool(index.deletions))
        self.fits = cache.holds(self.nbytes)

    def known(self) -> View | None:
        """The whole column, if it is in the cache."""
        return self._cached(self._name, View) if self.fits else None

    def _cached(self, name: object, kind: type[Kind]) -> Kind | None:
        found = self._cache.get(name)
        return found if isinstance(found, kind) else None

    def whole(self) -> View:
        view = self.known()
        if view is None:
            check_may_wait()
            blocks = self._blocks(list(range(len(self.index.rows))), cached=self.fits)
            view = _joined(blocks)
            if self.fits:
                put_view(self._cache, self._name, view)
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
        view = self.known()
        if view is not None:
            return view
        count = len(self.index.rows)
        if count <= _SMALL:
            return self.whole()
        wanted = self._places(keys)
        if not self.fits:
            return self._picked(wanted, keys)
        self._blocks_read += len(wanted)
        if 2 * len(wanted) > count or self._blocks_read > _OFTEN * count:
            # Whole it is found at once, and its blocks were all read by now, or nearly all.
            self._blocks_read = 0
            return self.whole()
        if len(wanted) == 0:
            wanted = np.zeros(1, np.int64)
        return _joined(self._blocks(wanted.tolist()))

    def _picked(self, wanted: Offsets, keys: Ids) -> View:
        """The rows of the keys, from these blocks."""
        from hbase_store.layout.picked_rows import keys_of_blocks, picked  # numba takes a third of a second to import

        parts: list[View] = []
        for start in range(0, max(len(wanted), 1), _STORED_AT_ONCE):
            places = wanted[start : start + _STORED_AT_ONCE]
            keys_of_each = list(keys_of_blocks(self.index.first[0], places, keys))
            parts.append(picked(self._stored(places.tolist()), keys_of_each, len(self.index.first) == 3))
        return _joined(parts)

    def _stored(self, places: list[int]) -> list[StoredBlock]:
        blocks = {place: self._cached((self._name, place), StoredBlock) for place in places}
        missing = [place for place, block in blocks.items() if block is None]
        keys = [self.block_key(place) for place in missing]
        values = self._kv.get_many("run", keys, self.sizes(missing)) if missing else ()
        for place, key, value in zip(missing, keys, values, strict=True):
            blocks[place] = self.remember(place, checked_block(value, key))
        return [block for block in blocks.values() if block is not None]

    def missing(self, keys: Ids) -> list[int]:
        """The places of the blocks that `reach` of these keys will read from the store."""
        if self.known() is not None:
            return []
        count = len(self.index.rows)
        if not self.fits and count > _SMALL:
            return [place for place in self._places(keys).tolist() if self._cache.get((self._name, place)) is None]
        places = self._places(keys).tolist() if count > _SMALL else []
        if not 0 < 2 * len(places) <= count:  # then all are read, or the first one
            places = list(range(count)) if places or count <= _SMALL else [0]
        return [place for place in places if self._cache.get((self._name, place)) is None]

    def missing_of_few(self) -> list[int]:
        """The places of all blocks that are not in memory, if the column is so small that all are brought at once."""
        return self.missing_of_all() if len(self.index.rows) <= _AHEAD else []

    def missing_of_all(self) -> list[int]:
        """The places of all blocks that are not in memory, if the whole column may be there."""
        if not self.fits or self.known() is not None:
            return []
        return [place for place in range(len(self.index.rows)) if self._cache.get((self._name, place)) is None]

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
        found = {place: self._cached((self._name, place), View) for place in places}
        missing = [place for place, view in found.items() if view is None]
        if missing:
            keys = [self.block_key(place) for place in missing]
            values = self._kv.get_many("run", keys, self.sizes(missing))
            for place, key, value in zip(missing, keys, values, strict=True):
                view = found[place] = unpack_block(value, key)
                if cached:
                    self.remember(place, view)
        return [view for view in found.values() if view is not None]

    def sizes(self, places: Sequence[int]) -> list[int]:
        """How large these blocks are at most, as they are stored."""
        width, rows = len(self.index.first), self.index.rows
        return [block_bytes_max(int(rows[place]), width) for place in places]

    def block_key(self, place: int) -> Key:
        return block_key(self._run, self.key, [int(column[place]) for column in self.index.first])

    def remember(self, place: int, block: Kind) -> Kind:
        self._cache.put((self._name, place), block, block.nbytes)
        return block

    def bring(self, place: int, value: Value | None) -> None:
        """Puts a block that was read into the cache, in the form in which `reach` looks for it."""
        key = self.block_key(place)
        if self.fits or len(self.index.rows) <= _SMALL:
            self.remember(place, unpack_block(value, key))
        else:
            self.remember(place, checked_block(value, key))


def fetch(kv: KeyValue, reads: Iterable[tuple[RunColumn, Ids | None]], most: int | None = None) -> None:
    """Brings the blocks that `reach` of these columns will read into the cache, with one request for all of them; where
    no keys are given, all blocks, if these are few. Nothing if they would be more than `most`."""
    places = {
        (column, place): None
        for column, keys in reads
        for place in (column.missing_of_few() if keys is None else column.missing(keys))
    }
    if most is None or len(places) <= most:
        _bring(kv, places)


def fetch_whole(kv: KeyValue, columns: Sequence[RunColumn]) -> None:
    """Brings columns that fit into the cache there as a whole, with one request for all their blocks."""
    _bring(kv, [(column, place) for column in columns for place in column.missing_of_all()])
    for column in columns:
        column.whole()


def _bring(kv: KeyValue, places: Iterable[tuple[RunColumn, int]]) -> None:
    missing = [(column, place, column.block_key(place)) for column, place in places]
    sizes = [size for column, place, _ in missing for size in column.sizes([place])]
    values = kv.get_many("run", [key for _, _, key in missing], sizes) if missing else ()
    for (column, place, _), value in zip(missing, values, strict=True):
        column.bring(place, value)


def put_view(cache: Cache[Cached], name: object, view: View) -> None:
    """Puts rows into the cache, and what is built to find them by and by, if they may be so large."""
    if cache.holds(view.nbytes):
        ticket = cache.put(name, view, view.nbytes, lendable=True)
        if len(view):  # what is empty is one value for all, and nothing is built for it
            view.use.grew = partial(cache.grow, name, ticket)


def _joined(blocks: list[View]) -> View:
    if len(blocks) == 1:
        return blocks[0]
    columns = tuple(np.concatenate(parts) for parts in zip(*(block.columns for block in blocks), strict=True))
    if all(block.inserted is None for block in blocks):
        return view_of(columns, None)
    flags = [np.ones(len(block), np.bool_) if block.inserted is None else block.inserted for block in blocks]
    return view_of(columns, np.concatenate(flags))
