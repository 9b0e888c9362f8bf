"""Lift: what only adds to solutions, or takes some away, comes after all that is joined.

    (A OPTIONAL B) . C . FILTER(?a > 1)      =>      (A . C . FILTER(?a > 1)) OPTIONAL B

where C and the filter speak of nothing that B alone may bind. So more triple patterns stand in one conjunction, whose
order is free, and fewer solutions meet the OPTIONAL. MINUS and BIND are lifted in the same way."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.plan.logic import (
    NO_NAMES,
    Assign,
    Conjunction,
    Either,
    Logic,
    Names,
    Optional,
    PerGraph,
    Question,
    Select,
    Test,
    Without,
)

Lifted = Optional | Without | Assign


def lift(node: Logic) -> Logic:
    match node:
        case Conjunction(items, tests):
            return _conjunction([lift(item) for item in items], tuple(map(_in_questions, tests)))
        case Optional(left, right, tests):
            return Optional(lift(left), lift(right), tuple(map(_in_questions, tests)))
        case Without(left, right):
            return Without(lift(left), lift(right))
        case Either(parts):
            return Either(tuple(lift(part) for part in parts))
        case PerGraph(_, _, inner):
            return replace(node, inner=lift(inner))
        case Assign(inner, variable, test):
            return Assign(lift(inner), variable, _in_questions(test))
        case Select():
            return lift_select(node)
        case _:
            return node


def lift_select(node: Select) -> Select:
    return replace(
        node,
        inner=lift(node.inner),
        before=tuple((name, _in_questions(test)) for name, test in node.before),
        having=tuple(map(_in_questions, node.having)),
        after=tuple((name, _in_questions(test)) for name, test in node.after),
    )


def _in_questions(test: Test) -> Test:
    if not test.questions:
        return test
    return replace(test, questions=tuple(Question(each.name, lift(each.inner)) for each in test.questions))


def _conjunction(items: list[Logic], tests: tuple[Test, ...]) -> Logic:
    """Of parts that are lifted themselves."""
    items = (
        [part for item in items for part in (item.items if isinstance(item, Conjunction) else (item,))]
        if all(not item.tests for item in items if isinstance(item, Conjunction))
        else items
    )
    for i, item in enumerate(items):
        others = items[:i] + items[i + 1 :]
        if isinstance(item, Lifted) and _free_of(item, others):
            return _lifted(item, others, tests)
    return items[0] if len(items) == 1 and not tests else Conjunction(tuple(items), tests)


def _lifted(item: Lifted, others: list[Logic], tests: tuple[Test, ...]) -> Logic:
    below = item.inner if isinstance(item, Assign) else item.left
    own = _own(item)
    # A filter goes below if it speaks of nothing that is bound above, and of what is bound below for certain.
    certain = below.certain.union(*(other.certain for other in others))
    down = tuple(test for test in tests if not test.needs & own and test.needs <= certain and not test.draws)
    up = tuple(test for test in tests if test not in down)
    inner = _joined(below, others, down)
    lifted = replace(item, inner=inner) if isinstance(item, Assign) else replace(item, left=inner)
    return Conjunction((lifted,), up) if up else lifted


def _joined(below: Logic, others: list[Logic], tests: tuple[Test, ...]) -> Logic:
    if isinstance(below, Conjunction) and below.joins(NO_NAMES.union(*(other.variables for other in others))):
        return _conjunction([*below.items, *others], below.tests + tests)
    return _conjunction([below, *others], tests)


def _own(item: Lifted) -> Names:
    """What its upper part may bind or reads, beyond what is certain below."""
    if isinstance(item, Assign):
        return frozenset({item.variable}) | (item.test.needs - item.inner.certain)
    right = item.right.variables
    if isinstance(item, Optional):
        right = right.union(*(test.needs for test in item.tests))
    return right - item.left.certain


def _free_of(item: Lifted, others: list[Logic]) -> bool:
    own = _own(item)
    return not any(own & other.variables for other in others)
