"""Logic: the tree of a query's pattern without scopes, which the passes rewrite and from which the network is built.

Every triple pattern has its graph or window, every condition has the variables that it sees, and a variable that a
sub-SELECT does not project has a unique name. So parts can be moved past each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from stream_ext.computed_once import computed_once
from stream_ext.language.algebra.algebra import Pattern
from stream_ext.language.algebra.formulas import Expression, PathNegated, PathRepeat
from stream_ext.language.algebra.terms import Constant, Node, Position, Variable
from stream_ext.language.algebra.volatile import draws, is_chance

Names = frozenset[str]
NO_NAMES: Names = frozenset()

Part = TypeVar("Part", bound=type)


def hashed_once(part: Part) -> Part:
    """A class decorator: the hash of an object is computed once, as parts are looked up again and again."""
    whole = cast("Callable[[Any], int]", part.__hash__)

    def once(self: Any) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = whole(self)
        return known

    part.__hash__ = once  # type: ignore[assignment]  # of a class of its own, which is given one here
    return part


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


@hashed_once
@dataclass(frozen=True)
class PatternScan:
    """One triple pattern: in a window (its IRI), or in the store. `time`: the variable that its latest time binds.

    `as_bag`: a triple of the window may come several times, for what follows makes a set of them. `occurrence`: the
    columns that its latest occurrence in the window binds. `own`: what is held of a source is not looked at."""

    subject: Node
    predicate: Node
    object: Node
    graph: GraphScope
    window: str | None
    time: str | None = None
    as_bag: bool = False
    occurrence: Occurrence | None = None
    own: bool = False

    @computed_once
    def variables(self) -> Names:
        time = Variable(self.time) if self.time is not None else None
        names = _names(self.subject, self.predicate, self.object, self.graph.node, time)
        return names if self.occurrence is None else names.union(self.occurrence)

    @property
    def certain(self) -> Names:
        return self.variables


@hashed_once
@dataclass(frozen=True)
class PathSource:
    """A path that cannot become joins: it repeats, or it takes any predicate except some.

    `merged` windows are one graph with `graph`, which may be none of the store."""

    subject: Node
    path: PathRepeat | PathNegated
    object: Node
    graph: GraphScope
    window: str | None
    merged: tuple[str, ...] = ()
    edges: Remote | None = None  # edges of a source, as ?s ?p ?o, that are one graph with those of the store

    @computed_once
    def variables(self) -> Names:
        return _names(self.subject, self.object, self.graph.node)

    @property
    def certain(self) -> Names:
        return self.variables


@hashed_once
@dataclass(frozen=True)
class GraphNames:
    """The graphs themselves: `GRAPH ?g {}`; of a constant, whether there is such a graph.

    In a window (its IRI) they are those of its elements."""

    graph: GraphScope
    window: str | None = None

    @computed_once
    def variables(self) -> Names:
        return _names(self.graph.node)

    @property
    def certain(self) -> Names:
        return self.variables


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
class Table:
    """VALUES."""

    names: tuple[str, ...]
    rows: tuple[tuple[Constant | None, ...], ...]

    def __hash__(self) -> int:
        return hash((self.names, len(self.rows), self.rows[:16]))  # others wait while a whole table is gone through

    @computed_once
    def variables(self) -> Names:
        return frozenset(self.names)

    @computed_once
    def certain(self) -> Names:
        return frozenset(name for i, name in enumerate(self.names) if all(row[i] is not None for row in self.rows))


@hashed_once
@dataclass(frozen=True)
class Existence:
    """EXISTS { inner }: its truth is what the variable `name` stands for in the condition around it."""

    name: str
    inner: Logic


@hashed_once
@dataclass(frozen=True)
class Test:
    """A filter's condition and the variables that its group shows it."""

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


@dataclass(frozen=True)
class SourceGroup:
    """What is known of a group that a source is asked for, beside its pattern.

    `certain`: the variables that each of its solutions binds. `scope`: in which each solution has a triple; None: that
    is not known. `unless`: solutions that our own store has for this, too, are left out. `joined`: variables that other
    parts compare, so that a blank node of the source in them would be lost; `told_apart`: variables that rows are told
    apart by, so that all its blank nodes must be of one answer. `enough`: more solutions are not looked at. `guess`:
    about how many solutions it has, as far as its text shows."""

    certain: Names
    scope: GraphScope | None = None
    unless: PatternScan | GraphNames | None = None
    joined: Names = NO_NAMES
    told_apart: Names = NO_NAMES
    enough: int | None = None
    guess: float = 1000.0


@hashed_once
@dataclass(frozen=True)
class Remote:
    """SERVICE; with `group`, what is asked of a source that is one dataset with the store."""

    service: Node
    inner: Pattern  # sent as it is written
    inner_variables: Names
    silent: bool
    position: Position = field(compare=False)
    written: str | None = field(default=None, compare=False)  # the service, as a relative IRI
    group: SourceGroup | None = None

    @computed_once
    def variables(self) -> Names:
        return self.inner_variables | _names(self.service)

    @property
    def certain(self) -> Names:
        return _names(self.service) if self.group is None else self.group.certain


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
        case Alternatives(parts):
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
    merged = isinstance(leaf, PathSource) and bool(leaf.merged)
    return merged or (isinstance(leaf, PatternScan | PathSource | GraphNames | PerGraph) and leaf.window is not None)


def mentioned(node: Logic) -> Names:
    return traits_of(node).mentions


def nodes_of(node: Logic) -> Iterator[Logic]:
    """`node` and all that is inside of it, also of its questions, in the order of the text."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(inside_of(part))


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
    return traits_of(node).varies


def predicates_read(select: Select) -> frozenset[bytes] | None:
    """Whose edges in the store decide what a pattern finds; None: any may."""
    found = set()
    for node in nodes_of(select):
        if isinstance(node, PatternScan) and isinstance(node.predicate, Constant):
            found.add(node.predicate.text)
        elif isinstance(node, Remote) and node.group is not None:
            return None  # what the store has not now, it may have by then
        elif isinstance(node, PatternScan | PathSource | GraphNames | PerGraph):
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


def asks_source(node: Logic) -> bool:
    """Whether a part of the dataset is asked of a source."""
    return any(_asks_source(part) for part in nodes_of(node))


def _asks_source(node: Logic) -> bool:
    match node:
        case Remote():
            return node.group is not None
        case PathSource():
            return node.edges is not None
        case PerGraph():
            return node.remote is not None
        case _:
            return False


def sources_of(node: Logic) -> list[Logic]:
    """The leaves, those of questions included, in the order of the text."""
    return [part for part in nodes_of(node) if not inside_of(part)]
