"""Slice: ORDER BY and LIMIT of a sub-SELECT, as changes from evaluation to evaluation."""

from __future__ import annotations

from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.ranking import Ranking
from stream_ext.network.operators.core.moment import Moment
from stream_ext.rows.zset import Columns, Weights, ZSet, concat, consolidate, empty, sum_equal_rows


class Slice:
    """Stores all input rows, cuts them anew at each evaluation, and returns the difference from the last result."""

    def __init__(self, cut: Cut, ranking: Ranking | None = None) -> None:
        """`ranking`: the order of first appearance, if LIMIT cuts by it."""
        self.variables = cut.names
        self._cut = cut
        self._rows = empty(len(cut.variables))
        self._ranking = ranking
        self._shown = empty(len(cut.names))

    @property
    def is_limited(self) -> bool:
        """Whether some rows are cut off."""
        return self._cut.is_limited

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if moment.last:
            return self._cut.of(moment, self._ranked(moment, change) if self._is_ordered(moment) else change)
        alive = self._rows.take(self._rows.until_array() >= moment.time)
        self._rows = consolidate(concat([alive, change], change.width))
        now = self._cut.of(moment, self._ranked(moment, self._rows))
        out = concat([now, self._shown.negated()], now.width)
        self._shown = now
        columns, net = sum_equal_rows(out.columns, out.weight_array())
        return ZSet(columns, len(net), net)

    def _is_ordered(self, moment: Moment) -> bool:
        return moment.ranks_ties if self._ranking is None else self._ranking.is_resumed

    def _ranked(self, moment: Moment, rows_in: ZSet) -> ZSet:
        """All rows; where ORDER BY takes some for equal, these are in an order that depends on nothing before."""
        columns, weights = sum_equal_rows(rows_in.columns, rows_in.weight_array())
        rows = ZSet(columns, len(weights), weights)
        if self._ranking is None:
            return rows
        self._ranking.become(moment.vocabulary, rows)
        columns, weights = self._ranking.shown()
        return ZSet(columns, len(weights))


def net_change(expired: ZSet, change: ZSet) -> tuple[Columns, Weights]:
    """The net change: the given change, and the rows that have run out."""
    both = concat([change, expired.negated()], change.width)
    return sum_equal_rows(both.columns, both.weight_array())
