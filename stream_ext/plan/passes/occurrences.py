"""Occurrences: the order in which GROUP_CONCAT and SAMPLE over windows take their values.

    SELECT ?t (GROUP_CONCAT(?z) AS ?path) { WINDOW :w { ?t :in ?z } ?z :partOf :bern } GROUP BY ?t
    =>  WINDOW :w { ?t :in ?z  with its occurrence in @1 }  ?z :partOf :bern,  and the aggregate is ordered by @1

A scan of a window then has, for each triple, the columns of its occurrence (time, arrival, place). No text can name
them, and nothing is joined by them. A solution has the occurrences of all its patterns, in the order of the text. A row
that DISTINCT or GROUP BY makes of several solutions has the latest of their occurrences. A row of a sub-SELECT with
LIMIT or OFFSET has none, nor has a row of a path that repeats. A query without such aggregates is not changed."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.plan.logic import (
    LATEST,
    ORDERED,
    Aggregation,
    Alternatives,
    Assign,
    Conjunction,
    Existence,
    Grouping,
    Leaf,
    Logic,
    Occurrence,
    Optional,
    PatternScan,
    PerGraph,
    Select,
    Test,
    Without,
    nodes_of,
)
from stream_ext.plan.places import is_of_graph

Followed = tuple[Logic, tuple[Occurrence, ...]]


def follow_occurrences(select: Select) -> Select:
    if not any(isinstance(node, Select) and _is_ordered(node) for node in nodes_of(select)):
        return select
    return _Follower().select(select, False)[0]


def _is_ordered(select: Select) -> bool:
    return select.grouping is not None and any(each.function in ORDERED for each in select.grouping.aggregates)


class _Follower:
    """Walks through a query in the order of its text. Each part is returned with its occurrences, if they are wanted.

    Occurrences are numbered in the order of the text, anew in each sub-SELECT that makes one row of several."""

    def __init__(self) -> None:
        self._given = 0
        self._scope = self._scopes = 0

    def _fresh(self) -> Occurrence:
        self._given += 1
        name = f"@{self._scope}.{self._given}"
        return (f"{name}.time", f"{name}.arrival", f"{name}.place")

    def logic(self, node: Logic, wanted: bool) -> Followed:
        match node:
            case PatternScan(window=str(window), time=None) if wanted and not is_of_graph(window):
                occurrence = self._fresh()
                return replace(node, occurrence=occurrence), (occurrence,)
            case Conjunction(items, tests):
                found = [self.logic(item, wanted) for item in items]
                return Conjunction(tuple(item for item, _ in found), self._tests(tests)), _all(found)
            case Optional(left, right, tests):
                found = [self.logic(left, wanted), self.logic(right, wanted)]
                return Optional(found[0][0], found[1][0], self._tests(tests)), _all(found)
            case Without(left, right):
                rest, follows = self.logic(left, wanted)
                return Without(rest, self.logic(right, False)[0]), follows
            case Alternatives(parts):
                return self._either(parts, wanted)
            case Assign(inner, variable, test):
                below, follows = self.logic(inner, wanted)
                return Assign(below, variable, self._test(test)), follows
            case PerGraph(_, _, inner):
                below, follows = self.logic(inner, wanted)
                return replace(node, inner=below), follows
            case Select():
                return self.select(node, wanted)
            case Leaf():
                return node, ()

    def _either(self, parts: tuple[Logic, ...], wanted: bool) -> Followed:
        """The parts of a UNION share columns, as each row is of one part."""
        given, found = self._given, []
        for part in parts:
            self._given = given
            found.append(self.logic(part, wanted))
        longest = max((follows for _, follows in found), key=len)
        self._given = given + len(longest)
        return Alternatives(tuple(part for part, _ in found)), longest

    def select(self, node: Select, wanted: bool) -> tuple[Select, tuple[Occurrence, ...]]:
        if wanted and node.grouping is None and not node.distinct and not node.is_cut:
            inner, follows = self.logic(node.inner, True)
            return _with_columns(self._with_tests(replace(node, inner=inner)), follows), follows
        around = self._scope, self._given
        self._scopes += 1
        self._scope, self._given = self._scopes, 0
        wanted = wanted and not node.is_cut
        inner, follows = self.logic(node.inner, wanted or _is_ordered(node))
        node = self._with_tests(replace(node, inner=inner, grouping=_following(node.grouping, follows)))
        if wanted and follows and node.grouping is not None and node.distinct:
            between = self._fresh()
            node, follows = _grouped(node, between, follows), (between,)
        self._scope, self._given = around
        if not wanted or not follows:
            return node, ()
        latest = self._fresh()
        return (_once if node.distinct else _grouped)(node, latest, follows), (latest,)

    def _with_tests(self, node: Select) -> Select:
        return replace(
            node,
            before=tuple((name, self._test(test)) for name, test in node.before),
            having=self._tests(node.having),
            after=tuple((name, self._test(test)) for name, test in node.after),
        )

    def _tests(self, tests: tuple[Test, ...]) -> tuple[Test, ...]:
        return tuple(map(self._test, tests))

    def _test(self, test: Test) -> Test:
        """With the patterns of its EXISTS rewritten by this pass; no row of the query is made of their triples."""
        if not test.questions:
            return test
        questions = (Existence(each.name, self.logic(each.inner, False)[0]) for each in test.questions)
        return replace(test, questions=tuple(questions))


def _all(found: list[Followed]) -> tuple[Occurrence, ...]:
    return tuple(occurrence for _, follows in found for occurrence in follows)


def _following(grouping: Grouping | None, follows: tuple[Occurrence, ...]) -> Grouping | None:
    if grouping is None:
        return None
    aggregates = (replace(each, follows=follows) if each.function in ORDERED else each for each in grouping.aggregates)
    return replace(grouping, aggregates=tuple(aggregates))


def _with_columns(node: Select, follows: tuple[Occurrence, ...]) -> Select:
    """The sub-SELECT with its occurrences as columns. All rows go on, so its ORDER BY means nothing."""
    columns = (name for occurrence in follows for name in occurrence)
    return replace(node, order=(), names=(*node.names, *columns))


def _grouped(node: Select, latest: Occurrence, follows: tuple[Occurrence, ...]) -> Select:
    """The sub-SELECT with the latest occurrence of each group as a column."""
    assert node.grouping is not None
    grouping = replace(node.grouping, aggregates=(*node.grouping.aggregates, *_latest(latest, follows)))
    return _with_columns(replace(node, grouping=grouping), (latest,))


def _once(node: Select, latest: Occurrence, follows: tuple[Occurrence, ...]) -> Select:
    """DISTINCT, as groups of equal rows, each with the latest of their occurrences."""
    names, bare = node.names, _with_columns(replace(node, distinct=False), follows)
    grouping = Grouping(names, _latest(latest, follows), False)
    return Select(bare, (), grouping, (), (), (), (*names, *latest), False, 0, None)


def _latest(occurrence: Occurrence, follows: tuple[Occurrence, ...]) -> tuple[Aggregation, ...]:
    return tuple(
        Aggregation(name, function, None, False, "", follows) for name, function in zip(occurrence, LATEST, strict=True)
    )
