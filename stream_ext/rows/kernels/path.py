# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The loop of reachability: from the pairs (start, node) that are known, over sorted edges, to all that follow.

The pairs stand in a key table in the order in which they were found, so the table is also the queue of what is still
to be expanded."""

from __future__ import annotations

import numpy as np
from numba import njit

from hbase_store.arrays import frozen
from stream_ext.rows.kernels import group as group_kernels


@njit(cache=True, nogil=True)
def reach(sources, targets, at, cells, used, table, edges_max):
    """Expands the pairs from `at` on; `sources` ascend. Stops after so many edges, or where there is no more room.

    Returns (the first pair that is not expanded yet, pairs used)."""
    pair = np.empty((2, 1), np.int64)
    seen = 0
    while at < used and seen < edges_max:
        pair[0, 0] = cells[at, 0]
        node = np.uint64(cells[at, 1])
        low, high = 0, len(sources)
        while low < high:
            middle = (low + high) >> 1
            if sources[middle] < node:
                low = middle + 1
            else:
                high = middle
        while low < len(sources) and sources[low] == node:
            pair[1, 0] = np.int64(targets[low])
            low += 1
            seen += 1
            h = group_kernels.hash_of(pair, 0)
            slot, place = group_kernels.find(pair, 0, h, cells, table)
            if slot >= 0:
                continue
            if used == len(cells):
                return at, used
            cells[used, 0], cells[used, 1] = pair[0, 0], pair[1, 0]
            table[place] = group_kernels.entry_of(h, used)
            used += 1
        at += 1
    return at, used


def warm() -> None:
    column = frozen(np.ones(1, np.uint64))
    reach(column, column, 0, np.zeros((2, 2), np.int64), 0, np.zeros(4, np.uint64), 1)
