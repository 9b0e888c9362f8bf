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
def _in_order(rows):
    """The places of few rows in order."""
    order = np.arange(rows.shape[1])
    for n in range(1, len(order)):
        place, at = order[n], n
        while at > 0 and _is_before(rows, place, rows, order[at - 1]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = place
    return order


@njit(cache=True, nogil=True)
def _places_of(rows, count, others, order):
    """Of each of the others, in their `order`: how many of the first `count` rows stand before it.

    Each search begins where the last one ended, and doubles its stride: what lies together is found nearby."""
    places = np.empty(len(order), np.int64)
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
    return places


@njit(cache=True, nogil=True)
def _count_alive(untils, time):
    """How many are valid at `time`, and the first end among them."""
    count, first = 0, np.iinfo(np.int64).max
    for i in range(len(untils)):
        alive = untils[i] >= time
        count += alive
        first = min(first, untils[i]) if alive else first
    return count, first


@njit(cache=True, nogil=True)
def _merge(rows, untils, weights, time, others, counts, order, places, out, out_weights):
    """Those of the rows that are valid at `time`, and the others at their places among them."""
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
            if len(out_weights):
                out_weights[at] = counts[j] if len(counts) else 1
            at += 1


@njit(cache=True, nogil=True)
def merge_rows(rows, weights, time, others, counts, order, out, out_weights):
    """Those of the rows that are valid at `time`, with the others at their places among them, are written into `out`,
    line behind line; there is room for all. Returns how many there are, the first end and the least of the counts.

    The first line of rows is that of their validities. `order`: that of the others; of few it may be empty. Empty
    weights mean 1 each, where `out_weights` is not empty."""
    untils, ends, other_values = rows[0], others[0], others[1:].view(np.uint64)
    alive, first = _count_alive(untils, time)
    total = alive + len(ends)
    lines = out[: rows.shape[0] * total].reshape((rows.shape[0], total))
    places_in_order = order if len(order) == len(ends) else _in_order(other_values)
    places = _places_of(rows[1:].view(np.uint64), len(untils), other_values, places_in_order)
    _merge(rows, untils, weights, time, others, counts, places_in_order, places, lines, out_weights)
    least = np.int64(1)
    for j in range(len(ends)):
        first = min(first, ends[j])
        least = min(least, counts[j]) if len(counts) else least
    return total, first, least


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
    lines, counts = np.ones((2, 1), np.int64), np.ones(1, np.int64)
    merge_rows(
        frozen(lines), frozen(counts), 0, lines, counts, counts[:0], np.empty(4, np.int64), np.empty(2, np.int64)
    )
    rows, longs, out = frozen(np.ones((1, 1), np.uint64)), frozen(np.zeros(1, np.int64)), np.zeros((1, 2), np.uint64)
    sum_neighbours(rows, longs, out, np.zeros(1, np.int64))
