"""Occurrences of triples in streams, compared: by time, then arrival, then place in the document.

A solution is made of several. It stands where the latest of them stands; where that is the same one, by all of them in
the order of the patterns' text. One that is missing (0) is before all others."""

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
    """Of each pair whether the first is the later one."""
    later = np.zeros(len(ones[0]), np.bool_)
    for one, other in zip(ones[::-1], others[::-1], strict=True):
        later = (one > other) | ((one == other) & later)
    return later


def latest(columns: Columns) -> Columns:
    """Of the occurrences that stand side by side in each row."""
    found = columns[:_PARTS]
    for start in range(_PARTS, len(columns), _PARTS):
        other = columns[start : start + _PARTS]
        later = is_later(other, found)
        found = tuple(np.where(later, new, old) for new, old in zip(other, found, strict=True))
    return found


def keys(columns: Columns) -> Columns:
    """By what rows are ordered that are made of these occurrences; what counts most comes first. None: by nothing."""
    return columns if len(columns) <= _PARTS else (*latest(columns), *columns)


def in_order(owners: Slots, keys: Sequence[Ids | Signed]) -> Picks:
    """The rows of one owner after those of the other, by these keys."""
    sorters: list[npt.NDArray[np.generic]] = [*keys[::-1], owners]
    return np.lexsort(sorters)


def first_of_each(owners: Slots, keys: Sequence[Ids] | Sequence[Signed]) -> Picks:
    """Of rows where those of an owner stand together the first one of each owner; several, if these are equal in all
    keys."""
    picks = np.arange(len(owners))
    for key in keys:
        starts = np.flatnonzero(_begins(owners[picks]))
        if len(starts) == len(picks):
            break
        least = np.minimum.reduceat(key[picks], starts)
        picks = picks[key[picks] == np.repeat(least, np.diff(starts, append=len(picks)))]
    return picks


def firsts(owners: Slots, values: Ids) -> Picks:
    """Where each value of each owner stands first, in the order in which the rows stand."""
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
