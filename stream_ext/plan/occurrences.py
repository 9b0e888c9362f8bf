"""Occurrences: what GROUP_CONCAT and SAMPLE over windows go by.

    SELECT ?t (GROUP_CONCAT(?z) AS ?path) { WINDOW :w { ?t :in ?z } ?z :partOf :bern } GROUP BY ?t
    =>  WINDOW :w { ?t :in ?z  which came @1 }  ?z :partOf :bern,  and the aggregate follows @1

A pattern over a window then says of each triple when it came, in columns that no text can name, and nothing joins by.
A solution is made of the occurrences of all its patterns, in the order of the text. A row that DISTINCT or GROUP BY
makes of several solutions has the latest of all theirs; one of a sub-SELECT with LIMIT or OFFSET has none, and nor has
what a path found that repeats. A query in which nothing asks for it is left as it is."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.plan.logic import (
    LATEST,
    ORDERED,
    Aggregation,
    Alternatives,
    Assign,
    Conjunction,
    Grouping,
    Logic,
    Occurrence,
    Optional,
    PatternScan,
    PerGraph,
    Question,
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
    """Goes through a query in the order of its text; what is `asked` for its occurrences says which it has.

    They are numbered in the order of the text, in each sub-SELECT that makes one of several anew."""

    def __init__(self) -> None:
        self._given = 0
        self._scope = self._scopes = 0

    def _fresh(self) -> Occurrence:
        self._given += 1
        name = f"@{self._scope}.{self._given}"
        return (f"{name}.time", f"{name}.arrival", f"{name}.place")

    def logic(self, node: Logic, asked: bool) -> Followed:
        match node:
            case PatternScan(window=str(window), time=None) if asked and not is_of_graph(window):
                occurrence = self._fresh()
                return replace(node, occurrence=occurrence), (occurrence,)
            case Conjunction(items, tests):
                found = [self.logic(item, asked) for item in items]
                return Conjunction(tuple(item for item, _ in found), self._tests(tests)), _all(found)
            case Optional(left, right, tests):
                found = [self.logic(left, asked), self.logic(right, asked)]
                return Optional(found[0][0], found[1][0], self._tests(tests)), _all(found)
            case Without(left, right):
                kept, follows = self.logic(left, asked)
                return Without(kept, self.logic(right, False)[0]), follows
            case Alternatives(parts):
                return self._either(parts, asked)
            case Assign(inner, variable, test):
                below, follows = self.logic(inner, asked)
                return Assign(below, variable, self._test(test)), follows
            case PerGraph(_, _, inner):
                below, follows = self.logic(inner, asked)
                return replace(node, inner=below), follows
            case Select():
                return self.select(node, asked)
            case _:
                return node, ()

    def _either(self, parts: tuple[Logic, ...], asked: bool) -> Followed:
        """A row is of one part: the same columns do for all of them."""
        given, found = self._given, []
        for part in parts:
            self._given = given
            found.append(self.logic(part, asked))
        longest = max((follows for _, follows in found), key=len)
        self._given = given + len(longest)
        return Alternatives(tuple(part for part, _ in found)), longest

    def select(self, node: Select, asked: bool) -> tuple[Select, tuple[Occurrence, ...]]:
        if asked and node.grouping is None and not node.distinct and not node.is_cut:
            inner, follows = self.logic(node.inner, True)
            return _telling(self._with_tests(replace(node, inner=inner)), follows), follows
        outside = self._scope, self._given
        self._scopes += 1
        self._scope, self._given = self._scopes, 0
        asked = asked and not node.is_cut
        inner, follows = self.logic(node.inner, asked or _is_ordered(node))
        node = self._with_tests(replace(node, inner=inner, grouping=_following(node.grouping, follows)))
        if asked and follows and node.grouping is not None and node.distinct:
            between = self._fresh()
            node, follows = _grouped(node, between, follows), (between,)
        self._scope, self._given = outside
        if not asked or not follows:
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
        if not test.questions:
            return test
        asked = (Question(each.name, self.logic(each.inner, False)[0]) for each in test.questions)
        return replace(test, questions=tuple(asked))


def _all(found: list[Followed]) -> tuple[Occurrence, ...]:
    return tuple(occurrence for _, follows in found for occurrence in follows)


def _following(grouping: Grouping | None, follows: tuple[Occurrence, ...]) -> Grouping | None:
    if grouping is None:
        return None
    aggregates = (replace(each, follows=follows) if each.function in ORDERED else each for each in grouping.aggregates)
    return replace(grouping, aggregates=tuple(aggregates))


def _telling(node: Select, follows: tuple[Occurrence, ...]) -> Select:
    """Whose rows say of what they are made. All of them are told, so their own order is nothing."""
    told = (name for occurrence in follows for name in occurrence)
    return replace(node, order=(), names=(*node.names, *told))


def _grouped(node: Select, latest: Occurrence, follows: tuple[Occurrence, ...]) -> Select:
    """Whose groups say what is the latest that their solutions are made of."""
    assert node.grouping is not None
    grouping = replace(node.grouping, aggregates=(*node.grouping.aggregates, *_latest(latest, follows)))
    return _telling(replace(node, grouping=grouping), (latest,))


def _once(node: Select, latest: Occurrence, follows: tuple[Occurrence, ...]) -> Select:
    """DISTINCT, as groups of what is equal."""
    names, bare = node.names, _telling(replace(node, distinct=False), follows)
    grouping = Grouping(names, _latest(latest, follows), False)
    return Select(bare, (), grouping, (), (), (), (*names, *latest), False, 0, None)


def _latest(occurrence: Occurrence, follows: tuple[Occurrence, ...]) -> tuple[Aggregation, ...]:
    return tuple(
        Aggregation(name, function, None, False, "", follows) for name, function in zip(occurrence, LATEST, strict=True)
    )
