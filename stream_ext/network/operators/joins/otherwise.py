"""Otherwise: matched rows, and the left rows without a match.

The end of an OPTIONAL whose conditions contain questions (EXISTS)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.joins.join import Pairs
from stream_ext.network.operators.joins.left_join import Uncovered
from stream_ext.network.operators.rowwise.project import Project
from stream_ext.rows.zset import ZSet, concat


class Otherwise(Shareable):
    def __init__(self, left: tuple[str, ...], matched: tuple[str, ...], marks: tuple[str, ...]) -> None:
        """`marks`: for each left variable, the column of the matched rows with its value on the left."""
        self.variables = tuple(v for v in matched if not v.endswith("'"))
        self._covers = Project(matched, left, marks)
        self._matched = Project(matched, self.variables)
        self._padded = Project(left, self.variables)
        self._uncovered = Uncovered(left)
        self._pairs = Pairs(left, left)

    @property
    def likeness(self) -> Likeness:
        return Otherwise, len(self.variables), *(part.likeness for part in (self._covers, self._matched, self._padded))

    def shown(self, time: int) -> Sequence[ZSet]:
        return self._uncovered.shown(time)

    def step(self, moment: Moment, left: ZSet, matched: ZSet) -> ZSet:
        covers = self._covers.step(moment, matched)
        if moment.last:
            there = np.zeros(left.count, np.bool_)
            there[self._pairs.once(moment, left, covers)[0]] = True
            uncovered = left.take(~there)
        else:
            uncovered = self._uncovered.step(moment, left, covers)
        parts = [self._matched.step(moment, matched), self._padded.step(moment, uncovered)]
        return concat(parts, len(self.variables))
