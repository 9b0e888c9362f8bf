"""Rows of few keys, picked out of blocks as they are stored, without unpacking all of them.

Of a column that does not fit into memory, blocks are read again and again for a key or two each. To unpack a block
takes much longer than to find one key in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from hbase_store.arrays import Ids, Mask, Offsets, frozen
from hbase_store.layout.columns import HEADER_BYTES, STEPS
from hbase_store.layout.run_blocks import (
    BLOCK_HEADER_BYTES,
    BLOCK_ROWS,
    DELETIONS,
    WIDE,
    StoredBlock,
    pack_block,
    unpack_block,
)
from hbase_store.layout.sealed import corrupt
from hbase_store.sorted.view import View, rows_of, view_of

#: What the loop answers instead of a number of rows.
_DAMAGED, _UNUSUAL = -1, -2
_STRIDE = 64


@njit(cache=True, nogil=True)
def _number(data, at, width):  # type: ignore[no-untyped-def]
    number = np.uint64(0)
    for i in range(width):
        number |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return number


@njit(cache=True, nogil=True)
def _sum(data, body, width, start, stop):  # type: ignore[no-untyped-def]
    total = np.uint64(0)
    if width == 1:
        for i in range(body + start, body + stop):
            total += np.uint64(data[i])
    elif width:
        for i in range(start, stop):
            total += _number(data, body + i * width, width)
    return total


@njit(cache=True, nogil=True)
def _column(data, at):  # type: ignore[no-untyped-def]
    """(mode, width, count, base, where the numbers begin, where the column ends: beyond the data if it is cut off)"""
    if at + HEADER_BYTES > len(data):
        return 0, 0, 0, np.uint64(0), at, len(data) + 1
    width, count = np.int64(data[at + 1]), np.int64(_number(data, at + 4, 4))
    body = at + HEADER_BYTES
    return np.int64(data[at]), width, count, _number(data, at + 8, 8), body, body + width * count


@njit(cache=True, nogil=True)
def _pick(data, keys, out_keys, out_values, out_graphs, out_inserted, size):  # type: ignore[no-untyped-def]
    """Appends the rows of ascending, distinct keys; the new size."""
    flags, rows = data[0], np.int64(_number(data, 4, 4))
    mode, width, count, base, body, at = _column(data, BLOCK_HEADER_BYTES)
    many_mode, many_width, many_count, many_base, many_body, at = _column(data, at)
    value_mode, value_width, value_count, value_base, value_body, at = _column(data, at)
    graph_mode, graph_width, graph_count, graph_base, graph_body = mode, width, rows, base, body
    wide = flags & WIDE != 0
    if wide:
        graph_mode, graph_width, graph_count, graph_base, graph_body, at = _column(data, at)
    flagged = flags & DELETIONS != 0
    if at + (rows + 7) // 8 * flagged > len(data) or many_count != count or value_count != rows or graph_count != rows:
        return _DAMAGED
    if many_mode == STEPS:
        return _UNUSUAL
    place = value_place = graph_place = 0
    row = np.int64(0)
    key, value, graph = base, value_base, graph_base
    if mode != STEPS and count:
        key = base + _number(data, body, width)
    for wanted in keys:
        before = place
        if mode == STEPS:
            while key < wanted and place + _STRIDE < count:  # many steps at a time, which is much quicker
                far = key + _sum(data, body, width, place + 1, place + 1 + _STRIDE)
                if far > wanted:
                    break
                key = far
                place += _STRIDE
            while key < wanted and place + 1 < count:
                place += 1
                key += _number(data, body + place * width, width)
        elif key < wanted:
            low, high = place, count
            while low < high:
                middle = (low + high) >> 1
                if base + _number(data, body + middle * width, width) < wanted:
                    low = middle + 1
                else:
                    high = middle
            if low == count:
                break
            place = low
            key = base + _number(data, body + place * width, width)
        row += np.int64(many_base) * (place - before) + np.int64(_sum(data, many_body, many_width, before, place))
        if key != wanted:
            continue
        end = row + np.int64(many_base + _number(data, many_body + place * many_width, many_width))
        if end > rows:
            return _DAMAGED
        for at_row in range(row, end):
            if value_mode == STEPS:
                value += _sum(data, value_body, value_width, value_place, at_row + 1)
                value_place = at_row + 1
            else:
                value = value_base + _number(data, value_body + at_row * value_width, value_width)
            out_keys[size], out_values[size] = wanted, value
            if wide:
                if graph_mode == STEPS:
                    graph += _sum(data, graph_body, graph_width, graph_place, at_row + 1)
                    graph_place = at_row + 1
                else:
                    graph = graph_base + _number(data, graph_body + at_row * graph_width, graph_width)
                out_graphs[size] = graph
            out_inserted[size] = not flagged or data[at + at_row // 8] >> (7 - at_row % 8) & 1 == 1
            size += 1
    return size


@dataclass(slots=True)
class _Rows:
    """Room for the rows of some blocks, and those picked so far."""

    wide: bool
    blocks: int
    size: int = 0
    columns: tuple[Ids, Ids, Ids] = field(init=False)
    inserted: Mask = field(init=False)

    def __post_init__(self) -> None:
        most = self.blocks * BLOCK_ROWS
        keys, values = np.empty(most, np.uint64), np.empty(most, np.uint64)
        self.columns = keys, values, np.empty(most if self.wide else 0, np.uint64)
        self.inserted = np.empty(most, np.bool_)

    def add(self, block: StoredBlock, keys: Ids) -> None:
        payload = np.frombuffer(block.payload, np.uint8)
        size = _pick(payload, frozen(keys), *self.columns, self.inserted, self.size)
        if size == _UNUSUAL:
            self._append(rows_of(unpack_block(block.value, block.key), keys))
            return
        if size < 0:
            raise corrupt("run", block.key, "the columns of a block do not fit each other")
        self.size = size

    def _append(self, view: View) -> None:
        place = slice(self.size, self.size + len(view))
        for mine, theirs in zip(self.columns, view.columns, strict=False):
            mine[place] = theirs
        self.inserted[place] = True if view.inserted is None else view.inserted
        self.size = place.stop

    def view(self) -> View:
        """Copied: the room for all rows of all blocks is let go."""
        columns = tuple(column[: self.size].copy() for column in self.columns[: 2 + self.wide])
        return view_of(columns, self.inserted[: self.size].copy())


def picked(blocks: Sequence[StoredBlock], keys: Sequence[Ids], wide: bool) -> View:
    """The rows of some keys of each block, in order; keys ascend and are distinct."""
    rows = _Rows(wide, len(blocks))
    for block, of_block in zip(blocks, keys, strict=True):
        rows.add(block, of_block)
    return rows.view()


def keys_of_blocks(first: Ids, places: Offsets, keys: Ids) -> Iterator[Ids]:
    """Which of ascending keys may be in each of these blocks, of which all first keys are given."""
    starts = keys.searchsorted(first[places], "left")
    ends = keys.searchsorted(np.append(first, np.uint64(0xFFFFFFFFFFFFFFFF))[places + 1], "right")
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield keys[start:end]


def warm() -> None:
    """Compiles what is not compiled yet."""
    one = np.ones(1, np.uint64)
    picked([StoredBlock(b"", pack_block(View((one, one))))], [one], False)
