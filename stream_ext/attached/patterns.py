"""The patterns of a source that a registered query needs: whatever its patterns over the store may match.

    SELECT * { WINDOW :w { ?taxi :in ?zone } ?zone :partOf :bern . GRAPH ?g { ?zone :pays ?fare } }
    =>  ?s :partOf ?o,   GRAPH ?g { ?s :pays ?o }

A constant that is a parameter of the query's template may stand for any: then queries that differ in it hold one thing
(`Need.shared`). Where that would be far more than the query itself needs, such as all types for `?x a :Taxi`, what its
own constants match is held (`Need.own`).
A path needs all edges that it may take. One that may be empty ends at every node, so it needs every edge of its graph;
so does whoever asks for the graphs themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stream_ext.catalog.registered import RegisteredText
from stream_ext.catalog.sources import EVERY_GRAPH, HeldPattern
from stream_ext.language.algebra.terms import Constant, Node, Variable
from stream_ext.network.operators.paths.id_path import id_path, may_be_empty, predicates_of
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
from stream_ext.plan.named_terms import predicates_in
from stream_ext.plan.places import NOWHERE

_ANY = b""


@dataclass(frozen=True, slots=True)
class Need:
    """What a pattern of a query needs: with the template's parameters as variables, and with its own constants."""

    shared: HeldPattern
    own: HeldPattern


def needs_of(text: RegisteredText) -> frozenset[Need]:
    own = _needed_by(text.select)
    if text.parametrised is None:
        return frozenset(Need(pattern, pattern) for pattern in own)
    # A template is its query but for its constants: part by part the same.
    shared = _needed_by(text.parametrised.template.select)
    return frozenset(Need(*pair) for pair in zip(shared, own, strict=True))


def _needed_by(select: Select) -> list[HeldPattern]:
    return [pattern for node in nodes_of(select) for pattern in _of(node)]


def widest(patterns: Iterable[HeldPattern]) -> list[HeldPattern]:
    """Without those that another one covers, in order."""
    found: list[HeldPattern] = []
    # Whoever has fewer terms covers more.
    for pattern in sorted(
        set(patterns), key=lambda each: (sum(map(bool, each.terms)), each.graph != EVERY_GRAPH, each)
    ):
        if not any(other.covers(pattern) for other in found):
            found.append(pattern)
    return sorted(found)


def are_covered(patterns: Iterable[HeldPattern], held: Iterable[HeldPattern]) -> bool:
    held = list(held)
    return all(any(other.covers(pattern) for other in held) for pattern in patterns)


def _of(node: Logic) -> Iterator[HeldPattern]:
    match node:
        case PatternScan(subject, predicate, target, graph, window=None):
            for place in _graphs(graph):
                yield HeldPattern(_term(subject), _term(predicate), _term(target), place)
        case PathSource(window=None):
            if not (node.merged and node.graph == NOWHERE):
                for place in _graphs(node.graph):
                    yield from _of_path(node, place)
        case GraphNames(graph, window=None) | PerGraph(graph, window=None):
            for place in _graphs(graph):
                yield HeldPattern(_ANY, _ANY, _ANY, place)


def _of_path(node: PathSource, graph: bytes) -> Iterator[HeldPattern]:
    path = id_path(node.path, lambda text: 1)
    # Of an empty path a variable end is every node; and a named graph without any edge has not even that.
    asks_for_nodes = bool(graph) or isinstance(node.subject, Variable) or isinstance(node.object, Variable)
    if predicates_of(path) is None or (asks_for_nodes and may_be_empty(path)):
        yield HeldPattern(_ANY, _ANY, _ANY, graph)
        return
    for predicate in predicates_in(node.path):
        yield HeldPattern(_ANY, predicate.text, _ANY, graph)


def _graphs(scope: GraphScope) -> Iterator[bytes]:
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
