"""Loops over sorted rows that numpy has no verb for: finding many rows at once, and merging changes into them.

Rows are columns (a, b[, c]) in lexicographic order; `wide` says whether there is a third. All arrays that come
in are read-only, so that each kernel is compiled once; numba keeps what it compiled beside this file. `warm` compiles
them."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.arrays import NO_IDS, Columns, Ids, Mask, Offsets, frozen


@njit(cache=True, nogil=True)
def _lower_bound(a, b, c, wide, x, y, z, low):  # type: ignore[no-untyped-def]
    """The first row from `low` on that is not below (x, y, z)."""
    high = len(a)
    while low < high:
        middle = (low + high) >> 1
        below = a[middle] < x
        if a[middle] == x:
            below = b[middle] < y
            if wide and b[middle] == y:
                below = c[middle] < z
        if below:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _contains(a, b, c, wide, x, y, z, found):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        at = _lower_bound(a, b, c, wide, x[i], y[i], z[i] if wide else np.uint64(0), 0)
        found[i] = at < len(a) and a[at] == x[i] and b[at] == y[i] and (not wide or c[at] == z[i])


@njit(cache=True, nogil=True)
def _merge(a, b, c, wide, old, x, y, z, inserted, keep, out_a, out_b, out_c, out):  # type: ignore[no-untyped-def]
    """Copies runs of unchanged rows in one go; the changes are sorted and distinct. How many rows there are then.

    `old` are the flags of (a, b, c) and `out` those of the result: both are empty without `keep`."""
    read, count = 0, 0
    for i in range(len(x) + 1):
        at = _lower_bound(a, b, c, wide, x[i], y[i], z[i] if wide else np.uint64(0), read) if i < len(x) else len(a)
        run = at - read
        out_a[count : count + run] = a[read:at]
        out_b[count : count + run] = b[read:at]
        if wide:
            out_c[count : count + run] = c[read:at]
        if keep:
            out[count : count + run] = old[read:at]
        count += run
        read = at
        if i == len(x):
            break
        if at < len(a) and a[at] == x[i] and b[at] == y[i] and (not wide or c[at] == z[i]):
            read += 1
        if inserted[i] or keep:
            out_a[count], out_b[count] = x[i], y[i]
            if wide:
                out_c[count] = z[i]
            if keep:
                out[count] = inserted[i]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _ranges(column, keys, starts, ends):  # type: ignore[no-untyped-def]
    """Both ascend, so each search goes on from the one before, in steps that double."""
    at = 0
    for i in range(len(keys)):
        key = keys[i]
        if i > 0 and key == keys[i - 1]:  # its rows, which may be many, are not gone through again
            starts[i], ends[i] = starts[i - 1], ends[i - 1]
            continue
        step = 1
        while at + step < len(column) and column[at + step] < key:
            at += step
            step *= 2
        low, high = at, min(at + step, len(column))
        while low < high:
            middle = (low + high) >> 1
            if column[middle] < key:
                low = middle + 1
            else:
                high = middle
        starts[i] = low
        at = low
        while low < len(column) and column[low] == key:
            low += 1
        ends[i] = low


def ranges(column: Ids, keys: Ids) -> tuple[Offsets, Offsets]:
    """For each key, in any order, where its rows begin and end in an ascending column."""
    starts, ends = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    if bool((keys[1:] >= keys[:-1]).all()):
        _ranges(frozen(column), frozen(keys), starts, ends)
        return starts, ends
    order = np.argsort(keys)
    _ranges(frozen(column), frozen(keys[order]), starts, ends)
    places = np.empty(len(keys), np.int64)
    places[order] = np.arange(len(keys))
    return starts[places], ends[places]


def contains(rows: Columns, sought: Columns) -> Mask:
    """Which of the rows sought are among `rows`."""
    found = np.empty(len(sought[0]), np.bool_)
    _contains(*_three(rows), len(rows) == 3, *_three(sought), found)
    return found


def merge(
    rows: Columns, old: Mask | None, changes: Columns, inserted: Mask | None, keep: bool
) -> tuple[Columns, Mask | None]:
    """`rows` after sorted, distinct changes: what was there already is not inserted twice.

    Without `keep`, deletions delete; with it both sides are changes (no flags: insertions), and so is the result."""
    if not keep and old is not None:
        rows, old = tuple(column[old] for column in rows), None
    flags = np.ones(len(changes[0]), np.bool_) if inserted is None else inserted
    size = len(rows[0]) + (len(flags) if keep else int(np.count_nonzero(flags)))
    wide = len(rows) == 3
    out = [np.empty(size, np.uint64), np.empty(size, np.uint64), np.empty(size if wide else 0, np.uint64)]
    out_flags = np.empty(size if keep else 0, np.bool_)
    old_flags = np.empty(0, np.bool_) if not keep else np.ones(len(rows[0]), np.bool_) if old is None else old
    count = _merge(*_three(rows), wide, frozen(old_flags), *_three(changes), frozen(flags), keep, *out, out_flags)
    return tuple(column[:count] for column in out[: len(rows)]), out_flags[:count] if keep else None


def _three(columns: Columns) -> tuple[Ids, Ids, Ids]:
    a, b = frozen(columns[0]), frozen(columns[1])
    return a, b, frozen(columns[2]) if len(columns) == 3 else NO_IDS


def warm() -> None:
    """Compiles what is not compiled yet, so that no reader waits for it."""
    none = (NO_IDS, NO_IDS)
    contains(none, none)
    ranges(NO_IDS, NO_IDS)
    merge(none, None, none, None, False)
