"""What is left of a query's pattern once its scopes are settled: the tree that is ordered and built.

Every triple pattern says itself where it looks (which graph, which window), every condition says which variables it
sees, and a variable that a sub-SELECT keeps to itself has a name of its own. So parts may be moved past each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from stream_ext.plan.algebra import Pattern
from stream_ext.plan.formulas import Expression, PathNegated, PathRepeat
from stream_ext.plan.terms import Constant, Node, Position, Variable
from stream_ext.plan.volatile import draws, is_chance

Names = frozenset[str]
NO_NAMES: Names = frozenset()

#: The store's default graph, where graphs are listed.
DEFAULT_GRAPH = Constant(b"")

#: The columns that say when a triple of a stream came: its time, its arrival, its place in the document.
Occurrence = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class GraphScope:
    """Where in the store a pattern looks: the query's default graph, one named graph, or each in turn.

    `node` None is the query's default graph: the store's, or the merge of `graphs`. A variable ranges over `graphs`, or
    over all named ones where they are None; a constant with `graphs` is in none of them. `everything`: the merge of all
    graphs of the store."""

    node: Node | None = None
    graphs: tuple[Constant, ...] | None = None
    everything: bool = False

    @property
    def variable(self) -> str | None:
        return self.node.name if isinstance(self.node, Variable) else None


@dataclass(frozen=True)
class Source:
    """One triple pattern: in a window (its IRI), or in the store. `time`: the variable that its latest time binds.

    `as_bag`: a triple of the window may come several times, for what follows makes a set of them. `occurrence`: the
    columns that its latest occurrence in the window binds."""

    subject: Node
    predicate: Node
    object: Node
    graph: GraphScope
    window: str | None
    time: str | None = None
    as_bag: bool = False
    occurrence: Occurrence | None = None

    @cached_property
    def variables(self) -> Names:
        time = Variable(self.time) if self.time is not None else None
        names = _names(self.subject, self.predicate, self.object, self.graph.node, time)
        return names if self.occurrence is None else names.union(self.occurrence)

    @property
    def certain(self) -> Names:
        return self.variables


@dataclass(frozen=True)
class PathSource:
    """A path that no join can say: it repeats, or takes any predicate but some.

    `merged` windows are one graph with `graph`, which may be none of the store."""

    subject: Node
    path: PathRepeat | PathNegated
    object: Node
    graph: GraphScope
    window: str | None
    merged: tuple[str, ...] = ()

    @cached_property
    def variables(self) -> Names:
        return _names(self.subject, self.object, self.graph.node)

    @property
    def certain(self) -> Names:
        return self.variables


@dataclass(frozen=True)
class GraphNames:
    """The graphs themselves: `GRAPH ?g {}`; of a constant, whether there is such a graph.

    In a window (its IRI) they are those of its elements."""

    graph: GraphScope
    window: str | None = None

    @cached_property
    def variables(self) -> Names:
        return _names(self.graph.node)

    @property
    def certain(self) -> Names:
        return self.variables


@dataclass(frozen=True)
class PerGraph:
    """`GRAPH ?name { inner }` whose inner part has another answer for each graph: MINUS, groups, sub-SELECTs.

    `scope` is the variable that says in which graph its leaves look; it is no variable of their solutions."""

    graph: GraphScope  # whose variable is `scope`
    name: str
    inner: Logic
    window: str | None = None

    @property
    def scope(self) -> str:
        assert isinstance(self.graph.node, Variable)
        return self.graph.node.name

    @cached_property
    def variables(self) -> Names:
        return (self.inner.variables - {self.scope}) | {self.name}

    @property
    def certain(self) -> Names:
        return (self.inner.certain - {self.scope}) | {self.name}


@dataclass(frozen=True)
class Table:
    """VALUES."""

    names: tuple[str, ...]
    rows: tuple[tuple[Constant | None, ...], ...]

    @cached_property
    def variables(self) -> Names:
        return frozenset(self.names)

    @cached_property
    def certain(self) -> Names:
        return frozenset(name for i, name in enumerate(self.names) if all(row[i] is not None for row in self.rows))


@dataclass(frozen=True)
class Question:
    """EXISTS { inner }: its truth is what the variable `name` stands for in the condition around it."""

    name: str
    inner: Logic


@dataclass(frozen=True)
class Test:
    """A filter's condition and the variables that its group shows it."""

    condition: Expression
    sees: Names
    mentions: Names
    questions: tuple[Question, ...] = ()

    @cached_property
    def needs(self) -> Names:
        """What it reads of the rows, questions included."""
        inner = NO_NAMES.union(*(mentioned(question.inner) for question in self.questions))
        return (self.mentions | inner) & self.sees

    @cached_property
    def is_chance(self) -> bool:
        return is_chance(self.condition)

    @cached_property
    def draws(self) -> bool:
        """Whether it has to be asked of whole solutions: of a part of one it would be asked once for several."""
        return draws(self.condition)


@dataclass(frozen=True)
class Conjunction:
    """All of these at once, in whatever order; the tests hold for the whole."""

    items: tuple[Logic, ...] = ()
    tests: tuple[Test, ...] = ()

    @cached_property
    def variables(self) -> Names:
        return NO_NAMES.union(*(item.variables for item in self.items))

    @cached_property
    def certain(self) -> Names:
        return NO_NAMES.union(*(item.certain for item in self.items))

    def joins(self, names: Names) -> bool:
        """Whether what binds these names may be joined below its tests: they must find nothing bound that was not."""
        return all(not test.needs & names - self.certain for test in self.tests)


@dataclass(frozen=True)
class Optional:
    left: Logic
    right: Logic
    tests: tuple[Test, ...] = ()

    @cached_property
    def variables(self) -> Names:
        return self.left.variables | self.right.variables

    @property
    def certain(self) -> Names:
        return self.left.certain


@dataclass(frozen=True)
class Without:
    """MINUS."""

    left: Logic
    right: Logic

    @property
    def variables(self) -> Names:
        return self.left.variables

    @property
    def certain(self) -> Names:
        return self.left.certain


@dataclass(frozen=True)
class Either:
    parts: tuple[Logic, ...]

    @cached_property
    def variables(self) -> Names:
        return NO_NAMES.union(*(part.variables for part in self.parts))

    @cached_property
    def certain(self) -> Names:
        return self.parts[0].certain.intersection(*(part.certain for part in self.parts[1:]))


@dataclass(frozen=True)
class Assign:
    """BIND; the value is unbound where the expression is an error."""

    inner: Logic
    variable: str
    test: Test  # the expression, and what it sees

    @cached_property
    def variables(self) -> Names:
        return self.inner.variables | {self.variable}

    @property
    def certain(self) -> Names:
        return self.inner.certain


@dataclass(frozen=True)
class Remote:
    """SERVICE."""

    service: Node
    inner: Pattern  # sent as it is written
    inner_variables: Names
    silent: bool
    position: Position = field(compare=False)

    @cached_property
    def variables(self) -> Names:
        return self.inner_variables | _names(self.service)

    @property
    def certain(self) -> Names:
        return _names(self.service)


@dataclass(frozen=True)
class Aggregation:
    """What GROUP BY makes: the variables that are its keys, and `variable = function(argument)` for each aggregate."""

    variable: str
    function: str
    argument: str | None
    distinct: bool
    separator: str
    follows: tuple[Occurrence, ...] = ()  # of the triples that a solution is made of, in the order of the text


@dataclass(frozen=True)
class Grouping:
    keys: tuple[str, ...]
    aggregates: tuple[Aggregation, ...]
    always: bool  # without GROUP BY there is one group, also of nothing


@dataclass(frozen=True)
class Select:
    """A query's or sub-query's way from its pattern to its rows."""

    inner: Logic
    before: tuple[tuple[str, Test], ...]  # what is computed of each solution first (keys, arguments of aggregates)
    grouping: Grouping | None
    having: tuple[Test, ...]
    after: tuple[tuple[str, Test], ...]  # what is computed then, in order
    order: tuple[tuple[str, bool], ...]  # variable, descending
    names: tuple[str, ...]
    distinct: bool
    offset: int
    limit: int | None
    position: Position | None = field(default=None, compare=False)  # of a sub-SELECT, in the text

    @cached_property
    def variables(self) -> Names:
        return frozenset(self.names)

    @cached_property
    def certain(self) -> Names:
        if self.grouping is not None:
            return frozenset(self.grouping.keys) & self.inner.certain & self.variables
        return self.inner.certain & self.variables

    @property
    def is_cut(self) -> bool:
        return self.limit is not None or bool(self.offset)


Logic = (
    Source
    | PathSource
    | GraphNames
    | PerGraph
    | Table
    | Conjunction
    | Optional
    | Without
    | Either
    | Assign
    | Remote
    | Select
)

EMPTY = Conjunction()

#: Aggregates that say something else when the solutions stand in another order.
ORDERED = frozenset({"GROUP_CONCAT", "SAMPLE"})
#: Those of the occurrences that a group's solutions are made of, one for each column of what is the latest of them.
LATEST = ("LATEST TIME", "LATEST ARRIVAL", "LATEST PLACE")

#: Aggregates that say a small number, or one of the terms that they are given.
_CHOOSING = frozenset({"COUNT", "MIN", "MAX", "SAMPLE", *LATEST})


def _names(*nodes: Node | None) -> Names:
    return frozenset(node.name for node in nodes if isinstance(node, Variable))


def children(node: Logic) -> tuple[Logic, ...]:
    match node:
        case Conjunction(items):
            return items
        case Optional(left, right) | Without(left, right):
            return (left, right)
        case Either(parts):
            return parts
        case Assign(inner) | Select(inner) | PerGraph(_, _, inner):
            return (inner,)
        case _:
            return ()


def tests_of(node: Logic) -> tuple[Test, ...]:
    match node:
        case Conjunction(_, tests) | Optional(_, _, tests):
            return tests
        case Assign(_, _, test):
            return (test,)
        case Select():
            return (*(test for _, test in node.before), *node.having, *(test for _, test in node.after))
        case _:
            return ()


def mentioned(node: Logic) -> Names:
    """Every variable that occurs anywhere in it: what a substitution may reach."""
    found = node.variables
    for test in tests_of(node):
        found |= test.mentions
        for question in test.questions:
            found |= mentioned(question.inner)
    return found.union(*(mentioned(child) for child in children(node)))


def nodes_of(node: Logic) -> Iterator[Logic]:
    """`node` and all that is inside of it, also of its questions."""
    yield node
    for inner in (*children(node), *(question.inner for test in tests_of(node) for question in test.questions)):
        yield from nodes_of(inner)


def ranked_places(select: Select) -> dict[Select, str]:
    """For each sub-SELECT that is cut by the order of first appearance a name that another plan has for it, too: where
    the text says it, and of those that a window on a variable makes of one which it is."""
    places: dict[Select, str] = {}
    counted: Counter[Position | None] = Counter()
    for node in nodes_of(select):
        if isinstance(node, Select) and node is not select and node.is_cut and not node.order and node not in places:
            where = "" if node.position is None else f"{node.position.line}:{node.position.column}"
            places[node] = f"{where}/{counted[node.position]}"
            counted[node.position] += 1
    return places


def varies(node: Logic) -> bool:
    """Whether the same part in another place of the query may have other solutions."""
    return any(test.is_chance for part in nodes_of(node) for test in tests_of(part))


def predicates_read(select: Select) -> frozenset[bytes] | None:
    """Whose edges in the store decide what a pattern finds; None: any may."""
    found = set()
    for node in nodes_of(select):
        if isinstance(node, Source) and isinstance(node.predicate, Constant):
            found.add(node.predicate.text)
        elif isinstance(node, Source | PathSource | GraphNames | PerGraph):
            return None  # a path may begin at any node, and a graph is there while it holds any edge
    return frozenset(found)


def makes_terms(select: Select) -> bool:
    """Whether a solution may have a term that none of the data has: its id is another one in each process."""
    return any(map(_makes_terms, nodes_of(select)))


def _makes_terms(node: Logic) -> bool:
    if isinstance(node, Assign | Remote):
        return True
    if not isinstance(node, Select):
        return False
    aggregates = () if node.grouping is None else node.grouping.aggregates
    computed = (test.condition for _, test in (*node.before, *node.after))
    return any(each.function not in _CHOOSING for each in aggregates) or not all(
        isinstance(each, Variable) for each in computed
    )


def sources_of(node: Logic) -> list[Logic]:
    """The leaves, those of questions included, in the order of the text."""
    inner = [*children(node), *(question.inner for test in tests_of(node) for question in test.questions)]
    if not inner:
        return [node]
    return [leaf for child in inner for leaf in sources_of(child)]
