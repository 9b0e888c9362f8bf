"""Left join: each left solution with its partners, or by itself if it has none.

It is the join J of the pairs that pass the conditions, plus the rows of L without a partner in J. When a partner runs
out, the left row comes back by itself: the row that covered it was valid only as long as the partner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.network.operators.answers.distinct import Distinct
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.core.testing import Tester
from stream_ext.network.operators.joins.join import JoinOperator, Pairs
from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.rows.zset import ZSet, concat


class Uncovered:
    """Left rows without a partner: L - L ⋈ distinct(C), where C are the rows of L with a partner."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables
        self._covers = Distinct(variables)
        self._covered = JoinOperator(variables, variables)

    def shown(self, time: int) -> Sequence[ZSet]:
        return self._covers.shown(time)

    def step(self, moment: Moment, left: ZSet, covers: ZSet) -> ZSet:
        covered = self._covered.step(moment, left, self._covers.step(moment, covers))
        return concat([left, covered.negated()], len(self.variables))


class LeftJoinOperator(Shareable):
    def __init__(
        self, left: tuple[str, ...], right: tuple[str, ...], tests: Sequence[Tester], maybe: Names = NO_NAMES
    ) -> None:
        self._pairs = Pairs(left, right, maybe)
        self._tests = tests
        self._uncovered = Uncovered(left)
        self.variables = self._pairs.pairing.variables
        self.encodes_terms = len(tests) > 0

    @property
    def likeness(self) -> Likeness | None:
        tests = [test.likeness for test in self._tests]
        return None if None in tests else (LeftJoinOperator, self._pairs.likeness, *tests)

    def shown(self, time: int) -> Sequence[ZSet]:
        return self._uncovered.shown(time)

    def step(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        if moment.last:
            return self._once(moment, left, right)
        row, both = self._holding(moment, *self._pairs.step(moment, left, right))
        uncovered = self._uncovered.step(moment, left, both.with_columns(row.stored))
        return concat([both, self._padded(uncovered)], len(self.variables))

    def _once(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        i, j = self._pairs.once(moment, left, right)
        places = ZSet((i.view(np.uint64),), len(i))
        matched, both = self._holding(moment, left.take(i), right.take(j), places)
        uncovered = np.ones(left.count, np.bool_)
        uncovered[matched.column(0).view(np.int64)] = False
        if not np.count_nonzero(uncovered):
            return both
        return concat([both, self._padded(left.take(uncovered))], len(self.variables))

    def _holding(self, moment: Moment, left: ZSet, right: ZSet, marks: ZSet | None = None) -> tuple[ZSet, ZSet]:
        """Of rows side by side those that are compatible and pass: (their left parts or marks, the joined rows)."""
        marked = left if marks is None else marks
        pairing = self._pairs.pairing
        mask = pairing.compatible(left, right)
        if mask is not None:
            left, right, marked = left.take(mask), right.take(mask), marked.take(mask)
        both = pairing.merged(left, right)
        for test in self._tests:
            if not both.count:
                break
            mask = test.mask(moment, both)
            both, marked = both.take(mask), marked.take(mask)
        return marked, both

    def _padded(self, uncovered: ZSet) -> ZSet:
        missing = len(self.variables) - uncovered.width
        return uncovered.with_columns(
            (*uncovered.stored, *(np.zeros(uncovered.count, np.uint64) for _ in range(missing)))
        )
