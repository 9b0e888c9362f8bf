"""Z-sets: rows of encoded ids, each with an integer weight.

A Z-set is both a collection and a change to one: a negative weight retracts. A row of windowed data also carries its
validity, `until`: the last evaluation time at which it counts. What expires is thereby said once, on entry, and no
operator has to join it again on the way out; a joined row is valid as long as all that it was made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint64]  # one row a solution, one column a variable; 0 = unbound
Weights = npt.NDArray[np.int64]
Untils = npt.NDArray[np.int64]

#: The validity of what only an explicit retraction ends (rows of the store).
FOREVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class ZSet:
    """Rows (n x m), a weight and a validity for each. Rows may repeat; `consolidate` sums them."""

    rows: Rows
    weights: Weights
    untils: Untils

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> ZSet:
        return ZSet(self.rows[which], self.weights[which], self.untils[which])


def empty(width: int) -> ZSet:
    return ZSet(np.empty((0, width), np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))


def unit() -> ZSet:
    """The one row without columns: what an empty pattern answers, and where a chain of joins begins."""
    return ZSet(np.empty((1, 0), np.uint64), np.ones(1, np.int64), np.full(1, FOREVER, np.int64))


def of_rows(rows: Rows, untils: Untils | None = None) -> ZSet:
    """Each row once, from the store unless validities are given."""
    return ZSet(rows, np.ones(len(rows), np.int64), np.full(len(rows), FOREVER, np.int64) if untils is None else untils)


def concat(parts: list[ZSet], width: int) -> ZSet:
    parts = [part for part in parts if len(part)]
    if not parts:
        return empty(width)
    if len(parts) == 1:
        return parts[0]
    return ZSet(
        np.concatenate([p.rows for p in parts]),
        np.concatenate([p.weights for p in parts]),
        np.concatenate([p.untils for p in parts]),
    )


def sum_equal_rows(rows: Rows, weights: Weights) -> tuple[Rows, Weights]:
    """Distinct rows in lexicographic order, with the sum of their weights; none of weight zero."""
    if not len(rows):
        return rows, weights
    if not rows.shape[1]:
        total = weights.sum(keepdims=True)
        return (rows[:1], total) if total[0] else (rows[:0], total[:0])
    order = np.lexsort(rows.T[::-1])
    rows, weights = rows[order], weights[order]
    starts = np.flatnonzero(np.concatenate(([True], (rows[1:] != rows[:-1]).any(axis=1))))
    sums = np.add.reduceat(weights, starts)
    kept = sums != 0
    return rows[starts[kept]], sums[kept]


def consolidate(change: ZSet) -> ZSet:
    """Equal rows of equal validity summed, in lexicographic order, none of weight zero."""
    if len(change) < 2:
        return change.take(change.weights != 0)
    keyed = np.concatenate([change.untils.view(np.uint64)[:, None], change.rows], axis=1)
    rows, weights = sum_equal_rows(keyed, change.weights)
    return ZSet(np.ascontiguousarray(rows[:, 1:]), weights, rows[:, 0].copy().view(np.int64))
