"""Join: the pairs of solutions that agree on the variables they share.

Bilinear: (L + l)(R + r) - LR = l R + (L + l) r. So l is joined with what R was, folded into L, and then L with r."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.operators.row_index import RowIndex, paired_weights
from stream_ext.zset import ZSet, concat


class Join:
    def __init__(self, left: tuple[str, ...], right: tuple[str, ...]) -> None:
        shared = [v for v in left if v in right]
        self._left_key = [left.index(v) for v in shared]
        self._right_key = [right.index(v) for v in shared]
        self._right_rest = [i for i, v in enumerate(right) if v not in shared]
        self.variables = left + tuple(v for v in right if v not in shared)
        self._left = RowIndex(len(left), self._left_key)
        self._right = RowIndex(len(right), self._right_key)

    def step(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        if moment.last:
            return self._once(moment, left, right)
        i, slot = self._right.probe(tuple(left.columns[c] for c in self._left_key), len(left), moment.time)
        old = paired(left.take(i), self._right.at(slot), self._right_rest)
        self._left.insert(left, moment.time)
        j, slot = self._left.probe(tuple(right.columns[c] for c in self._right_key), len(right), moment.time)
        new = paired(self._left.at(slot), right.take(j), self._right_rest)
        self._right.insert(right, moment.time)
        return concat([old, new], len(self.variables))

    def _once(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        """L and R are empty, and nothing comes after: only l r is left. The smaller side is indexed."""
        if not len(left) or not len(right):
            return concat([], len(self.variables))
        if len(left) < len(right):
            index = RowIndex(left.width, self._left_key)
            index.insert(left, moment.time)
            j, slot = index.probe(tuple(right.columns[c] for c in self._right_key), len(right), moment.time)
            return paired(left.take(slot), right.take(j), self._right_rest)
        index = RowIndex(right.width, self._right_key)
        index.insert(right, moment.time)
        i, slot = index.probe(tuple(left.columns[c] for c in self._left_key), len(left), moment.time)
        return paired(left.take(i), right.take(slot), self._right_rest)


def paired(left: ZSet, right: ZSet, right_rest: Sequence[int]) -> ZSet:
    """Row by row: the left columns and what the right one adds; valid as long as both are."""
    if left.untils is None or right.untils is None:
        untils = right.untils if left.untils is None else left.untils
    else:
        untils = np.minimum(left.untils, right.untils)
    columns = (*left.columns, *(right.columns[i] for i in right_rest))
    return ZSet(columns, left.count, paired_weights(left, right), untils)
