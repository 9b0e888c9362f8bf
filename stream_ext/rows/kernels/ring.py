# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loops of a join's memory: a ring of rows, chained by the hash of their keys.

A row has a number that only grows, and stands in the cell of that number, modulo the size of the ring: how long it is
valid, the number of the row behind it in its chain, and its values, side by side, so that who finds it has all of it. A
chain leads from newer rows to older ones, so it ends where the ring has been given up: to forget rows nothing is
unlinked. Few rows count more than once: weights stand in an array of their own, which there is only if some do."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.arrays import frozen
from stream_ext.rows.kernels.distinct import mix

END = -1  # of a chain
UNTIL, NEXT, VALUES = range(3)  # places in a cell

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
#: Rows that are looked up together.
_BLOCK = 256
#: So many cells are in the machine's cache.
_CACHED = 1 << 15


@njit(cache=True, nogil=True)
def ring_insert(keys, columns, untils, weights, cells, counted, heads, shift, number):
    """Rows get the numbers from `number` on. The heads of a block of chains are fetched together, before they are
    replaced. `counted`: how much the row of each cell counts, if some count more or less than once."""
    mask = np.uint64(len(cells) - 1)
    fetched = np.empty(_BLOCK, np.int32)
    for low in range(0, len(keys), _BLOCK):
        some = keys[low : low + _BLOCK]
        for i in range(len(some)):
            fetched[i] = heads[(some[i] * _FACTOR) >> shift]
        for i in range(len(some)):
            cell = cells[np.uint64(number) & mask]
            bucket = (some[i] * _FACTOR) >> shift
            cell[UNTIL] = untils[low + i]
            cell[NEXT] = heads[bucket]
            for c in range(columns.shape[0]):
                cell[VALUES + c] = columns[c, low + i]
            heads[bucket] = number
            if len(counted):
                counted[np.uint64(number) & mask] = weights[low + i] if len(weights) else 1
            number += 1


@njit(cache=True, nogil=True, inline="always")
def _agree(cells, at, own, columns, i):
    """Whether a row and probe i, which have the first column of the key in common, have all of it."""
    same = True
    for c in range(1, len(own)):
        same &= np.uint64(cells[at, VALUES + own[c]]) == columns[c, i]
    return same


@njit(cache=True, nogil=True)
def ring_probe(keys, columns, own, cells, heads, shift, tail, limit, time, most, left, right):
    """All pairs (probe, cell) of rows that agree in their keys, and are valid at `time`; with numbers below `limit`.

    A key of several columns is a hash: `columns` of the probes (at least one) must equal the values at places `own`.
    Writes as many pairs as fit into left/right and returns how many there are: call again with more room. Nothing is
    looked for any more once there are more than `most`.

    The heads of a block of chains are fetched first, and those set aside that lead nowhere, without a branch: so the
    machine need not guess, and many look-ups are under way at once. Where the cells are more than the cache holds, the
    chains of a block are walked together for the same reason."""
    mask = np.uint64(len(cells) - 1)
    firsts, probes = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    fetched, first = np.empty(_BLOCK, np.int64), cells[:, VALUES + own[0]]
    found = 0
    for low in range(0, len(keys), _BLOCK):
        some, first_column = keys[low : low + _BLOCK], columns[0, low : low + _BLOCK]
        count = 0
        for i in range(len(some)):
            number = heads[(some[i] * _FACTOR) >> shift]
            firsts[np.uint64(count)] = number
            probes[np.uint64(count)] = i
            count += number >= tail
        while count and len(cells) > _CACHED:  # all chains of the block at once, a row of each at a time
            for n in range(count):
                fetched[n] = first[np.uint64(firsts[n]) & mask]
            more = 0
            for n in range(count):
                number, probe = firsts[n], np.uint64(probes[n])
                at = np.uint64(number) & mask
                valid = np.uint64(fetched[n]) == first_column[probe] and cells[at, UNTIL] >= time and number < limit
                if valid and _agree(cells, at, own, columns, low + probes[n]):
                    if found < len(left):
                        left[np.uint64(found)] = low + probes[n]
                        right[np.uint64(found)] = at
                    found += 1
                firsts[np.uint64(more)], probes[np.uint64(more)] = cells[at, NEXT], probe
                more += cells[at, NEXT] >= tail
            count = more
            if found > most:
                return found
        for n in range(count):  # one after the other
            number, probe = firsts[n], np.uint64(probes[n])
            while number >= tail:
                at = np.uint64(number) & mask
                valid = np.uint64(first[at]) == first_column[probe] and cells[at, UNTIL] >= time and number < limit
                if valid and _agree(cells, at, own, columns, low + probes[n]):
                    if found < len(left):
                        left[np.uint64(found)] = low + probes[n]
                        right[np.uint64(found)] = at
                    found += 1
                number = cells[at, NEXT]
            if found > most:
                return found
    return found


@njit(cache=True, nogil=True)
def ring_coexisting(left, right, columns, untils, came, cells, places, first, times):
    """Keeps the pairs that are both valid at the evaluation that the later of them came with, in place; returns how
    many. Evaluations are numbered from `first` on, and have `times`; the lines `came` of the columns, and the values at
    `places` in a cell, are numbers times two."""
    kept, last = 0, len(times) - 1
    for n in range(len(left)):
        i, at = np.uint64(left[n]), np.uint64(right[n])
        number = np.int64(0)
        for c in range(len(came)):
            number = max(number, np.int64(columns[came[c], i]))
        for c in range(len(places)):
            number = max(number, cells[at, VALUES + places[c]])
        place = min(max((number + 1) // 2 - first, 0), last)
        if min(untils[i], cells[at, UNTIL]) >= times[place]:
            left[kept], right[kept] = left[n], right[n]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def ring_pair(
    left, right, columns, own, untils, weights, cells, counted, weighted, places, first, other, start, out, ends,
    counts,
):  # fmt: skip
    """Writes the pairs side by side into `out` from `start` on: the probe's values at `own` from line `first` on, those
    at `places` in the cell from line `other` on; and until when both are valid, and the product of their weights (those
    of the cells are `counted`) if there are any."""
    for n in range(len(left)):
        ends[start + n] = min(cells[np.uint64(right[n]), UNTIL], untils[np.uint64(left[n])])
    if weighted:
        for n in range(len(left)):
            counts[start + n] = weights[left[n]] if len(weights) else 1
            if len(counted):
                counts[start + n] *= counted[right[n]]
    for c in range(len(own)):
        line, column = out[first + c, start : start + len(left)], columns[own[c]]
        for n in range(len(left)):
            line[n] = column[np.uint64(left[n])]
    for c in range(len(places)):
        line, values = out[other + c, start : start + len(left)], cells[:, VALUES + places[c]]
        for n in range(len(left)):
            line[n] = values[np.uint64(right[n])]


@njit(cache=True, nogil=True)
def _keys_of(columns, key):
    """One number for each row, and the columns of its key."""
    lines = np.empty((len(key), columns.shape[1]), np.uint64)
    for c in range(len(key)):
        lines[c] = columns[key[c]]
    if len(key) == 1:
        return lines[0], lines
    keys = np.zeros(columns.shape[1], np.uint64)
    for c in range(len(key)):
        mix(keys, lines[c])
    return keys, lines


@njit(cache=True, nogil=True)
def _all_pairs(count, cells, tail, number, time, most, left, right):
    """As `ring_probe`, of rows without a key: each has all that are valid, so their number is known after the first."""
    mask, found = len(cells) - 1, 0
    for i in range(count):
        before = found
        for other in range(tail, number):
            if cells[other & mask, UNTIL] >= time:
                if found < len(left):
                    left[found], right[found] = i, other & mask
                found += 1
        if found > most:
            return count * (found - before)
    return found


@njit(cache=True, nogil=True)
def ring_join(
    mine, my_weights, my_key, my_cells, my_counted, my_heads, my_shift, my_tail, my_number,
    theirs, their_weights, their_key, their_cells, their_counted, their_heads, their_shift, their_tail, their_number,
    rest, time, most, is_in, pairs, out,
):  # fmt: skip
    """A step of a join: rows of the left are paired with those in the right ring, and come into the left one; rows of
    the right are paired with those that are in the left ring now, and come into the right one. Both rings have room.

    Rows are matrices of numbers, the line of their validities first. Writes the pairs into `out`, line behind line:
    until when each is valid, the columns of the left, those of the right at the places `rest`, and the weight of each,
    if any row counts more or less than once.

    Returns how many pairs there are, and whether the rows of the left are in their ring. If there is not room for all
    pairs, it is to be called again with more; if there are more than `most`, it gave up."""
    columns, others = mine[1:].view(np.uint64), theirs[1:].view(np.uint64)
    keys, lines = _keys_of(columns, my_key)
    other_keys, other_lines = _keys_of(others, their_key)
    left_shift, right_shift, room = np.uint64(my_shift), np.uint64(their_shift), pairs.shape[1]
    if not len(my_key):
        old = _all_pairs(mine.shape[1], their_cells, their_tail, their_number, time, most, pairs[0], pairs[1])
    else:
        old = ring_probe(
            keys, lines, their_key, their_cells, their_heads, right_shift, their_tail, their_number, time, most,
            pairs[0], pairs[1],
        )  # fmt: skip
    if old > most:
        return old, is_in
    if not is_in:
        ring_insert(keys, columns, mine[0], my_weights, my_cells, my_counted, my_heads, left_shift, my_number)
    number, written = my_number + mine.shape[1], min(old, room)
    if not len(my_key):
        new = _all_pairs(theirs.shape[1], my_cells, my_tail, number, time, most, pairs[0, written:], pairs[1, written:])
    else:
        new = ring_probe(
            other_keys, other_lines, my_key, my_cells, my_heads, left_shift, my_tail, number, time, most,
            pairs[0, written:], pairs[1, written:],
        )  # fmt: skip
    found = old + new
    if found > min(most, room):
        return found, True
    width, is_weighted = len(columns) + len(rest), len(my_counted) + len(their_counted) > 0
    rows = out[: (1 + width + is_weighted) * found].reshape((1 + width + is_weighted, found))
    ends, values, counts = rows[0].view(np.int64), rows[1 : 1 + width], rows[width + is_weighted].view(np.int64)
    every = np.arange(len(columns))
    ring_pair(
        pairs[0, :old], pairs[1, :old], columns, every, mine[0], my_weights, their_cells, their_counted, is_weighted,
        rest, 0, len(columns), 0, values, ends, counts,
    )  # fmt: skip
    ring_pair(
        pairs[0, old:found], pairs[1, old:found], others, rest, theirs[0], their_weights, my_cells, my_counted,
        is_weighted, every, len(columns), 0, old, values, ends, counts,
    )  # fmt: skip
    ring_insert(
        other_keys, others, theirs[0], their_weights, their_cells, their_counted, their_heads, right_shift, their_number
    )
    return found, True


@njit(cache=True, nogil=True)
def ring_take(cells, places, first, out):
    """The values from `first` on of these cells, a line each."""
    for n in range(len(places)):
        for c in range(out.shape[0]):
            out[c, n] = cells[places[n], first + c]


def warm() -> None:
    """Compiles every kernel (or loads it from the cache), for the types that are in use."""
    keys, longs, out = frozen(np.ones(1, np.uint64)), frozen(np.ones(1, np.int64)), np.zeros(1, np.int64)
    cells, heads, shift = np.zeros((2, VALUES + 1), np.int64), np.full(2, END, np.int32), np.uint64(63)
    rows, values = keys.reshape(1, 1), np.zeros((2, 1), np.uint64)
    ring_insert(keys, rows, longs, longs[:0], cells, out[:0], heads, shift, 0)
    ring_probe(keys, rows, out, cells, heads, shift, 0, 1, 0, 1, out.copy(), out.copy())
    ring_coexisting(out[:0], out[:0], rows, longs, longs[:0], cells, longs[:0], 0, longs)
    pairs = longs[:0], longs[:0], rows, out[:0], longs, longs
    ring_pair(*pairs, cells, out, False, out[:0], 0, 1, 0, values, out.copy(), out.copy())
    side = np.zeros((2, 0), np.int64), out[:0], out, cells, out[:0], heads, 63, 0, 0
    ring_join(*side, *side, out[:0], 0, 0, False, np.empty((2, 1), np.int64), np.empty(3, np.uint64))
    ring_take(cells, longs[:0], VALUES, values.view(np.int64)[:, :0])
