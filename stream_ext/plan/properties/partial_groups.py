"""Partial groups: what each range of a divided query counts, if its groups have rows of several ranges.

    SELECT ?room (AVG(?v) AS ?mean) { ... } GROUP BY ?room HAVING (AVG(?v) > 20)      divided by ?sensor
    in each range     ?room, and how many values it has there, and their exact sum
    of all ranges     GROUP BY ?room, counts and sums added up; then HAVING, and all that follows

Counts and sums are added; of the least values of all ranges the least one counts. What is DISTINCT is counted in each
range for itself if no value can be in two of them: if it is the key, or whole solutions."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.terms import has_name
from stream_ext.plan.logic import Aggregation, Conjunction, Grouping, Select

#: A sum that is to be added to others; the sum of such sums; and that divided by how many numbers all have.
SUM_IN_RANGE, SUM_OF_RANGES, AVG_OF_RANGES = "SUM IN RANGE", "SUM OF RANGES", "AVG OF RANGES"
#: How many solutions a group has in a range.
COUNTED = ".counted"

_OF_RANGES = {"COUNT": "SUM", "SUM": SUM_OF_RANGES, "AVG": AVG_OF_RANGES, "MIN": "MIN", "MAX": "MAX"}


def grouped(select: Select) -> Select | None:
    """The query as one with groups: CONSTRUCT { :all :mean ?m } { SELECT (AVG(?v) AS ?m) { ... } } is what it has in
    its sub-SELECT. None: it has none, or does more with them."""
    if select.grouping is not None:
        return select
    inner = select.inner
    if isinstance(inner, Conjunction) and len(inner.items) == 1 and not inner.tests:
        (inner,) = inner.items
    if not isinstance(inner, Select) or inner.grouping is None or inner.is_cut or inner.distinct:
        return None
    computed = (*select.before, *select.after)
    read = {*select.names, *(name for name, _ in (*select.order, *computed))}
    read = read.union(*(test.mentions for _, test in computed))
    made = (*inner.grouping.keys, *(each.variable for each in inner.grouping.aggregates), *(n for n, _ in inner.after))
    if not read.isdisjoint(set(made) - inner.variables):
        return None  # a name that means something else there
    after = (*inner.after, *computed)
    return replace(
        select, inner=inner.inner, before=inner.before, grouping=inner.grouping, having=inner.having, after=after
    )


def why_groups_stay_whole(query: Query, select: Select) -> str | None:
    """Why partial groups are not added up, by whatever key the query is divided."""
    grouping = select.grouping
    assert grouping is not None, "it has groups"
    if query.form not in (Form.SELECT, Form.CONSTRUCT):
        return f"{query.form.name} of groups without the key"
    if any(test.questions for test in (*select.having, *(test for _, test in select.after))):
        return "EXISTS behind groups without the key"
    if grouping.always and query.emits is not R2S.RSTREAM:
        return f"one group of all under {query.emits.value}: of nothing it has a row, too"
    if select.having and query.emits is R2S.DSTREAM:
        return "HAVING of groups without the key under DSTREAM: groups may go that were not shown"
    return None


def add_up(select: Select, key: str) -> bool:
    """Whether what ranges of this key count in groups makes what all count together."""
    grouping = select.grouping
    return grouping is not None and all(_adds_up(each, key) for each in grouping.aggregates)


def _adds_up(each: Aggregation, key: str) -> bool:
    if each.function not in _OF_RANGES:
        return False
    if not each.distinct or each.function in ("MIN", "MAX"):
        return True
    return each.argument == key or (each.argument is None and has_name(key))


def in_range(select: Select) -> Select:
    """What is counted in each range: the keys of groups, and a part of each aggregate. If there is a group even of
    nothing, another column says how much it has."""
    select, grouping = _with_groups(select)
    parts = [part for each in grouping.aggregates for part in _parts(each)]
    if grouping.always:
        parts.append(Aggregation(COUNTED, "COUNT", None, False, ""))
    names = (*grouping.keys, *(each.variable for each in parts))
    grouping = replace(grouping, aggregates=tuple(parts))
    return replace(
        select, grouping=grouping, having=(), after=(), order=(), names=names, distinct=False, offset=0, limit=None
    )


def count_of(average: str) -> str:
    """The column with how many numbers an average has in a range."""
    return f"{average}{COUNTED}"


def _parts(each: Aggregation) -> list[Aggregation]:
    if each.function not in ("SUM", "AVG"):
        return [each]
    sum_ = replace(each, function=SUM_IN_RANGE)
    return (
        [sum_] if each.function == "SUM" else [sum_, replace(each, variable=count_of(each.variable), function="COUNT")]
    )


def of_ranges(select: Select) -> Select:
    """What is made of the rows of `in_range` of all ranges. How many rows are left, and in which order, is not part of
    it. Of nothing each range has a group, or none has one."""
    select, grouping = _with_groups(select)
    parts = [
        replace(each, function=_OF_RANGES[each.function], argument=each.variable, distinct=False)
        for each in grouping.aggregates
    ]
    grouping = replace(grouping, aggregates=tuple(parts), always=False)
    return replace(select, before=(), grouping=grouping, distinct=False, offset=0, limit=None)


def _with_groups(select: Select) -> tuple[Select, Grouping]:
    found = grouped(select)
    assert found is not None and found.grouping is not None, "it has groups"
    return found, found.grouping
