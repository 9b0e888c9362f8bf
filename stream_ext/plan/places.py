"""Where the leaves of a query's patterns look: in the store's graphs, in a window, or in several of them merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stream_ext.language.algebra.algebra import GraphClause, Query
from stream_ext.language.algebra.terms import Constant, Node, Variable
from stream_ext.language.algebra.windows import Declared
from stream_ext.plan.logic import DEFAULT_GRAPH, GraphScope

#: A scope without graphs.
NOWHERE = GraphScope(graphs=())


def dataset(clauses: Sequence[GraphClause], windowed: bool, everything: bool = False) -> GraphsInScope:
    """The graphs of FROM and FROM NAMED. With windows, FROM NAMED alone does not change the default graph."""
    if not clauses:
        return GraphsInScope(GraphScope(everything=everything), None)
    merged = tuple(dict.fromkeys(clause.graph or DEFAULT_GRAPH for clause in clauses if not clause.named))
    named = tuple(dict.fromkeys(clause.graph for clause in clauses if clause.named and clause.graph is not None))
    if not merged and windowed:
        return GraphsInScope(GraphScope(everything=everything), named)
    return GraphsInScope(GraphScope(graphs=merged), named)


class GraphsInScope:
    """The default graph of a query, and the graphs that GRAPH may mean (None: all named ones)."""

    def __init__(self, default: GraphScope, named: tuple[Constant, ...] | None) -> None:
        self.default = default
        self._named = named

    @property
    def listed(self) -> tuple[Constant, ...] | None:
        """The graphs of FROM NAMED; None: the text has no dataset clause."""
        return self._named

    def has(self, graph: Constant) -> bool:
        return self._named is None or graph in self._named

    def named(self, node: Node) -> GraphScope:
        """The scope of `GRAPH node`."""
        if isinstance(node, Constant) and self._named is not None and node not in self._named:
            return GraphScope(node, ())  # the dataset has no such graph
        return GraphScope(node, self._named if isinstance(node, Variable) else None)


STORE = GraphsInScope(GraphScope(), None)


class Place:
    """Where the leaves of a group look: in the store, in one window, or in several windows and graphs merged."""

    __slots__ = ("graph", "merged", "window")

    def __init__(self, graph: GraphScope, window: str | None = None, merged: tuple[str, ...] = ()) -> None:
        self.graph, self.window, self.merged = graph, window, merged

    def parts(self) -> list[tuple[GraphScope, str | None]]:
        """The graphs and windows that are merged."""
        if not self.merged:
            return [(self.graph, self.window)]
        windows: list[tuple[GraphScope, str | None]] = [(GraphScope(), name) for name in self.merged]
        return windows if self.graph == NOWHERE else [*windows, (self.graph, None)]


def window_of_graph(graph: Constant) -> str:
    """The name of the window that stands for a graph; no window of a text has such a name."""
    return f"graph {graph.text.decode()}"


def is_of_graph(window: str) -> bool:
    """Whether a window stands for a graph (`window_of_graph`)."""
    return window.startswith("graph ")


def with_graphs(place: Place, graphs: Sequence[Constant]) -> Place:
    """The place with the graphs of FROM; graphs that are windows are merged as windows."""
    merged = [graph for graph in place.graph.graphs or () if graph in graphs]
    if not merged:
        return place
    left = tuple(graph for graph in place.graph.graphs or () if graph not in merged)
    names = (*place.merged, *([place.window] if place.window else []), *map(window_of_graph, merged))
    graph = replace(place.graph, graphs=left)
    return Place(GraphScope(), names[0]) if graph == NOWHERE and len(names) == 1 else Place(graph, None, names)


def merged_windows(query: Query) -> Place:
    """The default graph of C-SPARQL: the merge of the windows and the graphs of FROM. Of the store it has nothing else;
    but in a text with bare names only, it includes the store's default graph."""
    names = tuple(window.name for window in query.windows)
    graph = dataset(query.shape.graphs, False).default
    if not any(not clause.named for clause in query.shape.graphs):
        bare = any(window.declared is Declared.BARE_NAME for window in query.windows)
        graph = GraphScope() if bare else NOWHERE
    if graph == NOWHERE and len(names) == 1 and not query.shape.graphs:
        return Place(GraphScope(), names[0])
    return Place(graph, None, names)  # GRAPH means those of FROM NAMED, and not those of the elements
