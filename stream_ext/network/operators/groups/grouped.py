"""Grouped: the Group of a network that runs for ever, or a new one for each question that is asked once."""

from __future__ import annotations

from stream_ext.language.algebra.terms import has_name
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.groups.aggregates import Aggregated
from stream_ext.network.operators.groups.group import GroupOperator
from stream_ext.plan.properties.partial_groups import AVG_OF_RANGES, SUM_IN_RANGE, SUM_OF_RANGES
from stream_ext.rows.zset import ZSet

#: Aggregates whose values may be no terms of the input, nor whole numbers.
_CREATING = frozenset(("SUM", "AVG", "GROUP_CONCAT", SUM_IN_RANGE, SUM_OF_RANGES, AVG_OF_RANGES))


class Grouped(Shareable):
    encodes_terms = True

    def __init__(
        self, inside: tuple[str, ...], keys: tuple[str, ...], aggregates: tuple[Aggregated, ...], always: bool
    ) -> None:
        """As of a Group."""
        self.variables = keys + tuple(aggregate.variable for aggregate in aggregates)
        self._inside, self._keys, self._aggregates, self._always = inside, keys, aggregates, always
        self.creates_terms = any(each.function in _CREATING for each in aggregates)
        self._group: GroupOperator | None = None
        self.emits_removals = True

    @property
    def likeness(self) -> Likeness:
        places = {name: place for place, name in enumerate(self._inside)}

        def named(each: Aggregated) -> tuple[str, ...]:
            return each.argument or "", *each.followed

        aggregates = [
            (each.function, each.argument is None, each.distinct, each.separator, *map(places.get, named(each)))
            for each in self._aggregates
        ]
        counts_rows = any(each.argument is None for each in self._aggregates)
        have_names = tuple(map(has_name, self._inside)) if counts_rows else ()
        keys = tuple(map(places.get, self._keys))
        return Grouped, len(self._inside), keys, tuple(aggregates), have_names, self._always, self.emits_removals

    def new(self, moment: Moment) -> GroupOperator:
        """A Group for one evaluation."""
        return GroupOperator(
            self._inside, self._keys, self._aggregates, moment.vocabulary, self._always, moment.control
        )

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if moment.last and self._group is None:
            return self.new(moment).step(moment, change)
        if self._group is None:
            self._group = self.new(moment)
            self._group.emits_removals = self.emits_removals
        elif not self._group.is_of(moment.vocabulary, moment.control):  # it was shared, or is shared now
            self._group.go_on_with(moment.vocabulary, moment.control)
        return self._group.step(moment, change)
