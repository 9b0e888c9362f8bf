"""Sources that need no input: the unit row, tables of VALUES, rows that are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_ext.language.algebra.terms import Constant
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.rows.zset import ZSet, empty, unit


class UnitRow(Shareable):
    """The one row without columns, once."""

    variables = ()
    is_stateless = is_monotone = True

    @property
    def likeness(self) -> Likeness:
        return (UnitRow,)

    def step(self, moment: Moment) -> ZSet:
        return unit() if moment.changes is None else empty(0)


class TableOperator(Shareable):
    creates_terms = encodes_terms = is_stateless = is_monotone = True

    def __init__(self, variables: tuple[str, ...], rows: Sequence[Sequence[Constant | None]]) -> None:
        self.variables = variables
        self._count = len(rows)
        self._columns = [[row[i] for row in rows] for i in range(len(variables))]

    @property
    def likeness(self) -> Likeness:
        return TableOperator, self._count, *(tuple(cells) for cells in self._columns)

    def step(self, moment: Moment) -> ZSet:
        if moment.changes is not None:
            return empty(len(self.variables))
        columns = []
        for cells in self._columns:
            column = np.zeros(self._count, np.uint64)
            bound = [i for i, cell in enumerate(cells) if cell is not None]
            column[bound] = moment.vocabulary.encode([cell.text for cell in cells if cell is not None])
            columns.append(column)
        return ZSet(tuple(columns), self._count)


class GivenRows(Shareable):
    """Whoever steps the network says what the rows are."""

    is_stateless = True

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables
        self.rows = empty(len(variables))

    @property
    def likeness(self) -> Likeness | None:
        return None

    def step(self, moment: Moment) -> ZSet:
        return self.rows
