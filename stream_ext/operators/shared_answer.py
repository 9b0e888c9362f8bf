"""The shared answer: the answers of queries that share a network; the first column says whose a row is."""

from __future__ import annotations

import numpy as np

from stream_ext.operators.cut import Cut
from stream_ext.operators.moment import Moment
from stream_ext.operators.r2s import Answer
from stream_ext.plan.algebra import R2S
from stream_ext.zset import FOREVER, Columns, Ids, Weights, ZSet


class SharedAnswer(Answer):
    def __init__(self, cut: Cut, r2s: R2S) -> None:
        super().__init__(cut, r2s)
        self._lasting: Weights = np.zeros(64, np.int64)  # how many rows of each are there whatever expires

    @property
    def reads_what_goes(self) -> bool:
        return True

    def step(self, moment: Moment, change: ZSet) -> tuple[Columns, Weights]:
        if self._gains is not None and change.count:
            self._count(change)
        return super().step(moment, change)

    def _count(self, change: ZSet) -> None:
        whose, weights = change.column(0), change.weight_array()
        if change.untils is not None:
            lasting = change.untils == FOREVER
            whose, weights = whose[lasting], weights[lasting]
        if len(whose):
            greatest = int(whose.max())
            if greatest >= len(self._lasting):
                self._lasting = np.concatenate([self._lasting, np.zeros(greatest + 1, np.int64)])
            np.add.at(self._lasting, whose.view(np.int64), weights)

    def holding(self) -> Ids:
        """Those whose answer is not empty; ask when all windows are, so that no row is left of what they held."""
        if self._gains is not None:
            return np.flatnonzero(self._lasting).astype(np.uint64)
        columns, weights = self.whole()
        return np.unique(columns[0][weights != 0])
