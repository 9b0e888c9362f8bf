"""Divisible: by which variable a registered query can be divided among shards, or why it cannot.

    SELECT ?x ?y { WINDOW :w { ?x :p ?y } WINDOW :v { ?x :q ?z } }        by ?x
    SELECT ?k (AVG(?v) AS ?m) { WINDOW :w { ?k :v ?v } } GROUP BY ?k      by ?k
    SELECT (AVG(?v) AS ?m) { WINDOW :w { ?k :v ?v } }                     not: all solutions are one group

Each shard reads, of all windows, the triples whose key is its own. Each operator has the key among its columns, so
none needs the rows of another shard, and each row of the answer is made by one shard. Put in order, the rows of all
shards are those that one shard makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.policy import Empty, EvaluationTrigger, policy_of
from stream_ext.language.algebra.terms import Variable
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.language.algebra.walk import has_services
from stream_ext.language.algebra.windows import Dialect, Extent
from stream_ext.plan.logic import (
    ORDERED,
    Alternatives,
    Assign,
    Conjunction,
    GraphNames,
    Logic,
    Names,
    Optional,
    PathSource,
    PatternScan,
    Select,
    Table,
    Test,
    Without,
    nodes_of,
    traits_of,
)


class KeyDivision(NamedTuple):
    """By the `variable`; None: not, for this reason."""

    variable: str | None
    why_not: str = ""


def division_of(query: Query, select: Select) -> KeyDivision:
    """`select`: the logic of the query, or of the template that it shares with others."""
    if (why := _why_whole(query, select)) is not None:
        return KeyDivision(None, why)
    scans = [node for node in nodes_of(select) if isinstance(node, PatternScan) and node.window is not None]
    candidates = [name for name in _preferred(scans, select) if _divides(select, name)]
    if query.emits is not R2S.RSTREAM:
        # A row that leaves in one shard and comes in another would be new to that one.
        candidates = [name for name in candidates if name in select.names]
    if not candidates:
        return KeyDivision(None, "no variable is in all triple patterns over windows, and in all groups")
    if (why := _out_of_order(select)) is not None:
        return KeyDivision(None, why)
    return KeyDivision(candidates[0])


def _why_whole(query: Query, select: Select) -> str | None:
    """Why a query is not divided, by whatever variable."""
    policy = policy_of(query)
    if query.form is not Form.SELECT:
        return f"it is no SELECT: all shards together decide what {query.form.name} emits"
    if policy.evaluated.value != (EvaluationTrigger.CLOSE,) or query.dialect is Dialect.CQELS:
        return "it is not evaluated at closes of windows only"
    if any(window.extent not in (Extent.RANGE, Extent.SPAN) or not window.step_ms for window in query.windows):
        return "not all of its windows are lengths of time with a step"
    if query.emits is R2S.DSTREAM:
        return "DSTREAM: some shards have rows that go when the windows become empty, and others have none"
    if policy.empty.value is not Empty.REPORTED:
        return "empty results are not emitted"
    if any(window.stream.variable is not None for window in query.windows):
        return "a window is on each stream"
    if is_volatile(query):
        return "a value is another at each evaluation, or a function is one of others"
    if has_services(query):
        return "SERVICE"
    if select.order or select.is_cut:
        return "ORDER BY, LIMIT or OFFSET"
    return None


def _preferred(scans: list[PatternScan], select: Select) -> list[str]:
    """The variables of all scans; first those that probably have most values: subjects, objects, then others."""
    if not scans:
        return []
    common = scans[0].variables.intersection(*(scan.variables for scan in scans[1:]))
    ends = [scan.subject for scan in scans] + [scan.object for scan in scans]
    ends += [scan.graph.node or scan.predicate for scan in scans] + [scan.predicate for scan in scans]
    # Names of parameters begin with a dot: they have the constants of the queries that share the network.
    names = [each.name for each in ends if isinstance(each, Variable) and not each.name.startswith(".")]
    return [name for name in dict.fromkeys(names) if name in common]


def _divides(node: Logic, key: str) -> bool:
    """Whether the part has just its solutions whose key is in a range if its windows have the triples of that range:
    each triple pattern over a window has the key, and each solution."""
    match node:
        case PatternScan():
            timed = node.time is not None or node.occurrence is not None
            return node.window is not None and key in node.variables and not timed
        case Conjunction(items, tests):
            return (
                any(_divides(item, key) for item in items)
                and all(_divides(item, key) or _is_whole(item) for item in items)
                and _may_test(tests, key)
            )
        case Optional(left, right, tests):
            return _divides(left, key) and (_divides(right, key) or _is_whole(right)) and _may_test(tests, key)
        case Without(left, right):
            return _divides(left, key) and (_divides(right, key) or _is_whole(right))
        case Alternatives(parts):
            return all(_divides(part, key) for part in parts)
        case Assign(inner, variable, test):
            return variable != key and _divides(inner, key) and _may_test((test,), key)
        case Select():
            return _select_divides(node, key)
        case _:
            return False


def _select_divides(node: Select, key: str) -> bool:
    computed = [name for name, _ in (*node.before, *node.after)]
    tests = (*(test for _, test in (*node.before, *node.after)), *node.having)
    if node.is_cut or key in computed or not _divides(node.inner, key) or not _may_test(tests, key):
        return False
    if node.distinct and key not in node.names:
        return False
    if node.grouping is None:
        return True
    follows = any(each.function in ORDERED or each.follows for each in node.grouping.aggregates)
    return key in node.grouping.keys and not node.grouping.always and not follows


def _may_test(tests: tuple[Test, ...], key: str) -> bool:
    questions = (question.inner for test in tests for question in test.questions)
    return all(_divides(inner, key) or _is_whole(inner) for inner in questions)


def _is_whole(node: Logic) -> bool:
    """Whether each shard has all solutions of the part: it reads no window."""
    allowed = (PatternScan, PathSource, GraphNames, Table, Conjunction, Optional, Without, Alternatives, Assign, Select)
    return not traits_of(node).reads_window and all(isinstance(part, allowed) for part in nodes_of(node))


def _out_of_order(select: Select) -> str | None:
    """Why a column may decide the order of rows, though its terms are computed: these have other ids in another
    process. It does not if it is computed of columns before it, and everywhere alike."""
    made: dict[str, dict[object, Names]] = {}
    for name, how, needs in _made(select):
        made.setdefault(name, {})[how] = needs
    before: set[str] = set()
    for name in select.names:
        if len(made.get(name, {})) > 1:
            return f"?{name} is computed in several places, each time otherwise"
        if any(not needs <= before for needs in made.get(name, {}).values()):
            return f"?{name} is computed, and does not come after all that it is computed of"
        if name not in made:
            before.add(name)
    return None


def _made(select: Select) -> Iterator[tuple[str, object, Names]]:
    """What is computed: each variable, how, and of what."""
    for node in nodes_of(select):
        if isinstance(node, Assign):
            yield node.variable, node.test, node.test.needs
        elif isinstance(node, Select):
            keys = None if node.grouping is None else frozenset(node.grouping.keys)
            for name, test in node.before:
                yield name, test, test.needs
            if keys is not None and node.grouping is not None:
                for each in node.grouping.aggregates:
                    yield each.variable, node, keys
            for name, test in node.after:
                yield name, test if keys is None else node, test.needs if keys is None else keys
