"""Blank nodes of a source: their labels mean something within one answer only.

    [?s :p ?o] of main,  ?o :q ?z       a blank node of the source in ?o would meet none: the query must fail, by name

For each group that a source is asked for, this pass says of which variables other parts of the query compare the
values (`joined`), and which variables tell rows apart (`distinguished`): DISTINCT and GROUP BY. In the former the
source may have no blank node at all; in the latter all of them must be of one answer. It also says where a few
solutions are enough."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from stream_ext.language.algebra.formulas import Compare, FunctionCall, Membership
from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.language.algebra.walk import Part, walk
from stream_ext.plan.logic import (
    NO_NAMES,
    Alternatives,
    Assign,
    Conjunction,
    Existence,
    Leaf,
    Logic,
    Names,
    Optional,
    PathSource,
    PerGraph,
    Remote,
    Select,
    Test,
    Without,
    mentioned,
    nodes_of,
)


def guarded(select: Select) -> Select:
    return _select(select, NO_NAMES, NO_NAMES)


def _select(node: Select, joined: Names, apart: Names) -> Select:
    """`joined`, `apart`: as the parts around it use its variables."""
    own, apart = joined & node.variables, apart & node.variables
    computed = (*node.before, *node.after)
    if node.distinct:
        apart |= frozenset(node.names)
    for name, test in reversed(computed):  # a blank node may be given another name
        own |= test.mentions if name in own else NO_NAMES
        apart |= test.mentions if name in apart else NO_NAMES
    if node.grouping is not None:
        for each in node.grouping.aggregates:
            named = NO_NAMES if each.argument is None else frozenset({each.argument})
            own |= named if each.variable in own else NO_NAMES
            if each.distinct:
                apart |= named or node.inner.variables
        apart = apart.union(node.grouping.keys)
    tests = (*(test for _, test in computed), *node.having)
    binds = Counter(name for part in nodes_of(node.inner) if _is_remote(part) for name in part.variables & apart)
    own |= frozenset(name for name, count in binds.items() if count > 1)
    inner = _guarded(node.inner, own | _of_tests(tests), apart)
    return replace(node, inner=inner if (enough := _enough(node)) is None else _few(inner, enough))


def _enough(node: Select) -> int | None:
    """How many solutions are enough, where each is a row, or where all are one row (ASK)."""
    if node.order or node.grouping or node.having:
        return None
    if node.distinct:
        return None if node.names else 1
    return None if node.limit is None else node.offset + node.limit


def _guarded(node: Logic, joined: Names, apart: Names) -> Logic:
    match node:
        case Remote() if node.group is not None:
            group = replace(node.group, joined=joined & node.variables, distinguished=apart & node.variables)
            return replace(node, group=group)
        case Conjunction(items, own):
            binds = Counter(name for item in items for name in item.variables)
            shared = frozenset(name for name, count in binds.items() if count > 1)
            around = joined | shared
            parts = (_guarded(item, around | _of_tests(own, item.variables), apart) for item in items)
            return Conjunction(tuple(parts), _tests(own, joined, apart))
        case Optional(left, right, own):
            around = joined | (left.variables & right.variables) | _of_tests(own)
            return Optional(_guarded(left, around, apart), _guarded(right, around, apart), _tests(own, joined, apart))
        case Without(left, right):
            around = left.variables & right.variables
            return Without(_guarded(left, joined | around, apart), _guarded(right, around, NO_NAMES))
        case Alternatives(parts):
            return Alternatives(tuple(_guarded(part, joined, apart) for part in parts))
        case Assign(inner, name, test):
            around = joined | _of_tests((test,)) | (test.mentions if name in joined | apart else NO_NAMES)
            return replace(node, inner=_guarded(inner, around, apart), test=_tests((test,), joined, apart)[0])
        case PerGraph(_, _, inner):
            return replace(node, inner=_guarded(inner, joined, apart))
        case PathSource() if node.edges is not None:
            edges = _guarded(node.edges, frozenset("so"), NO_NAMES)
            assert isinstance(edges, Remote)
            return replace(node, edges=edges)
        case Select():
            return _select(node, joined, apart)
        case Leaf():
            return node


def _tests(tests: tuple[Test, ...], joined: Names, apart: Names) -> tuple[Test, ...]:
    return tuple(
        replace(
            test,
            questions=tuple(
                Existence(each.name, _guarded(each.inner, joined | test.sees, NO_NAMES)) for each in test.questions
            ),
        )
        for test in tests
    )


def _of_tests(tests: tuple[Test, ...], of_one_row: Names = NO_NAMES) -> Names:
    """The variables whose values are compared with others that are no constants, nor `of_one_row` of one answer."""
    correlated = NO_NAMES.union(*(mentioned(question.inner) for test in tests for question in test.questions))
    found = (_of_comparison(part) for test in tests for part in walk(test.condition))
    return correlated.union(*(names for names in found if not names <= of_one_row))


def _of_comparison(part: Part) -> Names:
    match part:
        case Compare(_, left, right):
            sides: tuple[Part, ...] = (left, right)
        case Membership(inner, items):
            sides = (inner, *items)
        case FunctionCall("SAMETERM", arguments):
            sides = arguments
        case _:
            return NO_NAMES
    if sum(not isinstance(side, Constant) for side in sides) < 2:
        return NO_NAMES
    return frozenset(each.name for side in sides for each in walk(side) if isinstance(each, Variable))


def _is_remote(node: Logic) -> bool:
    return isinstance(node, Remote) and node.group is not None


def _few(node: Logic, enough: int) -> Logic:
    """Where every solution is a row, a few are enough."""
    match node:
        case Remote() if node.group is not None:
            return replace(node, group=replace(node.group, enough=enough))
        case Alternatives(parts):
            return Alternatives(tuple(_few(part, enough) for part in parts))
        case _:
            return node
