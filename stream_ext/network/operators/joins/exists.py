"""Exists: the solutions for which a question (EXISTS) has an answer.

The question is evaluated for the distinct values of the variables that it shares with the solutions; its result is the
values for which there is an answer."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from stream_ext.network.operators.answers.distinct import Distinct
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.joins.join import JoinOperator, Pairs
from stream_ext.rows.zset import Ids, ZSet, concat

_TRUE = b'"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'
_FALSE = b'"false"^^<http://www.w3.org/2001/XMLSchema#boolean>'


class Keep(StrEnum):
    """Which solutions are emitted."""

    WITH = "EXISTS"
    WITHOUT = "NOT EXISTS"
    BOTH = "a column that says which"


class ExistsOperator(Shareable):
    def __init__(self, inside: tuple[str, ...], shared: tuple[str, ...], keep: Keep, name: str) -> None:
        self._keep = keep
        self.variables = (*inside, name) if keep is Keep.BOTH else inside
        self._found = Distinct(shared)
        self._join = JoinOperator(inside, shared)
        self._pairs = Pairs(inside, shared)
        self.creates_terms = self.encodes_terms = keep is Keep.BOTH

    @property
    def likeness(self) -> Likeness:
        return ExistsOperator, self._keep, self._pairs.likeness

    def shown(self, time: int) -> Sequence[ZSet]:
        return self._found.shown(time)

    def step(self, moment: Moment, left: ZSet, found: ZSet) -> ZSet:
        """`found`: the values of the shared variables for which there is an answer."""
        found = self._found.step(moment, found)
        if moment.last:
            there = np.zeros(left.count, np.bool_)
            there[self._pairs.once(moment, left, found)[0]] = True
            return self._answered(moment, left.take(there), left.take(~there))
        having = self._join.step(moment, left, found)
        return self._answered(moment, having, concat([left, having.negated()], left.width))

    def _answered(self, moment: Moment, having: ZSet, lacking: ZSet) -> ZSet:
        if self._keep is Keep.WITH:
            return having
        if self._keep is Keep.WITHOUT:
            return lacking
        true, false = moment.vocabulary.encode([_TRUE, _FALSE])
        return concat([_marked(having, true), _marked(lacking, false)], len(self.variables))


def _marked(rows: ZSet, mark: np.uint64) -> ZSet:
    column: Ids = np.full(rows.count, mark, np.uint64)
    return rows.with_columns((*rows.stored, column))
