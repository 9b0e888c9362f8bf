"""R2S: from the changing answer to what is said of it at each evaluation.

RSTREAM says the whole answer, ISTREAM what it has more than at the evaluation before (as bags). The answer is kept as
entries (row, weight, until); what runs out is dropped in one sweep, not row by row."""

from __future__ import annotations

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.operators.ranking import Ranking
from stream_ext.plan.algebra import R2S
from stream_ext.zset import Rows, Weights, ZSet, concat, consolidate, empty, sum_equal_rows


class Answer:
    """The answer of the last evaluation, and the verb that moves it to the next."""

    def __init__(self, variables: tuple[str, ...], r2s: R2S, ranking: Ranking | None) -> None:
        self.variables = variables
        self._r2s = r2s
        self.ranking = ranking
        self._entries = empty(len(variables))
        self._retracted = False
        self._settle_at = 1024

    def step(self, moment: Moment, change: ZSet) -> tuple[Rows, Weights]:
        """What is emitted: distinct rows in lexicographic order, with how often each."""
        gone = self._entries.untils < moment.time
        if self._r2s is R2S.RSTREAM and self.ranking is None:
            self._replace(gone, change)
            return self.whole()
        expired = self._entries.take(gone)
        rows = np.concatenate([change.rows, expired.rows])
        net_rows, net = sum_equal_rows(rows, np.concatenate([change.weights, -expired.weights]))
        self._replace(gone, change)
        if self.ranking is not None:
            net_rows, net = self.ranking.step(net_rows, net)
            if self._r2s is R2S.RSTREAM:
                return self.whole()
        came = net > 0
        return net_rows[came], net[came]

    def whole(self) -> tuple[Rows, Weights]:
        """The whole answer of the last evaluation."""
        if self.ranking is not None:
            return self.ranking.shown()
        return sum_equal_rows(self._entries.rows, self._entries.weights)

    def is_empty(self) -> bool:
        return not len(self._entries) or not len(self.whole()[0])

    def _replace(self, gone: np.typing.NDArray[np.bool_], change: ZSet) -> None:
        held = self._entries.take(~gone) if gone.any() else self._entries
        self._entries = concat([held, change], len(self.variables))
        self._retracted = self._retracted or bool((change.weights < 0).any())
        if self._retracted and len(self._entries) > self._settle_at:
            self._entries = consolidate(self._entries)  # a retraction meets what it retracts
            self._retracted = False
            self._settle_at = max(1024, 2 * len(self._entries))
