"""Assignment: which queries a shard evaluates, and of which only a part.

    whole      each of its rows is made here
    divided    it is evaluated by several shards, and each has the rows of a range of its keys (docs/decisions/0115)

A part of a divided query says that it is one of several (`Part.is_range`): whoever merges unites them first. So does
what is said of a query that does not get on here. A divided query has no fault and no position of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.catalog.registered import Registered
from stream_ext.network.combined_groups import GroupedQuery
from stream_ext.plan.properties.divisible import KeyDivision, division_of
from stream_ext.plan.properties.range_sums import sums_of
from stream_ext.rows.key_range import KeyRange, Ranges
from stream_ext.windows.part import Part, RangeSums

Found = TypeVar("Found")
IsAssigned = Callable[[QueryDefinition], bool]
RangesOf = Callable[[QueryDefinition], Ranges | None]


def all_assigned(query: QueryDefinition) -> bool:
    return True


def on_spark(query: QueryDefinition) -> bool:
    return query.home is None


def divides_none(query: QueryDefinition) -> Ranges | None:
    return None


def may_divide(query: QueryDefinition, catalog: Catalog) -> bool:
    if query.asks_source:
        return False  # each shard would be answered at another time
    if any(number not in catalog.streams for number in query.streams):
        return False  # the query was dropped meanwhile, and then a stream of it
    return division_over(Registered.of(query, catalog)).variable is not None


def division_over(registered: Registered) -> KeyDivision:
    """How a registered query can be divided."""
    return division_of(registered.query, registered.select, registered.parametrised is not None)


def grouped_query(number: int, catalog: Catalog) -> GroupedQuery | None:
    """For what is made of its partial groups; None: it was dropped meanwhile."""
    definition = catalog.queries.get(number)
    if definition is None or any(stream not in catalog.streams for stream in definition.streams):
        return None
    registered = Registered.of(definition, catalog)
    shared = registered.parametrised
    own = registered.query, registered.select
    return GroupedQuery(*own) if shared is None else GroupedQuery(*own, shared.template, shared.constants)


class DividedQueries:
    """`ranges_of`: the ranges that the shard has of a query; None: all of it."""

    def __init__(self, ranges_of: RangesOf) -> None:
        self.follow(ranges_of)

    def __contains__(self, number: int) -> bool:
        return number in self._sums

    def follow(self, ranges_of: RangesOf) -> None:
        """Ranges that count from now on; the shard is built anew."""
        self._ranges_of = ranges_of
        self._sums: dict[int, RangeSums | None] = {}  # of those that are divided, by number

    def range_of(self, definition: QueryDefinition, registered: Registered) -> KeyRange | None:
        ranges = self._ranges_of(definition)
        if ranges is None:
            return None
        found = division_over(registered)
        if found.variable is None:
            raise ValueError(f"query {definition.name!r} cannot be divided among shards: {found.why_not}")
        sums = sums_of(registered.query, registered.select, found.partial_groups) if found.is_summed else None
        self._sums[definition.number] = sums
        return KeyRange(found.variable, ranges, found.is_summed, found.partial_groups)

    def without_them(self, of_queries: dict[int, Found]) -> dict[int, Found]:
        return {number: each for number, each in of_queries.items() if number not in self._sums}

    def marked(self, parts: list[Part]) -> list[Part]:
        """The same parts; those of divided queries say that they are."""
        if self._sums:
            for part in parts:
                number = int(part.queries[0])
                part.is_range, part.sums = number in self._sums, self._sums.get(number)
        return parts
