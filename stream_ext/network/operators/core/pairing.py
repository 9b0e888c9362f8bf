"""Pairing: how a solution of the left and one of the right are joined.

They are compatible if each variable that both bind has the same value. Variables that both sides bind for certain are
the key of the look-up; other shared variables are compared afterwards, and get their value from the side that has
one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.rows.row_index import paired_weights
from stream_ext.rows.zset import Columns, ZSet

#: So few names are looked for one by one.
_FEW = 8


def places(variables: tuple[str, ...], names: Collection[str]) -> dict[str, int]:
    """The places of the columns with these names, which must all exist."""
    if len(names) < _FEW:
        return {name: variables.index(name) for name in names}
    return {name: place for place, name in enumerate(variables) if name in names}


class Pairing:
    def __init__(
        self, left: tuple[str, ...], right: tuple[str, ...], maybe: Names = NO_NAMES, carried: Names = NO_NAMES
    ) -> None:
        """`maybe`: the shared variables that a solution of either side may leave unbound; `carried`: columns with
        values of an outer query, which are not variables of the solutions."""
        in_both = frozenset(right).intersection(left)
        in_left, in_right = places(left, in_both), places(right, in_both)
        shared = sorted(in_both, key=in_left.__getitem__)
        strict = [v for v in shared if v not in maybe]
        self.left_key = [in_left[v] for v in strict]
        self.right_key = [in_right[v] for v in strict]
        self._loose = [(in_left[v], in_right[v]) for v in shared if v in maybe]
        self._rest = [i for i, v in enumerate(right) if v not in in_both]
        self.variables = left + tuple(right[i] for i in self._rest)
        self._shared = [(in_left[v], in_right[v]) for v in shared if v not in carried]

    @property
    def is_strict(self) -> bool:
        """Whether the variables that both sides share are bound on both."""
        return not self._loose

    @property
    def rest(self) -> Sequence[int]:
        """The places of the columns that only the right side has."""
        return self._rest

    @property
    def always_meets(self) -> bool:
        """Whether rows that agree in the key bind a variable both."""
        return not self._loose and len(self._shared) > 0

    @property
    def likeness(self) -> tuple[object, ...]:
        """Equal for pairings of the same columns, whatever these are called."""
        lists: list[list[Any]] = [self.left_key, self.right_key, self._loose, self._rest, self._shared]
        return tuple([tuple(each) for each in lists])

    def left_keys(self, rows: ZSet) -> Columns:
        return tuple(rows.column(i) for i in self.left_key)

    def right_keys(self, rows: ZSet) -> Columns:
        return tuple(rows.column(i) for i in self.right_key)

    def compatible(self, left: ZSet, right: ZSet) -> npt.NDArray[np.bool_] | None:
        """Of rows side by side that agree in their keys; None: all of them."""
        mask = None
        for i, j in self._loose:
            a, b = left.column(i), right.column(j)
            agree = (a == b) | (a == 0) | (b == 0)
            mask = agree if mask is None else mask & agree
        return mask

    def meets(self, left: ZSet, right: ZSet) -> npt.NDArray[np.bool_]:
        """Which rows side by side bind at least one variable both."""
        mask = np.zeros(left.count, np.bool_)
        for i, j in self._shared:
            mask |= (left.column(i) != 0) & (right.column(j) != 0)
        return mask

    def joined(self, left: ZSet, right: ZSet) -> ZSet:
        """Row by row, those that are compatible; valid as long as both are."""
        mask = self.compatible(left, right)
        if mask is not None and not mask.all():
            left, right = left.take(mask), right.take(mask)
        return self.merged(left, right)

    def merged(self, left: ZSet, right: ZSet) -> ZSet:
        """Row by row, of compatible rows."""
        if left.untils is None or right.untils is None:
            untils = right.untils if left.untils is None else left.untils
        else:
            untils = np.minimum(left.untils, right.untils)
        columns = list(left.stored)
        for i, j in self._loose:
            known = left.column(i)
            columns[i] = np.where(known == 0, right.column(j), known)
        columns += [right.stored[i] for i in self._rest]
        return ZSet(tuple(columns), left.count, paired_weights(left, right), untils)
