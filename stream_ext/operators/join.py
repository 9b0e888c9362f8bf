"""Join: the pairs of solutions that agree on the variables they share.

Bilinear: (L + l)(R + r) - LR = l R + (L + l) r. So l is joined with what R was, folded into L, and then L with r."""

from __future__ import annotations

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.operators.row_index import RowIndex
from stream_ext.zset import ZSet, concat


class Join:
    def __init__(self, left: tuple[str, ...], right: tuple[str, ...]) -> None:
        shared = [v for v in left if v in right]
        self._left_key = np.array([left.index(v) for v in shared], np.int64)
        self._right_key = np.array([right.index(v) for v in shared], np.int64)
        self._right_rest = np.array([i for i, v in enumerate(right) if v not in shared], np.int64)
        self.variables = left + tuple(v for v in right if v not in shared)
        self._left = RowIndex(len(left), tuple(self._left_key.tolist()))
        self._right = RowIndex(len(right), tuple(self._right_key.tolist()))

    def step(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        i, slot = self._right.probe(left.rows, self._left_key, moment.time)
        old = self._paired(left.take(i), _at(self._right, slot))
        self._left.insert(left, moment.time)
        j, slot = self._left.probe(right.rows, self._right_key, moment.time)
        new = self._paired(_at(self._left, slot), right.take(j))
        self._right.insert(right, moment.time)
        return concat([old, new], len(self.variables))

    def _paired(self, left: ZSet, right: ZSet) -> ZSet:
        return paired(left, right, self._right_rest)


def paired(left: ZSet, right: ZSet, right_rest: np.typing.NDArray[np.int64]) -> ZSet:
    """Row by row: the left columns and what the right one adds; valid as long as both are."""
    rows = np.concatenate([left.rows, right.rows[:, right_rest]], axis=1)
    return ZSet(rows, left.weights * right.weights, np.minimum(left.untils, right.untils))


def _at(index: RowIndex, slots: np.typing.NDArray[np.int64]) -> ZSet:
    return ZSet(index.rows[slots], index.weights[slots], index.untils[slots])
