"""A key table: keys of one or more ids, numbered in order of first appearance.

The number of a key (its *slot*) is the place of all other data about it: frequently used data is in its *cells*, behind
the key itself; the rest is in arrays by slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, Mask, frozen
from stream_ext.rows.kernels import group as kernels
from stream_ext.rows.kernels import path as path_kernels

Slots = npt.NDArray[np.int32]
Signed = npt.NDArray[np.int64]
Cell = TypeVar("Cell", bound=np.generic)

_LEAST_CAPACITY = 16
#: Tables with less room than this grow to four times as much.
_SMALL = 1024
_CACHE_LINE = 8  # so many numbers
#: Places of the hash table for each slot that there is room for: few are taken by others then.
_PLACES_PER_SLOT = 4


class KeyTable:
    """Keys come as matrices with a line for each of their ids; cells have a line for each key. New cells are 0."""

    def __init__(self, width: int, more: int = 0) -> None:
        """Each key has `width` ids, and `more` cells behind them."""
        self.width = width
        self._more = more
        self._allocate(_LEAST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self.cells = line_up(np.zeros, capacity, self.width + self._more)
        self._entries = np.zeros(_PLACES_PER_SLOT * capacity, np.uint64)
        self.used = 0

    @property
    def capacity(self) -> int:
        return len(self.cells)

    def number(self, rows: Ids) -> Slots:
        """The slot of each key; keys that are new get the next ones."""
        slots = np.empty(rows.shape[1], np.int32)
        signed, done = frozen(rows.view(np.int64)), 0
        while True:
            done, self.used = kernels.number_keys(signed, done, self.cells, self.used, self._entries, slots)
            if done == len(slots):
                return slots
            self._adopt(self.cells[: self.used], self.capacity * (4 if self.capacity < _SMALL else 2))

    def reach(self, sources: Ids, targets: Ids, at: int, edges_max: int) -> int:
        """Keys are (start, node): adds the nodes that are reached from the keys from `at` on; returns the first place
        that is not expanded yet."""
        at, self.used = path_kernels.reach(sources, targets, at, self.cells, self.used, self._entries, edges_max)
        if self.used == self.capacity:
            self._adopt(self.cells[: self.used], self.capacity * (4 if self.capacity < _SMALL else 2))
        return at

    def cell(self, slots: Slots, place: int) -> Signed:
        """The values of one cell of each of these keys."""
        cell = np.empty(len(slots), np.int64)
        kernels.take_cells(frozen(slots), self.cells, place, cell)
        return cell

    def ids(self, slots: Slots, place: int) -> Ids:
        return self.cell(slots, place).view(np.uint64)

    def keep(self, which: Mask) -> Slots:
        """Forgets the keys that are not in `which`; returns the new slot of each old one (END if forgotten)."""
        renumbered = np.full(self.used, kernels.END, np.int32)
        remaining = self.cells[: self.used][which]
        renumbered[which] = np.arange(len(remaining), dtype=np.int32)
        self.renew(remaining)
        return renumbered

    def renew(self, cells: Signed) -> None:
        """Replaces all keys by these, with their cells, in this order; they are distinct."""
        capacity = _LEAST_CAPACITY
        while capacity < 2 * len(cells):
            capacity *= 2
        self._adopt(cells, capacity)

    def _adopt(self, cells: Signed, capacity: int) -> None:
        self._allocate(capacity)
        self.used = len(cells)
        self.cells[: self.used] = cells
        kernels.enter_keys(frozen(np.ascontiguousarray(cells.T[: self.width])), self._entries)


def line_up(make: Callable[[int, type[np.int64]], Signed], count: int, width: int) -> Signed:
    """Lines of cells, aligned with the lines of the machine's cache."""
    room = make(count * width + _CACHE_LINE, np.int64)
    start = -(room.ctypes.data // room.itemsize) % _CACHE_LINE
    return room[start : start + count * width].reshape(count, width)


def fitted(array: npt.NDArray[Cell], capacity: int) -> npt.NDArray[Cell]:
    """The array with room for so many slots; the new ones are zero."""
    if len(array) >= capacity:
        return array
    more = np.zeros((capacity, *array.shape[1:]), array.dtype)
    more[: len(array)] = array
    return more
