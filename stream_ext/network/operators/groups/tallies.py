"""Tallies: the counts and sums of each group, from which aggregates are computed and retracted.

A tally gets rows (a group's slot, a weight, the id of the argument) and has arrays by slot. Counts of bound rows and
sums of integers are stored directly, because addition has an inverse. For the other aggregates, `ValueOccurrences`
counts how often each value occurs in its group, and passes values that come or leave on to tallies of distinct
values."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Ids, frozen
from hbase_store.layout.terms import INTEGER, tag_of
from stream_ext.network.operators.groups.exact_sums import ExactSums, SumsOfRanges
from stream_ext.network.operators.groups.partial_groups import Array, PackedArray, PartialTally
from stream_ext.network.operators.groups.terms_of_groups import TermsOfGroups
from stream_ext.rows.kernels import group as kernels
from stream_ext.rows.key_table import KeyTable, Slots, fitted
from stream_ext.rows.zset import Weights

Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]

_CLEAN_LEAST = 4096
ONCE: Weights = frozen(np.empty(0, np.int64))  # to kernels: every row counts once


class Tally(Protocol):
    def fit(self, capacity: int) -> None:
        """Makes room for so many groups."""

    def keep(self, retained: npt.NDArray[np.intp], capacity: int) -> None:
        """The groups `retained` have the slots 0, 1, ... from now on; the others are forgotten."""

    def add(self, slots: Slots, weights: Weights, sign: int, ids: Ids) -> None:
        """Counts rows in (sign 1) or out (-1). Arrays are read-only; empty weights mean 1 each."""


class ValueCounts:
    """How many rows of each group have a value."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, np.int64)

    def fit(self, capacity: int) -> None:
        self.counts = fitted(self.counts, capacity)

    def keep(self, retained: npt.NDArray[np.intp], capacity: int) -> None:
        self.counts = fitted(self.counts[retained], capacity)

    def add(self, slots: Slots, weights: Weights, sign: int, ids: Ids) -> None:
        kernels.tally_bound(slots, weights, sign, ids, self.counts)

    def part(self, groups: int) -> PartialTally:
        return PartialTally((PackedArray.of(self.counts[:groups]),))

    def absorb(self, slots: Slots, part: PartialTally) -> None:
        """Adds what another process has counted, for groups that are distinct and have these slots here."""
        self.counts[slots] += part.numbers[0].array()


class RowCounts:
    """How many rows each group has."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, np.int64)

    def fit(self, capacity: int) -> None:
        self.counts = fitted(self.counts, capacity)

    def keep(self, retained: npt.NDArray[np.intp], capacity: int) -> None:
        self.counts = fitted(self.counts[retained], capacity)

    def add(self, slots: Slots, weights: Weights, sign: int, ids: Ids) -> None:
        kernels.add_counts(slots, weights, sign, self.counts)


class Sums:
    """The sum of the numbers of each group."""

    def __init__(self, terms: TermsOfGroups, of_ranges: bool = False) -> None:
        """`of_ranges`: some of the numbers are sums that were made elsewhere (`range_sums`)."""
        self.integers = np.zeros((0, 3), np.int64)  # how many inline integers, the low part of their sum, the high part
        self.others = SumsOfRanges(terms) if of_ranges else ExactSums(terms)

    def fit(self, capacity: int) -> None:
        self.integers = fitted(self.integers, capacity)
        self.others.fit(capacity)

    def keep(self, retained: npt.NDArray[np.intp], capacity: int) -> None:
        self.integers = fitted(self.integers[retained], capacity)
        self.others.keep(retained, capacity)

    def add(self, slots: Slots, weights: Weights, sign: int, ids: Ids) -> None:
        if kernels.tally_integers(slots, weights, sign, ids, self.integers):
            others = np.flatnonzero(tag_of(ids) != INTEGER)
            self.others.add(slots[others], frozen(weights[others]) if len(weights) else weights, sign, ids[others])

    def integers_of(self, slots: Slots) -> list[tuple[int, int]]:
        """Of each group, how many inline integers it has, and their sum."""
        return [(n, (high << kernels.LOW_BITS) + low) for n, low, high in self.integers[slots].tolist()]

    def plain(self, slots: Slots) -> Counts:
        """Of each group the sum of its inline integers, which is not great."""
        _, low, high = self.integers[slots].T
        found: Counts = (high << kernels.LOW_BITS) + low
        return found

    def part(self, groups: int) -> PartialTally:
        owners, lines, far = self.others.part(groups)
        numbers: tuple[Array, ...] = (self.integers[:groups], owners, lines)
        return PartialTally(tuple(map(PackedArray.of, numbers)), (), far)

    def absorb(self, slots: Slots, part: PartialTally) -> None:
        integers, owners, lines = (each.array() for each in part.numbers)
        self.integers[slots] += integers
        self.others.absorb(slots[owners], lines, part.far)


class ValueOccurrences:
    """How often each value (or row) occurs in each group."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._table = KeyTable(1 + width, more=2)  # keys are (slot of the group, ids)
        self._count, self._present = 1 + width, 2 + width  # places of the cells behind them
        self._first = np.zeros(0, np.int32)  # of each group's chain of members
        self._nexts = np.zeros(0, np.int32)
        self._changed: list[Slots] = []
        self._clean_at = _CLEAN_LEAST
        self.followers: list[Tally] = []

    @property
    def cells(self) -> int:
        """How many numbers the values take."""
        return self._table.used * (self._present + 1)

    def fit(self, capacity: int) -> None:
        before = len(self._first)
        self._first = fitted(self._first, capacity)
        self._first[before:] = kernels.END
        for follower in self.followers:
            follower.fit(capacity)

    def add(self, slots: Slots, weights: Weights, sign: int, columns: tuple[Ids, ...]) -> None:
        known = self._table.used
        entries = frozen(self._table.number(np.stack([slots.astype(np.uint64), *columns])))
        self._nexts = fitted(self._nexts, self._table.capacity)
        kernels.link_members(self._table.cells, known, self._table.used, self._first, self._nexts)
        kernels.count_members(entries, weights, sign, self._table.cells, self._count)
        self._changed.append(entries)

    def pass_on(self) -> None:
        """Passes on the values that were added or removed, when all rows of a step are counted."""
        for entries in self._changed:
            removed, added = np.empty(len(entries), np.int32), np.empty(len(entries), np.int32)
            lost, new = kernels.changed_members(entries, self._table.cells, self._count, self._present, removed, added)
            self._feed(removed[:lost], -1)
            self._feed(added[:new], 1)
        self._changed = []

    def _feed(self, entries: Slots, sign: int) -> None:
        if len(entries):
            slots, ids = frozen(self.owners(entries)), frozen(self.values(entries))
            for follower in self.followers:
                follower.add(slots, ONCE, sign, ids)

    # ---- of several processes

    def forget_changes(self) -> None:
        """All values go to another process, which passes them on."""
        self._changed = []

    def part(self) -> PartialTally:
        """The values of all groups."""
        cells = self._alive()
        numbers: tuple[Array, ...] = (cells[:, 0].astype(np.int32), cells[:, self._count])
        ids = (cells[:, 1 + i].view(np.uint64) for i in range(self._width))
        return PartialTally(tuple(map(PackedArray.of, numbers)), tuple(map(PackedArray.of, ids)))

    def absorb(self, slots: Slots, part: PartialTally) -> None:
        owners, counts = (each.array() for each in part.numbers)
        columns = tuple(column.array() for column in part.ids)
        self.add(frozen(slots[owners]), frozen(counts), 1, tuple(map(frozen, columns)))

    # ---- reading

    def of(self, slots: Slots) -> Slots:
        """The members that are in these groups and are no error."""
        entries = self.present(slots)
        bound: Slots = entries[self.values(entries) != 0]
        return bound

    def present(self, slots: Slots) -> Slots:
        """The members that are in these groups, those of a group together."""
        entries = np.empty(max(64, 2 * len(slots)), np.int32)
        while True:
            found = kernels.walk_members(
                frozen(slots), self._first, self._nexts, self._table.cells, self._present, entries
            )
            if found <= len(entries):
                return entries[:found]
            entries = np.empty(found, np.int32)

    def owners(self, entries: Slots) -> Slots:
        """The groups of members."""
        owners: Slots = self._table.cell(entries, 0).astype(np.int32)
        return owners

    def values(self, entries: Slots) -> Ids:
        return self._table.ids(entries, 1)

    def rest_of_rows(self, entries: Slots, start: int = 1) -> tuple[Ids, ...]:
        """The other columns of each value's row; with `start` 0 the whole row."""
        return tuple(self._table.ids(entries, 1 + i) for i in range(start, self._width))

    def counts(self, entries: Slots) -> Counts:
        return self._table.cell(entries, self._count)

    # ---- forgetting

    def clean(self) -> None:
        """Forgets values that have left their groups, when the number of values has doubled since the last time."""
        if self._table.used > self._clean_at:
            self._hold(self._alive(), len(self._first))
            self._clean_at = max(_CLEAN_LEAST, 2 * self._table.used)

    def keep(self, retained: npt.NDArray[np.intp], capacity: int) -> None:
        renumbered = np.full(len(self._first), kernels.END, np.int64)
        renumbered[retained] = np.arange(len(retained))
        cells = self._alive()
        cells[:, 0] = renumbered[cells[:, 0]]
        self._hold(cells[cells[:, 0] >= 0], capacity)
        for follower in self.followers:
            follower.keep(retained, capacity)

    def _alive(self) -> Counts:
        cells = self._table.cells[: self._table.used]
        alive: Counts = cells[cells[:, self._count] != 0]
        return alive

    def _hold(self, cells: Counts, groups: int) -> None:
        self._table.renew(cells)
        self._nexts = np.zeros(self._table.capacity, np.int32)
        self._first = np.full(groups, kernels.END, np.int32)
        kernels.link_members(self._table.cells, 0, self._table.used, self._first, self._nexts)


class Extremum:
    """The least (or greatest) value of each group, by the order of terms; when it leaves, the next one is searched."""

    def __init__(self, members: ValueOccurrences, terms: TermsOfGroups, greatest: bool) -> None:
        self.best = np.zeros(0, np.uint64)
        self._where = np.zeros(0, np.int32)
        self._members = members
        self._terms = terms
        self._greatest = greatest

    def fit(self, capacity: int) -> None:
        before = len(self._where)
        self.best, self._where = fitted(self.best, capacity), fitted(self._where, capacity)
        self._where[before:] = kernels.END

    def keep(self, retained: npt.NDArray[np.intp], capacity: int) -> None:
        self.best = fitted(self.best[retained], capacity)
        self._where = np.full(capacity, kernels.END, np.int32)

    def add(self, slots: Slots, weights: Weights, sign: int, ids: Ids) -> None:
        """Values that are new in their groups (each once), or have left them."""
        if sign > 0:
            bound = ids != 0
            self.consider(slots[bound], ids[bound])
            return
        bereft = slots[(self.best[slots] == ids) & (ids != 0)]
        if len(bereft):
            self.best[bereft] = 0
            entries = self._members.of(bereft)
            self.consider(self._members.owners(entries), self._members.values(entries))

    def consider(self, slots: Slots, ids: Ids) -> None:
        """Values that may be the best of their groups."""
        rivals = self.best[slots]
        has_best = rivals != 0
        if has_best.any():
            slots, ids = np.concatenate([slots, slots[has_best]]), np.concatenate([ids, rivals[has_best]])
        ranks = self._terms.ranks(ids)
        chosen = np.empty(len(slots), np.int32)
        ranks = frozen(-ranks if self._greatest else ranks)
        n = kernels.choose_least(frozen(slots), ranks, chosen, self._where)
        self.best[slots[chosen[:n]]] = ids[chosen[:n]]
