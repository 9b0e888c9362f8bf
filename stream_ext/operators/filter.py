"""Filter: the solutions for which a condition is true. Linear: a change's filter is the filter's change."""

from __future__ import annotations

from stream_ext.operators.moment import Moment
from stream_ext.plan.expressions import Condition, Scope
from stream_ext.vocabulary import Vocabulary
from stream_ext.zset import ZSet


class Filter:
    def __init__(self, variables: tuple[str, ...], condition: Condition, vocabulary: Vocabulary) -> None:
        self.variables = variables
        self._condition = condition
        self._vocabulary = vocabulary

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if not change.count:
            return change
        scope = Scope(self._vocabulary, moment.now_ms, moment.seed, control=moment.control)
        mask = self._condition.mask(change.columns, scope, change.count)
        return change if mask.all() else change.take(mask)
