"""Minus: the left solutions without a compatible one on the right that binds a variable they bind, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.joins.join import Pairs
from stream_ext.network.operators.joins.left_join import Uncovered
from stream_ext.plan.logic import Names
from stream_ext.rows.zset import ZSet


class MinusOperator(Shareable):
    """`hidden`: columns of the left that do not belong to its solutions; `carried`: as in Pairing."""

    def __init__(
        self, left: tuple[str, ...], right: tuple[str, ...], maybe: Names, hidden: Names, carried: Names
    ) -> None:
        self.variables = left
        shown = tuple("" if v in hidden else v for v in left)
        self._pairs = Pairs(shown, right, maybe, carried)
        self._uncovered = Uncovered(left)

    @property
    def likeness(self) -> Likeness:
        return MinusOperator, self._pairs.likeness

    def shown(self, time: int) -> Sequence[ZSet]:
        return self._uncovered.shown(time)

    def step(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        if moment.last:
            i, j = self._pairs.once(moment, left, right)
            uncovered = np.ones(left.count, np.bool_)
            uncovered[i[self._meeting(left.take(i), right.take(j))]] = False
            return left.take(uncovered)
        row, partner = self._pairs.step(moment, left, right)
        if not self._pairs.pairing.always_meets:
            row = row.take(self._meeting(row, partner))
        return self._uncovered.step(moment, left, row)

    def _meeting(self, left: ZSet, right: ZSet) -> np.typing.NDArray[np.bool_]:
        mask = self._pairs.pairing.meets(left, right)
        compatible = self._pairs.pairing.compatible(left, right)
        return mask if compatible is None else mask & compatible
