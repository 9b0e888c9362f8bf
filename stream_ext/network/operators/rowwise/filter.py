"""Filter: the solutions for which a condition is true. Linear: a change's filter is the filter's change."""

from __future__ import annotations

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.core.testing import Tester
from stream_ext.rows.zset import ZSet


class FilterOperator(Shareable):
    is_stateless = encodes_terms = is_monotone = rests_without_rows = True

    def __init__(self, variables: tuple[str, ...], test: Tester) -> None:
        self.variables = variables
        self._test = test

    @property
    def likeness(self) -> Likeness | None:
        test = self._test.likeness
        return None if test is None else (FilterOperator, len(self.variables), test)

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if not change.count:
            return change
        mask = self._test.mask(moment, change)
        return change if np.count_nonzero(mask) == len(mask) else change.take(mask)
