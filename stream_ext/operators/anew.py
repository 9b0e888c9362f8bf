"""Anew: an operator whose answer is a matter of the moment, too (NOW, RAND and their kin).

Such a function of the rows is not the same function at the next evaluation, so that what came in earlier cannot be left
as it was answered then. All that has come in is kept, answered again at each evaluation, and what was said is taken
back. A row that is there twice is answered twice: it has two chances."""

from __future__ import annotations

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.operators.operator import Operator
from stream_ext.zset import ZSet, concat, consolidate, empty, repeated, sum_equal_rows


class Anew:
    """Of an operator on one input that works row by row and remembers nothing."""

    def __init__(self, inside: tuple[str, ...], operator: Operator) -> None:
        self.variables = operator.variables
        self._operator = operator
        self._held = empty(len(inside))
        self._shown = empty(len(operator.variables))

    def holds_any(self) -> bool:
        """Whether its answer may become another one though nothing comes or goes."""
        return bool(self._held.count)

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if moment.last:
            return self._operator.step(moment, _one_by_one(moment, change))
        alive = self._held.take(self._held.until_array() >= moment.time)
        self._held = consolidate(concat([alive, change], change.width))
        columns, weights = sum_equal_rows(self._held.columns, self._held.weight_array())
        now = self._operator.step(moment, ZSet(repeated(columns, weights), int(weights.sum())))
        said = consolidate(concat([now, self._shown.negated()], now.width))
        self._shown = now
        return said


def _one_by_one(moment: Moment, change: ZSet) -> ZSet:
    """Each row as often as it counts."""
    if change.weights is None:
        return change
    rows = consolidate(change)
    weights = rows.weight_array()
    moment.control.room(int(weights.sum()), rows.width)
    rows = rows.take(np.repeat(np.arange(rows.count), weights))
    return ZSet(rows.held, rows.count, None, rows.untils)
