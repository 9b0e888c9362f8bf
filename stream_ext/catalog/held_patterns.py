"""Which quads of a source a part of a registered query may match.

?zone :partOf :bern   in the default graph     =>   ?s :partOf :bern
?zone :pays ?fare     in GRAPH ?g              =>   GRAPH ?g { ?s :pays ?o }
?zone :partOf+ ?c     in the default graph     =>   ?s :partOf ?o

A path needs all edges that it may take. One that may be empty ends at every node, so it needs every edge of its graph;
so does whoever asks for the graphs themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stream_ext.catalog.sources import EVERY_GRAPH, HeldPattern
from stream_ext.language.algebra.terms import Constant, Node, Variable
from stream_ext.plan.logic import (
    DEFAULT_GRAPH,
    GraphNames,
    GraphScope,
    Logic,
    PathSource,
    PatternScan,
    PerGraph,
    Select,
    nodes_of,
)
from stream_ext.plan.places import NOWHERE
from stream_ext.plan.sources.shapes import may_be_empty, predicates_of

_ANY = b""


def patterns_of(node: Logic) -> Iterator[HeldPattern]:
    """Nothing for what reads only windows, and for what has parts of its own."""
    match node:
        case PatternScan(window=None):
            for place in graphs_of(node.graph):
                yield HeldPattern(_term(node.subject), _term(node.predicate), _term(node.object), place)
        case PathSource(window=None):
            if not (node.merged and node.graph == NOWHERE):
                for place in graphs_of(node.graph):
                    yield from _of_path(node, place)
        case GraphNames(graph, window=None) | PerGraph(graph, window=None):
            for place in graphs_of(graph):
                yield HeldPattern(_ANY, _ANY, _ANY, place)


def may_be_remote(node: Logic) -> bool:
    """Whether the source can be asked for it with the keys of a window; else it is held, or refused."""
    return isinstance(node, PatternScan | GraphNames) or (isinstance(node, PathSource) and not node.merged)


def reads_more_than(remote_patterns: Collection[HeldPattern], select: Select) -> bool:
    """Whether a query reads more of the one dataset than what the source is asked for."""
    return any(
        patterns and not (may_be_remote(node) and any(pattern in remote_patterns for pattern in patterns))
        for node in nodes_of(select)
        for patterns in [list(patterns_of(node))]
    )


def _of_path(node: PathSource, graph: bytes) -> Iterator[HeldPattern]:
    predicates = predicates_of(node.path)
    # Of an empty path a variable end is every node; and a named graph without any edge has not even that.
    asks_for_nodes = bool(graph) or isinstance(node.subject, Variable) or isinstance(node.object, Variable)
    if predicates is None or (asks_for_nodes and may_be_empty(node.path)):
        yield HeldPattern(_ANY, _ANY, _ANY, graph)
        return
    for predicate in dict.fromkeys(predicates):
        yield HeldPattern(_ANY, predicate.text, _ANY, graph)


def graphs_of(scope: GraphScope) -> Iterator[bytes]:
    """The graphs of a scope; EVERY_GRAPH stands for all named ones."""
    if scope.everything:
        yield from (DEFAULT_GRAPH.text, EVERY_GRAPH)
    elif isinstance(scope.node, Constant):
        if scope.graphs is None:
            yield scope.node.text
    elif scope.graphs is not None:
        yield from (graph.text for graph in scope.graphs)
    else:
        yield DEFAULT_GRAPH.text if scope.node is None else EVERY_GRAPH


def _term(node: Node) -> bytes:
    return node.text if isinstance(node, Constant) else _ANY
