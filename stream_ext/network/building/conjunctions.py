"""Conjunctions: the parts of a group are joined, in the order that is expected to be the cheapest.

Example: { ?a :p ?b . ?b :q ?c } is a scan of :p, and a join that looks up :q for each ?b."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from stream_ext.network.building import sizes
from stream_ext.network.building.conditions import Conditions
from stream_ext.network.building.recursion import PartRecursion
from stream_ext.network.building.scans import IdPatterns, shown
from stream_ext.network.building.waiting import Ordered, Unused, Waiting
from stream_ext.network.building.wiring import Wiring
from stream_ext.network.operators.joins.counting import can_count
from stream_ext.network.operators.joins.intersection import Intersection, leads_to
from stream_ext.network.operators.joins.many_join import ManyJoin
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.network.wires import Ground, Wire
from stream_ext.plan.logic import (
    NO_NAMES,
    Alternatives,
    Conjunction,
    Logic,
    Names,
    PatternScan,
    Select,
    Test,
    mentioned,
)
from stream_ext.plan.passes.join_order import connected, in_common_order, order_items, reads_store, reads_window
from stream_ext.plan.properties.shape import shape_of


class Conjunctions:
    """Joins the parts of one group after the other."""

    def __init__(self, wiring: Wiring, patterns: IdPatterns, conditions: Conditions, builder: PartRecursion) -> None:
        self._wiring, self._patterns, self._conditions, self._builder = wiring, patterns, conditions, builder

    def conjunction(self, node: Conjunction, wire: Wire, ground: Ground, unread: Names) -> Wire:
        """`unread`: the variables that only the conjunction itself reads."""
        if self._wiring.is_parameters(wire):
            node, wire = self._begun(node, wire, ground, unread)
            unread -= frozenset(wire.variables)
        waiting, only_once = Waiting(node.tests), _only_once(node)
        wire = self._test_what_is_bound(waiting, wire, ground)
        near, items = 1.0, node.items
        if self._patterns.is_registered and not self._wiring.is_numbered and len(items) <= sizes.MANY_MAX:
            near, items = sizes.NEAR, tuple(in_common_order(items, node.tests))
        wire, items = self._many(items, wire, ground)
        wire = self._test_what_is_bound(waiting, wire, ground)
        bound = frozenset(wire.variables) & wire.certain
        left = Ordered(order_items(items, bound, self._wiring.estimates.rows, self._wiring.check, near))
        unused = Unused(left, unread.difference(*(test.needs for test in node.tests)))
        while left:
            if len(wire.variables) > sizes.WIDE:
                wire = self._wiring.project(wire, unused.without(wire.variables))
                run = self._run(left, wire, ground)
                if run:
                    wire = self._with_run(Conjunction(run, waiting.within(run)), wire, ground)
                    wire = self._test_what_is_bound(waiting, wire, ground)
                    continue
            item = left.take()
            cycle = self._closing(item, left, wire)
            if cycle:
                wire = self._intersection((item, *cycle), wire)
                wire = self._test_what_is_bound(waiting, wire, ground)
                continue
            unseen = unread & item.variables & only_once
            if isinstance(item, PatternScan) and unseen and self._can_count(item, wire, unseen):
                operator = StoreJoin(wire.variables, self._patterns.of(item), NO_NAMES, unseen)
                wire = self._wiring.add(operator, (wire,), wire.certain, f"count of {shown(item)}", item)
            else:
                wire = self._builder.extend(item, wire, ground)
            wire = self._test_what_is_bound(waiting, wire, ground)
        return self._conditions.tested(waiting.rest(), wire, ground)

    def _run(self, left: Ordered, wire: Wire, ground: Ground) -> tuple[Logic, ...]:
        """The next parts to join, if the solutions have so many columns that these parts are evaluated on their own."""
        if len(wire.variables) <= sizes.WIDE or not ground.carried <= wire.certain:
            return ()
        return left.run(wire, sizes.RUN, len(wire.variables) // 2 - len(ground.carried))

    def _with_run(self, run: Conjunction, wire: Wire, ground: Ground) -> Wire:
        ground = self._builder.ground_of(run, ground)
        if not reads_store(run):
            return self._wiring.joined(wire, self._builder.extended(run, ground.wire, ground))
        return self._builder.joined_later(
            run, run.variables.intersection(wire.variables) - ground.carried, wire, ground
        )

    def _begun(self, node: Conjunction, wire: Wire, ground: Ground, unread: Names) -> tuple[Conjunction, Wire]:
        """Parameters are joined with the first part that has one, not with all rows of those before it."""
        bound, items = ground.carried, list(node.items)
        drives = [item for item in items if reads_window(item)] or items
        bound_items = [item for item in drives if mentioned(item) & bound]
        if bound_items:
            first = order_items(bound_items, bound, self._wiring.estimates.rows, self._wiring.check)[0]
            items.remove(first)
            return Conjunction(tuple(items), node.tests), self._builder.extend(first, wire, ground)
        ordered = order_items(items, NO_NAMES, self._wiring.estimates.rows, self._wiring.check)
        count = next((i for i, item in enumerate(ordered, 1) if mentioned(item) & bound), 0)
        if not count or not isinstance(ordered[count - 1], PatternScan):
            return node, wire
        head, rest = tuple(ordered[:count]), tuple(ordered[count:])
        certain = NO_NAMES.union(*(item.certain for item in head))
        tests = tuple(test for test in node.tests if not read_by(test) & bound and test.needs <= certain)
        later = Conjunction(rest, tuple(test for test in node.tests if test not in tests))
        unseen = unread - mentioned(later) - NO_NAMES.union(*(test.needs for test in later.tests))
        begun = self.conjunction(Conjunction(head, tests), self._wiring.unit, Ground(self._wiring.unit), unseen)
        return later, self._wiring.joined(begun, wire)

    def _many(self, items: tuple[Logic, ...], wire: Wire, ground: Ground) -> tuple[Wire, tuple[Logic, ...]]:
        """Joins three or more parts over windows in an order that is found while they run; returns the parts that are
        left. Two parts need no order; parts with many rows of the store are left, to be looked up there."""
        many = tuple(item for item in items if reads_window(item) and self._fits_in_memory(item))
        if len(many) < 3 or wire.stage != self._wiring.unit.stage or ground.carried:
            return wire, items
        if len(many) > sizes.MANY_MAX:
            # Its order is looked for among all of them, for each: so many are no more than these in one.
            groups = [Conjunction(group) for group in connected(many, sizes.MANY_MAX)]
            for group in order_items(groups, NO_NAMES, self._wiring.estimates.rows, self._wiring.check):
                wire = self._wiring.joined(wire, self._builder.extended(group, ground.wire, ground))
            joined_ids = set(map(id, many))
            return wire, tuple(item for item in items if id(item) not in joined_ids)
        # What differs in the names of its variables only is built once; parameters are no such names, nor is the key
        # that the query is divided by.
        unlike = NO_NAMES if self._wiring.parameters is None else frozenset(self._wiring.parameters.variables)
        unlike |= NO_NAMES if self._patterns.keys is None else {self._patterns.keys.variable}
        shapes = [(item, ()) if item.variables & unlike else shape_of(item) for item in many]
        # Each numbered part has hidden columns of its own.
        keys = [(shape, place * self._wiring.is_numbered) for place, (shape, _) in enumerate(shapes)]
        built: dict[tuple[Logic, int], tuple[Wire, tuple[str, ...]]] = {}
        parts, resources = [], NO_NAMES
        for item, key, (_, names) in zip(many, keys, shapes, strict=True):
            if key not in built:
                built[key] = self._builder.extended(item, ground.wire, ground), names
            part, named = built[key]
            called = dict(zip(named, names, strict=True))
            parts.append(tuple(called.get(v, v) for v in part.variables))
            resources |= {called.get(v, v) for v in part.resources}
        operator = ManyJoin(parts, [list(built).index(key) for key in keys])
        wires = tuple(part for part, _ in built.values())
        joined = self._wiring.add(operator, wires, frozenset(operator.variables), "join of many")
        return replace(joined, resources=resources), tuple(item for item in items if item not in many)

    def _fits_in_memory(self, item: Logic) -> bool:
        """Whether all rows of a part may be stored with those of a window: they bind all variables; and a part over the
        store is one triple pattern without too many rows."""
        if item.variables != item.certain or not item.variables:
            return False
        if not reads_store(item):
            return True
        merged = isinstance(item, Select) and isinstance(item.inner, Alternatives)
        return merged and self._wiring.estimates.peak(item, NO_NAMES) < sizes.COPIED_ROWS_MAX

    def _closing(self, item: Logic, others: Ordered, wire: Wire) -> list[Logic]:
        """The other patterns that lead from bound variables to the same new variable as `item`: they close cycles, and
        are joined together with it."""
        new = self._leads_to(item, wire)
        return [] if new is None else others.take_of(new, lambda other: self._leads_to(other, wire) == new)

    def _leads_to(self, item: Logic, wire: Wire) -> str | None:
        if not isinstance(item, PatternScan) or item.window is not None or item.variables & wire.maybe:
            return None
        return leads_to(self._patterns.of(item), wire.certain)

    def _intersection(self, items: Sequence[Logic], wire: Wire) -> Wire:
        sources = [item for item in items if isinstance(item, PatternScan)]
        operator = Intersection(wire.variables, tuple(map(self._patterns.of, sources)))
        certain = wire.certain.union(*(source.certain for source in sources))
        return self._wiring.add(
            operator, (wire,), certain, " and ".join(map(shown, sources)), Conjunction(tuple(sources))
        )

    def _can_count(self, item: PatternScan, wire: Wire, unseen: Names) -> bool:
        return item.window is None and can_count(self._patterns.of(item), wire.certain, unseen)

    def _test_what_is_bound(self, waiting: Waiting, wire: Wire, ground: Ground) -> Wire:
        """Tests each condition as soon as all variables that it reads are bound for certain."""
        return self._conditions.tested(waiting.due(wire.certain), wire, ground)


def _only_once(whole: Conjunction) -> Names:
    """Variables that one of its parts mentions, and no other, and no test needs."""
    mentions = Counter(name for item in whole.items for name in mentioned(item))
    needed = NO_NAMES.union(*(test.needs for test in whole.tests))
    return frozenset(name for name, count in mentions.items() if count == 1) - needed


def read_by(test: Test) -> Names:
    return test.mentions.union(*(mentioned(question.inner) for question in test.questions))
