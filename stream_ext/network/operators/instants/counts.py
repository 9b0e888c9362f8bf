"""Counts by instant: sums over the rows of each group, before and after every instant at which any of them changes.

    rows of a group    one at instants 2 to 6, another at 4 and after
    its count          2: 0 -> 1    4: 1 -> 2    7: 2 -> 1

One sort and one running sum find all of it, however many instants there are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hbase_store.arrays import Ids, Mask
from stream_ext.network.operators.instants.lives import LifeLog, Lives, begins_of
from stream_ext.rows.key_table import KeyTable, Signed, Slots
from stream_ext.windows.numbered_evaluations import NumberedEvaluations
from stream_ext.windows.scheduled_window import Times

_CLEAN_LEAST = 4096


class Changed(NamedTuple):
    """The groups (`slots`, ascending) and instants at which rows came or went: the sums before and after, a line for
    each thing that is summed."""

    slots: Slots
    instants: Times
    before: Signed
    after: Signed

    def take(self, which: np.typing.NDArray[np.bool_]) -> Changed:
        return Changed(self.slots[which], self.instants[which], self.before[:, which], self.after[:, which])


class CountsByInstant:
    def __init__(self, width: int, lines: int = 1) -> None:
        """Groups have keys of so many ids; the first line of sums is the number of rows."""
        self._width = width
        self._table = KeyTable(max(1, width))
        self._sums = np.zeros((lines, self._table.capacity), np.int64)
        self._log = LifeLog()
        self._clean_at = _CLEAN_LEAST

    def slots_of(self, keys: tuple[Ids, ...], count: int) -> Slots:
        """The groups of rows with these keys. Without keys all rows are in one group."""
        lines = np.stack(keys) if keys else np.zeros((1, count), np.uint64)
        return self._table.number(np.ascontiguousarray(lines))

    def changed(self, lives: Lives, slots: Slots, values: Signed, evaluations: NumberedEvaluations) -> Changed:
        """`values`: what each row adds to the sums, a line for each of them."""
        of_rows = tuple(np.ascontiguousarray(line).view(np.uint64) for line in values)
        events = self._log.events(lives, slots, of_rows, evaluations)
        lines = [column.view(np.int64) * events.signs for column in events.columns]
        return self._swept(events.slots, events.instants, np.array(lines).reshape(len(lines), -1))

    def _swept(self, slots: Slots, instants: Times, values: Signed) -> Changed:
        """In order of groups, then of instants."""
        if not len(slots):
            return Changed(slots, instants, values, values)
        if self._table.capacity > self._sums.shape[1]:
            more = np.zeros((len(self._sums), self._table.capacity), np.int64)
            more[:, : self._sums.shape[1]] = self._sums
            self._sums = more
        begins = begins_of(slots, instants)
        slots, instants = slots[begins], instants[begins]
        steps = np.add.reduceat(values, begins, axis=1)
        running = np.cumsum(steps, axis=1)
        firsts = begins_of(slots)
        # The running sum goes on from group to group: each begins with what it had, not with what the others left.
        offsets = self._sums[:, slots[firsts]] - running[:, firsts] + steps[:, firsts]
        after = running + np.repeat(offsets, np.diff(firsts, append=len(slots)), axis=1)
        lasts = np.append(firsts[1:], len(slots)) - 1
        self._sums[:, slots[lasts]] = after[:, lasts]
        return Changed(slots, instants, after - steps, after)

    def now(self, slots: Slots) -> Signed:
        """The sums of groups after the last step."""
        capacity = self._sums.shape[1]
        known = np.minimum(slots, capacity - 1)
        return np.where(slots < capacity, self._sums[:, known], 0)

    def keys(self, slots: Slots) -> tuple[Ids, ...]:
        return tuple(self._table.ids(slots, i) for i in range(self._width))

    def clean(self) -> Slots | None:
        """Forgets empty groups, when their number has doubled since the last time; returns the new slot of each old one
        (END: it is forgotten), or None. Call it before a step: slots do not outlive it."""
        used = self._table.used
        if used <= self._clean_at:
            return None
        needed: Mask = (self.now(np.arange(used, dtype=np.int32)) != 0).any(axis=0)
        self._log.mark(needed)
        retained = np.flatnonzero(needed)
        self._clean_at = max(_CLEAN_LEAST, 2 * len(retained))
        if len(retained) * 2 > used:
            return None
        sums = self.now(retained.astype(np.int32))
        renumbered = self._table.keep(needed)
        self._log.renumber(renumbered)
        self._sums = np.zeros((len(sums), self._table.capacity), np.int64)
        self._sums[:, : len(retained)] = sums
        return renumbered
