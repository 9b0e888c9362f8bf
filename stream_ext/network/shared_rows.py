"""Shared rows: the whole answer of several queries, before each orders and cuts it.

It is stepped once at each evaluation, by the query that comes first; the rows of each evaluation are there for the
others until the next snapshot.

    q1   SELECT ?a { ... }                            all rows
    q2   SELECT ?x { the same } ORDER BY ?x LIMIT 3   the least three of the same rows"""

from __future__ import annotations

from stream_ext.network.operators.answers.ordered_rows import OrderedRows
from stream_ext.rows.zset import ZSet


class SharedRows:
    """`now`: those of the last evaluation. `readers`: how many queries have them; without any they are not stepped."""

    def __init__(self, rows: OrderedRows) -> None:
        self.now = rows.copy()
        self.readers = 0
        self._sn = -1  # the snapshot of `_at`
        self._at: dict[int, OrderedRows] = {}  # by the times of the evaluations

    def stay_at(self, sn: int, time: int, rows: OrderedRows) -> bool:
        """Whether they are still these rows at this evaluation, at which no row comes; the others find that, too."""
        if sn != self._sn:
            self._sn, self._at = sn, {}
        found = self._at.get(time)
        if found is None and rows is self.now and rows.first_end >= time:
            found = self._at[time] = rows
        return found is rows

    def at(self, sn: int, time: int, change: ZSet) -> OrderedRows:
        """As they are at this time, after this change; they are not stepped any more."""
        if sn != self._sn:
            self._sn, self._at = sn, {}
        found = self._at.get(time)
        if found is None:
            found = self.now.copy()
            found.step(change, time)
            self.now = self._at[time] = found
        return found
