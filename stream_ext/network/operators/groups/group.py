"""Group: one row for each group of solutions, with the values of its aggregates.

The groups are numbered, and their state is in arrays by number. Added rows are counted in; retracted rows are counted
out, and so are rows that run out, which a log finds. Of the groups that a step touched, those whose row has changed
retract the old row and emit the new one. An aggregate that is an error leaves its variable unbound."""

from __future__ import annotations

import numpy as np

from hbase_store.arrays import Ids, frozen
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.aggregates import Aggregated, Tallies
from stream_ext.network.operators.groups.partial_groups import PackedArray, PartialGroups
from stream_ext.network.operators.groups.tallies import ONCE
from stream_ext.rows.expiry_log import ExpiryLog, Logged
from stream_ext.rows.kernels import group as kernels
from stream_ext.rows.key_table import KeyTable, Slots, fitted
from stream_ext.rows.zset import ZSet, empty, soonest, sum_equal_rows
from stream_ext.values.vocabulary import Vocabulary

__all__ = ["Aggregated", "GroupOperator"]

_CLEAN_LEAST = 4096
_CELL = 8


class GroupOperator:
    def __init__(
        self,
        inside: tuple[str, ...],
        keys: tuple[str, ...],
        aggregates: tuple[Aggregated, ...],
        vocabulary: Vocabulary,
        always: bool,
        control: Control = Control.FREE,
    ) -> None:
        """`inside`: the columns of the input. `always`: one row even without input (there is no GROUP BY)."""
        self.variables = keys + tuple(aggregate.variable for aggregate in aggregates)
        self._inside = inside
        self._keys = tuple(map(self._place, keys))
        self._always = always
        width = max(1, len(keys))
        self._table = KeyTable(width, more=2 + len(aggregates))
        self._rows, self._state = width, width + 1  # places of the cells behind the key
        self.emits_removals = True  # whether anybody reads the rows that go
        self._every_column = frozenset(range(len(self.variables)))
        self._tallies = Tallies(inside, aggregates, vocabulary, self._rows, control)
        self._arguments = tuple(map(self._place, self._tallies.arguments))
        self._log = ExpiryLog()
        self._touched = np.zeros(0, np.int32)
        self._count = 0  # of the groups that are listed in `_touched`
        self._fresh = True
        self._clean_at = _CLEAN_LEAST

    def is_of(self, vocabulary: Vocabulary, control: Control) -> bool:
        return self._tallies.terms.is_of(vocabulary, control)

    def go_on_with(self, vocabulary: Vocabulary, control: Control) -> None:
        """From now on the terms that it creates are those of this vocabulary, also those of rows that it has emitted;
        and this budget is charged."""
        shown = self._table.cells[: self._table.used, self._state + 1 :]
        shown[:] = vocabulary.taken_over(shown.view(np.uint64), self._tallies.terms.vocabulary).view(np.int64)
        self._tallies.terms.go_on_with(vocabulary, control)

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        moment.control.check()
        once = moment.last and self._fresh and (change.weights is None or bool((change.weights > 0).all()))
        self._clean()
        if self._fresh and self._always:
            self._touch_the_only_group()
        self._fresh = False
        for expired in self._log.due(moment.time):
            self._tally(expired, -1, once)
        if change.untils is not None and change.count and soonest(change.untils) < moment.time:
            change = change.take(change.untils >= moment.time)
        if change.count:
            self._take_in(change, moment.last, once)
        moment.control.check()
        self._tallies.pass_on()
        return self._whole() if once else self._changes()

    # ---- of several processes: each counts some of the rows, and one of them adds what all have counted

    def count(self, moment: Moment, rows: ZSet) -> None:
        """Counts rows that all stay."""
        if rows.weights is not None and bool((rows.weights <= 0).any()):
            columns, weights = sum_equal_rows(rows.columns, rows.weights)
            rows = ZSet(columns, len(weights), weights)
        if rows.count:
            self._take_in(rows, True, True)
            self._tallies.forget_changes()
        self._check_room(moment.control, self._table.used, self._tallies.cells)

    def part(self, vocabulary: Vocabulary) -> PartialGroups:
        groups = self._table.used
        slots = np.arange(groups, dtype=np.int32)
        keys = tuple(PackedArray.of(self._table.ids(slots, i)) for i in range(len(self._keys)))
        rows = PackedArray.of(self._table.cell(slots, self._rows))
        return PartialGroups(keys, rows, self._tallies.parts(groups)).portable(vocabulary)

    def absorb(self, part: PartialGroups, moment: Moment) -> None:
        """Adds what another process has counted."""
        part = part.known_to(moment.vocabulary)
        rows = part.rows.array()
        more = sum(len(column.content) // _CELL for tally in part.tallies for column in tally.ids)
        self._check_room(moment.control, self._table.used + len(rows), self._tallies.cells + more)
        keys = [key.array() for key in part.keys] or [np.zeros(len(rows), np.uint64)]
        slots = self._table.number(np.stack(keys))
        self._fit()
        self._table.cells[slots, self._rows] += rows
        self._tallies.absorb(slots, part.tallies)

    def _check_room(self, control: Control, groups: int, cells: int) -> None:
        """`cells`: of the values that are told apart. They come piece by piece, so no piece says how many they are."""
        control.room(groups, len(self.variables) + -(-cells // max(1, groups)))

    def whole(self) -> ZSet:
        """All groups."""
        if self._always:
            self._touch_the_only_group()
        self._tallies.pass_on()
        return self._whole()

    # ---- what comes in

    def _take_in(self, change: ZSet, last: bool, once: bool) -> None:
        slots = self._slots(change)
        rows = Logged(slots, change.weights, tuple(self._column(change, i) for i in self._arguments))
        self._fit()
        self._tally(rows, 1, once)
        if change.untils is not None and not last:
            self._log.add(change.untils, rows)

    def _slots(self, change: ZSet) -> Slots:
        if len(self._keys) > 1:
            return self._table.number(np.stack([self._column(change, i) for i in self._keys]))
        # Without keys all rows are in one group.
        key = self._column(change, self._keys[0] if self._keys else None)
        return self._table.number(key.reshape(1, -1))

    def _place(self, name: str) -> int | None:
        return self._inside.index(name) if name in self._inside else None

    @staticmethod
    def _column(change: ZSet, place: int | None) -> Ids:
        """A variable that the rows do not have is unbound in all of them."""
        return np.zeros(change.count, np.uint64) if place is None else np.ascontiguousarray(change.column(place))

    def _touch_the_only_group(self) -> None:
        self._table.number(np.zeros((1, 1), np.uint64))
        self._fit()
        self._touched[0], self._count = 0, 1
        self._table.cells[0, self._state] = kernels.TOUCHED

    def _fit(self) -> None:
        capacity = self._table.capacity
        if len(self._touched) < capacity:
            self._touched = fitted(self._touched, capacity + 1)
            self._tallies.fit(capacity)

    def _tally(self, rows: Logged, sign: int, once: bool) -> None:
        weights = ONCE if rows.weights is None else frozen(np.ascontiguousarray(rows.weights))
        slots = frozen(rows.slots)
        self._count = kernels.tally_rows(
            slots, weights, sign, self._table.cells, self._rows, self._touched, self._count
        )
        self._tallies.add(slots, weights, sign, rows.arguments, once)

    # ---- what goes out

    def _changes(self) -> ZSet:
        """The rows of the groups that changed."""
        count, self._count = self._count, 0
        if not count:
            return empty(len(self.variables))
        touched, width = frozen(self._touched[:count]), self._table.width
        lines, results = self._tallies.result_lines(touched, self._table)
        room = 2 * count if self.emits_removals else count
        out, signs = np.empty((width + len(lines), room), np.int64), np.empty(room, np.int64)
        n, omitted = kernels.show_groups(
            touched, self._table.cells, width, self._always, lines, results, self.emits_removals, out, signs
        )
        first = width - len(self._keys)  # a table's keys have at least one id, groups may have none
        columns = tuple(frozen(line[:n]) for line in out[first:].view(np.uint64))
        return ZSet(columns, n, frozen(signs[:n]) if self.emits_removals else None, None, self._every_column, omitted)

    def _whole(self) -> ZSet:
        """All groups, for the only step of a one-shot query."""
        slots = np.arange(self._table.used, dtype=np.int32)
        rows = self._table.cell(slots, self._rows)
        if not self._always:
            slots, rows = slots[rows > 0], rows[rows > 0]
        keys = tuple(self._table.ids(slots, i) for i in range(len(self._keys)))
        return ZSet((*keys, *self._tallies.results(frozen(slots), rows)), len(slots))

    # ---- forgetting

    @property
    def capacity(self) -> int:
        """For how many groups there is room."""
        return self._table.capacity

    def _clean(self) -> None:
        """Forgets empty groups, when the number of groups has doubled since the last time."""
        self._tallies.clean()
        if self._table.used <= self._clean_at:
            return
        cells = self._table.cells[: self._table.used]
        needed = (cells[:, self._rows] != 0) | (cells[:, self._state] != 0)
        self._log.mark(needed)
        retained = np.flatnonzero(needed)
        if len(retained) * 2 <= len(cells):
            self._log.renumber(self._table.keep(needed))
            self._touched = np.zeros(self._table.capacity + 1, np.int32)
            self._tallies.keep(retained, self._table.capacity)
        self._clean_at = max(_CLEAN_LEAST, 2 * len(retained))
