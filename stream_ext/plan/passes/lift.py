"""Lift: OPTIONAL, MINUS and BIND are moved behind the joins.

    (A OPTIONAL B) . C . FILTER(?a > 1)      =>      (A . C . FILTER(?a > 1)) OPTIONAL B

if C and the filter have no variable that only B may bind. So more triple patterns are in one conjunction, whose order
is free, and fewer solutions reach the OPTIONAL. MINUS and BIND are lifted in the same way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

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
    PerGraph,
    Select,
    Test,
    Without,
    traits_of,
)

#: Lifted parts are nested, no deeper than the groups of a text may be, because later code recurses.
DEPTH_MAX = 200

Lifted = Optional | Without | Assign


def lift(node: Logic, room: int = DEPTH_MAX) -> Logic:
    """`room`: it may become so deep; what would be lifted beyond that is joined where it is."""
    inside = room - 1
    match node:
        case Conjunction(items, tests):
            return _conjunction([lift(item, inside) for item in items], _all_in_questions(tests, inside), room)
        case Optional(left, right, tests):
            return Optional(lift(left, inside), lift(right, inside), _all_in_questions(tests, inside))
        case Without(left, right):
            return Without(lift(left, inside), lift(right, inside))
        case Alternatives(parts):
            return Alternatives(tuple([lift(part, inside) for part in parts]))
        case PerGraph(_, _, inner):
            return replace(node, inner=lift(inner, inside))
        case Assign(inner, variable, test):
            return Assign(lift(inner, inside), variable, _in_questions(test, inside))
        case Select():
            return lift_select(node, room)
        case Leaf():
            return node


def lift_select(node: Select, room: int = DEPTH_MAX) -> Select:
    inside = room - 1
    return replace(
        node,
        inner=lift(node.inner, inside),
        before=tuple((name, _in_questions(test, inside)) for name, test in node.before),
        having=_all_in_questions(node.having, inside),
        after=tuple((name, _in_questions(test, inside)) for name, test in node.after),
    )


def _in_questions(test: Test, room: int) -> Test:
    if not test.questions:
        return test
    return replace(test, questions=tuple(Existence(each.name, lift(each.inner, room)) for each in test.questions))


def _all_in_questions(tests: tuple[Test, ...], room: int) -> tuple[Test, ...]:
    return tuple(_in_questions(test, room) for test in tests)


def _conjunction(items: list[Logic], tests: tuple[Test, ...], room: int) -> Logic:
    """Of parts that are lifted themselves."""
    above: list[tuple[Lifted, tuple[Test, ...]]] = []  # what was lifted, and the tests that hold above it
    while True:
        items = _flat(items)
        place = _free(items)
        if place is None or max(traits_of(item).depth for item in items) + 2 > room:
            break
        item, others = items[place], items[:place] + items[place + 1 :]
        assert isinstance(item, Lifted)
        up, down = _parted(tests, item, others)
        above.append((item, up))
        room -= 1 + bool(up)
        items, tests = _below(item, others, down)
    inner: Logic = items[0] if len(items) == 1 and not tests else Conjunction(tuple(items), tests)
    for item, up in reversed(above):
        inner = replace(item, inner=inner) if isinstance(item, Assign) else replace(item, left=inner)
        inner = Conjunction((inner,), up) if up else inner
    return inner


def _flat(items: list[Logic]) -> list[Logic]:
    """With the parts of those that are conjunctions without tests, if all of these are."""
    nested = [item for item in items if isinstance(item, Conjunction)]
    if not nested or any(item.tests for item in nested):
        return items
    return [part for item in items for part in (item.items if isinstance(item, Conjunction) else (item,))]


def _parted(tests: tuple[Test, ...], item: Lifted, others: list[Logic]) -> tuple[tuple[Test, ...], tuple[Test, ...]]:
    """The tests that stay above what is lifted, and those that go below it: these speak of nothing that is bound above,
    and of what is bound below for certain."""
    if not tests:
        return (), ()
    own, below = _own(item), item.inner if isinstance(item, Assign) else item.left
    certain = below.certain.union(*(other.certain for other in others))
    goes = [not test.needs & own and test.needs <= certain and not test.draws for test in tests]
    parted = list(zip(tests, goes, strict=True))
    return tuple(test for test, down in parted if not down), tuple(test for test, down in parted if down)


def _below(item: Lifted, others: list[Logic], tests: tuple[Test, ...]) -> tuple[list[Logic], tuple[Test, ...]]:
    """What the lower part of it is joined with, and the tests of them all."""
    below = item.inner if isinstance(item, Assign) else item.left
    if isinstance(below, Conjunction):
        needed = NO_NAMES.union(*(test.needs for test in below.tests)) - below.certain
        if not any(needed & other.variables for other in others):
            return [*below.items, *others], below.tests + tests
    return [below, *others], tests


def _own(item: Lifted) -> Names:
    """What its upper part may bind or reads, beyond what is certain below."""
    if isinstance(item, Assign):
        return frozenset({item.variable}) | (item.test.needs - item.inner.certain)
    right = item.right.variables
    if isinstance(item, Optional):
        right = right.union(*(test.needs for test in item.tests))
    return right - item.left.certain


def _free(items: list[Logic]) -> int | None:
    """The place of the first that may be lifted: nothing beside it speaks of what its upper part binds or reads."""
    if not any(isinstance(item, Lifted) for item in items):
        return None
    binds = Counter(name for item in items for name in item.variables)
    for place, item in enumerate(items):
        if isinstance(item, Lifted) and not any(binds[name] > (name in item.variables) for name in _own(item)):
            return place
    return None
