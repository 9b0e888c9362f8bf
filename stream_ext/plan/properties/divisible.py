"""Divisible: by which variable a registered query can be divided among shards, or why it cannot.

    SELECT ?x ?y { WINDOW :w { ?x :p ?y } WINDOW :v { ?x :q ?z } }         by ?x
    SELECT ?k (AVG(?v) AS ?m) { WINDOW :w { ?k :v ?v } } GROUP BY ?k       by ?k
    SELECT ?x ?y { WINDOW :w { ?x :u ?u } WINDOW :v { ?y :v ?v } FILTER(?u < ?v) }     by ?x; of :v each reads all
    SELECT (AVG(?v) AS ?m) { WINDOW :w { ?k :v ?v } }                      by ?k; counts and sums of all are added up
    SELECT (COUNT(DISTINCT ?v) AS ?n) { WINDOW :w { ?k :v ?v } }           by ?v: each value is counted in one range
    SELECT ?a { { WINDOW :w { ?a :p ?b } } UNION { ?a :k ?b } }            not: some solutions are of no window

Each solution has a value of the variable, the key, and belongs to the shard that has its range. A triple pattern over a
window with the key reads what is in the range; one without it reads all, in each shard. No operator needs a row of
another shard.

What is done with the whole answer (ORDER BY, LIMIT, DISTINCT without the key, which rows are new without the key,
CONSTRUCT, ASK) is done by whoever unites the shards' rows: they are summed first (`is_summed`), and so is what each
shard counts in groups without the key (`partial_groups`). Otherwise the rows of all shards, put in order, are those
that one shard makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stream_ext.language.algebra.algebra import R2S, Form, Query
from stream_ext.language.algebra.policy import Empty, EvaluationTrigger, policy_of
from stream_ext.language.algebra.terms import BlankLabel, Node, Variable
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.language.algebra.walk import has_services, template_of
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
    inside_of,
    nodes_of,
    tests_of,
    traits_of,
)
from stream_ext.plan.properties.arrival_batching import why_one_by_one
from stream_ext.plan.properties.features import makes_terms
from stream_ext.plan.properties.partial_groups import add_up, grouped, why_groups_stay_whole

_WITHOUT_KEY = "no variable is in a triple pattern over a window of each solution, and in all groups"
_NOR_ADDED_UP = "; nor can groups be added up: an aggregate is DISTINCT, or some solutions are of no range"
_LENGTHS = (Extent.RANGE, Extent.SPAN, Extent.NOW)


class KeyDivision(NamedTuple):
    """By the `variable`; None: not, for this reason. `is_summed`: the rows of all shards are summed, and then become
    the result. `reads_all`: some patterns over windows are without the variable, and read whole by each shard.
    `partial_groups`: the rows that are summed are what the groups have in each shard."""

    variable: str | None
    why_not: str = ""
    is_summed: bool = False
    reads_all: bool = False
    partial_groups: bool = False

    @property
    def shown(self) -> str:
        """How it is divided, for people."""
        if self.variable is None:
            return f"not: {self.why_not}"
        more = "; each reads all of the other patterns" if self.reads_all else ""
        of_groups = "; each counts in groups, and their counts are summed"
        summed = of_groups if self.partial_groups else "; their rows are summed" if self.is_summed else ""
        name, *_ = self.variable.split(".")  # behind the point: in which sub-SELECT it is
        return f"by ?{name}{more}{summed}"


def division_of(query: Query, select: Select, shares: bool = False) -> KeyDivision:
    """`select`: the logic of the query, or of the template that it `shares` with others."""
    if (why := _why_whole(query, select, shares)) is not None:
        return KeyDivision(None, why)
    scans = [node for node in nodes_of(select) if isinstance(node, PatternScan) and node.window is not None]
    able = [name for name in _candidates(scans) if divides_select(select, name) and _may_arrive(query, select, name)]
    groups = None if able or _is_at_arrivals(query) else grouped(select)
    if groups is not None:
        able = [name for name in _candidates(scans) if _divides_groups(groups, name)]
        if able and (why := why_groups_stay_whole(query, groups)) is not None:
            return KeyDivision(None, why)
    if not able:
        return KeyDivision(None, _WITHOUT_KEY if groups is None else _WITHOUT_KEY + _NOR_ADDED_UP)
    if (why := why_out_of_order(query, select)) is not None:
        return KeyDivision(None, why)
    having = {name: sum(name in scan.variables for scan in scans) for name in able}
    # What is read by one shard only is least work; then what need not be summed.
    key = max(able, key=lambda name: (having[name], not _is_summed(query, select, name)))
    is_summed = groups is not None or _is_summed(query, select, key)
    return KeyDivision(key, "", is_summed, having[key] < _windowed(select), groups is not None)


def _why_whole(query: Query, select: Select, shares: bool) -> str | None:
    """Why a query is not divided, by whatever variable."""
    if any(window.stream.variable is not None for window in query.windows):
        return "a window is on each stream"
    if is_volatile(query):
        return "a value is another at each evaluation, or a function is one of others"
    if has_services(query):
        return "SERVICE"
    if select.is_cut and not select.order:
        return "LIMIT or OFFSET without ORDER BY: rows are cut by the order in which they appeared"
    if select.is_cut and query.form is not Form.SELECT:
        return f"LIMIT or OFFSET of {query.form.name}"
    if query.emits is R2S.DSTREAM and (select.offset or select.limit == 0):
        return "OFFSET under DSTREAM: rows may go of which none was shown"  # seen by those only who have all rows
    groupings = [node.grouping for node in nodes_of(select) if isinstance(node, Select) and node.grouping is not None]
    if any(each.function in ORDERED or each.follows for grouping in groupings for each in grouping.aggregates):
        return "SAMPLE, GROUP_CONCAT or a time of the latest triple: the order of rows decides"
    if _is_at_arrivals(query):
        return _why_whole_at_arrivals(query, select, shares)
    return _why_whole_at_closes(query)


def _is_at_arrivals(query: Query) -> bool:
    return policy_of(query).evaluated.value == (EvaluationTrigger.ARRIVAL,)


def _why_whole_at_closes(query: Query) -> str | None:
    policy = policy_of(query)
    if policy.evaluated.value != (EvaluationTrigger.CLOSE,) or query.dialect is Dialect.CQELS:
        return "it is not evaluated at closes of windows only, nor at arrivals only"
    if any(window.extent not in (Extent.RANGE, Extent.SPAN) or not window.step_ms for window in query.windows):
        return "not all of its windows are lengths of time with a step"
    if query.form not in (Form.SELECT, Form.CONSTRUCT, Form.ASK):
        return f"it is a {query.form.name}"
    if query.form is Form.ASK and query.emits is not R2S.RSTREAM:
        return "ASK emits nothing while its answer stays"
    if policy.empty.value is not Empty.REPORTED:
        return "empty results are not emitted"
    return None


def _why_whole_at_arrivals(query: Query, select: Select, shares: bool) -> str | None:
    if (why := why_one_by_one(query, select)) is not None:
        return f"its arrivals are evaluated one by one: {why}"
    if query.form is not Form.SELECT:
        return f"{query.form.name} at arrivals"
    if any(window.extent not in (*_LENGTHS, Extent.TRIPLES, Extent.ELEMENTS) for window in query.windows):
        return "a window holds all"
    return "queries that differ in constants share its network" if shares else None


def _may_arrive(query: Query, select: Select, key: str) -> bool:
    """What arrives may take a row back in one shard that comes in another, if the row has no key."""
    return not _is_at_arrivals(query) or key in select.names or not _takes_back(select)


def _takes_back(select: Select) -> bool:
    if select.grouping is not None or select.distinct:
        return True
    only_adds = (Select, PatternScan, Conjunction, Alternatives, Assign, Table)
    nodes = list(nodes_of(select))
    return any(not isinstance(node, only_adds) or any(t.questions for t in tests_of(node)) for node in nodes)


def _is_summed(query: Query, select: Select, key: str) -> bool:
    """Whether what the shards emit is not, in order, what the query emits."""
    if _is_at_arrivals(query):
        return False
    if query.form is not Form.SELECT or select.order:
        return True
    # A row without the key that leaves in one shard and comes in another would be new to that one.
    return key not in select.names and (select.distinct or query.emits is not R2S.RSTREAM)


def _windowed(select: Select) -> int:
    """How many leaves read a window."""
    return sum(not inside_of(node) and traits_of(node).reads_window for node in nodes_of(select))


def _candidates(scans: list[PatternScan]) -> list[str]:
    """The variables of triple patterns over windows; first those that probably have most values: subjects, objects,
    then others."""
    ends = [scan.subject for scan in scans] + [scan.object for scan in scans]
    ends += [scan.graph.node or scan.predicate for scan in scans] + [scan.predicate for scan in scans]
    # Names of parameters begin with a dot: they have the constants of the queries that share the network.
    names = [each.name for each in ends if isinstance(each, Variable) and not each.name.startswith(".")]
    return list(dict.fromkeys(names))


def _divides(node: Logic, key: str) -> bool:
    """Whether the part has just its solutions whose key is in a range if its triple patterns over windows that have the
    key read what is in that range: each solution has the key."""
    match node:
        case PatternScan():
            timed = node.time is not None or node.occurrence is not None
            return node.window is not None and key in node.variables and not timed
        case Conjunction(items, tests):
            return any(_divides(item, key) for item in items) and all(
                _divides(item, key) or _is_whole(item, key) for item in items
            ) and _may_test(tests, key)  # fmt: skip
        case Optional(left, right, tests):
            return _divides(left, key) and (_divides(right, key) or _is_whole(right, key)) and _may_test(tests, key)
        case Without(left, right):
            return _divides(left, key) and (_divides(right, key) or _is_whole(right, key))
        case Alternatives(parts):
            return all(_divides(part, key) for part in parts)
        case Assign(inner, variable, test):
            return variable != key and _divides(inner, key) and _may_test((test,), key)
        case Select():
            is_plain = not node.is_cut and not node.order and key in node.names
            return divides_select(node, key) and is_plain
        case _:
            return False


def divides_select(node: Select, key: str) -> bool:
    """As `_divides`, of the whole query: ORDER BY, LIMIT and DISTINCT come after its solutions are together."""
    if not _divides_solutions(node, key):
        return False
    return node.grouping is None or (key in node.grouping.keys and not node.grouping.always)


def _divides_groups(node: Select, key: str) -> bool:
    """Whether what is counted in each range can be added up."""
    return _divides_solutions(node, key) and add_up(node, key)


def _divides_solutions(node: Select, key: str) -> bool:
    computed = [name for name, _ in (*node.before, *node.after)]
    tests = (*(test for _, test in (*node.before, *node.after)), *node.having)
    return key not in computed and _divides(node.inner, key) and _may_test(tests, key)


def _may_test(tests: tuple[Test, ...], key: str) -> bool:
    questions = (question.inner for test in tests for question in test.questions)
    return all(_divides(inner, key) or _is_whole(inner, key) for inner in questions)


def _is_whole(node: Logic, key: str) -> bool:
    """Whether each shard has all solutions of the part: no triple pattern of it that reads a window has the key."""
    allowed = (PatternScan, PathSource, GraphNames, Table, Conjunction, Optional, Without, Alternatives, Assign, Select)
    for part in nodes_of(node):
        if not isinstance(part, allowed) or (isinstance(part, PatternScan) and part.window and key in part.variables):
            return False
        if isinstance(part, Select) and part.is_cut and traits_of(part).reads_window:
            return False
    return True


def why_out_of_order(query: Query, select: Select) -> str | None:
    """Why a column may decide the order of rows, though its terms are computed: these have other ids in another
    process. It does not if it is computed of columns before it, and everywhere alike."""
    if query.form is Form.CONSTRUCT:
        return _why_triples_are_out_of_order(query, select)
    if select.is_cut and makes_terms(select):
        return None  # rows that ORDER BY leaves together stand by their texts
    made: dict[str, dict[object, Names]] = {}
    for name, how, needs in _made(select):
        made.setdefault(name, {})[how] = needs
    before: set[str] = set()
    for name in dict.fromkeys((*select.names, *(name for name, _ in select.order))):
        if len(made.get(name, {})) > 1:
            return f"?{name} is computed in several places, each time otherwise"
        if any(not needs <= before for needs in made.get(name, {}).values()):
            return f"{_shown(name)} is computed, and does not come after all that it is computed of"
        if name not in made:
            before.add(name)
    return None


def _shown(name: str) -> str:
    return f"?{name}" if name.isidentifier() else "an expression of ORDER BY"


def _why_triples_are_out_of_order(query: Query, select: Select) -> str | None:
    """Triples stand by subject, predicate, object: a computed term must be the only object of its subject and
    predicate."""
    found = list(_made(select))
    made = {name: needs for name, _, needs in found}
    if len({(name, how) for name, how, _ in found}) > len(made):
        return "a term of CONSTRUCT is computed in several places, each time otherwise"
    predicates = list[Node]()
    for quad in template_of(query):
        ends = (quad.subject, quad.predicate, quad.object)
        if any(isinstance(each, BlankLabel) for each in ends):
            return "a blank node of CONSTRUCT is another one for each solution"
        predicates.append(quad.predicate)
        computed = [each.name for each in ends if isinstance(each, Variable) and each.name in made]
        if not computed:
            continue
        subject = {quad.subject.name} if isinstance(quad.subject, Variable) else set[str]()
        is_of_subject = made[computed[-1]] <= subject
        if computed != [getattr(quad.object, "name", None)] or not is_of_subject:
            return f"?{computed[0]} is computed, and not of the subject of its triple alone"
    are_other = len(set(predicates)) == len(predicates) and not any(isinstance(each, Variable) for each in predicates)
    if made and len(predicates) > 1 and not are_other:
        return "two triples of CONSTRUCT with computed terms may have one predicate"
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
