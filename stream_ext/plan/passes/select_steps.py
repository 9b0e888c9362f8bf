"""The steps of a SELECT between its pattern and its rows: expressions before and after grouping."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from stream_ext.language.algebra.algebra import Aggregate, Expression, Query
from stream_ext.language.algebra.replace_parts import replaced
from stream_ext.language.algebra.terms import Variable
from stream_ext.plan.logic import Aggregation, Grouping, Names, Test

Shown = AbstractSet[str]


class Stages:
    """The expressions that are computed for solutions (`before`) and, with GROUP BY, for groups (`after`).

    `test` converts an expression, given the variables that it sees; `fresh` returns an unused name."""

    def __init__(self, test: Callable[[Expression, Shown], Test], fresh: Callable[[], str], sees: Names) -> None:
        self._test, self._fresh = test, fresh
        self.sees = set(sees)
        self._shown = set(sees)  # what it sees, and aggregates
        self.before: list[tuple[str, Test]] = []
        self.after: list[tuple[str, Test]] = []
        self.aggregates: list[Aggregation] = []
        self._known: dict[Aggregate, str] = {}
        self._inside = set(sees)

    def group(self, query: Query) -> Grouping:
        keys = []
        for each in query.shape.group_by:
            if isinstance(each.expression, Variable) and each.variable in (None, each.expression.name):
                keys.append(each.expression.name)
                continue
            name = each.variable or self._fresh()
            self.before.append((name, self._test(each.expression, self._inside)))
            self._inside.add(name)
            keys.append(name)
        self.sees, self._shown = set(keys), set(keys)
        return Grouping(tuple(dict.fromkeys(keys)), (), not query.shape.group_by)

    def compute(self, name: str, expression: Expression) -> None:
        self.after.append((name, self.test(expression)))
        self.sees.add(name)
        self._shown.add(name)

    def test(self, expression: Expression) -> Test:
        return self._test(replaced(expression, self._aggregate), self._shown)

    def name(self, expression: Expression) -> str:
        """The variable of an expression: itself if it is one, else a new one."""
        if isinstance(expression, Variable):
            return expression.name
        name = self._fresh()
        self.compute(name, expression)
        return name

    def _aggregate(self, part: Expression) -> Expression | None:
        if not isinstance(part, Aggregate):
            return None
        if part not in self._known:
            self._known[part] = name = self._fresh()
            self._shown.add(name)
            argument = None if part.argument is None else self._argument(part.argument)
            separator = " " if part.separator is None else part.separator
            self.aggregates.append(Aggregation(name, part.name, argument, part.distinct, separator))
        return Variable(self._known[part])

    def _argument(self, expression: Expression) -> str:
        if isinstance(expression, Variable):
            return expression.name
        name = self._fresh()
        self.before.append((name, self._test(expression, self._inside)))
        return name
