# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loops that are too hot for Python, compiled by numba and cached on disk.

Two structures, both plain named arrays that can be written down: a *chained index* (rows by the hash of some of
their columns, for joins) and a *distinct table* (each row once, with a list of its validities)."""

from __future__ import annotations

import numba
import numpy as np

from hbase_store.arrays import frozen

NEVER = np.iinfo(np.int64).min  # validity of what is not shown at all
FOREVER = np.iinfo(np.int64).max
END = -1  # of a chain
TOUCHED, WAITS = 1, 2  # marks of a distinct row


@numba.njit(cache=True, nogil=True)
def _hash(rows, i):
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in range(rows.shape[1]):
        h = (h ^ rows[i, c]) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(32))


@numba.njit(cache=True, nogil=True)
def mix(key, column):
    """Takes one more column into a key of several: rows that agree have equal keys (not the other way round)."""
    for i in range(len(key)):
        h = (key[i] ^ column[i]) * np.uint64(0xBF58476D1CE4E5B9)
        key[i] = h ^ (h >> np.uint64(29))


@numba.njit(cache=True, nogil=True)
def distinct_first(rows, heads, nexts, chosen):
    """The places of the first of each distinct row, in order; their number is returned. `nexts` chains chosen rows."""
    mask = np.uint64(len(heads) - 1)
    used = 0
    for i in range(len(rows)):
        bucket = _hash(rows, i) & mask
        slot = heads[bucket]
        while slot >= 0:
            j = chosen[slot]
            equal = True
            for c in range(rows.shape[1]):
                if rows[j, c] != rows[i, c]:
                    equal = False
                    break
            if equal:
                break
            slot = nexts[slot]
        if slot < 0:
            chosen[used] = i
            nexts[used] = heads[bucket]
            heads[bucket] = used
            used += 1
    return used


@numba.njit(cache=True, nogil=True)
def distinct_add(
    rows,
    weights,
    untils,
    slots,
    heads,
    nexts,
    first,
    entry_until,
    entry_weight,
    entry_next,
    shown,
    used,
    entries,
    marks,
    touched,
    count,
):
    """Adds each (row, until, weight) to the table's list of that row; returns slots used, entries used, rows touched.

    `slots` are the distinct rows, chained by `heads`/`nexts`; `first[slot]` begins the list of its validities. A row is
    listed in `touched` once: its mark says so."""
    mask = np.uint64(len(heads) - 1)
    for i in range(len(rows)):
        bucket = _hash(rows, i) & mask
        slot = heads[bucket]
        while slot >= 0:
            equal = True
            for c in range(rows.shape[1]):
                if slots[slot, c] != rows[i, c]:
                    equal = False
                    break
            if equal:
                break
            slot = nexts[slot]
        if slot < 0:
            slot = used
            used += 1
            for c in range(rows.shape[1]):
                slots[slot, c] = rows[i, c]
            nexts[slot] = heads[bucket]
            heads[bucket] = slot
            first[slot] = END
            shown[slot] = NEVER
            marks[slot] = 0
        entry = first[slot]
        while entry >= 0 and entry_until[entry] != untils[i]:
            entry = entry_next[entry]
        if entry < 0:
            entry = entries
            entries += 1
            entry_until[entry] = untils[i]
            entry_weight[entry] = 0
            entry_next[entry] = first[slot]
            first[slot] = entry
        entry_weight[entry] += weights[i]
        if not marks[slot] & TOUCHED:
            marks[slot] |= TOUCHED
            touched[count] = slot
            count += 1
    return used, entries, count


@numba.njit(cache=True, nogil=True)
def distinct_wake(rows, marks, touched, count):
    """Lists rows whose time has come, which are no longer waiting for it; returns how many are listed."""
    for row in rows:
        if not marks[row] & TOUCHED:
            touched[count] = row
            count += 1
        marks[row] = TOUCHED
    return count


@numba.njit(cache=True, nogil=True)
def _valid_until(entry, entry_until, entry_weight, entry_next, time):
    """Until when the row of this list of entries is present without a break, from `time` on (NEVER: it is not present);
    and when it has to be looked at again because some entries have negative weights (NEVER: none has)."""
    total = np.int64(0)
    longest, soonest = NEVER, FOREVER
    mixed = False
    first = entry
    while entry >= 0:
        if entry_until[entry] >= time and entry_weight[entry] != 0:
            total += entry_weight[entry]
            longest = max(longest, entry_until[entry])
            soonest = min(soonest, entry_until[entry])
            mixed |= entry_weight[entry] < 0
        entry = entry_next[entry]
    if not mixed:
        return longest if total > 0 else NEVER, NEVER
    # The row ends with the first expiry after which nothing is left of the sum.
    again = soonest if soonest != FOREVER else NEVER
    until = time - 1 if total > 0 else NEVER
    while total > 0:
        soonest = FOREVER
        entry = first
        while entry >= 0:
            if until < entry_until[entry] < soonest and entry_weight[entry] != 0:
                soonest = entry_until[entry]
            entry = entry_next[entry]
        if soonest == FOREVER:
            return FOREVER, again
        until = soonest
        total = np.int64(0)
        entry = first
        while entry >= 0:
            if entry_until[entry] > until:
                total += entry_weight[entry]
            entry = entry_next[entry]
    return until, again


@numba.njit(cache=True, nogil=True)
def distinct_show(
    before, time, first, entry_until, entry_weight, entry_next, shown, marks, touched,
    out_slot, out_until, out_sign, out_again, out_when, renews,
):  # fmt: skip
    """What changes in the set at `time`, of the rows touched: (slot, until, sign) triples; and which rows must be
    looked at again after which time. Returns how many of each, and how many shown were there at the step `before`.

    A row that is shown stays as it is while its shown validity still counts for it; when that has run out and a later
    one exists, the row is shown anew with the later one; if it `renews`, as soon as that exists. Else only a retraction
    takes a shown row back before its time."""
    n, later, returned = 0, 0, 0
    for slot in touched:
        marks[slot] &= WAITS
        until, again = _valid_until(first[slot], entry_until, entry_weight, entry_next, time)
        if shown[slot] >= time and (until < shown[slot] or (renews and until > shown[slot])):
            out_slot[n], out_until[n], out_sign[n] = slot, shown[slot], -1
            n += 1
            shown[slot] = NEVER
            returned += 1
        if shown[slot] < time and until >= time:
            out_slot[n], out_until[n], out_sign[n] = slot, until, 1
            n += 1
            returned += shown[slot] >= before
            shown[slot] = until
            marks[slot] = 0  # it waits for another time than it may have done
        if again != NEVER and until > shown[slot]:
            again = min(again, shown[slot])
        elif until > shown[slot] and not marks[slot]:
            again = shown[slot]
            marks[slot] = WAITS
        if again != NEVER:
            out_again[later], out_when[later] = slot, again
            later += 1
    return n, later, returned


def warm() -> None:
    """Compiles these kernels for the types that are in use."""
    keys = np.ones(8, np.uint64)
    heads, nexts = np.full(8, END, np.int32), np.full(8, END, np.int32)
    untils, weights, out = np.ones(8, np.int64), np.ones(8, np.int64), np.zeros(8, np.int64)
    mix(keys, keys)
    mix(keys, frozen(keys))
    table = np.zeros((8, 1), np.uint64)
    heads[:] = END
    distinct_first(table, heads, nexts, out)
    heads[:] = END
    first, shown, marks = np.full(8, END, np.int32), np.full(8, NEVER, np.int64), np.zeros(8, np.uint8)
    touched = np.zeros(8, np.int64)
    distinct_add(
        table[:1], weights[:1], untils[:1], table, heads, nexts, first,
        untils, weights, nexts.copy(), shown, 0, 0, marks, touched, 0,
    )  # fmt: skip
    distinct_wake(touched[:0], marks, touched, 0)
    distinct_show(
        0, 0, first, untils, weights, nexts, shown, marks, touched[:1],
        out, out.copy(), out.copy(), out.copy(), out.copy(), False,
    )  # fmt: skip
