# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loops of grouping: numbering keys, tallying by group, and saying which groups changed.

Keys are numbered in order of first appearance (a *slot*). A hash table has an entry for each: the upper half of its
hash, a tag, and its slot and one; 0 is no entry, and what finds its place taken stands in the next that is free. What
is always asked of a key stands beside it in its line of one matrix, its *cells*, so that it comes with it into the
machine's cache; all else is an array by slot. Ids are signed here: nothing is asked of them but whether they are equal.
Rows come as matrices with a line for each column, so that a column is contiguous. Arrays that are only read come in
read-only, so that each kernel is compiled once."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.arrays import frozen

END = -1  # of a chain
TOUCHED, SHOWN = 1, 2  # states of a group

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
_SLOTS, _TAG = np.uint64((1 << 32) - 1), np.uint64(((1 << 32) - 1) << 32)  # the halves of an entry
_NONE, _ONE = np.uint64(0), np.uint64(1)
_TAG_SHIFT = np.uint64(60)
_INTEGER = np.uint64(1)
_ZERO_ID = np.uint64((1 << 60) + (1 << 59))
_DATA_MASK = np.uint64((1 << 60) - 1)
_ZERO = 1 << 59
_ZERO_SIGNED = np.int64((1 << 60) + (1 << 59))
_SHOWN_BIT = 1
#: Rows that are looked up together.
_BLOCK = 256
#: Sums of integers are kept in two parts, so that 2**33 rows of 60-bit integers sum exactly.
LOW_BITS = 30
_LOW_MASK = (1 << LOW_BITS) - 1


@njit(cache=True, nogil=True, inline="always")
def hash_of(rows, i):
    h = np.uint64(rows[0, i]) * _FACTOR
    for c in range(1, rows.shape[0]):
        h = ((h ^ (h >> _SHIFT)) ^ np.uint64(rows[c, i])) * _FACTOR
    return h


@njit(cache=True, nogil=True, inline="always")
def bucket_of(rows, i, mask):
    h = hash_of(rows, i)
    return (h ^ (h >> _SHIFT)) & mask


@njit(cache=True, nogil=True, inline="always")
def find(rows, i, h, cells, table):
    """The slot of a key and where its entry stands; END and where it is to stand, if the key is new."""
    mask = np.uint64(len(table) - 1)
    at = (h ^ (h >> _SHIFT)) & mask
    while table[at]:
        if (table[at] ^ h) >> _SHIFT == _NONE:
            slot = np.int64(table[at] & _SLOTS) - 1
            same = True
            for c in range(rows.shape[0]):
                same &= cells[slot, c] == rows[c, i]
            if same:
                return slot, at
        at = (at + _ONE) & mask
    return END, at


@njit(cache=True, nogil=True, inline="always")
def entry_of(h, slot):
    return (h & _TAG) | np.uint64(slot + 1)


@njit(cache=True, nogil=True)
def enter_keys(rows, table):
    """Enters the first keys of a table, which are distinct and come as `rows`, while nothing is entered."""
    mask = np.uint64(len(table) - 1)
    for slot in range(rows.shape[1]):
        h = hash_of(rows, slot)
        at = (h ^ (h >> _SHIFT)) & mask
        while table[at]:
            at = (at + _ONE) & mask
        table[at] = entry_of(h, slot)


@njit(cache=True, nogil=True)
def number_keys(rows, start, cells, used, table, slots):
    """The slot of each key from rows[:, start] on; new keys get the next slots, in order of first appearance.

    Stops where there is no room for a new key. Returns (how far it came, slots used).

    A block of rows at a time. Most entries stand in their place: loops without a branch read these, and then compare
    the keys that they lead to, so that the machine need not guess and many look-ups are under way at once. Only the
    other keys are looked for one by one."""
    others, hashes = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.uint64)
    for low in range(start, rows.shape[1], _BLOCK):
        block, found = rows[:, low : low + _BLOCK], slots[low : low + _BLOCK]
        _hash(block, hashes)
        count = _guess(block, hashes, cells, used, table, found, others)
        for j in range(count):
            i = others[j]
            slot, at = find(block, i, hashes[i], cells, table)
            if slot < 0:
                if used == len(cells):
                    return low + i, used
                for c in range(rows.shape[0]):
                    cells[used, c] = block[c, i]
                table[at] = entry_of(hashes[i], used)
                slot = used
                used += 1
            found[i] = slot
    return rows.shape[1], used


@njit(cache=True, nogil=True, inline="always")
def _hash(block, hashes):
    if block.shape[0] == 1:  # by far the most frequent, and much faster for being said by itself
        column = block[0]
        for i in range(len(column)):
            hashes[i] = np.uint64(column[i]) * _FACTOR
    else:
        for i in range(block.shape[1]):
            hashes[i] = hash_of(block, i)


@njit(cache=True, nogil=True, inline="always")
def _guess(block, hashes, cells, used, table, found, others):
    """Finds the keys whose entries stand in their places; the others are listed, and counted."""
    mask, first, key = np.uint64(len(table) - 1), block[0], cells[:, 0]
    for i in range(len(first)):
        h = hashes[i]
        entry = table[(h ^ (h >> _SHIFT)) & mask]
        found[i] = max(np.int64(entry & _SLOTS) - 1, 0) * ((entry ^ h) >> _SHIFT == _NONE)
    count = 0
    if not used:  # slot 0 holds no key yet
        for i in range(len(first)):
            others[i] = i
        return len(first)
    if block.shape[0] == 1:
        for i in range(len(first)):
            others[np.uint64(count)] = i
            count += key[np.uint64(found[i])] != first[i]
        return count
    for i in range(len(first)):
        slot = np.uint64(found[i])
        same = True
        for c in range(block.shape[0]):
            same &= cells[slot, c] == block[c, i]
        others[np.uint64(count)] = i
        count += not same
    return count


@njit(cache=True, nogil=True)
def tally_rows(slots, weights, sign, cells, rows, touched, count):
    """Adds the weights (none: 1 each) to the rows of their groups; lists each group touched once.

    `rows` is their place in a group's cells, and its state stands behind. `touched` has room for one more than there
    can be: what is written behind its end counts only if it is new."""
    for i in range(len(slots)):
        slot = np.uint64(slots[i])
        state = cells[slot, rows + 1]
        cells[slot, rows] += sign * weights[i] if len(weights) else sign
        touched[np.uint64(count)] = slot
        count += 1 - (state & TOUCHED)
        cells[slot, rows + 1] = state | TOUCHED
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
def add_effects(lines, weights, sign, places, effects, sums):
    """Adds to line lines[i] of the sums what place places[i] says."""
    for i in range(len(lines)):
        weight = sign * weights[i] if len(weights) else sign
        effect, line = effects[np.uint64(places[i])], sums[np.uint64(lines[i])]
        for c in range(len(effect)):
            line[c] += weight * effect[c]


@njit(cache=True, nogil=True)
def add_counts(slots, weights, sign, counts):
    for i in range(len(slots)):
        counts[np.uint64(slots[i])] += sign * weights[i] if len(weights) else sign


@njit(cache=True, nogil=True)
def take_cells(slots, cells, place, values):
    for i in range(len(slots)):
        values[i] = cells[np.uint64(slots[i]), place]


@njit(cache=True, nogil=True)
def count_ids(slots, counts, ids):
    """The counts of groups as inline integers."""
    for i in range(len(slots)):
        ids[i] = np.uint64(counts[np.uint64(slots[i])]) + _ZERO_ID


@njit(cache=True, nogil=True)
def show_groups(touched, cells, width, always, lines, results, emits_removals, out, signs):
    """What changes in the answer: for each group touched, its row as shown (-1) and as it is now (+1), if they differ.

    A group's cells are its key (`width` ids), its rows, its state, and what it is shown with. `lines` says for each
    aggregate which line of `results` is its own, with a column for each group touched; END: it counts the group's rows.
    `out` has lines for keys and aggregates. Without `emits_removals`, removed rows are only counted. Returns the
    numbers of emitted and of omitted rows. Blocks are small enough for their cells to stay in the machine's cache while
    simple loops without branches go over them one after the other."""
    n, omitted = 0, 0
    rows, state = cells[:, width], cells[:, width + 1]
    slots, places = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint64)
    old, new = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint64)  # slots of the removed and of the added rows
    differs, values = np.empty(_BLOCK, np.int64), np.empty((len(lines), _BLOCK), np.int64)
    there, was = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    for low in range(0, len(touched), _BLOCK):
        block = touched[low : low + _BLOCK]
        for j in range(len(block)):
            slot = np.uint64(block[j])
            slots[j] = slot
            there[j] = (rows[slot] > 0) | always
            was[j] = state[slot] >> _SHOWN_BIT
            differs[j] = there[j] ^ was[j]
            state[slot] = there[j] << _SHOWN_BIT
        for a in range(len(lines)):
            shown, now = cells[:, width + 2 + a], values[a]
            if lines[a] < 0:
                for j in range(len(block)):
                    now[j] = rows[slots[j]] + _ZERO_SIGNED
                    differs[j] |= shown[slots[j]] != now[j]
            else:
                result = results[lines[a], low : low + len(block)]
                for j in range(len(block)):
                    now[j] = result[j]
                    differs[j] |= shown[slots[j]] != now[j]
        gone, come = 0, 0
        for j in range(len(block)):
            old[np.uint64(gone)] = slots[j]
            gone += was[j] & differs[j]
            new[np.uint64(come)] = slots[j]
            places[np.uint64(come)] = j
            come += there[j] & differs[j]
        if emits_removals:
            signs[n : n + gone] = -1
            signs[n + gone : n + gone + come] = 1
        else:
            omitted += gone
            gone = 0
        for c in range(width):
            removed, added, key = out[c, n : n + gone], out[c, n + gone : n + gone + come], cells[:, c]
            for j in range(gone):
                removed[j] = key[old[j]]
            for j in range(come):
                added[j] = key[new[j]]
        for a in range(len(lines)):
            removed, added = out[width + a, n : n + gone], out[width + a, n + gone : n + gone + come]
            shown, now = cells[:, width + 2 + a], values[a]
            for j in range(gone):
                removed[j] = shown[old[j]]
            for j in range(come):
                added[j] = now[places[j]]
                shown[new[j]] = now[places[j]]
        n += gone + come
    return n, omitted


@njit(cache=True, nogil=True)
def changed_members(entries, cells, count, present, removed, added):
    """The members that were added (their count is now positive) or removed; each entry is listed at least once.

    `count` and `present` are places in a member's cells. Returns how many were removed, and how many added."""
    gone, new = 0, 0
    for i in range(len(entries)):
        entry = np.uint64(entries[i])
        there = cells[entry, count] > 0
        if there and not cells[entry, present]:
            added[new] = entry
            new += 1
        elif not there and cells[entry, present]:
            removed[gone] = entry
            gone += 1
        cells[entry, present] = there
    return gone, new


@njit(cache=True, nogil=True)
def count_members(entries, weights, sign, cells, count):
    for i in range(len(entries)):
        cells[np.uint64(entries[i]), count] += sign * weights[i] if len(weights) else sign


@njit(cache=True, nogil=True)
def link_members(cells, start, stop, first, nexts):
    """Chains members start..stop to their groups, of which the slots are their first cells."""
    for entry in range(start, stop):
        slot = cells[entry, 0]
        nexts[entry] = first[slot]
        first[slot] = entry


@njit(cache=True, nogil=True)
def walk_members(slots, first, nexts, cells, present, entries):
    """The members that are there of the groups given, as many as fit; how many there are."""
    n = 0
    for i in range(len(slots)):
        entry = first[slots[i]]
        while entry >= 0:
            if cells[entry, present]:
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
    one = frozen(np.ones(1, np.int64))
    rows, ids = one.reshape(1, 1), one.view(np.uint64)
    cells, heads, nexts = np.zeros((2, 5), np.int64), np.full(2, END, np.int32), np.full(2, END, np.int32)
    longs, slots = np.zeros(3, np.int64), np.zeros(1, np.int32)
    enter_keys(rows, np.zeros(2, np.uint64))
    number_keys(rows, 0, cells, 0, np.zeros(2, np.uint64), slots)
    read = frozen(slots)
    tally_rows(read, one, 1, cells, 1, np.zeros(2, np.int32), 0)
    tally_bound(read, one, 1, ids, longs)
    tally_integers(read, one, 1, ids, np.zeros((2, 3), np.int64))
    add_effects(read, one, 1, read, rows, cells[:, :1].copy())
    add_counts(read, one, 1, longs)
    take_cells(read, cells, 1, longs)
    count_ids(read, longs, np.zeros(1, np.uint64))
    show_groups(read, cells, 1, False, longs[:1].copy(), rows, True, np.zeros((2, 2), np.int64), longs.copy())
    count_members(read, one, 1, cells, 1)
    changed_members(read, cells, 1, 2, slots.copy(), slots.copy())
    link_members(cells, 0, 0, heads, nexts)
    walk_members(read, heads, nexts, cells, 2, slots.copy())
    choose_least(read, one, slots.copy(), nexts)
