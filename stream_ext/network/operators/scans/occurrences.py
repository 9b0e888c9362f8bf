"""Occurrences of triples in streams, compared: by time, then arrival, then place in the document.

A solution is made of several occurrences. Solutions are ordered by the latest of them; if that is equal, by all of them
in the order of the patterns in the text. A missing occurrence (0) is before all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, Mask

_PARTS = 3  # columns of an occurrence

Columns = tuple[Ids, ...]
Slots = npt.NDArray[np.int32]
Signed = npt.NDArray[np.int64]
Picks = npt.NDArray[np.intp]


def is_later(ones: Columns, others: Columns) -> Mask:
    """For each pair, whether the first is the later one."""
    later = np.zeros(len(ones[0]), np.bool_)
    for one, other in zip(ones[::-1], others[::-1], strict=True):
        later = (one > other) | ((one == other) & later)
    return later


def latest(columns: Columns) -> Columns:
    """The latest of the occurrences in each row."""
    found = columns[:_PARTS]
    for start in range(_PARTS, len(columns), _PARTS):
        other = columns[start : start + _PARTS]
        later = is_later(other, found)
        found = tuple(np.where(later, new, old) for new, old in zip(other, found, strict=True))
    return found


def keys(columns: Columns) -> Columns:
    """The keys by which rows of these occurrences are ordered, the most important one first. None: there are none."""
    return columns if len(columns) <= _PARTS else (*latest(columns), *columns)


def in_order(owners: Slots, keys: Sequence[Ids | Signed]) -> Picks:
    """Occurrences sorted by owner (a row, a group or a query), and those of one owner by these keys."""
    sorters: list[npt.NDArray[np.generic]] = [*keys[::-1], owners]
    return np.lexsort(sorters)


def first_of_each(owners: Slots, keys: Sequence[Ids] | Sequence[Signed]) -> Picks:
    """The first row of each owner; several, if they are equal in all keys. The rows of an owner must be together."""
    picks = np.arange(len(owners))
    for key in keys:
        starts = np.flatnonzero(_begins(owners[picks]))
        if len(starts) == len(picks):
            break
        least = np.minimum.reduceat(key[picks], starts)
        picks = picks[key[picks] == np.repeat(least, np.diff(starts, append=len(picks)))]
    return picks


def firsts(owners: Slots, values: Ids) -> Picks:
    """The first place of each value of each owner, in the order of the rows."""
    order = np.lexsort((values, owners))  # stable
    return np.sort(order[_begins(owners[order], values[order])])


def tied(keys: Sequence[Ids | Slots], order: Picks) -> Picks:
    """The rows that are equal in all keys to a neighbour in this order."""
    begins = _begins(*(key[order] for key in keys))
    single = begins & np.append(begins[1:], True) if len(begins) else begins
    return order[~single]


def _begins(*columns: Ids | Slots) -> Mask:
    """Which rows differ from the one before."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new
