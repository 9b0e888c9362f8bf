"""Reevaluated: an operator whose result depends on the moment, too (NOW, RAND and the like).

The same rows may give another result at the next evaluation. So all input rows are stored and evaluated again each
time, and the output is the difference from the last result. A row that is there twice is evaluated twice: it has two
chances. Chance is a function of a row's number. So for operators with chance, rows are numbered in an order that does
not depend on how they came, nor on the network: an evaluation that is repeated as a one-shot query gives the same."""

from __future__ import annotations

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.operator import Operator
from stream_ext.rows.zset import ZSet, concat, consolidate, empty, repeated, sum_equal_rows


class Reevaluated:
    """Wraps an operator with one input that works row by row and has no state."""

    def __init__(self, inside: tuple[str, ...], operator: Operator, draws: bool = False) -> None:
        """`draws`: the operator uses chance, not only NOW()."""
        self.variables = operator.variables
        self._draws = draws
        self._by_name = sorted(range(len(inside)), key=inside.__getitem__)
        self._operator = operator
        self._rows = empty(len(inside))
        self._shown = empty(len(operator.variables))

    def has_rows(self) -> bool:
        """Whether the result may change although no row comes or goes."""
        return bool(self._rows.count)

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if moment.last:
            return self._operator.step(moment, self._numbered(moment, change) if self._draws else change)
        alive = self._rows.take(self._rows.until_array() >= moment.time)
        self._rows = consolidate(concat([alive, change], change.width))
        now = self._operator.step(moment, self._numbered(moment, self._rows))
        change_out = consolidate(concat([now, self._shown.negated()], now.width))
        self._shown = now
        return change_out

    def _numbered(self, moment: Moment, rows: ZSet) -> ZSet:
        """Each row as often as it counts."""
        columns, weights = sum_equal_rows(tuple(rows.column(i) for i in self._by_name), rows.weight_array())
        count = int(weights.sum())
        moment.control.room(count, rows.width)
        named = dict(zip(self._by_name, columns, strict=True))
        return ZSet(repeated(tuple(named[i] for i in range(len(columns))), weights), count)
