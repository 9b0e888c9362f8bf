"""R2S: from the changing answer to what is said of it at each evaluation.

RSTREAM says the whole answer, ISTREAM what it has more than at the evaluation before (as bags), DSTREAM what that had
more. The answer is kept as entries (row, weight, until); what runs out is dropped in one sweep, not row by row."""

from __future__ import annotations

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.operators.ranking import Ranking
from stream_ext.plan.algebra import R2S
from stream_ext.zset import Columns, Weights, ZSet, concat, consolidate, empty, sum_equal_rows


class Answer:
    """The answer of the last evaluation, and the verb that moves it to the next."""

    def __init__(self, variables: tuple[str, ...], r2s: R2S, ranking: Ranking | None) -> None:
        self.variables = variables
        self._r2s = r2s
        self.ranking = ranking
        self._entries = empty(len(variables))
        self._retracted = False
        self._settle_at = 1024

    def step(self, moment: Moment, change: ZSet) -> tuple[Columns, Weights]:
        """What is emitted: distinct rows in lexicographic order, with how often each."""
        gone = self._entries.until_array() < moment.time
        if self._r2s is R2S.RSTREAM and self.ranking is None:
            self._replace(gone, change)
            return self.whole()
        net_rows, net = _net(self._entries.take(gone), change)
        self._replace(gone, change)
        if self.ranking is not None:
            net_rows, net = self.ranking.step(net_rows, net)
            if self._r2s is R2S.RSTREAM:
                return self.whole()
        said = net > 0 if self._r2s is R2S.ISTREAM else net < 0
        return tuple(column[said] for column in net_rows), np.abs(net[said])

    def whole(self) -> tuple[Columns, Weights]:
        """The whole answer of the last evaluation."""
        if self.ranking is not None:
            return self.ranking.shown()
        return sum_equal_rows(self._entries.columns, self._entries.weight_array())

    def is_empty(self) -> bool:
        return not len(self._entries) or not len(self.whole()[1])

    def _replace(self, gone: np.typing.NDArray[np.bool_], change: ZSet) -> None:
        held = self._entries.take(~gone) if gone.any() else self._entries
        self._entries = concat([held, change], len(self.variables))
        self._retracted = self._retracted or (change.weights is not None and bool((change.weights < 0).any()))
        if self._retracted and len(self._entries) > self._settle_at:
            self._entries = consolidate(self._entries)  # a retraction meets what it retracts
            self._retracted = False
            self._settle_at = max(1024, 2 * len(self._entries))


def _net(expired: ZSet, change: ZSet) -> tuple[Columns, Weights]:
    both = concat([change, expired.negated()], change.width)
    return sum_equal_rows(both.columns, both.weight_array())
