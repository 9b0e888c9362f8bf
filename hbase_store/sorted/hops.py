"""Hops: the neighbours of many keys in one call, out of sorted rows and what changed above them.

A key is found by one memory access, without a search. If keys lie close together, as ids that were given out one after
another do, a directory says for each possible key where its rows begin; otherwise a hash table does. Either is built
once so many keys were looked up that it pays, and stays with the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from hbase_store.arrays import NO_IDS, Columns, Ids, Mask, Offsets, frozen
from hbase_store.sorted.kernels import ranges
from hbase_store.sorted.view import Room, View, anything

Starts = npt.NDArray[np.int32]

#: A directory has at most so many entries a row; one key in so many rows must have been asked for.
_ENTRIES_A_ROW = 2
_PAYS_AT = 64
_ROWS_MAX = (1 << 30) - 1
_EMPTY = np.iinfo(np.int32).max
# 2^64 over the golden ratio: what differs in the low bits of a key differs in the high bits of the product.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Directory:
    """The rows of key `first` + i are starts[i]:starts[i + 1]."""

    first: int
    starts: Starts

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes


@dataclass(frozen=True, slots=True)
class Table:
    """At the place of a key, or after it: its rows are begins[at]:ends[at]; _EMPTY ends the search."""

    shift: int
    begins: Starts
    ends: Starts

    @property
    def nbytes(self) -> int:
        return self.begins.nbytes + self.ends.nbytes


@njit(cache=True, nogil=True)
def _hash_all(column, shift, begins, ends):  # type: ignore[no-untyped-def]
    mask = len(begins) - 1
    start = 0
    while start < len(column):
        end = start + 1
        while end < len(column) and column[end] == column[start]:
            end += 1
        at = np.int64((column[start] * _SPREAD) >> shift)
        while begins[at] != _EMPTY:
            at = (at + 1) & mask
        begins[at], ends[at] = start, end
        start = end


@njit(cache=True, nogil=True)
def _find(column, shift, table_begins, table_ends, keys, begins, ends):  # type: ignore[no-untyped-def]
    mask = len(table_begins) - 1
    for i in range(len(keys)):
        key = keys[i]
        at = np.int64((key * _SPREAD) >> shift)
        begins[i] = ends[i] = 0
        while table_begins[at] != _EMPTY:
            if column[table_begins[at]] == key:
                begins[i], ends[i] = table_begins[at], table_ends[at]
                break
            at = (at + 1) & mask


@njit(cache=True, nogil=True)
def _fill(column, first, starts):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(len(starts)):
        while at < len(column) and column[at] - first < i:
            at += 1
        starts[i] = at


@njit(cache=True, nogil=True)
def _look_up(first, starts, keys, begins, ends):  # type: ignore[no-untyped-def]
    for i in range(len(keys)):
        entry = keys[i] - first  # of a key below the first one: a number far beyond the last entry
        if entry < len(starts) - 1:
            begins[i], ends[i] = starts[entry], starts[entry + 1]
        else:
            begins[i] = ends[i] = 0


@njit(cache=True, nogil=True)
def _copy(begins, ends, b, c, wide, offsets, out_b, out_c):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(len(begins)):
        offsets[i] = count
        for at in range(begins[i], ends[i]):
            out_b[count] = b[at]
            if wide:
                out_c[count] = c[at]
            count += 1
    offsets[len(begins)] = count


@njit(cache=True, nogil=True)
def _merge(begins, ends, b, c, from_, to, x, y, inserted, wide, offsets, out_b, out_c):  # type: ignore[no-untyped-def]
    """As _copy, with the changes (x[, y]) of each key merged in: of equal rows the change wins."""
    count = 0
    for i in range(len(begins)):
        offsets[i] = count
        at, end, change, last = begins[i], ends[i], from_[i], to[i]
        if change == last:  # of most keys nothing has changed
            for row in range(at, end):
                out_b[count] = b[row]
                if wide:
                    out_c[count] = c[row]
                count += 1
            continue
        while at < end or change < last:
            order = 0
            if change >= last:
                order = -1
            elif at >= end:
                order = 1
            elif b[at] != x[change]:
                order = -1 if b[at] < x[change] else 1
            elif wide and c[at] != y[change]:
                order = -1 if c[at] < y[change] else 1
            if order < 0:
                out_b[count] = b[at]
                if wide:
                    out_c[count] = c[at]
                count += 1
                at += 1
                continue
            if inserted[change]:
                out_b[count] = x[change]
                if wide:
                    out_c[count] = y[change]
                count += 1
            change += 1
            if order == 0:
                at += 1
    offsets[len(begins)] = count
    return count


@njit(cache=True, nogil=True)
def _has(begins, ends, b, c, wide, x, y, found):  # type: ignore[no-untyped-def]
    """Whether x[i] (and y[i] beside it) is among the rows begins[i]:ends[i], which ascend."""
    for i in range(len(begins)):
        low, high = begins[i], ends[i]
        while low < high:
            middle = (low + high) >> 1
            less = b[middle] < x[i]
            if wide and b[middle] == x[i]:
                less = c[middle] < y[i]
            if less:
                low = middle + 1
            else:
                high = middle
        found[i] = low < ends[i] and b[low] == x[i] and (not wide or c[low] == y[i])


def has(view: View, sought: Columns) -> Mask:
    """Which of the rows sought are there, in a view without deletions."""
    begins, ends = _places(view, sought[0])
    wide = len(view.columns) == 3
    found = np.empty(len(sought[0]), np.bool_)
    others = frozen(sought[1]), frozen(sought[2]) if wide else NO_IDS
    _has(begins, ends, *_values(view), wide, *others, found)
    return found


def degrees(view: View, keys: Ids) -> Offsets:
    """How many rows each key has, in a view without deletions."""
    begins, ends = _places(view, keys)
    return ends - begins


def hop(view: View, keys: Ids, room: Room = anything) -> tuple[Offsets, *Columns]:
    """(offsets, values[, graphs]) of all keys, in a view without deletions."""
    begins, ends = _places(view, keys)
    wide = len(view.columns) == 3
    size = int((ends - begins).sum())
    room(size)
    offsets = np.empty(len(keys) + 1, np.int64)
    out = [np.empty(size, np.uint64), np.empty(size if wide else 0, np.uint64)]
    _copy(begins, ends, *_values(view), wide, offsets, *out)
    return offsets, *out[: 1 + wide]


def hop_over(view: View, changes: View, keys: Ids, room: Room = anything) -> tuple[Offsets, *Columns]:
    """The same, of a view without deletions with changes laid over it."""
    begins, ends = _places(view, keys)
    from_, to = _places(changes, keys)
    wide = len(view.columns) == 3
    size = int((ends - begins).sum() + (to - from_).sum())
    room(size)
    inserted: Mask = np.ones(len(changes), np.bool_) if changes.inserted is None else changes.inserted
    offsets = np.empty(len(keys) + 1, np.int64)
    out = [np.empty(size, np.uint64), np.empty(size if wide else 0, np.uint64)]
    places = (begins, ends, *_values(view), from_, to, *_values(changes))
    count = _merge(*places, frozen(inserted), wide, offsets, *out)
    return offsets, *(column[:count] for column in out[: 1 + wide])


def _values(view: View) -> tuple[Ids, Ids]:
    return frozen(view.columns[1]), frozen(view.columns[2]) if len(view.columns) == 3 else NO_IDS


def _places(view: View, keys: Ids) -> tuple[Offsets, Offsets]:
    """Where the rows of each key begin and end."""
    way = _way(view, len(keys))
    if way is None:
        return ranges(view.columns[0], keys)
    begins, ends = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    if isinstance(way, Directory):
        _look_up(np.uint64(way.first), frozen(way.starts), frozen(keys), begins, ends)
    else:
        column = frozen(view.columns[0])
        _find(column, np.uint64(way.shift), frozen(way.begins), frozen(way.ends), frozen(keys), begins, ends)
    return begins, ends


def _way(view: View, lookups: int) -> Directory | Table | None:
    use = view.use
    if use.way is None and 0 < len(view) < _ROWS_MAX:
        use.lookups += lookups
        if use.lookups * _PAYS_AT >= len(view):
            built = _directory(view.columns[0]) or _table(view.columns[0])
            use.way = built
            if use.grew is not None:
                use.grew(built.nbytes)
    way: Directory | Table | None = use.way  # type: ignore[assignment]  # a view does not know of this module
    return way


def _directory(column: Ids) -> Directory | None:
    """None where the keys lie too far apart."""
    first, entries = int(column[0]), int(column[-1]) - int(column[0]) + 2
    if entries > _ENTRIES_A_ROW * len(column):
        return None
    starts = np.empty(entries, np.int32)
    _fill(frozen(column), np.uint64(first), starts)
    return Directory(first, starts)


def _table(column: Ids) -> Table:
    keys = 1 + int(np.count_nonzero(column[1:] != column[:-1]))
    bits = (2 * keys).bit_length()
    begins, ends = np.full(1 << bits, _EMPTY, np.int32), np.empty(1 << bits, np.int32)
    _hash_all(frozen(column), np.uint64(64 - bits), begins, ends)
    return Table(64 - bits, begins, ends)


def warm() -> None:
    """Compiles what is not compiled yet."""
    for columns in ((NO_IDS, NO_IDS), (NO_IDS, NO_IDS, NO_IDS)):
        view = View(columns)
        hop(view, NO_IDS)
        hop_over(view, view, NO_IDS)
        has(view, columns)
    none, nowhere = np.zeros(1, np.int32), np.zeros(0, np.int64)
    _fill(NO_IDS, np.uint64(0), none)
    _look_up(np.uint64(0), frozen(none), NO_IDS, nowhere, nowhere)
    _hash_all(NO_IDS, np.uint64(63), none, none)
    _find(NO_IDS, np.uint64(63), frozen(none), frozen(none), NO_IDS, nowhere, nowhere)
