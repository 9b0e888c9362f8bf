"""Slice: what ORDER BY and LIMIT leave of a sub-SELECT's solutions, as changes from evaluation to evaluation."""

from __future__ import annotations

from stream_ext.operators.cut import Cut
from stream_ext.operators.moment import Moment
from stream_ext.operators.ranking import Ranking
from stream_ext.zset import Columns, Weights, ZSet, concat, consolidate, empty, sum_equal_rows


class Slice:
    """Keeps all that came in, cuts it anew at each evaluation, and says how that differs from the last."""

    def __init__(self, cut: Cut) -> None:
        self.variables = cut.names
        self._cut = cut
        self._held = empty(len(cut.variables))
        self._order = Ranking(len(cut.variables))
        self._shown = empty(len(cut.names))

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if moment.last:
            return self._cut.of(moment, change)
        gone = self._held.until_array() < moment.time
        columns, net = net_change(self._held.take(gone), change)
        self._held = consolidate(concat([self._held.take(~gone), change], change.width))
        self._order.step(*self._cut.as_they_appear(moment, columns, net))
        rows, weights = self._order.shown()
        now = self._cut.of(moment, ZSet(rows, len(weights)))
        out = concat([now, self._shown.negated()], now.width)
        self._shown = now
        columns, net = sum_equal_rows(out.columns, out.weight_array())
        return ZSet(columns, len(net), net)


def net_change(expired: ZSet, change: ZSet) -> tuple[Columns, Weights]:
    """What came and went, what ran out among it."""
    both = concat([change, expired.negated()], change.width)
    return sum_equal_rows(both.columns, both.weight_array())
