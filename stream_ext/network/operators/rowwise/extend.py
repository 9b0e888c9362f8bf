"""Extend: more columns, computed of the others. Linear: a row's value is a function of the row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.core.testing import Calculator
from stream_ext.rows.zset import Deferred, Ids, ZSet


class ExtendOperator(Shareable):
    is_stateless = encodes_terms = is_monotone = rests_without_rows = True

    def __init__(self, inside: tuple[str, ...], *calculators: tuple[str, Calculator]) -> None:
        """Each of the `calculators` can read the columns of those before it."""
        self.variables = (*inside, *(variable for variable, _ in calculators))
        self._calculators = [calculator for _, calculator in calculators]
        self.creates_terms = any(calculator.copies is None for calculator in self._calculators)

    @property
    def likeness(self) -> Likeness | None:
        calculators = [calculator.likeness for calculator in self._calculators]
        return None if None in calculators else (ExtendOperator, len(self.variables), *calculators)

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        for calculator in self._calculators:
            columns = (*change.stored, _column(calculator, moment, change))
            change = ZSet(columns, change.count, change.weights, change.untils, change.fresh, change.omitted)
        return change

    def sources(self) -> Iterator[int | None]:
        """For each column the input column that it copies."""
        found: list[int | None] = list(range(len(self.variables) - len(self._calculators)))
        for calculator in self._calculators:
            found.append(None if calculator.copies is None else found[calculator.copies])
        return iter(found)


def _column(calculator: Calculator, moment: Moment, change: ZSet) -> Ids | Deferred:
    if calculator.copies is not None:
        return change.stored[calculator.copies]
    return calculator.ids(moment, change) if change.count else np.empty(0, np.uint64)
