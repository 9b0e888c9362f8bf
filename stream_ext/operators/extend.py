"""Extend: one more column, computed of the others. Linear: a row's value is a function of the row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_ext.operators.moment import Moment
from stream_ext.operators.testing import Calculator
from stream_ext.zset import ZSet


class Extend:
    def __init__(self, inside: tuple[str, ...], variable: str, calculator: Calculator) -> None:
        self.variables = (*inside, variable)
        self._calculator = calculator

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        column = self._calculator.ids(moment, change) if change.count else np.empty(0, np.uint64)
        return replace(change.with_columns((*change.held, column)), fresh=change.fresh)
