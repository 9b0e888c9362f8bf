"""Exclusive groups: neighbouring parts that are sent to one source become one request, with the filters on them.

    all of  [?s :p ?o] of main,  [?o :q ?z] of main,  ?z :r ?w      FILTER(?o > 3)
    =>
    all of  [?s :p ?o . ?o :q ?z FILTER(?o > 3)] of main,  ?z :r ?w

Groups are joined only if they share a variable: otherwise all combinations of their solutions would be sent. A filter
goes along if all engines mean it alike, and if its variables are bound in each solution of the group."""

from __future__ import annotations

from dataclasses import replace

from stream_ext.language.algebra.algebra import Bgp, Filter, Graph, Join, Pattern
from stream_ext.plan.logic import (
    Alternatives,
    Assign,
    Conjunction,
    Existence,
    Leaf,
    Logic,
    Optional,
    PerGraph,
    Remote,
    Select,
    SourceGroup,
    Test,
    Without,
)
from stream_ext.plan.sources.not_sent import may_send_condition
from stream_ext.plan.sources.portable_expressions import is_condition_alike


def gathered(select: Select) -> Select:
    return replace(
        select,
        inner=_gathered(select.inner),
        before=tuple((name, _in_questions(test)) for name, test in select.before),
        having=_all_in_questions(select.having),
        after=tuple((name, _in_questions(test)) for name, test in select.after),
    )


def _gathered(node: Logic) -> Logic:
    match node:
        case Conjunction(items, tests):
            return _conjunction([_gathered(item) for item in items], _all_in_questions(tests))
        case Optional(left, right, tests):
            return Optional(_gathered(left), _gathered(right), _all_in_questions(tests))
        case Without(left, right):
            return Without(_gathered(left), _gathered(right))
        case Alternatives(parts):
            return Alternatives(tuple(map(_gathered, parts)))
        case PerGraph(_, _, inner):
            return replace(node, inner=_gathered(inner))
        case Assign(inner, _, test):
            return replace(node, inner=_gathered(inner), test=_in_questions(test))
        case Select():
            return gathered(node)
        case Leaf():
            return node


def _in_questions(test: Test) -> Test:
    if not test.questions:
        return test
    return replace(test, questions=tuple(Existence(each.name, _gathered(each.inner)) for each in test.questions))


def _all_in_questions(tests: tuple[Test, ...]) -> tuple[Test, ...]:
    return tuple(map(_in_questions, tests))


def _conjunction(items: list[Logic], tests: tuple[Test, ...]) -> Logic:
    growing = [item for item in items if isinstance(item, Remote) and _may_grow(item)]
    others = [item for item in items if not (isinstance(item, Remote) and _may_grow(item))]
    groups = _joined(growing)
    left: list[Test] = []
    for test in tests:
        place = next((i for i, group in enumerate(groups) if _may_send_filter(test, group)), None)
        if place is None:
            left.append(test)
            others = [_tested_there(test, item) for item in others]
        else:
            groups[place] = _filtered(test, groups[place])
    found: list[Logic] = [*others, *groups]
    return found[0] if len(found) == 1 and not left else Conjunction(tuple(found), tuple(left))


def _may_grow(remote: Remote) -> bool:
    return remote.group is not None and remote.group.unless is None


def _joined(growing: list[Remote]) -> list[Remote]:
    """Those that share variables, directly or by others, as one."""
    found: list[Remote] = []
    for remote in growing:
        while (other := next((each for each in found if _is_connected(each, remote)), None)) is not None:
            found.remove(other)
            remote = _join(other, remote)
        found.append(remote)
    return found


def _is_connected(one: Remote, other: Remote) -> bool:
    return one.service == other.service and bool(one.inner_variables & other.inner_variables)


def _join(one: Remote, other: Remote) -> Remote:
    assert one.group is not None and other.group is not None
    group = SourceGroup(
        one.group.certain | other.group.certain,
        one.group.scope if one.group.scope is not None else other.group.scope,
        guess=min(one.group.guess, other.group.guess),
        exact=tuple(dict.fromkeys((*one.group.exact, *other.group.exact))),
        traits=one.group.traits,
    )
    inner = _pattern(one.inner, other.inner)
    return replace(one, inner=inner, inner_variables=one.inner_variables | other.inner_variables, group=group)


def _pattern(one: Pattern, other: Pattern) -> Pattern:
    match one, other:
        case Bgp(), Bgp():
            return Bgp(one.patterns + other.patterns, one.paths + other.paths)
        case Graph(node, Bgp() as left), Graph(same, Bgp() as right) if node == same:
            return Graph(node, _pattern(left, right), one.position)
        case _:
            return Join(one, other)


def _may_send_filter(test: Test, remote: Remote) -> bool:
    """Whether the filter says the same of the solutions of the group."""
    if test.questions or test.is_chance or not test.mentions <= test.sees & remote.certain:
        return False
    assert remote.group is not None, "it is asked of a source"
    return may_send_condition(test.condition, remote.group.traits) and is_condition_alike(
        test.condition, lambda _: False
    )


def _filtered(test: Test, remote: Remote) -> Remote:
    return replace(remote, inner=Filter(test.condition, remote.inner))


def _tested_there(test: Test, item: Logic) -> Logic:
    """A pattern that is looked for in both: the filter goes along with what is asked, and stays here."""
    if not isinstance(item, Alternatives):
        return item
    parts = [
        _filtered(test, part)
        if isinstance(part, Remote) and part.group is not None and _may_send_filter(test, part)
        else part
        for part in item.parts
    ]
    return Alternatives(tuple(parts))
