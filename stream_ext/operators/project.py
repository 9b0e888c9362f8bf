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
        unbound = np.zeros(change.count, np.uint64) if None in self._from else None
        columns = tuple(unbound if i is None else change.columns[i] for i in self._from)
        return change.with_columns(columns)  # type: ignore[arg-type]  # unbound is made where it is used
