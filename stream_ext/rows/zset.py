"""Z-sets: rows of encoded ids, each with an integer weight.

A Z-set is both a collection and a change to one: a negative weight retracts. A row of windowed data also carries its
validity, `until`: the last evaluation time at which it counts. So its expiry is known when it enters, and no operator
has to join it again when it leaves; a joined row is valid as long as all its parts. A retraction has a validity, too:
when this has ended, the retracted row is back.

Rows are stored as columns, one array for each variable, so that a join or a projection reads only the columns that it
needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from hbase_store.arrays import frozen, lexicographic

Ids = npt.NDArray[np.uint64]
Columns = tuple[Ids, ...]
Weights = npt.NDArray[np.int64]
Untils = npt.NDArray[np.int64]
Picks = npt.NDArray[np.intp] | npt.NDArray[np.int64] | npt.NDArray[np.bool_]

#: So few rows are picked out at once: to defer that would cost more.
_FEW = 256

#: The validity of rows that only an explicit retraction ends (rows of the store).
FOREVER = int(np.iinfo(np.int64).max)


class Deferred:
    """Some values of a column, picked out when they are read first; columns that nobody reads are never copied."""

    __slots__ = ("_values", "base", "pick")

    def __init__(self, base: Ids, pick: Picks) -> None:
        self.base, self.pick = base, pick
        self._values: Ids | None = None

    def values(self) -> Ids:
        if self._values is None:
            self._values = self.base[self.pick]
        return self._values

    def arrays(self) -> Sequence[npt.NDArray[Any]]:
        """The arrays that it refers to, to count their bytes."""
        return (self.base, self.pick) if self._values is None else (self.base, self.pick, self._values)


class ZSet(msgspec.Struct, frozen=True, eq=False):
    """`count` rows, a column for each variable (0: unbound). Rows may repeat; `consolidate` sums them.

    `stored` are the columns as they are stored; `columns` are their values."""

    stored: tuple[Ids | Deferred, ...]
    count: int
    weights: Weights | None = None  # None: each row once
    untils: Untils | None = None  # None: all of them for ever; see `shared`
    #: Columns that alone prove that no added row was in the collection at the step before, and that no two rows cancel
    #: each other out: then new rows need not be looked up among the removed ones.
    fresh: frozenset[int] | None = None
    omitted: int = 0  # how many removed rows are left out, because no operator reads them

    def __len__(self) -> int:
        return self.count

    @property
    def width(self) -> int:
        return len(self.stored)

    @property
    def columns(self) -> Columns:
        return tuple(map(_column_values, self.stored))

    def column(self, place: int) -> Ids:
        return _column_values(self.stored[place])

    def take(self, which: Picks) -> ZSet:
        if which.dtype == np.bool_:
            which = np.flatnonzero(which)
        count = len(which)
        return ZSet(
            tuple(_column_values(column)[which] for column in self.stored)
            if count <= _FEW
            else _picked(self.stored, which),
            count,
            None if self.weights is None else self.weights[which],
            None if self.untils is None else validities(self.untils, which, count),
            self.fresh,
        )

    def crossed(self, times: int) -> ZSet:
        """Each row so many times, one copy after the other."""
        return self if times == 1 else self.take(np.arange(self.count).repeat(times))

    def with_columns(self, columns: tuple[Ids | Deferred, ...]) -> ZSet:
        """The same rows under other columns."""
        return ZSet(columns, self.count, self.weights, self.untils, None, self.omitted)

    def negated(self) -> ZSet:
        return ZSet(self.stored, self.count, -self.weight_array(), self.untils)

    def weight_array(self) -> Weights:
        return np.ones(self.count, np.int64) if self.weights is None else self.weights

    def until_array(self) -> Untils:
        return np.full(self.count, FOREVER, np.int64) if self.untils is None else spread(self.untils)


def _column_values(column: Ids | Deferred) -> Ids:
    return column.values() if isinstance(column, Deferred) else column


def _picked(columns: tuple[Ids | Deferred, ...], which: Picks) -> tuple[Deferred, ...]:
    """The columns with `which` deferred; columns that were picked by the same places before share the new places."""
    composed: dict[int, Picks] = {}
    found = []
    for column in columns:
        if not isinstance(column, Deferred):
            found.append(Deferred(column, which))
            continue
        key = id(column.pick)
        if key not in composed:
            composed[key] = column.pick[which]
        found.append(Deferred(column.base, composed[key]))
    return tuple(found)


def shared(until: int, count: int) -> Untils:
    """The validity of rows that all have the same one, stored once."""
    return np.ndarray((count,), np.int64, np.array([until]), 0, (0,))


def are_shared(untils: Untils) -> bool:
    return untils.strides == (0,)


def spread(untils: Untils) -> Untils:
    """One validity for each row, as kernels expect."""
    return np.ascontiguousarray(untils)


def latest(untils: Untils) -> int:
    """The greatest validity of some rows."""
    return int(untils[0] if are_shared(untils) else untils.max())


def soonest(untils: Untils) -> int:
    """The least validity of some rows."""
    return int(untils[0] if are_shared(untils) else untils.min())


def validities(untils: Untils, which: Picks, count: int) -> Untils:
    """The validities of the rows `which`, of which there are so many."""
    return shared(int(untils[0]), count) if count and are_shared(untils) else untils[which]


def ending_earlier(untils: Untils, by: int) -> Untils:
    """The validities, each shorter by so much; what is valid for ever stays so."""
    if are_shared(untils) and len(untils):
        until = int(untils[0])
        return untils if until == FOREVER else shared(until - by, len(untils))
    earlier: Untils = np.where(untils == FOREVER, FOREVER, untils - by)
    return earlier


def of_shorter_windows(change: ZSet, by: int, time: int) -> ZSet:
    """Of a change at `time` what it would be if windows were shorter by so much: its rows end earlier, those that would
    have ended before are not there."""
    if change.untils is None or not change.count:
        return change
    untils = ending_earlier(change.untils, by)
    kept = untils[:1] >= time if are_shared(untils) else untils >= time
    if not np.count_nonzero(kept):
        return empty(change.width)
    change = msgspec.structs.replace(change, untils=untils)
    return change if kept.all() else change.take(kept)


@cache
def empty(width: int) -> ZSet:
    return ZSet(tuple(np.empty(0, np.uint64) for _ in range(width)), 0)


def unit() -> ZSet:
    """One row without columns: the solution of an empty pattern, with which a chain of joins begins."""
    return ZSet((), 1)


def of_columns(columns: Sequence[Ids], untils: Untils | None = None, weights: Weights | None = None) -> ZSet:
    """Rows that have at least one column; from the store unless validities are given."""
    return ZSet(tuple(columns), len(columns[0]), weights, untils)


def concat(parts: Sequence[ZSet], width: int) -> ZSet:
    parts = [part for part in parts if part.count]
    if not parts:
        return empty(width)
    if len(parts) == 1:
        return parts[0]
    every_once = all(part.weights is None for part in parts)
    all_forever = all(part.untils is None for part in parts)
    return ZSet(
        tuple(np.concatenate([part.column(i) for part in parts]) for i in range(width)),
        sum(part.count for part in parts),
        None if every_once else np.concatenate([part.weight_array() for part in parts]),
        None if all_forever else np.concatenate([part.until_array() for part in parts]),
    )


def sum_equal_rows(columns: Columns, weights: Weights) -> tuple[Columns, Weights]:
    """Distinct rows in lexicographic order, with the sum of their weights; none of weight zero."""
    if not len(weights):
        return columns, weights
    if not columns:
        total = weights.sum(keepdims=True)
        return columns, total if total[0] else total[:0]
    order = lexicographic(columns)
    columns, weights = tuple(column[order] for column in columns), weights[order]
    new = np.zeros(len(weights), np.bool_)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(new)
    sums = np.add.reduceat(weights, starts)
    nonzero = sums != 0
    starts = starts[nonzero]
    return tuple(column[starts] for column in columns), sums[nonzero]


def in_order(columns: Columns, weights: Weights) -> tuple[Columns, Weights]:
    """The same rows in lexicographic order."""
    if len(weights) < 2 or not columns:
        return columns, weights
    order = lexicographic(columns)
    return tuple([column[order] for column in columns]), weights if are_once(weights) else weights[order]


def packed(columns: Columns, untils: Untils | None, count: int) -> npt.NDArray[np.int64]:
    """The rows as kernels take them: a matrix with a line of validities, and one for each column."""
    matrix = np.empty((1 + len(columns), count), np.int64)
    matrix[0] = FOREVER if untils is None else untils
    for place, column in enumerate(columns, 1):
        matrix[place] = column
    return matrix


def consolidate(change: ZSet) -> ZSet:
    """Equal rows of equal validity summed, in lexicographic order, none of weight zero."""
    if change.weights is not None and change.count < 2:
        return change.take(change.weights != 0)
    keyed = (change.until_array().view(np.uint64), *change.columns)
    columns, weights = sum_equal_rows(keyed, change.weight_array())
    return ZSet(columns[1:], len(weights), weights, columns[0].view(np.int64))


class _Ones:
    """Weights of rows that occur once: all are slices of one array of ones, which grows."""

    def __init__(self) -> None:
        self.all: Weights = np.ones(1 << 12, np.int64)

    def front(self, count: int) -> Weights:
        ones = self.all
        if len(ones) < count:
            self.all = ones = np.ones(max(count, 2 * len(ones)), np.int64)
        return frozen(ones[:count])


_ONES = _Ones()


def once(count: int) -> Weights:
    """The weights of so many rows that are there once."""
    return _ONES.front(count)


def are_once(weights: Weights) -> bool:
    """Whether these are weights that `once` has returned; a few others may be 1, too."""
    return weights.base is _ONES.all


def repeated(columns: Columns, weights: Weights) -> Columns:
    """The rows of a bag, each as often as its weight says."""
    if not len(weights) or are_once(weights) or (int(weights.max()) == 1 == int(weights.min())):
        return columns
    return tuple(np.repeat(column, weights) for column in columns)
