# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loops of grouping: numbering keys, tallying by group, and saying which groups changed.

Keys are numbered in order of first appearance (a *slot*), by a chained hash table of plain arrays; whatever is kept
of a group is an array by slot. Keys and rows come as matrices with a line for each column, so that a column is
contiguous. Arrays that are only read come in read-only, so that each kernel is compiled once."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.arrays import frozen

END = -1  # of a chain

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
_TAG_SHIFT = np.uint64(60)
_INTEGER = np.uint64(1)
_DATA_MASK = np.uint64((1 << 60) - 1)
_ZERO = 1 << 59
#: Sums of integers are kept in two parts, so that 2**33 rows of 60-bit integers sum exactly.
LOW_BITS = 30
_LOW_MASK = (1 << LOW_BITS) - 1


@njit(cache=True, nogil=True, inline="always")
def _bucket(keys, i, mask):
    h = keys[0, i] * _FACTOR
    for c in range(1, keys.shape[0]):
        h = ((h ^ (h >> _SHIFT)) ^ keys[c, i]) * _FACTOR
    return (h ^ (h >> _SHIFT)) & mask


@njit(cache=True, nogil=True)
def chain_keys(keys, used, heads, nexts):
    """Chains the distinct keys[:, :used] into an empty table; `heads` has a power of two buckets."""
    mask = np.uint64(len(heads) - 1)
    for slot in range(used):
        bucket = _bucket(keys, slot, mask)
        nexts[slot] = heads[bucket]
        heads[bucket] = slot


@njit(cache=True, nogil=True)
def number_keys(rows, start, keys, used, heads, nexts, slots):
    """The slot of each key from rows[:, start] on; new keys get the next slots.

    Stops where there is no room for a new key. Returns (how far it came, slots used)."""
    mask = np.uint64(len(heads) - 1)
    width = rows.shape[0]
    last = END
    for i in range(start, rows.shape[1]):
        if last != END:
            same = rows[0, i] == rows[0, i - 1]
            for c in range(1, width):
                same = same and rows[c, i] == rows[c, i - 1]
            if same:  # rows often come sorted
                slots[i] = last
                continue
        bucket = _bucket(rows, i, mask)
        slot = heads[bucket]
        while slot >= 0:
            same = keys[0, slot] == rows[0, i]
            for c in range(1, width):
                same = same and keys[c, slot] == rows[c, i]
            if same:
                break
            slot = nexts[slot]
        if slot < 0:
            if used == keys.shape[1]:
                return i, used
            slot = used
            used += 1
            for c in range(width):
                keys[c, slot] = rows[c, i]
            nexts[slot] = heads[bucket]
            heads[bucket] = slot
        slots[i] = slot
        last = slot
    return rows.shape[1], used


@njit(cache=True, nogil=True)
def tally_rows(slots, weights, sign, rows, marks, touched, count):
    """Adds the weights (none: 1 each) to the rows of their groups; lists each group touched once."""
    for i in range(len(slots)):
        slot = slots[i]
        rows[slot] += sign * weights[i] if len(weights) else sign
        if not marks[slot]:
            marks[slot] = 1
            touched[count] = slot
            count += 1
    return count


@njit(cache=True, nogil=True)
def tally_bound(slots, weights, sign, ids, bound):
    for i in range(len(slots)):
        if ids[i]:
            bound[slots[i]] += sign * weights[i] if len(weights) else sign


@njit(cache=True, nogil=True)
def tally_integers(slots, weights, sign, ids, sums):
    """Adds the inline integers among `ids` to sums[slot] = (how many, low part, high part); how many ids are none."""
    others = 0
    for i in range(len(slots)):
        if ids[i] >> _TAG_SHIFT == _INTEGER:
            value = np.int64(ids[i] & _DATA_MASK) - _ZERO
            weight = sign * weights[i] if len(weights) else sign
            slot = slots[i]
            sums[slot, 0] += weight
            sums[slot, 1] += weight * (value & _LOW_MASK)
            sums[slot, 2] += weight * (value >> LOW_BITS)
        else:
            others += 1
    return others


@njit(cache=True, nogil=True)
def show_groups(touched, rows, always, results, keys, shown, is_shown, marks, out, signs):
    """What changes in the answer: for each group touched, its row as shown (-1) and as it is now (+1), if they differ.

    `results` has a line for each aggregate and a column for each group touched; `out` has lines for keys and results.
    Returns how many rows there are."""
    n = 0
    width, more = keys.shape[0], results.shape[0]
    for j in range(len(touched)):
        slot = touched[j]
        marks[slot] = 0
        there = always or rows[slot] > 0
        was = is_shown[slot] != 0
        same = there == was
        if there and was:
            for a in range(more):
                same = same and shown[a, slot] == results[a, j]
        if same:
            continue
        if was:
            for c in range(width):
                out[c, n] = keys[c, slot]
            for a in range(more):
                out[width + a, n] = shown[a, slot]
            signs[n] = -1
            n += 1
        if there:
            for c in range(width):
                out[c, n] = keys[c, slot]
            for a in range(more):
                out[width + a, n] = results[a, j]
                shown[a, slot] = results[a, j]
            signs[n] = 1
            n += 1
        is_shown[slot] = there
    return n


@njit(cache=True, nogil=True)
def settle_members(entries, counts, present, left, came):
    """Which members came (count now positive) or left; each entry is listed in `entries` at least once."""
    gone, new = 0, 0
    for i in range(len(entries)):
        entry = entries[i]
        there = counts[entry] > 0
        if there and not present[entry]:
            came[new] = entry
            new += 1
        elif not there and present[entry]:
            left[gone] = entry
            gone += 1
        present[entry] = there
    return gone, new


@njit(cache=True, nogil=True)
def count_members(entries, weights, sign, counts):
    for i in range(len(entries)):
        counts[entries[i]] += sign * weights[i] if len(weights) else sign


@njit(cache=True, nogil=True)
def link_members(owners, start, stop, first, nexts):
    """Chains members start..stop to their groups."""
    for entry in range(start, stop):
        slot = owners[entry]
        nexts[entry] = first[slot]
        first[slot] = entry


@njit(cache=True, nogil=True)
def walk_members(slots, first, nexts, present, entries):
    """The members that are there of the groups given, as many as fit; how many there are."""
    n = 0
    for i in range(len(slots)):
        entry = first[slots[i]]
        while entry >= 0:
            if present[entry]:
                if n < len(entries):
                    entries[n] = entry
                n += 1
            entry = nexts[entry]
    return n


@njit(cache=True, nogil=True)
def choose_least(slots, ranks, chosen, where):
    """For each group the place of its least rank: where[slot], of groups that `slots` names (END: none yet)."""
    for i in range(len(slots)):
        slot = slots[i]
        at = where[slot]
        if at < 0 or ranks[i] < ranks[at]:
            where[slot] = i
    n = 0
    for i in range(len(slots)):
        slot = slots[i]
        if where[slot] == i:
            chosen[n] = i
            n += 1
    for i in range(len(slots)):
        where[slots[i]] = END
    return n


def warm() -> None:
    """Compiles every kernel (or loads it from the cache), for the types that are in use."""
    rows, weights, ids = frozen(np.ones((1, 1), np.uint64)), frozen(np.ones(1, np.int64)), frozen(np.ones(1, np.uint64))
    keys, heads, nexts = np.ones((1, 2), np.uint64), np.full(2, END, np.int32), np.full(2, END, np.int32)
    slots, flags, longs = np.zeros(1, np.int32), np.zeros(2, np.uint8), np.zeros(2, np.int64)
    chain_keys(keys, 0, heads, nexts)
    number_keys(rows, 0, keys, 0, heads, nexts, slots)
    read = frozen(slots)
    tally_rows(read, weights, 1, longs, flags, slots.copy(), 0)
    tally_bound(read, weights, 1, ids, longs)
    tally_integers(read, weights, 1, ids, np.zeros((2, 3), np.int64))
    out, shown = np.zeros((2, 2), np.uint64), np.zeros((1, 2), np.uint64)
    show_groups(read, longs, False, rows, keys, shown, flags, flags.copy(), out, longs.copy())
    count_members(read, weights, 1, longs)
    settle_members(read, longs, flags, slots.copy(), slots.copy())
    link_members(frozen(keys[0]), 0, 0, heads, nexts)
    walk_members(read, heads, nexts, flags, slots.copy())
    choose_least(read, frozen(longs[:1].copy()), slots.copy(), nexts)
