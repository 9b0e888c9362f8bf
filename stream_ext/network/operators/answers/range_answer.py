"""Range answers: what one shard sends of the answer of a divided query whose rows are summed with those of the others.

    RSTREAM, ORDER BY ?v LIMIT 3      the first three rows of the shard; of all shards' first three, three are the first
    ISTREAM                           which rows came and which went: a row that goes here may come in another shard
    ISTREAM, DISTINCT                 all rows, with how often each was in the answer before, and is now (0 or 1)

The rows have all columns that the order reads, and under ISTREAM and DSTREAM two more (`RangeSums`)."""

from __future__ import annotations

import numpy as np

from hbase_store.layout.terms import DATA_MASK, INTEGER, TAG_SHIFT
from stream_ext.language.algebra.algebra import R2S
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.gains import Gains
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.core.moment import Moment
from stream_ext.rows.zset import Columns, Ids, Weights, ZSet, concat, sum_equal_rows

#: Counts travel as columns of ids: as ids of integers, which are never taken for a term that the query made.
_INTEGER = np.uint64(INTEGER << TAG_SHIFT)
#: Weights before and weights now are summed in one number each.
_NOW = np.int64(1 << 32)


class RangeAnswer(ResultState):
    """In place of the result, of one range."""

    def __init__(self, cut: Cut, r2s: R2S, is_set: bool) -> None:
        """`cut`: that of the query. `is_set`: each row of the result counts once, in all ranges together."""
        is_first = cut.limit is not None and not cut.distinct
        limit = cut.offset + cut.limit if is_first and cut.limit is not None else None
        order = cut.order if is_first else ()
        per, by_text = (cut.per, cut.by_text) if is_first else ((), False)
        super().__init__(Cut(cut.variables, cut.variables, order, False, 0, limit, per, by_text), R2S.RSTREAM)
        self._emits = r2s
        names = (*cut.names, *dict.fromkeys(name for name, _ in cut.order if name not in cut.names))
        self._places = [cut.variables.index(name) if name in cut.variables else None for name in names]
        # Where a hidden column orders, equal rows are at several places: all decide which of them are new.
        is_added_up = not (is_set or cut.is_limited or cut.distinct or cut.orders_by_hidden)
        self._changes = Gains(len(cut.variables), None) if is_added_up and r2s is not R2S.RSTREAM else None
        self.is_in_order = True  # no order matters: the rows are summed

    def step(self, moment: Moment, change: ZSet) -> tuple[Columns, Weights]:
        if self._emits is R2S.RSTREAM:
            columns, weights = super().step(moment, change)
            return self._sent(columns, len(weights)), weights
        if self._changes is not None:
            columns, net = self._changes.step(moment.time, change)
            before, now = np.maximum(-net, 0), np.maximum(net, 0)
        else:
            columns, before, now = self._before_and_now(moment, change)
        return (*self._sent(columns, len(now)), as_ids(before), as_ids(now)), np.ones(len(now), np.int64)

    def stays_at(self, sn: int, time: int) -> bool:
        return False

    def _before_and_now(self, moment: Moment, change: ZSet) -> tuple[Columns, Weights, Weights]:
        self._rows.step(change, moment.time)
        before, self._whole = self._whole, self._present(moment)
        both = concat([_counted(before, np.int64(1)), _counted(self._whole, _NOW)], before.width)
        columns, weights = sum_equal_rows(both.columns, both.weight_array())
        now, before_now = np.divmod(weights, _NOW)
        return columns, before_now, now

    def _sent(self, columns: Columns, count: int) -> tuple[Ids, ...]:
        """As they are sent: an order may read what no solution binds."""
        nothing = np.zeros(count, np.uint64)
        return tuple(nothing if place is None else columns[place] for place in self._places)


def _counted(rows: ZSet, weight: np.int64) -> ZSet:
    return ZSet(rows.columns, rows.count, np.full(rows.count, weight))


def as_ids(counts: Weights) -> Ids:
    return counts.view(np.uint64) | _INTEGER


def as_counts(ids: Ids) -> Weights:
    return (ids & np.uint64(DATA_MASK)).view(np.int64)
