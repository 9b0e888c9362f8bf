"""Wiring: adds stages to the plan of a network, one behind the other.

project(distinct(joined(left, right)), names)    adds three stages; the result is the wire of the last"""

from __future__ import annotations

from dataclasses import replace

from stream_ext.evaluation_budget import Check
from stream_ext.network.building import sizes
from stream_ext.network.estimate import Estimates
from stream_ext.network.operators.answers.distinct import Distinct
from stream_ext.network.operators.core.operator import Operator
from stream_ext.network.operators.instants.covered import CoveredByInstant
from stream_ext.network.operators.instants.groups_by_instant import CountedGroups
from stream_ext.network.operators.instants.lives import shown
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.rowwise.project import Project
from stream_ext.network.operators.rowwise.sources import TableOperator as TableSource
from stream_ext.network.operators.rowwise.sources import UnitRow
from stream_ext.network.operators.rowwise.union import UnionOperator
from stream_ext.network.operators.scans.numbered_scan import CAME
from stream_ext.network.wires import Plan, Stage, Wire, maybe_of, resources_of
from stream_ext.plan.logic import NO_NAMES, Logic, Names
from stream_ext.windows.counted_window import CountedWindow


class Wiring:
    """The plan of one network while it is built."""

    def __init__(self, estimates: Estimates, counted: dict[str, CountedWindow], check: Check) -> None:
        """`check` is called again and again during the building, and may raise to end it."""
        self.plan = Plan(counted=counted)
        self.estimates, self.check = estimates, check
        #: The wire of the parameters of the queries that share the network; None: it has none.
        self.parameters: Wire | None = None
        self.is_numbered = False  # whether rows have the numbers of evaluations, in hidden columns
        self.unit = self.add(UnitRow(), (), certain=NO_NAMES, label="the unit row")

    def add(
        self, operator: Operator, inputs: tuple[Wire, ...], certain: Names, label: str, node: Logic | None = None
    ) -> Wire:
        estimate = inputs[0].rows if inputs else 1.0
        if node is not None:
            estimate *= self.estimates.rows(node, inputs[0].certain if inputs else NO_NAMES)
        self.plan.stages.append(Stage(operator, tuple(wire.stage for wire in inputs), estimate, label))
        stage = len(self.plan.stages) - 1
        if node is None and inputs and operator.variables is inputs[0].variables and len(inputs) == 1:
            return replace(inputs[0], stage=stage, certain=certain, rows=estimate)
        names = frozenset(operator.variables)
        resources = resources_of(operator, inputs, node) & names
        return Wire(stage, operator.variables, certain & names, estimate, resources)

    def joined(self, left: Wire, right: Wire) -> Wire:
        if left.stage == self.unit.stage:
            return right
        if right.stage == self.unit.stage:
            return left
        stays = isinstance(self.plan.stages[right.stage].operator, TableSource)
        operator = JoinOperator(left.variables, right.variables, maybe_of(left, right), stays)
        return self.add(operator, (left, right), left.certain | right.certain, "join")

    def distinct(self, wire: Wire) -> Wire:
        if self.is_numbered:
            operator = CountedGroups(wire.variables, shown(wire.variables), (), False)
            return self.add(operator, (wire,), wire.certain, "distinct")
        return self.add(Distinct(wire.variables), (wire,), wire.certain, "distinct")

    def covered(self, left: Wire, partners: Wire, marks: tuple[str, ...], emits_covered: bool, label: str) -> Wire:
        """The rows with partners, or those without, of numbered evaluations. `marks`: as in `CoveredByInstant`."""
        since = f"{CAME}{len(self.plan.stages)}'"
        operator = CoveredByInstant(left.variables, partners.variables, marks, since, emits_covered)
        return self.add(operator, (left, partners), left.certain | {since}, label)

    def project(self, wire: Wire, names: tuple[str, ...], sources: tuple[str, ...] | None = None) -> Wire:
        sources = sources or names
        if sources == names == wire.variables:
            return wire
        certain = frozenset(name for name, source in zip(names, sources, strict=True) if source in wire.certain)
        return self.add(Project(wire.variables, names, sources), (wire,), certain, f"project {' '.join(names)}")

    def union(self, parts: list[Wire]) -> Wire:
        while len(parts) > sizes.MERGED_MAX:
            # Each part is given the columns of all: of many parts some are given those of some first.
            parts = [self.union(parts[at : at + sizes.MERGED_MAX]) for at in range(0, len(parts), sizes.MERGED_MAX)]
        certain = parts[0].certain.intersection(*(part.certain for part in parts[1:]))
        return self.add(UnionOperator([part.variables for part in parts]), tuple(parts), certain, "union")

    def is_parameters(self, wire: Wire) -> bool:
        return self.parameters is not None and wire.stage == self.parameters.stage
