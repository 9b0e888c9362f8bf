"""Project: some of the columns, in order; a variable that the pattern does not have is unbound. Linear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.zset import ZSet


class Project:
    """`taken` says which column each variable is, where it is not the one of its own name."""

    def __init__(
        self, source: tuple[str, ...], variables: tuple[str, ...], taken: tuple[str, ...] | None = None
    ) -> None:
        self.variables = variables
        self._from = [source.index(v) if v in source else None for v in taken or variables]
        self._same = self._from == list(range(len(source)))
        self._keeps_all = set(range(len(source))) <= set(self._from)

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if self._same:
            return change
        unbound = np.zeros(change.count if None in self._from else 0, np.uint64)
        taken = change.with_columns(tuple(unbound if i is None else change.held[i] for i in self._from))
        return replace(taken, fresh=change.fresh and self._keeps_all)
