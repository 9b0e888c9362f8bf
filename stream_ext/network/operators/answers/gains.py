"""Gains: the rows that an answer has in addition to the previous answer (ISTREAM), or no longer has (DSTREAM), as bags.

New rows are compared with rows that have expired, so rows of limited validity are stored until it ends. If no new row
can have been in the previous answer (`ZSet.fresh`), nothing is compared, and the new rows are only put aside."""

from __future__ import annotations

from collections import deque

import numpy as np

from hbase_store.arrays import Ids, frozen
from stream_ext.language.algebra.algebra import R2S
from stream_ext.network.operators.scans.ends import NO_TIME
from stream_ext.rows.expiry_wheel import Expired, ExpiryWheel
from stream_ext.rows.kernels import expiry as kernels
from stream_ext.rows.row_index import buckets
from stream_ext.rows.zset import FOREVER, Columns, Weights, ZSet, are_once, empty, latest, once

_ONCE: Weights = np.empty(0, np.int64)


class Gains:
    def __init__(self, width: int, r2s: R2S | None) -> None:
        """`r2s` None: all rows that have changed are gained, those that are lost with a negative weight."""
        self._width, self._r2s = width, r2s
        self._wheel = ExpiryWheel(width)
        # With the greatest validity. Made with the first of them: an empty deque takes 760 bytes.
        self._aside: deque[tuple[ZSet, int]] | None = None
        self._total = 0  # weight of all rows that are not aside
        self._time = 0  # of the last step
        self._lapses = False
        self.moved = False  # by the last step

    def is_empty(self) -> bool:
        return not self._total and all(last < self._time for _, last in self._aside or ())

    def next_change(self) -> int | None:
        """Where each row is valid as long as all that it is made of: before this time no row is gained; None: it is not
        known. A retraction ends when its row does."""
        return NO_TIME if self._r2s is R2S.ISTREAM else None

    @property
    def stays(self) -> bool:
        """Whether nothing is gained at an evaluation at which no row comes."""
        return self._r2s is R2S.ISTREAM and not self._lapses

    def pass_by(self, time: int) -> None:
        """An evaluation at this time gained nothing: what had run out by then, had done so before the next one."""
        if time > self._time:
            self.step(time, empty(self._width))

    def step(self, time: int, change: ZSet) -> tuple[Columns, Weights]:
        """The gained rows with their weights; equal rows may occur several times."""
        self._lapses = self._lapses or (change.weights is not None and change.untils is not None)
        self._total -= change.omitted
        # A retraction of limited validity lapses: its row returns then, so expired rows have to be compared.
        is_fresh = change.fresh is not None or not change.count
        if self._r2s is R2S.ISTREAM and is_fresh and not self._lapses:
            return self._new(time, change)
        self._move_aside_to_wheel()
        expired = self._due(time)
        self._time = time
        matrix = _matrix_of(change)
        weights = _ONCE if change.weights is None else change.weights
        self._total += _weight(matrix, weights)
        self._store(matrix, weights, change, time)
        columns, net = self._net((matrix, weights), expired)
        self.moved = len(net) + change.omitted > 0
        if self._r2s is None or (self._r2s is R2S.ISTREAM and are_once(net)):
            return columns, net
        emitted = net > 0 if self._r2s is R2S.ISTREAM else net < 0
        if emitted.all():
            return columns, np.abs(net)
        return tuple(column[emitted] for column in columns), np.abs(net[emitted])

    def _new(self, time: int, change: ZSet) -> tuple[Columns, Weights]:
        if len(self._wheel):
            self._due(time)
        while self._aside and self._aside[0][1] < time:
            self._aside.popleft()
        self._time, self.moved = time, change.count + change.omitted > 0
        if not change.count:
            return change.columns, _ONCE
        if change.untils is not None and change.count:
            if self._aside is None:
                self._aside = deque()
            self._aside.append((change, latest(change.untils)))
            return change.columns, once(change.count)
        if change.weights is None:
            self._total += change.count
            return change.columns, once(change.count)
        self._total += int(change.weights.sum())
        added = np.flatnonzero(change.weights > 0)
        return tuple(column[added] for column in change.columns), change.weights[added]

    def _due(self, time: int) -> Expired:
        expired = self._wheel.due(time)
        if len(expired[1]):
            self._total -= int(expired[1].sum())
        return expired

    def _move_aside_to_wheel(self) -> None:
        for change, last in self._aside or ():
            if last >= self._time:
                untils = change.until_array()
                matrix = _matrix_of(change if int(untils.min()) >= self._time else change.take(untils >= self._time))
                self._total += matrix.shape[1]
                self._wheel.add(matrix, _ONCE, untils[untils >= self._time], self._time)
        self._aside = None

    def _store(self, matrix: Ids, weights: Weights, change: ZSet, time: int) -> None:
        if change.untils is None:
            return
        ends = change.untils != FOREVER
        if ends.all():
            self._wheel.add(matrix, weights, change.untils, time)
        elif ends.any():
            some = weights[ends] if len(weights) else weights
            self._wheel.add(np.ascontiguousarray(matrix[:, ends]), some, change.untils[ends], time)

    def _net(self, added: Expired, expired: Expired) -> tuple[Columns, Weights]:
        """The sums of equal rows that are not zero."""
        (matrix, weights), (gone, lost) = added, expired
        if not len(lost) and not len(weights):
            return tuple(matrix), once(matrix.shape[1])
        weights = weights if len(weights) else np.ones(matrix.shape[1], np.int64)
        columns, net = summed(np.concatenate([matrix, gone], axis=1), np.concatenate([weights, -lost]))
        return columns, net


def summed(matrix: Ids, weights: Weights) -> tuple[Columns, Weights]:
    """Each row once, in order of first appearance, with the sum of its weights; none of weight zero."""
    count = matrix.shape[1]
    heads = np.full(buckets(2 * count + 2), kernels.END, np.int32)
    firsts, sums = np.empty(count, np.int64), np.empty(count, np.int64)
    used = kernels.sum_rows(frozen(matrix), frozen(weights), heads, np.empty(count, np.int32), firsts, sums)
    remaining = np.flatnonzero(sums[:used])
    places, net = firsts[remaining], sums[remaining]
    return tuple(line[places] for line in matrix), net


def _matrix_of(change: ZSet) -> Ids:
    matrix = np.empty((change.width, change.count), np.uint64)
    for place, line in enumerate(matrix):
        line[:] = change.column(place)
    return matrix


def _weight(matrix: Ids, weights: Weights) -> int:
    return int(weights.sum()) if len(weights) else matrix.shape[1]
