"""Leaves: the parts of a query's pattern that read something, and have no parts of their own.

GRAPH ex:g { ?a ex:p ?b }    =>    PatternScan(?a, ex:p, ?b, GraphScope(ex:g), window=None)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from stream_ext.computed_once import computed_once
from stream_ext.language.algebra.algebra import Pattern
from stream_ext.language.algebra.formulas import PathNegated, PathRepeat
from stream_ext.language.algebra.terms import Constant, Node, Position, Variable
from stream_ext.remote.source import SourceTraits

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


class Leaf:
    """A part without parts of its own: what rewrites a tree, or walks it, needs one case for all of them."""


@hashed_once
@dataclass(frozen=True)
class PatternScan(Leaf):
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
class PathSource(Leaf):
    """A path that cannot become joins: it repeats, or it takes any predicate except some.

    `merged` windows are one graph with `graph`, which may be none of the store."""

    subject: Node
    path: PathRepeat | PathNegated
    object: Node
    graph: GraphScope
    window: str | None
    merged: tuple[str, ...] = ()
    edges: Remote | None = None  # edges of a source, as ?s ?p ?o, that are one graph with those of the store
    own: bool = False  # what is held of a source is not looked at; values of other parts are asked about

    @computed_once
    def variables(self) -> Names:
        return _names(self.subject, self.object, self.graph.node)

    @property
    def certain(self) -> Names:
        return self.variables


@hashed_once
@dataclass(frozen=True)
class GraphNames(Leaf):
    """The graphs themselves: `GRAPH ?g {}`; of a constant, whether there is such a graph.

    In a window (its IRI) they are those of its elements."""

    graph: GraphScope
    window: str | None = None
    own: bool = False  # what is held of a source is not looked at

    @computed_once
    def variables(self) -> Names:
        return _names(self.graph.node)

    @property
    def certain(self) -> Names:
        return self.variables


@hashed_once
@dataclass(frozen=True)
class Table(Leaf):
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


@dataclass(frozen=True)
class SourceGroup:
    """What is known of a group that a source is asked for, beside its pattern.

    `certain`: the variables that each of its solutions binds. `scope`: in which each solution has a triple; None: that
    is not known. `unless`: solutions that our own store has for this, too, are left out. `joined`: variables that other
    parts compare, so that a blank node of the source in them would be lost; `distinguished`: variables that tell rows
    apart, so that all its blank nodes must be of one answer. `enough`: more solutions are not looked at. `guess`:
    about how many solutions it has, as far as its text shows. `exact`: variables that stand for a constant, which the
    source may take for other terms: solutions with another one are left out. `traits`: what the source is."""

    certain: Names
    scope: GraphScope | None = None
    unless: PatternScan | GraphNames | None = None
    joined: Names = NO_NAMES
    distinguished: Names = NO_NAMES
    enough: int | None = None
    guess: float = 1000.0
    exact: tuple[tuple[str, Constant], ...] = ()
    traits: SourceTraits = field(default=SourceTraits())


@hashed_once
@dataclass(frozen=True)
class Remote(Leaf):
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
class SourceEvaluated(Leaf):
    """A whole query that the source main evaluates, with functions of its process. `text`: what it is given; `names`:
    the variables of its rows; `place`: the variable of their numbers, if they are in order."""

    text: str
    functions: tuple[str, ...]
    names: tuple[str, ...]
    windows: tuple[str, ...]
    place: str | None = None

    @computed_once
    def variables(self) -> Names:
        return frozenset(self.names if self.place is None else (*self.names, self.place))

    @property
    def certain(self) -> Names:
        return NO_NAMES if self.place is None else frozenset((self.place,))


def _names(*nodes: Node | None) -> Names:
    return frozenset(node.name for node in nodes if isinstance(node, Variable))
