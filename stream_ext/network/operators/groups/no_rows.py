"""No rows: the values of aggregates for a group without rows.

Where there is no GROUP BY there is always one group. If such a sub-SELECT is worked out for many values at once, the
values for which nothing was found still have their row: a count of 0, a sum of 0, no least value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.plan.properties.partial_groups import SUM_IN_RANGE
from stream_ext.rows.zset import ZSet

_INTEGER = b"^^<http://www.w3.org/2001/XMLSchema#integer>"
_ZERO = b'"0"' + _INTEGER
_OF_NOTHING = {"COUNT": _ZERO, "SUM": _ZERO, "AVG": _ZERO, "GROUP_CONCAT": b'""', SUM_IN_RANGE: _ZERO}


class NoRows:
    """`counted` is a column that every group with rows has bound; `functions` those of the aggregates, by variable."""

    def __init__(self, variables: tuple[str, ...], counted: str, functions: Sequence[tuple[str, str]]) -> None:
        self.variables = variables
        self._counted = variables.index(counted)
        self._filled = [(variables.index(v), _OF_NOTHING[f]) for v, f in functions if f in _OF_NOTHING]

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        none = change.columns[self._counted] == 0
        if not none.any():
            return change
        columns = list(change.columns)
        for place, text in self._filled:
            columns[place] = np.where(none, moment.vocabulary.encode([text])[0], columns[place])
        return change.with_columns(tuple(columns))
