# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loops of a window's content: a set of rows in a ring, chained by the hash of all their values.

A row has a number that only grows, and stands in the cell of that number, modulo the size of the ring: until when it
is shown, until when its latest copy is valid, the number of the row behind it in its chain, and its values. A chain
leads from newer rows to older ones and ends where the ring has been given up, so to forget rows nothing is unlinked,
and no step lays the whole of it out anew: what still counts where room is needed moves to the other end."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.arrays import frozen
from stream_ext.rows.kernels.group import bucket_of

END = -1  # of a chain
SHOWN, LATEST, NEXT, VALUES = range(4)  # places in a cell


@njit(cache=True, nogil=True, inline="always")
def _put(rows, i, bucket, shown, latest, cells, heads, number):
    cell = cells[number & (len(cells) - 1)]
    cell[SHOWN] = shown
    cell[LATEST] = latest
    cell[NEXT] = heads[bucket]
    for c in range(rows.shape[0]):
        cell[VALUES + c] = rows[c, i]
    heads[bucket] = number


@njit(cache=True, nogil=True, inline="always")
def _tail_of(before, cells, tail, number):
    """The first number at or after `tail` whose row still counted at `before`."""
    mask = len(cells) - 1
    while tail < number and cells[tail & mask, LATEST] < before:
        tail += 1
    return tail


@njit(cache=True, nogil=True)
def content_add(rows, before, time, cells, heads, tail, number, highest, out, again):
    """Rows come in, as a matrix with a line for each column, behind one of their validities. Those that did not count
    at `before` any more are given up at the end of the ring.

    Writes into `out`, line behind line, the rows that are shown, likewise; and into `again` the numbers of those that
    have a later copy than the one that is shown, and when that runs out. `highest` has the greatest value of each
    column that ever came. Returns (the first number, the next one, rows shown, those of them that were there at
    `before`, rows to be looked at again); -1 rows are shown if there is no room for all, then nothing has come in."""
    mask, chains = len(cells) - 1, np.uint64(len(heads) - 1)
    untils, values = rows[0], rows[1:]
    tail = _tail_of(before, cells, tail, number)
    if number - tail + len(untils) > len(cells):
        return tail, number, -1, 0, 0
    shown = returned = later = 0
    for i in range(len(untils)):
        bucket = bucket_of(values, i, chains)
        at = np.int64(heads[bucket])
        while at >= tail:
            cell = cells[at & mask]
            same = True
            for c in range(values.shape[0]):
                same &= cell[VALUES + c] == values[c, i]
            if same:
                break
            at = cell[NEXT]
        if at >= tail and cells[at & mask, LATEST] >= time:
            cell = cells[at & mask]
            if untils[i] > cell[LATEST]:
                if cell[LATEST] <= cell[SHOWN]:
                    again[0, later] = at
                    again[1, later] = cell[SHOWN]
                    later += 1
                cell[LATEST] = untils[i]
            continue
        returned += at >= tail and cells[at & mask, LATEST] >= before
        _put(values, i, bucket, untils[i], untils[i], cells, heads, number)
        number += 1
        again[1, len(untils) - 1 - shown] = i  # from the other end: each row is either shown or not
        shown += 1
    shown_rows = out[: rows.shape[0] * shown].reshape((rows.shape[0], shown))
    for n in range(shown):
        i = again[1, len(untils) - 1 - n]
        for c in range(rows.shape[0]):
            shown_rows[c, n] = rows[c, i]
    for c in range(len(highest)):
        for i in range(len(untils)):
            highest[c] = max(highest[c], np.uint64(values[c, i]))
    return tail, number, shown, returned, later


@njit(cache=True, nogil=True)
def content_sweep(count, before, time, cells, heads, tail, number, row, again, again_at):
    """Gives up the oldest `count` cells: what counted at `before` gets a number anew. `row` has room for one.

    Writes the numbers of those that have a later copy than the one that is shown, and when that runs out. Returns (the
    first number, the next one, rows to be looked at again)."""
    mask, chains = len(cells) - 1, np.uint64(len(heads) - 1)
    later = 0
    for _ in range(count):
        cell = cells[tail & mask]
        tail += 1
        if cell[LATEST] < before:
            continue
        shown, latest = cell[SHOWN], cell[LATEST]
        for c in range(row.shape[0]):
            row[c, 0] = cell[VALUES + c]
        _put(row, 0, bucket_of(row, 0, chains), shown, latest, cells, heads, number)
        if time <= shown < latest:
            again[later] = number
            again_at[later] = shown
            later += 1
        number += 1
    return tail, number, later


@njit(cache=True, nogil=True)
def content_again(numbers, time, cells, tail, out):
    """Which of these rows have run out and are shown again with their latest copy; how many these are. Numbers that
    were given up are those of rows that have others now."""
    mask = len(cells) - 1
    found = 0
    for i in range(len(numbers)):
        if numbers[i] >= tail:
            cell = cells[numbers[i] & mask]
            if cell[SHOWN] < time <= cell[LATEST]:
                cell[SHOWN] = cell[LATEST]
                out[found] = numbers[i]
                found += 1
    return found


@njit(cache=True, nogil=True)
def content_take(numbers, cells, out, ends):
    """The values of these rows, a line for each column, and until when they are shown."""
    mask = len(cells) - 1
    for n in range(len(numbers)):
        cell = cells[numbers[n] & mask]
        ends[n] = cell[SHOWN]
        for c in range(out.shape[0]):
            out[c, n] = cell[VALUES + c]


def warm() -> None:
    """Compiles every kernel (or loads it from the cache), for the types that are in use."""
    longs, out = frozen(np.zeros(1, np.int64)), np.zeros(1, np.int64)
    cells, heads = np.zeros((2, VALUES + 1), np.int64), np.full(4, END, np.int32)
    pairs, highest = np.zeros((2, 1), np.int64), np.zeros(1, np.uint64)
    content_add(np.zeros((2, 1), np.int64), 0, 0, cells, heads, 0, 0, highest, np.zeros(2, np.int64), pairs)
    content_sweep(1, 0, 0, cells, heads, 0, 1, np.zeros((1, 1), np.int64), out, out.copy())
    content_again(longs, 0, cells, 0, out)
    content_take(longs, cells, np.zeros((1, 1), np.int64), out)
