"""Join: the pairs of compatible solutions.

Bilinear: (L + l)(R + r) - LR = l R + (L + l) r. So l is joined with what R was, folded into L, and then L with r."""

from __future__ import annotations

from stream_ext.operators.moment import Moment
from stream_ext.operators.pairing import Pairing
from stream_ext.operators.row_index import RowIndex, Slots
from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.zset import ZSet, concat


class Pairs:
    """The rows of two sides that agree in their keys, change by change."""

    def __init__(
        self, left: tuple[str, ...], right: tuple[str, ...], maybe: Names = NO_NAMES, carried: Names = NO_NAMES
    ) -> None:
        self.pairing = Pairing(left, right, maybe, carried)
        self._left = RowIndex(len(left), self.pairing.left_key)
        self._right = RowIndex(len(right), self.pairing.right_key)

    def step(self, moment: Moment, left: ZSet, right: ZSet) -> list[tuple[ZSet, ZSet]]:
        """Rows side by side."""
        i, slot = self._right.probe(self.pairing.left_keys(left), left.count, moment.time)
        moment.control.room(len(i), left.width + right.width)
        old = (left.take(i), self._right.at(slot))
        self._left.insert(left, moment.time)
        j, slot = self._left.probe(self.pairing.right_keys(right), right.count, moment.time)
        moment.control.room(len(j), left.width + right.width)
        new = (self._left.at(slot), right.take(j))
        self._right.insert(right, moment.time)
        return [old, new]

    def once(self, moment: Moment, left: ZSet, right: ZSet) -> tuple[Slots, Slots]:
        """The places (in left, in right) of all pairs, where nothing was before and nothing comes after."""
        if left.count < right.count:
            index = RowIndex(left.width, self.pairing.left_key, left.count)
            index.insert(left, moment.time)
            j, i = index.probe(self.pairing.right_keys(right), right.count, moment.time)
        else:
            index = RowIndex(right.width, self.pairing.right_key, right.count)
            index.insert(right, moment.time)
            i, j = index.probe(self.pairing.left_keys(left), left.count, moment.time)
        moment.control.room(len(i), left.width + right.width)
        return i, j


class Join:
    """`maybe`: the shared variables that a solution of either side may leave unbound."""

    def __init__(self, left: tuple[str, ...], right: tuple[str, ...], maybe: Names = NO_NAMES) -> None:
        self._pairs = Pairs(left, right, maybe)
        self.variables = self._pairs.pairing.variables

    def step(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        pairing = self._pairs.pairing
        if moment.last:
            i, j = self._pairs.once(moment, left, right)
            return pairing.joined(left.take(i), right.take(j))
        found = [pairing.joined(*pair) for pair in self._pairs.step(moment, left, right)]
        return concat(found, len(self.variables))
