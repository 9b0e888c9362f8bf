"""Columns read: which variables of its pattern's solutions a query needs.

    SELECT ?city (COUNT(?f) AS ?n) { ?p :city ?city ; :knows ?f } GROUP BY ?city

reads ?city, and how many solutions there are: to count ?f, which is bound in all of them, is no more than that."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.language.algebra.terms import has_name
from stream_ext.plan.logic import Aggregation, Names, Select


def count_rows(node: Select) -> Select:
    """COUNT of what is always bound counts rows."""
    if node.grouping is None:
        return node
    certain = node.inner.certain - {name for name, _ in node.before}

    def counted(each: Aggregation) -> Aggregation:
        rows = each.function == "COUNT" and not each.distinct and each.argument in certain
        return replace(each, argument=None) if rows else each

    return replace(node, grouping=replace(node.grouping, aggregates=tuple(map(counted, node.grouping.aggregates))))


def read_of(node: Select) -> Names:
    """The variables of the pattern that anything behind it looks at."""
    found = {*node.names, *(name for name, _ in node.order)}
    for test in (*(test for _, test in node.before), *node.having, *(test for _, test in node.after)):
        found |= test.needs
    if node.grouping is not None:
        found.update(node.grouping.keys)
        for follows in {id(each.follows): each.follows for each in node.grouping.aggregates}.values():
            found.update(*follows)
        found.update(each.argument for each in node.grouping.aggregates if each.argument is not None)
        if any(each.argument is None and each.distinct for each in node.grouping.aggregates):
            found.update(filter(has_name, node.inner.variables))  # COUNT(DISTINCT *) looks at all of them
    return frozenset(found)
