"""Which queries evaluate many arrivals in one step, and why others do not.

A query emits what is new: what its answer has more at an arrival than without it. A row of a step has the numbers of
the evaluations at which its parts came, so a join needs nothing else. Operators that take rows back (groups, DISTINCT,
OPTIONAL, MINUS, EXISTS) say at which instant they do. What looks at all rows at each evaluation (LIMIT, a path that
repeats, a sub-SELECT) is stepped evaluation by evaluation.

Under RSTREAM it emits its whole answer each time: the rows that are in their windows then, which have the same
numbers."""

from __future__ import annotations

from collections.abc import Iterable

from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.formulas import Not
from stream_ext.language.algebra.policy import Empty, EvaluationTrigger, policy_of
from stream_ext.language.algebra.terms import Variable
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.language.algebra.walk import has_services
from stream_ext.language.algebra.windows import Dialect
from stream_ext.plan.logic import (
    Alternatives,
    Assign,
    Conjunction,
    Logic,
    Optional,
    PatternScan,
    Select,
    Table,
    Test,
    Without,
    children,
    mentioned,
)

#: Wider rows are joined in another way, which looks at all rows so far; each triple pattern adds up to two columns.
_VARIABLES_MAX = _PATTERNS_MAX = 64


def why_one_by_one(query: Query, select: Select) -> str | None:
    """What of a query that is evaluated at arrivals is stepped evaluation by evaluation; None: nothing."""
    policy = policy_of(query)
    if policy.evaluated.value != (EvaluationTrigger.ARRIVAL,):
        return "its evaluations at closes"
    if not query.emits_new and (why := _of_whole_answers(query, select)) is not None:
        return why
    if policy.empty.value is Empty.SILENT_WITHOUT_CONTENT:
        return "NON_EMPTY_CONTENT"
    if is_volatile(query):
        return "a value that is another at each evaluation"
    if has_services(query):
        return "SERVICE"
    if query.form is Form.CONSTRUCT and select.grouping is not None:
        return "CONSTRUCT of groups"
    if any(window.count_step for window in query.windows):
        return "the STEP of a count window"
    if len(select.inner.variables) > _VARIABLES_MAX:
        return f"more than {_VARIABLES_MAX} variables"
    why = _of_select(select)
    many = why is None and _patterns(select.inner) > _PATTERNS_MAX
    return f"more than {_PATTERNS_MAX} triple patterns" if many else why


def _of_whole_answers(query: Query, select: Select) -> str | None:
    """Groups, and what is one, tell only what arrivals change."""
    if query.dialect is not Dialect.CQELS or query.emits is not R2S.RSTREAM:
        return "it does not emit what CQELS-QL calls new, nor its whole answer in that language"
    if query.form is not Form.SELECT or select.grouping is not None or select.distinct:
        return "the whole answer of a group, of DISTINCT, ASK or CONSTRUCT"
    return None if _has_window(select.inner) else "the whole answer of what need not be in a window"


def _has_window(node: Logic) -> bool:
    """Whether each row has something of a window: over empty windows there is none."""
    match node:
        case PatternScan():
            return node.window is not None
        case Conjunction(items):
            return any(map(_has_window, items))
        case Alternatives(parts):
            return all(map(_has_window, parts))
        case Assign(inner):
            return _has_window(inner)
        case Optional(left) | Without(left):
            return _has_window(left)
        case _:
            return False


def _of_select(select: Select) -> str | None:
    if select.grouping is not None and select.distinct:
        return "DISTINCT of groups"
    if select.is_cut or select.order:
        return "ORDER BY, LIMIT or OFFSET"
    tests = [test for _, test in (*select.before, *select.after)]
    return _of_tests((*tests, *select.having)) or _of(select.inner)


def _of(node: Logic) -> str | None:
    match node:
        case PatternScan():
            return None if node.time is None and node.occurrence is None else "the time of a triple"
        case Table():
            return None
        case Conjunction(items, tests):
            return _first(map(_of, items)) or _first(_of_condition(test, node) for test in tests)
        case Alternatives(parts):
            return _first(map(_of, parts))
        case Assign(inner, _, test):
            return _of_tests((test,)) or _of(inner)
        case Optional(left, right, tests):
            return _of_sides("OPTIONAL", left, right) or _of_tests(tests)
        case Without(left, right):
            return _of_sides("MINUS", left, right)
        case Select():
            return "a sub-SELECT"
        case _:
            return _NAMES.get(type(node).__name__, type(node).__name__)


def _of_sides(name: str, left: Logic, right: Logic) -> str | None:
    """Rows are looked up by what both sides have."""
    shared = left.variables & right.variables
    if not shared <= left.certain & right.certain:
        return f"{name} by what may be unbound"
    if name == "MINUS" and not shared:
        return "MINUS of what shares no variable"
    return _of(left) or _of(right)


def _of_condition(test: Test, node: Conjunction) -> str | None:
    """EXISTS may be all of a condition, or all but NOT."""
    if not test.questions:
        return None
    (question, *others) = test.questions
    name = Variable(question.name)
    if others or test.condition not in (name, Not(name)):
        return "EXISTS in an expression"
    if not mentioned(question.inner) & node.variables <= node.certain:
        return "EXISTS of what may be unbound"
    return _of(question.inner)


def _first(found: Iterable[str | None]) -> str | None:
    return next((why for why in found if why is not None), None)


def _patterns(node: Logic) -> int:
    return isinstance(node, PatternScan) + sum(map(_patterns, children(node)))


_NAMES = {
    "PathSource": "a property path that repeats",
    "GraphNames": "GRAPH {}",
    "PerGraph": "GRAPH ?g around MINUS, groups or a sub-SELECT",
    "Remote": "SERVICE",
}


def _of_tests(tests: tuple[Test, ...]) -> str | None:
    return "EXISTS" if any(test.questions for test in tests) else None
