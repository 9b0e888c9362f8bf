"""A key table: keys of one or more ids, numbered in order of first appearance.

The number of a key (its *slot*) is where everything else that is known of it stands, in arrays by slot."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, Mask, frozen
from stream_ext import group_kernels as kernels

Slots = npt.NDArray[np.int32]
Cell = TypeVar("Cell", bound=np.generic)

_LEAST_CAPACITY = 1024
#: Buckets for each slot that there is room for: few keys share one then.
_BUCKETS_PER_SLOT = 2


class KeyTable:
    """Keys come as matrices with a line for each of their ids."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._allocate(_LEAST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self.keys = np.empty((self.width, capacity), np.uint64)
        self._nexts = np.empty(capacity, np.int32)
        self._heads = np.full(_BUCKETS_PER_SLOT * capacity, kernels.END, np.int32)
        self.used = 0

    @property
    def capacity(self) -> int:
        return self.keys.shape[1]

    def number(self, rows: Ids) -> Slots:
        """The slot of each key; keys that are new get the next ones."""
        slots = np.empty(rows.shape[1], np.int32)
        rows, done = frozen(rows), 0
        while True:
            done, self.used = kernels.number_keys(rows, done, self.keys, self.used, self._heads, self._nexts, slots)
            if done == len(slots):
                return slots
            self._adopt(self.keys[:, : self.used], 4 * self.capacity)

    def keep(self, which: Mask) -> Slots:
        """Forgets the keys that are not among `which`; the new slot of each old one (END for those forgotten)."""
        renumbered = np.full(self.used, kernels.END, np.int32)
        kept = self.keys[:, : self.used][:, which]
        renumbered[which] = np.arange(kept.shape[1], dtype=np.int32)
        self.renew(kept)
        return renumbered

    def renew(self, keys: Ids) -> None:
        """Holds exactly these keys, which are distinct, in this order."""
        capacity = _LEAST_CAPACITY
        while capacity < 2 * keys.shape[1]:
            capacity *= 2
        self._adopt(keys, capacity)

    def _adopt(self, keys: Ids, capacity: int) -> None:
        self._allocate(capacity)
        self.used = keys.shape[1]
        self.keys[:, : self.used] = keys
        kernels.chain_keys(self.keys, self.used, self._heads, self._nexts)


def fitted(array: npt.NDArray[Cell], capacity: int) -> npt.NDArray[Cell]:
    """The array with room for so many slots (its last axis); what is added is zero."""
    if array.shape[-1] >= capacity:
        return array
    more = np.zeros((*array.shape[:-1], capacity), array.dtype)
    more[..., : array.shape[-1]] = array
    return more
