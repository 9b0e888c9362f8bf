# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loops that are too hot for Python, compiled by numba and cached on disk.

Two structures, both plain named arrays that can be written down: a *chained index* (rows by the hash of some of
their columns, for joins) and a *distinct table* (each row once, with a list of its validities). `warm` compiles all."""

from __future__ import annotations

import numba
import numpy as np

import hbase_store.kernels

NEVER = np.iinfo(np.int64).min  # validity of what is not shown at all
END = -1  # of a chain


@numba.njit(cache=True, nogil=True)
def _hash(rows, i, columns):
    h = np.uint64(0x9E3779B97F4A7C15)
    for c in columns:
        h = (h ^ rows[i, c]) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(32))


@numba.njit(cache=True, nogil=True)
def index_insert(rows, start, stop, columns, heads, nexts):
    """Chains rows[start:stop] into the index; `heads` has a power of two buckets."""
    mask = np.uint64(len(heads) - 1)
    for i in range(start, stop):
        bucket = _hash(rows, i, columns) & mask
        nexts[i] = heads[bucket]
        heads[bucket] = i


@numba.njit(cache=True, nogil=True)
def index_probe(probes, probe_columns, rows, columns, heads, nexts, untils, time, left, right):
    """All pairs (probe, indexed row) that agree on the key columns, of rows still valid at `time`.

    Writes as many pairs as fit into left/right and returns how many there are: call again with more room."""
    mask = np.uint64(len(heads) - 1)
    found = 0
    for i in range(len(probes)):
        j = heads[_hash(probes, i, probe_columns) & mask]
        while j >= 0:
            if untils[j] >= time:
                equal = True
                for c in range(len(columns)):
                    if rows[j, columns[c]] != probes[i, probe_columns[c]]:
                        equal = False
                        break
                if equal:
                    if found < len(left):
                        left[found] = i
                        right[found] = j
                    found += 1
            j = nexts[j]
    return found


@numba.njit(cache=True, nogil=True)
def distinct_add(
    rows,
    weights,
    untils,
    columns,
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
):
    """Adds each (row, until, weight) to the table's list of that row; returns slots used, entries used.

    `slots` are the distinct rows, chained by `heads`/`nexts`; `first[slot]` begins the list of its validities; `marks`
    says which rows a step has touched."""
    mask = np.uint64(len(heads) - 1)
    for i in range(len(rows)):
        bucket = _hash(rows, i, columns) & mask
        slot = heads[bucket]
        while slot >= 0:
            equal = True
            for c in range(len(columns)):
                if slots[slot, c] != rows[i, c]:
                    equal = False
                    break
            if equal:
                break
            slot = nexts[slot]
        if slot < 0:
            slot = used
            used += 1
            for c in range(len(columns)):
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
        marks[slot] = 1
    return used, entries


@numba.njit(cache=True, nogil=True)
def distinct_show(
    time, used, first, entry_until, entry_weight, entry_next, shown, marks, out_slot, out_until, out_sign
):
    """What changes in the set at `time`: (slot, until, sign) triples; their number is returned.

    A row that is shown stays as it is while its shown validity still counts for it; when that has run out and a later
    one exists, the row is shown anew with the later one. Only a retraction takes a shown row back before its time."""
    n = 0
    for slot in range(used):
        if marks[slot] == 0 and shown[slot] >= time:
            continue
        marks[slot] = 0
        longest = NEVER
        entry = first[slot]
        while entry >= 0:
            if entry_weight[entry] > 0 and entry_until[entry] > longest:
                longest = entry_until[entry]
            entry = entry_next[entry]
        if shown[slot] >= time:
            if longest >= shown[slot]:
                continue
            out_slot[n] = slot
            out_until[n] = shown[slot]
            out_sign[n] = -1
            n += 1
            shown[slot] = NEVER
        if longest >= time:
            out_slot[n] = slot
            out_until[n] = longest
            out_sign[n] = 1
            n += 1
            shown[slot] = longest
    return n


def warm() -> None:
    """Compiles every kernel, the store's too (or loads it from the cache), for the types that are in use."""
    hbase_store.kernels.warm()
    rows = np.ones((1, 1), np.uint64)
    columns = np.zeros(1, np.int64)
    heads, nexts = np.full(8, END, np.int32), np.full(8, END, np.int32)
    untils, weights, out = np.ones(8, np.int64), np.ones(8, np.int64), np.zeros(8, np.int64)
    table = np.zeros((8, 1), np.uint64)
    index_insert(table, 0, 1, columns, heads, nexts)
    index_probe(rows, columns, table, columns, heads, nexts, untils, 0, out, out.copy())
    heads[:] = END
    first, shown, marks = np.full(8, END, np.int32), np.full(8, NEVER, np.int64), np.zeros(8, np.uint8)
    distinct_add(
        rows, weights[:1], untils[:1], columns, table, heads, nexts, first,
        untils, weights, nexts.copy(), shown, 0, 0, marks,
    )  # fmt: skip
    distinct_show(0, 1, first, untils, weights, nexts, shown, marks, out, out.copy(), out.copy())
