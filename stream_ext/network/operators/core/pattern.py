"""A triple pattern over ids: which positions are fixed, which bind a variable, which repeat one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt

from stream_ext.language.algebra.terms import Constant, Node, Variable
from stream_ext.plan.logic import DEFAULT_GRAPH, GraphScope, PatternScan
from stream_ext.rows.key_range import KeyRange, Ranges
from stream_ext.windows.arrivals import OfTriples

Ids = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Resolve = Callable[[bytes], int]

UNKNOWN = (1 << 64) - 1  # stands for a constant that the store has never seen: equal to no id

S, P, O, G = range(4)  # noqa: E741  (positions of a quad, in the order that everyone writes them)


@dataclass(frozen=True, slots=True)
class IdGraph:
    """The graphs of a pattern: `one` graph (0: the default one), or several.

    Several graphs are merged, so that a triple in two of them is one, or distinguished: `each` names the variable of
    the graph. `among` lists them, ascending; None is all graphs (with `each`: all named ones). `held`: each graph is
    merged with the held edges that are in it."""

    one: int | None = 0
    each: str | None = None
    among: Ids | None = None
    held: bool = False

    @property
    def merged(self) -> bool:
        return self.one is None and self.each is None


@dataclass(frozen=True, slots=True)
class IdPattern:
    """Positions are s, p, o, g. `fixed` maps a position to its id, `binding` to its variable. `within`: of a window,
    only those triples whose id at this position is in these ranges."""

    fixed: dict[int, int]
    binding: dict[int, str]
    graph: IdGraph = IdGraph()
    within: tuple[int, Ranges] | None = None
    #: Each variable once, in order of s, p, o, g; and the position that says what it is.
    variables: tuple[str, ...] = field(init=False)
    _places: tuple[int, ...] = field(init=False)
    _repeated: tuple[tuple[int, int], ...] = field(init=False)  # positions that have to agree

    def __post_init__(self) -> None:
        places: dict[str, int] = {}
        for position, name in self.binding.items():
            places.setdefault(name, position)
        repeated = [(places[name], position) for position, name in self.binding.items() if places[name] != position]
        object.__setattr__(self, "variables", tuple(places))
        object.__setattr__(self, "_places", tuple(places.values()))
        object.__setattr__(self, "_repeated", tuple(repeated))

    def with_fixed(self, ids: Mapping[int, int]) -> IdPattern:
        """The same pattern with other ids at some of its fixed positions."""
        other = object.__new__(IdPattern)  # `copy` takes ten times as long
        for name in self.__slots__:
            object.__setattr__(other, name, getattr(self, name))
        object.__setattr__(other, "fixed", {**self.fixed, **ids})
        return other

    def likeness(self, left: Sequence[str] = ()) -> tuple[object, ...]:
        """Equal for patterns with the same rows, whatever their variables are called; `left`: columns that some of
        them have the names of."""
        names = {name: place for place, name in enumerate(dict.fromkeys((*left, *self.variables)))}
        bound = tuple([(position, names[name]) for position, name in sorted(self.binding.items())])
        graph = self.graph
        among = None if graph.among is None else graph.among.tobytes()
        in_graph = graph.one, graph.each is not None, among, graph.held
        return len(left), tuple(sorted(self.fixed.items())), bound, self.within, in_graph

    def in_range(self, keys: KeyRange) -> IdPattern:
        """Of a window, only what is in this range."""
        position = next(position for position, name in self.binding.items() if name == keys.variable)
        other = copy(self)
        object.__setattr__(other, "within", (position, keys.ranges))
        return other

    def match(self, columns: Sequence[Ids]) -> tuple[Mask, Callable[[Mask | slice], tuple[Ids, ...]]]:
        """Which triples fit (whatever their graph); and how to take their bindings, a column a variable."""
        tests = [columns[position] == np.uint64(value) for position, value in self.fixed.items()]
        tests += [columns[one] == columns[other] for one, other in self._repeated]
        fits = tests[0] if tests else np.ones(len(columns[0]), np.bool_)
        for test in tests[1:]:
            fits &= test
        return fits, lambda which: tuple([columns[place][which] for place in self._places])

    def match_in_window(
        self, columns: Sequence[OfTriples[np.uint64]]
    ) -> tuple[Mask, Callable[[Mask | slice], tuple[Ids, ...]]]:
        """As `match`, of the triples (s, p, o, g) of a window, which have to be in the pattern's graph."""
        fits, bindings = self.match(cast(Sequence[Ids], columns))  # the graphs are no fixed position
        if self.graph.each is not None:
            fits &= columns[G][:] != 0  # GRAPH ?g ranges over the named ones
        elif self.graph.one:
            fits &= columns[G][:] == np.uint64(self.graph.one)
        if self.within is not None:
            position, ranges = self.within
            places = np.flatnonzero(fits)
            fits[places] = ranges.contain(columns[position][places])
        return fits, bindings


def id_pattern(source: PatternScan, resolve: Resolve, held: bool = False) -> IdPattern:
    """The triple pattern with ids in place of terms. `held`: it reads copies of a source's triples, too."""
    fixed: dict[int, int] = {}
    binding: dict[int, str] = {}
    for position, node in enumerate((source.subject, source.predicate, source.object)):
        if isinstance(node, Variable):
            binding[position] = node.name
        else:
            fixed[position] = id_of(node, resolve)
    graph = id_graph(source.graph, resolve, held and source.window is None and not source.own)
    if graph.each is not None:
        binding[G] = graph.each
    return IdPattern(fixed, binding, graph)


def id_of(node: Constant, resolve: Resolve) -> int:
    return 0 if node == DEFAULT_GRAPH else resolve(node.text) or UNKNOWN


def id_graph(scope: GraphScope, resolve: Resolve, held: bool = False) -> IdGraph:
    if scope.everything:
        return IdGraph(None, held=held)
    if isinstance(scope.node, Constant):
        return IdGraph(id_of(scope.node, resolve) if scope.graphs is None else UNKNOWN, held=held)
    among = None
    if scope.graphs is not None:
        among = np.array(sorted({id_of(graph, resolve) for graph in scope.graphs}), np.uint64)
    if isinstance(scope.node, Variable):
        return IdGraph(None, scope.node.name, among, held)
    if among is None:
        return IdGraph(held=held)
    return IdGraph(int(among[0]), held=held) if len(among) == 1 else IdGraph(None, None, among, held)


def position_of(node: Node) -> str | None:
    return node.name if isinstance(node, Variable) else None
