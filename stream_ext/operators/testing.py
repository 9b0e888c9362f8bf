"""A condition or expression, bound to the columns that it sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from stream_ext.operators.moment import Moment
from stream_ext.plan.expressions import Computed, Condition, Scope, compile_condition, compile_value
from stream_ext.plan.formulas import Expression
from stream_ext.plan.functions import registered_functions
from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.plan.terms import Variable
from stream_ext.zset import Ids, ZSet


def scope_of(moment: Moment) -> Scope:
    return Scope(moment.vocabulary, moment.now_ms, moment.seed, moment.base, registered_functions(), moment.control)


def _shown(variables: tuple[str, ...], sees: Names) -> tuple[str, ...]:
    return tuple(v if v in sees else "" for v in variables)


def _is_one_of(expression: Expression, shown: tuple[str, ...]) -> TypeGuard[Variable]:
    return isinstance(expression, Variable) and bool(expression.name) and expression.name in shown


class _Lazily(Sequence[Ids]):
    """The columns of some rows; those that nobody looks at are never made."""

    __slots__ = ("_rows",)

    def __init__(self, rows: ZSet) -> None:
        self._rows = rows

    def __getitem__(self, place: Any) -> Any:
        return self._rows.column(place)

    def __len__(self) -> int:
        return self._rows.width


class Tester:
    """For which rows a condition is true."""

    def __init__(
        self, variables: tuple[str, ...], condition: Expression, sees: Names, resources: Names = NO_NAMES
    ) -> None:
        """`resources` names columns that hold no literal: these are compared by their ids."""
        self._condition: Condition = compile_condition(condition, _shown(variables, sees), resources & sees)
        self.is_volatile = self._condition.is_volatile

    def mask(self, moment: Moment, rows: ZSet) -> npt.NDArray[np.bool_]:
        return self._condition.mask(_Lazily(rows), scope_of(moment), rows.count)


class Calculator:
    """The value of an expression for each row; 0 where it has none."""

    def __init__(
        self, variables: tuple[str, ...], expression: Expression, sees: Names, resources: Names = NO_NAMES
    ) -> None:
        shown = _shown(variables, sees)
        self._computed: Computed = compile_value(expression, shown, resources & sees)
        #: The column of which the value is a copy, whatever is in it.
        self.copies = shown.index(expression.name) if _is_one_of(expression, shown) else None
        self.is_volatile = self._computed.is_volatile

    def ids(self, moment: Moment, rows: ZSet) -> Ids:
        return self._computed.ids(_Lazily(rows), scope_of(moment), rows.count)
