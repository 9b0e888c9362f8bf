"""Selects: from the pattern of a SELECT to its rows: grouping, assignments, projection, order and limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from stream_ext.network.building.conditions import Conditions
from stream_ext.network.building.conjunctions import Conjunctions
from stream_ext.network.building.recursion import PartRecursion
from stream_ext.network.building.wiring import Wiring
from stream_ext.network.operators.answers.cut import Cut
from stream_ext.network.operators.answers.ranking import Orders, Ranking
from stream_ext.network.operators.answers.slice import Slice
from stream_ext.network.operators.groups.aggregates import Aggregated
from stream_ext.network.operators.groups.grouped import Grouped
from stream_ext.network.operators.groups.no_rows import NoRows
from stream_ext.network.operators.instants.groups_by_instant import CountedGroups, only_count
from stream_ext.network.operators.instants.groups_in_rounds import GroupsInRounds
from stream_ext.network.operators.instants.lives import hidden
from stream_ext.network.operators.joins.left_join import LeftJoinOperator
from stream_ext.network.wires import Ground, Wire
from stream_ext.plan.logic import NO_NAMES, Aggregation, Conjunction, Grouping, Names, PatternScan, Select
from stream_ext.plan.properties.columns_read import count_rows, read_of
from stream_ext.plan.properties.features import makes_terms, ranked_places
from stream_ext.plan.properties.pushdown import accepts_bindings


class Selects:
    """Builds the whole query, and each sub-SELECT in it."""

    def __init__(
        self, wiring: Wiring, conditions: Conditions, conjunctions: Conjunctions, builder: PartRecursion, orders: Orders
    ) -> None:
        """`orders`: the orders of first appearance that the query has, or will have."""
        self._wiring, self._conditions, self._conjunctions, self._builder = wiring, conditions, conjunctions, builder
        self._orders = orders
        self._places: Mapping[Select, str] = {}
        self._sliced: Counter[str] = Counter()
        self._makes_terms = False

    def begin(self, select: Select, *, with_places: bool) -> None:
        """`select` is the whole query. `with_places`: its sub-SELECTs may be cut by the order of first appearance."""
        self._makes_terms = makes_terms(select)
        self._places = ranked_places(select) if with_places else {}

    def sub_select(self, node: Select, wire: Wire, ground: Ground) -> Wire:
        shared = tuple(v for v in wire.variables if v in node.variables or v in ground.carried)
        seeds = frozenset(shared) - ground.carried
        start = ground.wire
        retained = tuple(v for v in start.variables if v in ground.carried)
        if seeds and seeds <= wire.certain and self._is_worth_it(node, seeds, wire.rows):
            start, retained = self._wiring.distinct(self._wiring.project(wire, shared)), shared
        rows, cut = self.selected(node, start, ground, retained)
        if cut != Cut(cut.variables, cut.variables):
            operator = Slice(cut, self._ranking(node, cut))
            rows = self._wiring.add(operator, (rows,), rows.certain & frozenset(cut.names), "order and limit")
        if start.stage == wire.stage and self._wiring.is_parameters(wire):
            return rows  # of the parameters themselves, which are among its columns
        return self._wiring.joined(wire, rows)

    def _ranking(self, node: Select, cut: Cut) -> Ranking | None:
        if not cut.is_by_appearance:
            return None
        place = self._places[node]
        self._sliced[place] += 1  # asked for values, one sub-SELECT is built for each question
        return self._orders.of(f"{place}/{self._sliced[place]}", cut)

    def _is_worth_it(self, node: Select, seeds: Names, values: float) -> bool:
        """Whether evaluating the node for given values is expected to be less work than all of it."""
        for_values = self._wiring.estimates.peak(node.inner, seeds) * values
        return for_values * 2 < self._wiring.estimates.peak(node.inner, NO_NAMES)

    def selected(self, node: Select, start: Wire, ground: Ground, retained: tuple[str, ...]) -> tuple[Wire, Cut]:
        """From the pattern to the rows, for the values of `start`; `retained` are those of its columns that stay."""
        node = count_rows(node)
        unread = node.inner.variables - read_of(node) - frozenset(start.variables)
        if isinstance(node.inner, Conjunction) and accepts_bindings(
            node.inner, frozenset(start.variables) - ground.carried
        ):
            wire = self._conjunctions.conjunction(node.inner, start, ground, unread)
        elif isinstance(node.inner, PatternScan):
            wire = self._conjunctions.conjunction(Conjunction((node.inner,)), start, ground, unread)
        else:
            wire = self._builder.extend(node.inner, start, ground)
        wire = self._conditions.all_assigned(node.before, wire, ground)
        return self.finished(node, wire, start, ground, retained)

    def finished(
        self, node: Select, wire: Wire, start: Wire, ground: Ground, retained: tuple[str, ...]
    ) -> tuple[Wire, Cut]:
        """From solutions, with all that is computed of each, to the rows."""
        if node.grouping is not None:
            wire = self._grouped(node.grouping, wire, start, retained)
        wire = self._conditions.tested(node.having, wire, ground)
        wire = self._conditions.all_assigned(node.after, wire, ground)
        names = (*retained, *(name for name in node.names if name not in retained), *hidden(wire.variables))
        ordering = tuple(dict.fromkeys(v for v, _ in node.order if v not in names and v in wire.variables))
        wire = self._wiring.project(wire, names + ordering)
        distinct_at_end = node.distinct and bool(ordering)
        if node.distinct and not distinct_at_end:
            wire = self._wiring.distinct(wire)
        # What it is asked for: of a value that may be missing its mark says it, for the variable may have got another.
        per = tuple(v for v in retained if f"{v}'" not in retained) if node.is_cut else ()
        by_text = self._makes_terms and node.is_cut
        cut = Cut(wire.variables, names, node.order, distinct_at_end, node.offset, node.limit, per, by_text)
        return wire, cut

    def _grouped(self, grouping: Grouping, wire: Wire, start: Wire, retained: tuple[str, ...]) -> Wire:
        if self._wiring.is_numbered or not (grouping.always and retained):
            return self._groups(grouping, wire, retained)
        # One group for each of the values that are carried, also for those that have no row.
        counted = Aggregation(".rows", "COUNT", None, False, "")
        groups = self._groups(replace(grouping, aggregates=(*grouping.aggregates, counted)), wire, retained)
        values = self._wiring.distinct(self._wiring.project(start, retained))
        operator = LeftJoinOperator(values.variables, groups.variables, (), NO_NAMES)
        every = self._wiring.add(operator, (values, groups), values.certain, "every value")
        functions = [(each.variable, each.function) for each in grouping.aggregates]
        return self._wiring.add(
            NoRows(every.variables, ".rows", functions), (every,), every.certain, "groups without rows"
        )

    def _groups(self, grouping: Grouping, wire: Wire, retained: tuple[str, ...]) -> Wire:
        keys = (*retained, *(key for key in grouping.keys if key not in retained))
        aggregates = tuple(
            Aggregated(each.variable, each.function, each.argument, each.distinct, each.separator, each.follows)
            for each in grouping.aggregates
        )
        certain, label = wire.certain & frozenset(keys), f"group by {' '.join(keys)}"
        if self._wiring.is_numbered:
            of = CountedGroups if only_count(aggregates) else GroupsInRounds
            return self._wiring.add(of(wire.variables, keys, aggregates, grouping.always), (wire,), certain, label)
        operator = Grouped(wire.variables, keys, aggregates, grouping.always and not retained)
        return self._wiring.add(operator, (wire,), certain, label)
