"""Which queries evaluate many arrivals in one step, and why others do not.

A query emits what is new: a combination of rows is emitted at the evaluation at which the last of them came. If no
operator of the query ever removes what it has put out, a row needs only the number of that evaluation, and one step
finds the rows of many evaluations. An operator that looks at all rows so far (a group, DISTINCT, OPTIONAL) must be
stepped evaluation by evaluation."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.language.algebra.policy import Empty, EvaluationTrigger, policy_of
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.language.algebra.walk import has_services
from stream_ext.plan.logic import Alternatives, Assign, Conjunction, Logic, PatternScan, Select, Table, Test, children

#: Wider rows are joined in another way, which looks at all rows so far; each triple pattern adds up to two columns.
_VARIABLES_MAX = _PATTERNS_MAX = 64


def why_one_by_one(query: Query, select: Select) -> str | None:
    """What of a query that is evaluated at arrivals is stepped evaluation by evaluation; None: nothing."""
    policy = policy_of(query)
    if policy.evaluated.value != (EvaluationTrigger.ARRIVAL,):
        return "its evaluations at closes"
    if not query.emits_new:
        return "it does not emit what CQELS-QL calls new"
    if policy.empty.value is Empty.SILENT_WITHOUT_CONTENT:
        return "NON_EMPTY_CONTENT"
    if is_volatile(query):
        return "a value that is another at each evaluation"
    if has_services(query):
        return "SERVICE"
    if query.form is not Form.SELECT:
        return query.form.value
    if any(window.count_step for window in query.windows):
        return "the STEP of a count window"
    if len(select.inner.variables) > _VARIABLES_MAX:
        return f"more than {_VARIABLES_MAX} variables"
    why = _of_select(select)
    many = why is None and _patterns(select.inner) > _PATTERNS_MAX
    return f"more than {_PATTERNS_MAX} triple patterns" if many else why


def _of_select(select: Select) -> str | None:
    if select.grouping is not None:
        return "GROUP BY or an aggregate"
    if select.distinct:
        return "DISTINCT"
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
            return _of_tests(tests) or next((why for item in items if (why := _of(item))), None)
        case Alternatives(parts):
            return next((why for part in parts if (why := _of(part))), None)
        case Assign(inner, _, test):
            return _of_tests((test,)) or _of(inner)
        case Select():
            return "a sub-SELECT"
        case _:
            return _NAMES.get(type(node).__name__, type(node).__name__)


def _patterns(node: Logic) -> int:
    return isinstance(node, PatternScan) + sum(map(_patterns, children(node)))


_NAMES = {
    "Optional": "OPTIONAL",
    "Without": "MINUS",
    "PathSource": "a property path that repeats",
    "GraphNames": "GRAPH {}",
    "PerGraph": "GRAPH ?g around MINUS, groups or a sub-SELECT",
    "Remote": "SERVICE",
}


def _of_tests(tests: tuple[Test, ...]) -> str | None:
    return "EXISTS" if any(test.questions for test in tests) else None
