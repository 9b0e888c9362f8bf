"""Columns of ids: their types, their lexicographic order, and what is gathered from them.

Rows are kept as parallel columns. Sorting rows is fast if a row fits into one machine word: ids of one kind
lie close together, so a column minus its smallest value is narrow, and two or three of them usually fit."""

from __future__ import annotations

from collections.abc import Sequence
from operator import lt
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Item = TypeVar("Item", bound=np.generic)
Columns = tuple[Ids, ...]

#: So few rows are sorted as they are: to make a word of each would take longer.
_FEW = 64
#: Of so few values it is looked first whether they ascend.
_FEW_VALUES = 16

NO_IDS: Ids = np.empty(0, np.uint64)
NO_IDS.flags.writeable = False


def as_ids(values: npt.ArrayLike) -> Ids:
    return np.ascontiguousarray(values, dtype=np.uint64)


def frozen(array: npt.NDArray[Item]) -> npt.NDArray[Item]:
    """The same memory, read-only: results are shared by many threads."""
    view = array.view()
    view.flags.writeable = False
    return view


def is_sorted_distinct(columns: Columns) -> bool:
    """Whether rows ascend strictly, compared column by column."""
    if len(columns[0]) < 2:
        return True
    tied: Mask | None = None
    for column in columns:
        left, right = column[:-1], column[1:]
        wrong = left > right if tied is None else (left > right) & tied
        if wrong.any():
            return False
        equal = left == right
        tied = equal if tied is None else tied & equal
    return not (tied is not None and tied.any())


def sort_distinct(columns: Columns) -> Columns:
    """Rows in order, each once."""
    if is_sorted_distinct(columns):
        return columns
    bases, widths = _shape(columns)
    if sum(widths) <= 64:
        packed = np.sort(_pack(columns, bases, widths))
        return _unpack(packed[_first_of_run((packed,))], bases, widths)
    order = np.lexsort(columns[::-1])
    columns = tuple(column[order] for column in columns)
    first = _first_of_run(columns)
    return tuple(column[first] for column in columns)


def lexicographic(columns: Columns) -> npt.NDArray[np.intp]:
    """The places of the rows in order; of equal rows, in whatever order."""
    if len(columns[0]) > _FEW:
        bases, widths = _shape(columns)
        if sum(widths) <= 64:
            return np.argsort(_pack(columns, bases, widths))  # in some machine words at a time; not so a stable sort
    return np.lexsort(columns[::-1])


def last_of_each(columns: Columns, flags: Mask) -> tuple[Columns, Mask]:
    """Rows in order, each once, with the flag of its last occurrence."""
    if len(flags) == 1:
        return columns, flags
    if flags.all() or not flags.any():
        distinct = sort_distinct(columns)
        return distinct, np.full(len(distinct[0]), bool(flags.all()))
    bases, widths = _shape(columns)
    if sum(widths) <= 64:
        packed = _pack(columns, bases, widths)
        order = np.argsort(packed, kind="stable")
    else:
        order = np.lexsort(columns[::-1])  # stable as well
    columns = tuple(column[order] for column in columns)
    last = np.ones(len(order), bool)
    last[:-1] = _first_of_run(columns)[1:]
    return tuple(column[last] for column in columns), flags[order][last]


def distinct_values(column: Ids) -> Ids:
    if len(column) <= _FEW_VALUES:
        values = column.tolist()
        if all(map(lt, values, values[1:])):
            return column
    return distinct_of_ascending(np.sort(column))


def distinct_of_ascending(column: Ids) -> Ids:
    return column[_first_of_run((column,))]


def group_rows(column: Ids) -> list[tuple[int, Offsets | slice]]:
    """For each distinct value the rows that have it, in order; a slice if they are all."""
    if len(column) == 0:
        return []
    first = column[0]
    if len(column) == 1 or bool((column == first).all()):
        return [(int(first), slice(None))]
    distinct = distinct_values(column)
    ranks = np.searchsorted(distinct, column)
    # Sorting numbers of 16 bits is a radix sort, ten times faster.
    order = np.argsort(ranks.astype(np.uint16) if len(distinct) < 1 << 16 else ranks, kind="stable")
    ends = np.cumsum(np.bincount(ranks, minlength=len(distinct)))
    return list(zip(distinct.tolist(), np.split(order, ends[:-1]), strict=True))


def gather_ranges(starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
    """(offsets of each range in the result, indices of all members), for the ranges starts[i]:ends[i]."""
    counts = ends - starts
    if bool((counts == 1).all()):
        return np.arange(len(starts) + 1), starts
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets, np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], ends - starts)


def concatenate(parts: Sequence[Ids]) -> Ids:
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else NO_IDS


def _first_of_run(columns: Columns) -> Mask:
    first = np.ones(len(columns[0]), bool)
    if len(first) > 1:
        first[1:] = columns[0][1:] != columns[0][:-1]
        for column in columns[1:]:
            first[1:] |= column[1:] != column[:-1]
    return first


def _shape(columns: Columns) -> tuple[list[int], list[int]]:
    """The smallest value of each column, and how many bits the others need above it."""
    bases = [int(column.min()) for column in columns]
    widths = [(int(column.max()) - base).bit_length() for column, base in zip(columns, bases, strict=True)]
    return bases, widths


def _pack(columns: Columns, bases: list[int], widths: list[int]) -> Ids:
    packed = columns[0] - np.uint64(bases[0])
    for column, base, width in zip(columns[1:], bases[1:], widths[1:], strict=True):
        # A shift by 64 bits is not one; then all before were constant.
        packed = (packed << np.uint64(width) if width < 64 else np.zeros_like(packed)) | (column - np.uint64(base))
    return packed


def _unpack(packed: Ids, bases: list[int], widths: list[int]) -> Columns:
    columns: list[Ids] = []
    for base, width in zip(reversed(bases), reversed(widths), strict=True):
        mask = np.uint64((1 << width) - 1)
        columns.append((packed & mask) + np.uint64(base))
        packed = packed >> np.uint64(width) if width < 64 else np.zeros_like(packed)
    return tuple(reversed(columns))
