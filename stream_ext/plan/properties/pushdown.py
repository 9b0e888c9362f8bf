"""Pushdown: whether a part may be evaluated for given values of some variables only.

Joining (?x = 1, 2, 3) with `{ ?x :p ?y } OPTIONAL { ?y :q ?z }` may begin with the three values: they restrict ?x,
which the part binds for certain. Joining values of ?z may not: for other values, OPTIONAL would leave ?z unbound."""

from __future__ import annotations

from stream_ext.plan.logic import (
    Alternatives,
    Assign,
    Conjunction,
    Leaf,
    Logic,
    Names,
    Optional,
    PerGraph,
    Select,
    Test,
    Without,
)


def accepts_bindings(node: Logic, names: Names) -> bool:
    """Whether joining the values of `names` before the part has the same result as after; they are always bound."""
    names = names & node.variables
    if not names:
        return True
    match node:
        case Conjunction(items, tests):
            return all(accepts_bindings(item, names) for item in items) and _untouched(tests, names, node.certain)
        case Optional(left, right, tests):
            own = right.variables - left.certain
            return not names & own and accepts_bindings(left, names) and _untouched(tests, names, node.certain | own)
        case Without(left, right):
            return not names & (right.variables - left.certain) and accepts_bindings(left, names)
        case Alternatives(parts):
            return all(accepts_bindings(part, names) for part in parts)
        case Assign(inner, variable, test):
            return (
                variable not in names and accepts_bindings(inner, names) and _untouched((test,), names, inner.certain)
            )
        case Select():
            return _select_accepts(node, names)
        case PerGraph():
            return False
        case Leaf():
            return True


def _select_accepts(node: Select, names: Names) -> bool:
    if node.is_cut or (node.grouping is not None and (node.grouping.always or not names <= set(node.grouping.keys))):
        return False
    assigned = {name for name, _ in (*node.before, *node.after)}
    return not names & assigned and names <= node.inner.certain and accepts_bindings(node.inner, names)


def _untouched(tests: tuple[Test, ...], names: Names, certain: Names) -> bool:
    """Whether the result of the tests does not depend on whether the names were joined before."""
    return all(not test.needs & names - certain for test in tests)
