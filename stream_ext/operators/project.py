"""Project: some of the columns, in order; a variable that the pattern does not have is unbound. Linear."""

from __future__ import annotations

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.zset import ZSet


class Project:
    def __init__(self, source: tuple[str, ...], variables: tuple[str, ...]) -> None:
        self.variables = variables
        self._from = [source.index(v) if v in source else None for v in variables]
        self._same = variables == source

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if self._same:
            return change
        rows = np.zeros((len(change), len(self._from)), np.uint64)
        for to, column in enumerate(self._from):
            if column is not None:
                rows[:, to] = change.rows[:, column]
        return ZSet(rows, change.weights, change.untils)
