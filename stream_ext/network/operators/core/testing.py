"""A condition or expression, bound to the columns that it sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.algebra.replace_parts import rebuilt
from stream_ext.language.algebra.terms import Variable
from stream_ext.language.algebra.walk import walk
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pairing import places
from stream_ext.network.operators.core.shareable import Likeness
from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.rows.zset import Ids, ZSet
from stream_ext.values.expressions import (
    Columns,
    Computed,
    Condition,
    ExpressionContext,
    compile_condition,
    compile_value,
)
from stream_ext.values.functions import registered_functions

#: Longer expressions are not compared with those of other queries.
_COMPARED_MAX = 100


def scope_of(moment: Moment) -> ExpressionContext:
    return ExpressionContext(
        moment.vocabulary, moment.now_ms, moment.seed, moment.base, registered_functions(), moment.control
    )


def _places(variables: Columns, sees: Names, expression: Expression) -> dict[str, int]:
    """The places of the columns that an expression reads, and may read."""
    shown = {part.name for part in walk(expression) if isinstance(part, Variable) and part.name in sees}
    if isinstance(variables, tuple):
        return places(variables, shown.intersection(variables))
    return {name: variables[name] for name in shown if name in variables}


def _likeness(expression: Expression, shown: Mapping[str, int], resources: Names) -> Likeness | None:
    if sum(1 for _ in walk(expression)) > _COMPARED_MAX:
        return None

    def named(part: Any) -> Variable | None:
        return Variable(str(shown.get(part.name, ""))) if isinstance(part, Variable) else None

    return rebuilt(expression, named), frozenset(shown[name] for name in resources & shown.keys())


class _Lazily(Sequence[Ids]):
    """The columns of some rows; a column is built when it is first read."""

    __slots__ = ("_rows",)

    def __init__(self, rows: ZSet) -> None:
        self._rows = rows

    def __getitem__(self, place: Any) -> Any:
        return self._rows.column(place)

    def __len__(self) -> int:
        return self._rows.width


class _OfExpression:
    """What is made of an expression for some columns. It remembers nothing, so networks may share it."""

    def __init__(self, variables: Columns, expression: Expression, sees: Names, resources: Names) -> None:
        """`resources` names columns that hold no literal: these are compared by their ids."""
        self._shown = _places(variables, sees, expression)
        self._expression, self._resources = expression, resources

    @property
    def likeness(self) -> Likeness | None:
        """Equal for those that make the same of the same columns."""
        return _likeness(self._expression, self._shown, self._resources)

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Tester(_OfExpression):
    """Tests for which rows a condition is true."""

    def __init__(self, variables: Columns, condition: Expression, sees: Names, resources: Names = NO_NAMES) -> None:
        super().__init__(variables, condition, sees, resources)
        self._condition: Condition = compile_condition(condition, self._shown, resources)
        self.is_volatile = self._condition.is_volatile

    def mask(self, moment: Moment, rows: ZSet) -> npt.NDArray[np.bool_]:
        return self._condition.mask(_Lazily(rows), scope_of(moment), rows.count)


class Calculator(_OfExpression):
    """Computes an expression for each row; 0 is no value."""

    def __init__(self, variables: Columns, expression: Expression, sees: Names, resources: Names = NO_NAMES) -> None:
        super().__init__(variables, expression, sees, resources)
        self._computed: Computed = compile_value(expression, self._shown, resources)
        #: The column of which the value is a copy, whatever is in it.
        self.copies = self._shown.get(expression.name) if isinstance(expression, Variable) else None
        self.is_volatile = self._computed.is_volatile

    def ids(self, moment: Moment, rows: ZSet) -> Ids:
        return self._computed.ids(_Lazily(rows), scope_of(moment), rows.count)
