"""Conditions: filters, assignments, and the questions (EXISTS) in them.

A question is built from the distinct values of the variables that it shares with the solutions, and its result is
joined with the solutions."""

from __future__ import annotations

from collections.abc import Sequence

from stream_ext.language.algebra.formulas import Not
from stream_ext.language.algebra.terms import Variable
from stream_ext.network.building import sizes
from stream_ext.network.building.recursion import PartRecursion
from stream_ext.network.building.wiring import Wiring
from stream_ext.network.operators.core.operator import Operator
from stream_ext.network.operators.core.reevaluated import Reevaluated
from stream_ext.network.operators.core.testing import Calculator, Tester
from stream_ext.network.operators.joins.exists import ExistsOperator, Keep
from stream_ext.network.operators.rowwise.extend import ExtendOperator
from stream_ext.network.operators.rowwise.filter import FilterOperator
from stream_ext.network.wires import Ground, Wire
from stream_ext.plan.logic import NO_NAMES, Existence, Names, Test, mentioned


class Conditions:
    """Tests and assigns: a method takes a wire and returns the one after it."""

    def __init__(self, wiring: Wiring, builder: PartRecursion) -> None:
        self._wiring, self._builder = wiring, builder

    def sees(self, test: Test, ground: Ground) -> Names:
        """The variables that a condition may read."""
        return test.sees | ground.carried

    def tested(self, tests: Sequence[Test], wire: Wire, ground: Ground) -> Wire:
        for test in tests:
            keep = _single_question(test)
            if keep is not None:
                wire = self._with_answer(test.questions[0], self.sees(test, ground), keep, wire)
                continue
            wire = self._answered(test, wire, ground)
            tester = Tester(wire.variables, test.condition, self.sees(test, ground), wire.resources)
            operator: Operator = FilterOperator(wire.variables, tester)
            if tester.is_volatile:
                operator = Reevaluated(wire.variables, operator, test.draws)
            wire = self._wiring.add(operator, (wire,), wire.certain, "filter")
        return wire

    def _answered(self, test: Test, wire: Wire, ground: Ground) -> Wire:
        """The wire, with a column for each question of the condition."""
        for question in test.questions:
            wire = self._with_answer(question, self.sees(test, ground), Keep.BOTH, wire)
        return wire

    def _with_answer(self, question: Existence, sees: Names, keep: Keep, wire: Wire) -> Wire:
        inside = mentioned(question.inner) & sees
        shared = tuple(v for v in wire.variables if v in inside)
        if self._wiring.is_numbered:  # what they share is bound for certain (`plan.properties.arrival_batching`)
            found = self._builder.extend(question.inner, wire, Ground(wire, frozenset(shared)))
            return self._wiring.covered(wire, found, wire.variables, keep is Keep.WITH, keep.value.lower())
        # A value that may be missing is carried under another name: the question may give the variable one.
        marks = tuple(v if v in wire.certain else f"{v}'" for v in shared)
        values = self._wiring.distinct(self._wiring.project(wire, shared))
        carried = self._wiring.project(
            values, (*shared, *(m for m in marks if m not in shared)), (*shared, *_unmarked(marks))
        )
        ground = Ground(carried, frozenset(carried.variables))
        found = self._wiring.project(self._builder.extend(question.inner, carried, ground), shared, marks)
        certain = wire.certain | ({question.name} if keep is Keep.BOTH else NO_NAMES)
        return self._wiring.add(
            ExistsOperator(wire.variables, shared, keep, question.name), (wire, found), certain, keep.value.lower()
        )

    def assigned(self, variable: str, test: Test, wire: Wire, ground: Ground) -> Wire:
        wire = self._answered(test, wire, ground)
        calculator = Calculator(wire.variables, test.condition, self.sees(test, ground), wire.resources)
        operator: Operator = ExtendOperator(wire.variables, (variable, calculator))
        if calculator.is_volatile:
            operator = Reevaluated(wire.variables, operator, test.draws)
        return self._wiring.add(operator, (wire,), wire.certain, f"bind ?{variable}")

    def all_assigned(self, each: Sequence[tuple[str, Test]], wire: Wire, ground: Ground) -> Wire:
        """Assigns variables one by one; of many, those at once that contain no question and do not depend on the
        moment."""
        if len(each) <= sizes.ASSIGNED_MAX:
            for name, test in each:
                wire = self.assigned(name, test, wire, ground)
            return wire
        at_once: list[tuple[str, Test]] = []
        for name, test in each:
            self._wiring.check()
            if test.questions or test.is_chance or len(at_once) == sizes.ASSIGNED_MAX:
                wire, at_once = self._assigned_at_once(at_once, wire, ground), []
            if test.questions or test.is_chance:
                wire = self.assigned(name, test, wire, ground)
            else:
                at_once.append((name, test))
        return self._assigned_at_once(at_once, wire, ground)

    def _assigned_at_once(self, each: Sequence[tuple[str, Test]], wire: Wire, ground: Ground) -> Wire:
        if not each:
            return wire
        columns, calculators = {name: place for place, name in enumerate(wire.variables)}, []
        for name, test in each:
            calculators.append((name, Calculator(columns, test.condition, self.sees(test, ground), wire.resources)))
            columns[name] = len(columns)
        return self._wiring.add(
            ExtendOperator(wire.variables, *calculators), (wire,), wire.certain, f"bind {len(each)} variables"
        )


def _unmarked(marks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(mark[:-1] for mark in marks if mark.endswith("'"))


def _single_question(test: Test) -> Keep | None:
    """What to keep if the condition is one question or its negation; None: it is something else."""
    if len(test.questions) != 1:
        return None
    name = Variable(test.questions[0].name)
    if test.condition == name:
        return Keep.WITH
    return Keep.WITHOUT if test.condition == Not(name) else None
