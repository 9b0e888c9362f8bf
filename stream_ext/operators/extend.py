"""Extend: one more column, computed of the others. Linear: a row's value is a function of the row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.operators.testing import Calculator
from stream_ext.zset import Deferred, Ids, ZSet


class Extend:
    def __init__(self, inside: tuple[str, ...], variable: str, calculator: Calculator) -> None:
        self.variables = (*inside, variable)
        self._calculator = calculator

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        held = (*change.held, self._column(moment, change))
        return ZSet(held, change.count, change.weights, change.untils, change.fresh, change.untold)

    def sources(self) -> Iterator[int | None]:
        """For each column the one that it is of those that come."""
        yield from range(len(self.variables) - 1)
        yield self._calculator.copies

    def _column(self, moment: Moment, change: ZSet) -> Ids | Deferred:
        if self._calculator.copies is not None:
            return change.held[self._calculator.copies]
        return self._calculator.ids(moment, change) if change.count else np.empty(0, np.uint64)
