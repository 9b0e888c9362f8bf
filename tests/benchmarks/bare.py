# mypy: disallow-untyped-defs=False
# (numba infers the types of kernels)
"""The bare loop: what a machine does of a workload when nothing but that workload is written down.

Many standing filters over one stream: a table of their keys is made once, each element is looked up in it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

Longs = npt.NDArray[np.int64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(40)


def filters_ms(keys: Longs, values: Longs, filters: Longs, expected: Sequence[tuple[int, int]]) -> float:
    """Of a batch: the median. Keys and values have a line a batch; `expected` are (rows, checksum) of each."""
    table = np.full((4 << len(filters).bit_length(), 2), -1, np.int64)
    _fill(filters, table)
    out, seconds = np.empty((2, keys.shape[1] + 1), np.int64), []
    for batch in range(len(keys)):
        began = time.perf_counter()
        found = _hits(keys[batch], values[batch], table, out)
        seconds.append(time.perf_counter() - began)
        answered = found, int((out[0, :found] ^ out[1, :found]).sum())
        if answered != expected[batch]:
            raise AssertionError(f"batch {batch}: the bare loop finds {answered}, but {expected[batch]} expected")
    return round(statistics.median(seconds[2:]) * 1e3, 4)


@njit
def _fill(filters, table):
    mask = np.uint64(len(table) - 1)
    for i in range(len(filters)):
        at = (np.uint64(filters[i]) * _FACTOR >> _SHIFT) & mask
        while table[at, 0] >= 0:
            at = (at + np.uint64(1)) & mask
        table[at, 0], table[at, 1] = filters[i], i


@njit
def _hits(keys, values, table, out):
    """Rows (filter, value) of the elements that a filter has; nearly always the first place says it, without a
    branch."""
    mask, found = np.uint64(len(table) - 1), 0
    for i in range(len(keys)):
        at = (np.uint64(keys[i]) * _FACTOR >> _SHIFT) & mask
        while table[at, 0] >= 0 and table[at, 0] != keys[i]:
            at = (at + np.uint64(1)) & mask
        out[0, np.uint64(found)], out[1, np.uint64(found)] = table[at, 1], values[i]
        found += table[at, 0] == keys[i]
    return found
