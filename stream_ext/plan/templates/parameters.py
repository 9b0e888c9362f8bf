"""Templates: a registered query is split into a template without constants, and its constants, the parameters.

    SELECT ?x { WINDOW :w { ?x :in :zone1 } FILTER(?x != :taxi7) }
    =>  SELECT ?x { WINDOW :w { ?x :in ?.c1 } FILTER(?x != ?.c2) }    and    (:zone1, :taxi7)

Queries that are the same without their constants are of one template, and share one network: their constants are rows
of a relation that is joined like any other. Parameters are subjects and objects of triples, ends of `+` paths, and the
constants of comparisons; predicates, graphs, VALUES and arguments of functions stay in the template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from stream_ext.computed_once import computed_once
from stream_ext.language.algebra.algebra import R2S, Form, QuadPattern, Query
from stream_ext.language.algebra.formulas import And, Compare, Expression, Membership, Not, Or, PathRepeat, Repeat
from stream_ext.language.algebra.terms import BlankLabel, Constant, Variable
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.language.algebra.walk import walk
from stream_ext.plan.logic import (
    ORDERED,
    Alternatives,
    Assign,
    Conjunction,
    Existence,
    Leaf,
    Logic,
    Optional,
    PathSource,
    PatternScan,
    PerGraph,
    Select,
    Test,
    Without,
    children,
    tests_of,
)
from stream_ext.plan.templates.template_number import number_of

#: The column with the number of the query to which a row belongs.
OF_QUERY = ".query"

#: A condition with more parts than this keeps its constants.
_PARTS_MAX = 64


@dataclass(frozen=True)
class QueryTemplate:
    """A query without its constants. `names`: the variables in their places, in `select` and in `construct` (the
    template of CONSTRUCT)."""

    select: Select
    construct: tuple[QuadPattern, ...]
    names: tuple[str, ...]
    form: Form
    r2s: R2S
    variables: tuple[str, ...]

    @computed_once
    def _hash(self) -> int:
        return hash((self.select, self.names, self.form, self.r2s, self.variables))

    def __hash__(self) -> int:
        return self._hash

    def number_over(self, labels: tuple[str, ...]) -> int:
        """The number of this template over windows with these streams. It is found once."""
        if labels not in self._numbers:
            self._numbers[labels] = number_of((self, labels))
        return self._numbers[labels]

    @computed_once
    def _numbers(self) -> dict[tuple[str, ...], int]:
        return {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the relation of its parameters."""
        return (OF_QUERY, *self.names)


@dataclass(frozen=True, slots=True)
class Parametrised:
    """A query as its template and the constants (canonical texts), one for each of the template's names."""

    template: QueryTemplate
    constants: tuple[bytes, ...]


def parametrised(query: Query, select: Select, construct: Sequence[QuadPattern]) -> Parametrised | None:
    """None: the query does not share a network. Its result may depend on more rows than those that its parameters are
    joined with, or the join with the parameters would be a cross product."""
    if is_volatile(query) or not _is_shareable(select, construct) or not _is_anchored(select):
        return None
    extracted = _Constants()
    without = extracted.select(select)
    quads = tuple(map(extracted.quad, construct))
    names = tuple(f".c{i}" for i in range(1, len(extracted.constants) + 1))
    template = QueryTemplate(without, quads, names, query.form, query.emits, query.variables)
    return Parametrised(template, tuple(extracted.constants))


def _is_shareable(select: Select, construct: Sequence[QuadPattern]) -> bool:
    if construct:
        return False
    if select.is_cut and not select.order:
        return False  # LIMIT goes by the order of first appearance, which is different in each query
    below = [node for node in _below(select) if isinstance(node, Select)]
    if any(node.is_cut for node in below):
        return False  # as above; with ORDER BY, it would have to be sorted for each query
    return all(map(_is_free_of_order, [select, *below]))


def _is_free_of_order(node: Select) -> bool:
    return node.grouping is None or not any(each.function in ORDERED for each in node.grouping.aggregates)


def _below(node: Logic) -> list[Logic]:
    found: list[Logic] = []
    waiting = _inside(node)
    while waiting:
        part = waiting.pop()
        found.append(part)
        waiting += _inside(part)
    return found


def _inside(node: Logic) -> list[Logic]:
    return [*children(node), *(question.inner for test in tests_of(node) for question in test.questions)]


def _is_anchored(node: Logic) -> bool:
    """Whether each solution comes from a triple pattern with a constant, so that few solutions belong to one query."""
    match node:
        case PatternScan():
            return isinstance(node.subject, Constant) or isinstance(node.object, Constant)
        case Conjunction(items):
            return any(map(_is_anchored, items))
        case Optional(left, _) | Without(left, _):
            return _is_anchored(left)
        case Alternatives(parts):
            return all(map(_is_anchored, parts))
        case Assign(inner) | Select(inner):
            return _is_anchored(inner)
        case _:
            return False


class _Constants:
    """Replaces constants by variables, and lists them in the order of the text."""

    def __init__(self) -> None:
        self.constants: list[bytes] = []

    def _name(self, constant: Constant) -> Variable:
        self.constants.append(constant.text)
        return Variable(f".c{len(self.constants)}", hidden=True)

    def _node(self, node: Any) -> Any:
        return self._name(node) if isinstance(node, Constant) else node

    def logic(self, node: Logic) -> Logic:
        match node:
            case PatternScan():
                return replace(node, subject=self._node(node.subject), object=self._node(node.object))
            case PathSource(path=PathRepeat(Constant(), Repeat.ONE_OR_MORE)):
                # Of a path that may have no edge at all, a constant end need be no node of the graph, a variable must.
                return replace(node, subject=self._node(node.subject), object=self._node(node.object))
            case Conjunction(items, tests):
                return Conjunction(tuple(map(self.logic, items)), self._tests(tests))
            case Optional(left, right, tests):
                return Optional(self.logic(left), self.logic(right), self._tests(tests))
            case Without(left, right):
                return Without(self.logic(left), self.logic(right))
            case Alternatives(parts):
                return Alternatives(tuple(map(self.logic, parts)))
            case Assign(inner, variable, test):
                return Assign(self.logic(inner), variable, self._test(test))
            case PerGraph(_, _, inner):
                return replace(node, inner=self.logic(inner))
            case Select():
                return self.select(node)
            case Leaf():
                return node

    def select(self, node: Select) -> Select:
        return replace(
            node,
            inner=self.logic(node.inner),
            before=tuple((name, self._test(test)) for name, test in node.before),
            having=self._tests(node.having),
            after=tuple((name, self._test(test)) for name, test in node.after),
        )

    def quad(self, quad: QuadPattern) -> QuadPattern:
        return structs.replace(quad, subject=self._node(quad.subject), object=self._node(quad.object))

    def _tests(self, tests: tuple[Test, ...]) -> tuple[Test, ...]:
        return tuple(map(self._test, tests))

    def _test(self, test: Test) -> Test:
        before = len(self.constants)
        # A chain of || may be longer than Python recurses.
        short = sum(1 for _ in walk(test.condition)) <= _PARTS_MAX
        condition = self._condition(test.condition) if short else test.condition
        names = frozenset(f".c{i + 1}" for i in range(before, len(self.constants)))
        questions = tuple(Existence(each.name, self.logic(each.inner)) for each in test.questions)
        return Test(condition, test.sees, test.mentions | names, questions)

    def _condition(self, part: Expression) -> Expression:
        match part:
            case And(left, right) | Or(left, right):
                return replace(part, left=self._condition(left), right=self._condition(right))
            case Not(inner):
                return Not(self._condition(inner))
            case Compare(op, left, right):
                return Compare(op, self._node(left), self._node(right))
            case Membership(inner, items, negated, position):
                return Membership(self._node(inner), tuple(map(self._node, items)), negated, position)
            case _:
                return part


def has_labels(construct: Sequence[QuadPattern]) -> bool:
    """Whether the template of CONSTRUCT has blank nodes, which are different in each query."""
    return any(isinstance(node, BlankLabel) for quad in construct for node in (quad.subject, quad.object))
