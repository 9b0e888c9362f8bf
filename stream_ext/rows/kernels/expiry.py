# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loops of what runs out: a wheel of rows by the end of their validity, and the sums of what came and went.

A wheel has a chain for each of its sectors of time; a row hangs in the sector of its end, and is looked at when the
hand comes by: nobody goes through what stays. Rows that end later than a whole turn hang there for another."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.arrays import frozen

END = -1  # of a chain
NEXT, UNTIL, WEIGHT, VALUES = range(4)  # places in a cell of a wheel


@njit(cache=True, nogil=True)
def wheel_add(columns, weights, untils, cells, heads, shift, free, used):
    """Adds rows to the lists of the times at which they expire; the cells have room for them. Empty weights mean 1
    each. Returns (first free cell, cells that were ever used)."""
    mask = len(heads) - 1
    for i in range(len(untils)):
        if free >= 0:
            at = free
            free = cells[at, NEXT]
        else:
            at = used
            used += 1
        sector = (untils[i] >> shift) & mask
        cells[at, NEXT] = heads[sector]
        cells[at, UNTIL] = untils[i]
        cells[at, WEIGHT] = weights[i] if len(weights) else 1
        for c in range(columns.shape[0]):
            cells[at, VALUES + c] = columns[c, i]
        heads[sector] = at
    return free, used


@njit(cache=True, nogil=True)
def wheel_due(before, time, cells, heads, shift, free, out):
    """Removes the cells that end from `before` to before `time`, and lists them in `out`, which has room for all.

    Returns (how many, first free cell). The content of the cells stays until rows are added."""
    mask = len(heads) - 1
    low, high = before >> shift, (time - 1) >> shift
    if high - low > mask:
        low = high - mask
    found = 0
    for sector in range(low, high + 1):
        previous = END
        at = heads[sector & mask]
        while at >= 0:
            following = cells[at, NEXT]
            if cells[at, UNTIL] < time:
                if previous < 0:
                    heads[sector & mask] = following
                else:
                    cells[previous, NEXT] = following
                cells[at, NEXT] = free
                free = at
                out[found] = at
                found += 1
            else:
                previous = at
            at = following
    return found, free


@njit(cache=True, nogil=True)
def wheel_all(cells, heads, out):
    """All cells that hang; their number is returned."""
    found = 0
    for sector in range(len(heads)):
        at = heads[sector]
        while at >= 0:
            out[found] = at
            found += 1
            at = cells[at, NEXT]
    return found


@njit(cache=True, nogil=True)
def ascends(column, floor):
    """Whether the values ascend strictly, all of them above `floor`."""
    for i in range(len(column)):
        if column[i] <= floor:
            return False
        floor = column[i]
    return True


@njit(cache=True, nogil=True)
def sum_rows(columns, weights, heads, nexts, firsts, sums):
    """The place of the first of each distinct row, and the sum of its weights; the number of distinct rows is returned.

    Empty weights mean 1 each. `heads` has a power of two buckets, all empty."""
    mask = np.uint64(len(heads) - 1)
    used = 0
    for i in range(columns.shape[1]):
        h = np.uint64(0)
        for c in range(columns.shape[0]):
            h = (h ^ columns[c, i]) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        bucket = h & mask
        slot = heads[bucket]
        while slot >= 0:
            j = firsts[slot]
            same = True
            for c in range(columns.shape[0]):
                same &= columns[c, i] == columns[c, j]
            if same:
                break
            slot = nexts[slot]
        if slot < 0:
            slot = used
            used += 1
            firsts[slot] = i
            sums[slot] = 0
            nexts[slot] = heads[bucket]
            heads[bucket] = slot
        sums[slot] += weights[i] if len(weights) else 1
    return used


def warm() -> None:
    """Compiles every kernel (or loads it from the cache), for the types that are in use."""
    longs, heads = frozen(np.ones(1, np.int64)), np.full(2, END, np.int32)
    rows, out, cells = frozen(np.ones((1, 1), np.uint64)), np.zeros(1, np.int64), np.zeros((2, VALUES + 1), np.int64)
    wheel_add(rows, longs, longs, cells, heads, 0, -1, 0)
    wheel_all(cells, heads, out)
    wheel_due(0, 2, cells, heads, 0, -1, out)
    ascends(rows[0], np.uint64(0))
    heads[:] = END
    sum_rows(rows, longs, heads, np.zeros(1, np.int32), out, out.copy())
