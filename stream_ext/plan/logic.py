"""Logic: the tree of a query's pattern without scopes, which the passes rewrite and from which the network is built.

Every triple pattern has its graph or window, every condition has the variables that it sees, and a variable that a
sub-SELECT does not project has a unique name. So parts can be moved past each other. The leaves of the tree are in
`leaves`, and are imported from here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stream_ext.computed_once import computed_once
from stream_ext.language.algebra.formulas import Expression
from stream_ext.language.algebra.terms import Position, Variable
from stream_ext.language.algebra.volatile import draws, is_chance
from stream_ext.plan.leaves import DEFAULT_GRAPH as DEFAULT_GRAPH
from stream_ext.plan.leaves import NO_NAMES as NO_NAMES
from stream_ext.plan.leaves import GraphNames as GraphNames
from stream_ext.plan.leaves import GraphScope as GraphScope
from stream_ext.plan.leaves import Leaf as Leaf
from stream_ext.plan.leaves import Names as Names
from stream_ext.plan.leaves import Occurrence as Occurrence
from stream_ext.plan.leaves import PathSource as PathSource
from stream_ext.plan.leaves import PatternScan as PatternScan
from stream_ext.plan.leaves import Remote as Remote
from stream_ext.plan.leaves import SourceEvaluated as SourceEvaluated
from stream_ext.plan.leaves import SourceGroup as SourceGroup
from stream_ext.plan.leaves import Table as Table
from stream_ext.plan.leaves import hashed_once as hashed_once


@hashed_once
@dataclass(frozen=True)
class PerGraph:
    """`GRAPH ?name { inner }` whose inner part has another answer for each graph: MINUS, groups, sub-SELECTs.

    `scope` is the variable that says in which graph its leaves look; it is no variable of their solutions."""

    graph: GraphScope  # whose variable is `scope`
    name: str
    inner: Logic
    window: str | None = None
    remote: Remote | None = None  # the graphs of a source, which are beside those of the store

    @property
    def scope(self) -> str:
        assert isinstance(self.graph.node, Variable)
        return self.graph.node.name

    @computed_once
    def variables(self) -> Names:
        return (self.inner.variables - {self.scope}) | {self.name}

    @property
    def certain(self) -> Names:
        return (self.inner.certain - {self.scope}) | {self.name}


@hashed_once
@dataclass(frozen=True)
class Existence:
    """EXISTS { inner }: in the condition around it, the variable `name` is true where this has a solution."""

    name: str
    inner: Logic


@hashed_once
@dataclass(frozen=True)
class Test:
    """The condition of a FILTER, and the variables that are in its scope."""

    condition: Expression
    sees: Names
    mentions: Names
    questions: tuple[Existence, ...] = ()

    @computed_once
    def needs(self) -> Names:
        """The variables of the rows that it reads, also in its questions."""
        inner = NO_NAMES.union(*(mentioned(question.inner) for question in self.questions))
        return (self.mentions | inner) & self.sees

    @computed_once
    def is_chance(self) -> bool:
        return is_chance(self.condition)

    @computed_once
    def draws(self) -> bool:
        """Whether it has to be asked of whole solutions: of a part of one it would be asked once for several."""
        return draws(self.condition)


@hashed_once
@dataclass(frozen=True)
class Conjunction:
    """The join of these parts, in any order; the tests apply to the whole."""

    items: tuple[Logic, ...] = ()
    tests: tuple[Test, ...] = ()

    @computed_once
    def variables(self) -> Names:
        return NO_NAMES.union(*(item.variables for item in self.items))

    @computed_once
    def certain(self) -> Names:
        return NO_NAMES.union(*(item.certain for item in self.items))

    def joins(self, names: Names) -> bool:
        """Whether what binds these names may be joined below its tests: they must find nothing bound that was not."""
        return all(not test.needs & names - self.certain for test in self.tests)


@hashed_once
@dataclass(frozen=True)
class Optional:
    left: Logic
    right: Logic
    tests: tuple[Test, ...] = ()

    @computed_once
    def variables(self) -> Names:
        return self.left.variables | self.right.variables

    @computed_once
    def certain(self) -> Names:
        return self.left.certain


@hashed_once
@dataclass(frozen=True)
class Without:
    """MINUS."""

    left: Logic
    right: Logic

    @computed_once
    def variables(self) -> Names:
        return self.left.variables

    @computed_once
    def certain(self) -> Names:
        return self.left.certain


@hashed_once
@dataclass(frozen=True)
class Alternatives:
    parts: tuple[Logic, ...]

    @computed_once
    def variables(self) -> Names:
        return NO_NAMES.union(*(part.variables for part in self.parts))

    @computed_once
    def certain(self) -> Names:
        return self.parts[0].certain.intersection(*(part.certain for part in self.parts[1:]))


@hashed_once
@dataclass(frozen=True)
class Assign:
    """BIND; the value is unbound where the expression is an error."""

    inner: Logic
    variable: str
    test: Test  # the expression, and what it sees

    @computed_once
    def variables(self) -> Names:
        return self.inner.variables | {self.variable}

    @computed_once
    def certain(self) -> Names:
        return self.inner.certain


@hashed_once
@dataclass(frozen=True)
class Aggregation:
    """What GROUP BY makes: the variables that are its keys, and `variable = function(argument)` for each aggregate."""

    variable: str
    function: str
    argument: str | None
    distinct: bool
    separator: str
    follows: tuple[Occurrence, ...] = ()  # of the triples that a solution is made of, in the order of the text


@hashed_once
@dataclass(frozen=True)
class Grouping:
    keys: tuple[str, ...]
    aggregates: tuple[Aggregation, ...]
    always: bool  # without GROUP BY there is one group, also of nothing


@hashed_once
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

    @computed_once
    def variables(self) -> Names:
        return frozenset(self.names)

    @computed_once
    def certain(self) -> Names:
        if self.grouping is not None:
            return frozenset(self.grouping.keys) & self.inner.certain & self.variables
        return self.inner.certain & self.variables

    @property
    def is_cut(self) -> bool:
        return self.limit is not None or bool(self.offset)


Logic = (
    PatternScan
    | PathSource
    | GraphNames
    | PerGraph
    | Table
    | Conjunction
    | Optional
    | Without
    | Alternatives
    | Assign
    | Remote
    | SourceEvaluated
    | Select
)

EMPTY = Conjunction()

#: Aggregates that say something else when the solutions stand in another order.
ORDERED = frozenset({"GROUP_CONCAT", "SAMPLE"})
#: Those of the occurrences that a group's solutions are made of, one for each column of what is the latest of them.
LATEST = ("LATEST TIME", "LATEST ARRIVAL", "LATEST PLACE")


def children(node: Logic) -> tuple[Logic, ...]:
    match node:
        case Conjunction(items):
            return items
        case Optional(left, right) | Without(left, right):
            return (left, right)
        case Alternatives(parts):
            return parts
        case Assign(inner) | Select(inner) | PerGraph(_, _, inner):
            return (inner,)
        case Leaf():
            return ()


def tests_of(node: Logic) -> tuple[Test, ...]:
    match node:
        case Conjunction(_, tests) | Optional(_, _, tests):
            return tests
        case Assign(_, _, test):
            return (test,)
        case Select():
            return (*(test for _, test in node.before), *node.having, *(test for _, test in node.after))
        case Leaf() | PerGraph() | Without() | Alternatives():
            return ()


def inside_of(node: Logic) -> tuple[Logic, ...]:
    """The direct parts of a node, including those of its questions, in the order of the text."""
    inner = tuple(question.inner for test in tests_of(node) for question in test.questions)
    return (*children(node), *inner) if inner else children(node)


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a part that the passes need at each of the parts around it.

    `mentions`: every variable that occurs anywhere in it: what a substitution may reach. `depth`: so many parts are
    inside of one another. `size`: so many are inside of it, with itself. `varies`: in another place of the query the
    same part may have other solutions."""

    mentions: Names
    depth: int
    size: int
    varies: bool
    reads_window: bool
    reads_store: bool


def traits_of(node: Logic) -> Traits:
    """Worked out once for each part, those inside of it first: without recursion, and without walking twice."""
    known: Traits | None = node.__dict__.get("_traits")
    if known is not None:
        return known
    waiting = [node]
    while waiting:
        part = waiting[-1]
        unknown = [each for each in inside_of(part) if "_traits" not in each.__dict__]
        if unknown:
            waiting += unknown
            continue
        waiting.pop()
        known = part.__dict__["_traits"] = _traits(part)
    assert known is not None
    return known


def _traits(node: Logic) -> Traits:
    """The traits of a part, from those of its own parts."""
    tests = tests_of(node)
    inside: list[Traits] = [each.__dict__["_traits"] for each in inside_of(node)]
    windowed = _is_windowed(node)
    node.certain  # noqa: B018  (remembered, too, after those inside of it: so the first read does not recurse)
    found = node.variables.union(*(test.mentions for test in tests), *(each.mentions for each in inside))
    return Traits(
        node.variables if found == node.variables else found,
        1 + max((each.depth for each in inside), default=0),
        1 + sum(each.size for each in inside),
        any(test.is_chance for test in tests) or any(each.varies for each in inside),
        any(each.reads_window for each in inside) if inside else windowed,
        any(each.reads_store for each in inside) if inside else not windowed,
    )


def _is_windowed(leaf: Logic) -> bool:
    if isinstance(leaf, SourceEvaluated) or (isinstance(leaf, PathSource) and leaf.merged):
        return True
    return isinstance(leaf, PatternScan | PathSource | GraphNames | PerGraph) and leaf.window is not None


def mentioned(node: Logic) -> Names:
    return traits_of(node).mentions


def nodes_of(node: Logic) -> Iterator[Logic]:
    """`node` and all that is inside of it, also of its questions, in the order of the text."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(inside_of(part))


def varies(node: Logic) -> bool:
    return traits_of(node).varies


def sources_of(node: Logic) -> list[Logic]:
    """The leaves, those of questions included, in the order of the text."""
    return [part for part in nodes_of(node) if not inside_of(part)]
