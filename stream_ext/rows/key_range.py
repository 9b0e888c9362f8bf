"""Key range: which values of a variable are one shard's, if a query is divided among shards.

    ?sensor    id 17 -> range 0, id 18 -> range 1, id 19 -> range 1, ...

The ids of what the store and the streams have are the same in every process, so all processes agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

#: Not the factors of indexes of rows, which go by the upper bits of a product, too: all keys of a range would be in one
#: half of the buckets.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Some of the `count` ranges that the keys are divided into: `mine`."""

    count: int
    mine: frozenset[int]

    def contain(self, ids: Ids) -> Mask:
        """Which ids are in one of them."""
        mixed = (ids ^ (ids >> _HALF)) * _FIRST
        mixed = (mixed ^ (mixed >> _HALF)) * _SECOND
        # The upper half of a product is mixed well; multiplied by the count it is the number of a range.
        numbers = ((mixed >> _HALF) * np.uint64(self.count)) >> _HALF
        found: Mask = (
            np.isin(numbers, np.array(sorted(self.mine), np.uint64))
            if len(self.mine) != 1
            else (numbers == np.uint64(next(iter(self.mine))))
        )
        return found


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The solutions of a query whose `variable` is in these ranges. `is_summed`: its rows are summed with those of the
    other ranges before they become the result; `partial_groups`: they are what its groups have in these ranges."""

    variable: str
    ranges: Ranges
    is_summed: bool = False
    partial_groups: bool = False
