"""Join: the pairs of compatible solutions.

Bilinear: (L + l)(R + r) - LR = l R + (L + l) r. So l is joined with what R was, folded into L, and then L with r."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pairing import Pairing, places
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.joins.coexisting import CoexistingPairs
from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.rows.row_index import JoinedRings, KeyedRows, RowIndex, SideBySideRows, Slots
from stream_ext.rows.zset import Columns, ZSet, empty

#: Pairs of rows that are compared one with another.
_FEW = 1024
#: A pair has its two places, a validity and a weight, too.
_CELLS_WITH_PAIR = 4


class Pairs:
    """The rows of two sides that agree in their keys, change by change."""

    def __init__(
        self, left: tuple[str, ...], right: tuple[str, ...], maybe: Names = NO_NAMES, carried: Names = NO_NAMES,
        stays: bool = False,
    ) -> None:  # fmt: skip
        """`stays`: all rows of the right side come in the first step, so rows of the left are not stored."""
        self.pairing = Pairing(left, right, maybe, carried)
        self._stays = stays
        self._names = left, right
        self.coexisting = CoexistingPairs()
        self._left = RowIndex(len(left), self.pairing.left_key)
        self._right = RowIndex(len(right), self.pairing.right_key)
        self._cells = len(left) + len(right) + _CELLS_WITH_PAIR  # that a pair needs
        # Of a pair, what the right has in common with the left is read there, if both sides bind it.
        is_strict = self.pairing.is_strict
        self._rings = JoinedRings(self._left, self._right, self.pairing.rest if is_strict else range(len(right)))
        found = places(self.pairing.variables, frozenset(right)) if is_strict else {}
        self._columns = [found[v] if is_strict else len(left) + n for n, v in enumerate(right)]  # of the right

    @property
    def likeness(self) -> Likeness:
        left, right = self._names
        return *self.pairing.likeness, len(left), len(right), self._stays

    def shorten(self, by: int) -> None:
        """All rows end earlier by so much from now on."""
        self._left.shorten(by)
        self._right.shorten(by)

    def step(self, moment: Moment, left: ZSet, right: ZSet) -> tuple[ZSet, ZSet]:
        """The pairs as two lists of rows; the validity and the weight of each pair are in the left one."""
        if not left.count and not right.count and moment.evaluations is None:
            return empty(left.width), empty(right.width)
        if self._stays:
            return self._joined_with_stored(moment, left, right)
        if moment.evaluations is None:
            pairs = self._rings.step(left, right, moment.time, moment.control, self._cells)
            partners = tuple([pairs.stored[place] for place in self._columns])
            mine = ZSet(pairs.stored[: left.width], pairs.count, pairs.weights, pairs.untils)
            return mine, ZSet(partners, pairs.count)
        return self._coexisting_pairs(moment, left, right)

    def joined(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        """The joined rows of compatible pairs."""
        if not self.pairing.is_strict or self._stays or moment.evaluations is not None:
            return self.pairing.joined(*self.step(moment, left, right))
        if not left.count and not right.count:
            return empty(len(self.pairing.variables))
        return self._rings.step(left, right, moment.time, moment.control, self._cells)

    def _coexisting_pairs(self, moment: Moment, left: ZSet, right: ZSet) -> tuple[ZSet, ZSet]:
        """As `step`, of many evaluations in one."""
        time, rows, others = moment.time, KeyedRows.of(left, self._left.key), KeyedRows.of(right, self._right.key)
        names, other_names = self._names
        old = self._right.partners(rows, time, control=moment.control)
        old = self.coexisting.of(old, rows, names, self._right, other_names, moment.evaluations)
        moment.control.room(len(old[0]), self._cells)
        self._left.insert_rows(rows, time)
        new = self._left.partners(others, time, control=moment.control)
        new = self.coexisting.of(new, others, other_names, self._left, names, moment.evaluations)
        count = len(old[0]) + len(new[0])
        moment.control.room(count, self._cells)
        weighted = self._left.weighted or self._right.weighted or right.weights is not None
        out = SideBySideRows(left.width + right.width, count, weighted)
        self._right.pair(rows, old, (0, left.width), 0, out)
        self._left.pair(others, new, (left.width, 0), len(old[0]), out)
        self._right.insert_rows(others, time)
        columns = tuple(out.matrix)
        return (
            ZSet(columns[: left.width], count, out.weights, out.untils),
            ZSet(columns[left.width :], count),
        )

    def _joined_with_stored(self, moment: Moment, left: ZSet, right: ZSet) -> tuple[ZSet, ZSet]:
        self._right.insert(right, moment.time)
        i, places = self._right.probe(self.pairing.left_keys(left), left.count, moment.time, moment.control)
        moment.control.room(len(i), left.width + right.width)
        return left.take(i), self._right.lazily_at(places)

    def once(self, moment: Moment, left: ZSet, right: ZSet) -> tuple[Slots, Slots]:
        """The places (in left, in right) of all pairs, for the only step of a one-shot query."""
        left_keys, right_keys = self.pairing.left_keys(left), self.pairing.right_keys(right)
        if left.count * right.count <= _FEW and left.untils is None and right.untils is None:
            return _compared(left_keys, right_keys, left.count, right.count)
        if left.count < right.count:
            j, i = _index_of(left_keys, left, moment).probe(right_keys, right.count, moment.time, moment.control)
        else:
            i, j = _index_of(right_keys, right, moment).probe(left_keys, left.count, moment.time, moment.control)
        moment.control.room(len(i), left.width + right.width)
        return i, j


def _compared(left: Columns, right: Columns, rows: int, others: int) -> tuple[Slots, Slots]:
    """Each row of the left with each of the right: for few of them that is quicker than any index."""
    same = np.ones((rows, others), np.bool_)
    for a, b in zip(left, right, strict=True):
        same &= a[:, None] == b
    i, j = same.nonzero()
    return i, j


def _index_of(keys: Columns, rows: ZSet, moment: Moment) -> RowIndex:
    """Of their keys alone; a row's place in it is that in the rows."""
    index = RowIndex(len(keys), range(len(keys)), rows.count)
    index.insert(ZSet(keys, rows.count, None, rows.untils), moment.time)
    return index


class JoinOperator(Shareable):
    """`maybe`: the shared variables that a solution of either side may leave unbound. `stays`: as in `Pairs`."""

    is_monotone = rests_without_rows = True

    def __init__(
        self, left: tuple[str, ...], right: tuple[str, ...], maybe: Names = NO_NAMES, stays: bool = False
    ) -> None:
        self._pairs = Pairs(left, right, maybe, stays=stays)
        self.variables = self._pairs.pairing.variables
        self.coexisting = self._pairs.coexisting
        found = places(self.variables, frozenset(right))
        self._places = [found[v] for v in right]  # of the right side's columns

    @property
    def likeness(self) -> Likeness:
        return JoinOperator, self._pairs.likeness

    def shorten(self, by: int) -> None:
        self._pairs.shorten(by)

    def step(self, moment: Moment, left: ZSet, right: ZSet) -> ZSet:
        pairing = self._pairs.pairing
        if moment.last:
            i, j = self._pairs.once(moment, left, right)
            return pairing.joined(left.take(i), right.take(j))
        pairs = self._pairs.joined(moment, left, right)
        return replace(pairs, fresh=self._fresh_columns(left, right) if pairs.weights is None else None)

    def _fresh_columns(self, left: ZSet, right: ZSet) -> frozenset[int] | None:
        """The columns of `ZSet.fresh`: a pair is new if one of its rows is."""
        pairing = self._pairs.pairing
        if not pairing.is_strict or (left.count and left.fresh is None) or (right.count and right.fresh is None):
            return None
        places = left.fresh if left.count and left.fresh is not None else frozenset[int]()
        if right.count and right.fresh is not None:
            places |= {self._places[i] for i in right.fresh}
        return places
