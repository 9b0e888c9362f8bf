"""Parameters: the constants of the queries that share a network, a row for each; rows come and go with the queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.rows.zset import ZSet, empty


class Parameters:
    """The first column tells the rows apart. What is added or removed counts from the next step on."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables
        self._coming: list[Sequence[int]] = []
        self._going: list[Sequence[int]] = []

    def add(self, row: Sequence[int]) -> None:
        self._coming.append(row)

    def remove(self, row: Sequence[int]) -> None:
        self._going.append(row)

    @property
    def is_settled(self) -> bool:
        """Whether the next step brings nothing."""
        return not self._coming and not self._going

    def step(self, moment: Moment) -> ZSet:
        coming, going = self._coming, self._going
        if not coming and not going:
            return empty(len(self.variables))
        self._coming, self._going = [], []
        matrix = np.array([*coming, *going], np.uint64).reshape(-1, len(self.variables))
        columns = tuple(np.ascontiguousarray(column) for column in matrix.T)
        if not going:
            return ZSet(columns, len(coming), fresh=frozenset((0,)))
        return ZSet(columns, len(matrix), np.repeat(np.array([1, -1]), [len(coming), len(going)]))
