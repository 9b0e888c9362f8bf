"""Builder: goes through the parts of a query; what a part is says which operators it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import QuadPattern
from stream_ext.network.building import sizes
from stream_ext.network.building.conditions import Conditions
from stream_ext.network.building.conjunctions import Conjunctions, read_by
from stream_ext.network.building.scans import IdPatterns, Scans
from stream_ext.network.building.selects import Selects
from stream_ext.network.building.wiring import Wiring
from stream_ext.network.estimate import Estimates
from stream_ext.network.operators.answers.construct import Construct
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.parameters import Parameters
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.core.testing import Tester
from stream_ext.network.operators.joins.left_join import LeftJoinOperator
from stream_ext.network.operators.joins.minus import MinusOperator
from stream_ext.network.operators.joins.otherwise import Otherwise
from stream_ext.network.operators.rowwise.sources import GivenRows
from stream_ext.network.operators.rowwise.sources import TableOperator as TableSource
from stream_ext.network.wires import Ground, Plan, Wire, both_resources, maybe_of, merged_names
from stream_ext.plan.logic import (
    NO_NAMES,
    Alternatives,
    Assign,
    Conjunction,
    GraphNames,
    Logic,
    Names,
    Optional,
    PathSource,
    PatternScan,
    PerGraph,
    Remote,
    Select,
    SourceEvaluated,
    Table,
    Without,
    mentioned,
    traits_of,
    varies,
)
from stream_ext.plan.passes.join_order import reads_store
from stream_ext.plan.properties.pushdown import accepts_bindings
from stream_ext.plan.properties.result_columns import TRIPLE
from stream_ext.rows.key_range import KeyRange
from stream_ext.windows.counted_window import CountedWindow
from stream_ext.windows.displacing import Displacing
from stream_ext.windows.scheduled_window import ScheduledWindow


class Builder:
    """One for each network."""

    def __init__(
        self,
        windows: Mapping[str, ScheduledWindow],
        resolve: Callable[[bytes], int],
        estimates: Callable[[Callable[[PatternScan], IdPattern]], Estimates],
        orders: Orders,
        check: Check = Control.FREE.check,
        held: bool = False,
        numbered: bool = False,
        keys: KeyRange | None = None,
    ) -> None:
        """`orders`: the orders of first appearance that the query has, or will have; `check` is called again and again
        during the building. `held`: patterns over the store read held edges, too. `numbered`: many evaluations at
        arrivals are one step, and rows have hidden columns with the numbers of theirs
        (`plan.properties.arrival_batching` says for which queries). `keys`: the part of the query that is evaluated
        here, if it is divided (`plan.properties.divisible`)."""
        counting = [(name, window, window.count) for name, window in windows.items() if window.count is not None]
        counted = {name: CountedWindow(window.stream, count, window.lead_ms) for name, window, count in counting}
        displacing = {name: Displacing(window.stream, count, window.lead_ms) for name, window, count in counting}
        patterns = IdPatterns(resolve, held, keys)
        self._wiring = Wiring(estimates(patterns.of), {} if numbered else counted, check)
        self._wiring.is_numbered = numbered
        if numbered:
            self._wiring.plan.displacing.update(displacing)
        self._scans = Scans(self._wiring, patterns, windows)
        self._conditions = Conditions(self._wiring, self)
        self._conjunctions = Conjunctions(self._wiring, patterns, self._conditions, self)
        self._selects = Selects(self._wiring, self._conditions, self._conjunctions, self, orders)
        # What was built, by the part, its input, and the values that it was built for.
        self._built: dict[tuple[Logic, int, int, Names], Wire] = {}

    @property
    def plan(self) -> Plan:
        return self._wiring.plan

    def query(self, select: Select) -> tuple[Wire, Cut]:
        """The whole query: the wire of its rows, and how they are cut at the end."""
        self._selects.begin(select, with_places=True)
        return self._selects.selected(select, self._wiring.unit, Ground(self._wiring.unit), ())

    def shared(self, select: Select, parameters: Parameters) -> tuple[Wire, Cut]:
        """The rows of many queries that differ in their parameters only; the first column is the row's query.

        The parameters that are read after a GROUP BY also come before the query's own columns."""
        wire = self._wiring.add(parameters, (), frozenset(parameters.variables), "the parameters of its queries")
        self._wiring.parameters = wire
        self._selects.begin(select, with_places=False)
        later = () if select.grouping is None else (*select.having, *(test for _, test in select.after))
        read = NO_NAMES.union(*map(read_by, later))
        retained = tuple(v for v in wire.variables if v == wire.variables[0] or v in read)
        return self._selects.selected(select, wire, Ground(wire, frozenset(wire.variables)), retained)

    def over_groups(self, select: Select, groups: GivenRows, carried: tuple[str, ...]) -> tuple[Wire, Cut]:
        """The rows that are made of what groups have in several ranges (`plan.properties.partial_groups`). Each has
        the columns `carried` in addition."""
        wire = self._wiring.add(groups, (), frozenset(carried), "groups of all ranges")
        self._selects.begin(select, with_places=False)
        return self._selects.finished(select, wire, wire, Ground(wire, frozenset(carried)), carried)

    def graph(self, select: Select, template: Sequence[QuadPattern], salt: bytes) -> tuple[Wire, Cut]:
        """The triples that a template makes of the rows, each once."""
        rows, cut = self.query(select)
        if cut.is_limited:
            return rows, cut  # which rows are left is known only at the end
        triples = self._wiring.add(Construct(rows.variables, template, salt), (rows,), frozenset(TRIPLE), "construct")
        return self._wiring.distinct(triples), Cut(TRIPLE, TRIPLE)

    def extend(self, node: Logic, wire: Wire, ground: Ground) -> Wire:
        """The solutions of the wire, joined with those of the node: built once, however often it occurs in the
        query."""
        if varies(node) or self._wiring.is_numbered:
            return self._built_anew(node, wire, ground)
        key = (node, wire.stage, ground.wire.stage, ground.carried)
        if key not in self._built:
            self._built[key] = self._built_anew(node, wire, ground)
        return self._built[key]

    def _built_anew(self, node: Logic, wire: Wire, ground: Ground) -> Wire:
        self._wiring.check()
        ground = self.ground_of(node, ground)
        names = node.variables.intersection(wire.variables) - ground.carried
        if not accepts_bindings(node, names):
            return self._wiring.joined(wire, self.extend(node, ground.wire, ground))
        if wire.stage != ground.wire.stage and not ground.carried and not reads_store(node):
            # The content of a window is no cheaper to find for some values only.
            return self._wiring.joined(wire, self.extended(node, ground.wire, ground))
        if len(wire.variables) > sizes.WIDE and self._may_join_later(node, names, wire, ground):
            return self.joined_later(node, names, wire, ground)
        return self.extended(node, wire, ground)

    def _may_join_later(self, node: Logic, names: Names, wire: Wire, ground: Ground) -> bool:
        """Whether `joined_later` is worth it, and correct: variables that may be unbound cannot be joined by."""
        traits = traits_of(node)
        few = len(names) + len(ground.carried) <= len(wire.variables) // 2
        return few and traits.size > sizes.SMALL and not traits.varies and names | ground.carried <= wire.certain

    def joined_later(self, node: Logic, names: Names, wire: Wire, ground: Ground) -> Wire:
        """Evaluates a node for the values of its variables alone, and joins the result with the solutions of many
        columns.

        Each stage has all columns of the one before: thousands of columns are not passed through thousands of
        stages."""
        if not names:
            return self._wiring.joined(wire, self.extended(node, ground.wire, ground))
        shared = tuple(v for v in wire.variables if v in names or v in ground.carried)
        values = self._wiring.distinct(self._wiring.project(wire, shared))
        return self._wiring.joined(wire, self.extended(node, values, ground))

    def ground_of(self, node: Logic, ground: Ground) -> Ground:
        """The ground of a node. A node that reads no carried variable is the same for all values, and evaluated
        once."""
        return ground if mentioned(node) & ground.carried else Ground(self._wiring.unit)

    def extended(self, node: Logic, wire: Wire, ground: Ground) -> Wire:
        match node:
            case PatternScan():
                return self._scans.scan(node, wire)
            case PathSource():
                return self._scans.path(node, wire)
            case GraphNames():
                return self._scans.graph_names(node, wire)
            case PerGraph():
                return self._wiring.joined(wire, self._per_graph(node, ground))
            case Table(names, rows):
                table = self._wiring.add(TableSource(names, rows), (), node.certain, f"values {' '.join(names)}", node)
                return self._wiring.joined(wire, table)
            case Conjunction():
                return self._conjunctions.conjunction(node, wire, ground, NO_NAMES)
            case Optional():
                return self._optional(node, wire, ground)
            case Without(left, right) if self._wiring.is_numbered:
                found = self._numbered_without(left, right, ground)
                return found if wire.stage == ground.wire.stage else self._wiring.joined(wire, found)
            case Without(left, right):
                return self._without(self.extend(left, wire, ground), left, right, ground)
            case Alternatives(parts):
                return self._wiring.union([self.extend(part, wire, ground) for part in parts])
            case Assign(inner, variable, test):
                return self._conditions.assigned(variable, test, self.extend(inner, wire, ground), ground)
            case Select():
                return self._selects.sub_select(node, wire, ground)
            case Remote():
                return self._scans.remote(node, wire)
            case SourceEvaluated():
                return self._wiring.joined(wire, self._scans.evaluated_by_source(node))

    def _per_graph(self, node: PerGraph, ground: Ground) -> Wire:
        """A node for each graph: starts from the graphs, and carries them."""
        graphs = self.extended(GraphNames(node.graph, node.window), ground.wire, ground)
        if node.remote is not None:
            graphs = self._wiring.union([graphs, self.extended(node.remote, ground.wire, ground)])
        found = self.extend(node.inner, graphs, Ground(graphs, ground.carried | {node.scope}))
        if node.scope == node.name:
            return found
        names = tuple(v for v in graphs.variables if v not in (node.scope, node.name))
        named = self._wiring.project(graphs, (*names, node.scope, node.name), (*names, node.scope, node.scope))
        if node.name in ground.carried:  # a value that is asked for is met by the join, and stands once for each graph
            named = self._wiring.distinct(named)
        found = self._wiring.joined(found, named)
        return self._wiring.project(found, tuple(v for v in found.variables if v != node.scope))

    def _optional(self, node: Optional, wire: Wire, ground: Ground) -> Wire:
        if self._wiring.is_numbered:
            left, matched = self._with_partners(node.left, node.right, ground)
            matched = self._conditions.tested(node.tests, matched, ground)
            alone = self._wiring.covered(left, matched, left.variables, False, "optional")
            found = self._wiring.union([matched, alone])
            return found if wire.stage == ground.wire.stage else self._wiring.joined(wire, found)
        left = self.extend(node.left, wire, ground)
        right = self._right_side(node.right, left, ground)
        merged, resources = merged_names(left, right), both_resources(left, right)
        sees = [self._conditions.sees(test, ground) for test in node.tests]
        testers = [Tester(merged, test.condition, seen, resources) for test, seen in zip(node.tests, sees, strict=True)]
        if any(test.questions for test in node.tests) or any(tester.is_volatile for tester in testers):
            return self._optional_with_questions(node, left, right, ground)
        operator = LeftJoinOperator(left.variables, right.variables, testers, maybe_of(left, right))
        return self._wiring.add(operator, (left, right), left.certain, "optional", node)

    def _optional_with_questions(self, node: Optional, left: Wire, right: Wire, ground: Ground) -> Wire:
        """Joins and tests the right side as any other part, then adds the left rows without a match."""
        open_ = tuple(v for v in left.variables if v in right.variables and v in maybe_of(left, right))
        marks = tuple(f"{v}'" if v in open_ else v for v in left.variables)
        marked = self._wiring.project(left, (*left.variables, *(f"{v}'" for v in open_)), (*left.variables, *open_))
        matched = self._conditions.tested(node.tests, self._wiring.joined(marked, right), ground)
        operator = Otherwise(left.variables, matched.variables, marks)
        return self._wiring.add(operator, (left, matched), left.certain, "optional", node)

    def _right_side(self, node: Logic, left: Wire, ground: Ground) -> Wire:
        """The right side for the values of the left side, if that is correct and not more work; else all of it."""
        ground = self.ground_of(node, ground)
        shared = tuple(v for v in left.variables if v in node.variables or v in ground.carried)
        seeds = frozenset(shared) - ground.carried
        is_cheaper = reads_store(node) or bool(ground.carried)
        if not seeds or not seeds <= left.certain or not accepts_bindings(node, seeds) or not is_cheaper:
            return self.extend(node, ground.wire, ground)
        values = self._wiring.distinct(self._wiring.project(left, shared))
        return self.extended(node, values, ground)

    def _with_partners(self, left: Logic, right: Logic, ground: Ground) -> tuple[Wire, Wire]:
        """Of numbered evaluations: the left rows, and each with each of its partners. What they share is bound for
        certain (`plan.properties.arrival_batching`)."""
        wire = self.extend(left, ground.wire, ground)
        if not ground.carried <= frozenset(wire.variables):
            wire = self._wiring.joined(ground.wire, wire)
        return wire, self.extend(right, wire, ground)

    def _numbered_without(self, left: Logic, right: Logic, ground: Ground) -> Wire:
        wire, matched = self._with_partners(left, right, ground)
        return self._wiring.covered(wire, matched, wire.variables, False, "minus")

    def _without(self, left: Wire, own: Logic, right: Logic, ground: Ground) -> Wire:
        if not own.variables & right.variables:
            return left  # nothing is compatible with what it shares no variable with
        other = self.extend(right, ground.wire, ground)
        hidden = frozenset(left.variables) - own.variables - ground.carried
        operator = MinusOperator(left.variables, other.variables, maybe_of(left, other), hidden, ground.carried)
        return self._wiring.add(operator, (left, other), left.certain, "minus")
