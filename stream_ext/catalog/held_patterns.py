"""Which quads of a source a triple pattern of a registered query may match.

?zone :partOf :bern   in the default graph     =>   ?s :partOf :bern
?zone :pays ?fare     in GRAPH ?g              =>   GRAPH ?g { ?s :pays ?o }"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stream_ext.catalog.sources import EVERY_GRAPH, HeldPattern
from stream_ext.language.algebra.terms import Constant, Node
from stream_ext.plan.logic import (
    DEFAULT_GRAPH,
    GraphNames,
    GraphScope,
    PathSource,
    PatternScan,
    PerGraph,
    Select,
    nodes_of,
)

_ANY = b""


def patterns_of_scan(scan: PatternScan) -> Iterator[HeldPattern]:
    for place in graphs_of(scan.graph):
        yield HeldPattern(_term(scan.subject), _term(scan.predicate), _term(scan.object), place)


def reads_more_than(asked: Collection[HeldPattern], select: Select) -> bool:
    """Whether a query reads more of the one dataset than what the source is asked for."""
    return any(
        node.window is None
        if isinstance(node, PathSource | GraphNames | PerGraph)
        else isinstance(node, PatternScan)
        and node.window is None
        and not any(pattern in asked for pattern in patterns_of_scan(node))
        for node in nodes_of(select)
    )


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
