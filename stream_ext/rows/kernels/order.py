# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loops of rows that are kept in order: where new ones belong, and the merge that leaves out what has run out.

Rows come as matrices with a line for each column, compared column by column. Arrays that are only read come in
read-only, so that each kernel is compiled once."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.arrays import frozen


@njit(cache=True, nogil=True, inline="always")
def _is_before(rows, i, others, j):
    for c in range(rows.shape[0]):
        if rows[c, i] != others[c, j]:
            return rows[c, i] < others[c, j]
    return False


@njit(cache=True, nogil=True)
def find_places(rows, count, others, order, places):
    """Of each of the others, in their `order`: how many of the first `count` rows stand before it.

    Each search begins where the last one ended, and doubles its stride: what lies together is found nearby."""
    low = 0
    for n in range(len(order)):
        stride, high = 1, low
        while high < count and _is_before(rows, high, others, order[n]):
            low = high + 1
            high += stride
            stride *= 2
        high = min(high, count)
        while low < high:
            middle = (low + high) >> 1
            if _is_before(rows, middle, others, order[n]):
                low = middle + 1
            else:
                high = middle
        places[n] = low


@njit(cache=True, nogil=True)
def count_alive(untils, time):
    """How many are valid at `time`, and the first end among them."""
    count, first = 0, np.iinfo(np.int64).max
    for i in range(len(untils)):
        alive = untils[i] >= time
        count += alive
        first = min(first, untils[i]) if alive else first
    return count, first


@njit(cache=True, nogil=True)
def merge_rows(rows, untils, weights, time, others, ends, counts, order, places, out, out_untils, out_weights):
    """Those of the rows that are valid at `time`, and the others at their places among them.

    Empty weights mean 1 each, where `out_weights` is not empty."""
    start = at = 0
    for n in range(len(order) + 1):
        stop = places[n] if n < len(order) else len(untils)
        while start < stop:
            low = start
            while start < stop and untils[start] >= time:
                start += 1
            length = start - low
            for c in range(rows.shape[0]):
                for i in range(length):
                    out[c, at + i] = rows[c, low + i]
            for i in range(length):
                out_untils[at + i] = untils[low + i]
            if len(out_weights):
                for i in range(length):
                    out_weights[at + i] = weights[low + i] if len(weights) else 1
            at += length
            while start < stop and untils[start] < time:
                start += 1
        if n < len(order):
            j = order[n]
            for c in range(rows.shape[0]):
                out[c, at] = others[c, j]
            out_untils[at] = ends[j]
            if len(out_weights):
                out_weights[at] = counts[j] if len(counts) else 1
            at += 1


@njit(cache=True, nogil=True)
def sum_neighbours(rows, weights, out, sums):
    """Equal rows stand together: each once, with the sum of its weights; none of weight zero. How many there are."""
    used = i = 0
    while i < len(weights):
        first, total = i, np.int64(0)
        while True:
            total += weights[i]
            i += 1
            if i == len(weights):
                break
            same = True
            for c in range(rows.shape[0]):
                same &= rows[c, i] == rows[c, first]
            if not same:
                break
        if total:
            for c in range(rows.shape[0]):
                out[c, used] = rows[c, first]
            sums[used] = total
            used += 1
    return used


def warm() -> None:
    """Compiles every kernel (or loads it from the cache), for the types that are in use."""
    rows, longs, out = frozen(np.ones((1, 1), np.uint64)), frozen(np.zeros(1, np.int64)), np.zeros((1, 2), np.uint64)
    find_places(rows, 1, rows, longs, np.zeros(1, np.int64))
    count_alive(longs, 0)
    merge_rows(
        rows, longs, longs, 0, rows, longs, longs, longs, longs, out, np.zeros(2, np.int64), np.zeros(2, np.int64)
    )
    sum_neighbours(rows, longs, out, np.zeros(1, np.int64))
