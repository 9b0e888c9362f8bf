"""The patterns of a source that a registered query needs: whatever its patterns over the store may match.

    SELECT * { WINDOW :w { ?taxi :in ?zone } ?zone :partOf :bern . GRAPH ?g { ?zone :pays ?fare } }
    =>  ?s :partOf ?o,   GRAPH ?g { ?s :pays ?o }

A constant that is a parameter of the query's template may stand for any: then queries that differ in it hold one thing
(`Need.shared`). Where that would be far more than the query itself needs, such as all types for `?x a :Taxi`, what its
own constants match is held (`Need.own`).
A path needs all edges that it may take. One that may be empty ends at every node, so it needs every edge of its graph;
so does whoever asks for the graphs themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from stream_ext.catalog.held_patterns import graphs_of, patterns_of_scan
from stream_ext.catalog.registered import RegisteredText
from stream_ext.catalog.sources import EVERY_GRAPH, HeldPattern
from stream_ext.language.algebra.terms import Variable
from stream_ext.network.operators.paths.id_path import id_path, may_be_empty, predicates_of
from stream_ext.plan.logic import (
    GraphNames,
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
    """What a pattern of a query needs: with the template's parameters as variables, and with its own constants.

    `may_be_asked`: the source can be asked for it with the keys of a window; a path, and the graphs themselves, are
    held or refused."""

    shared: HeldPattern
    own: HeldPattern
    may_be_asked: bool = True


def needs_of(text: RegisteredText, asked: Collection[HeldPattern] = ()) -> frozenset[Need]:
    """`asked`: what the source is asked for, and which is not held for it."""
    own = _needed_by(text.select)
    # A template is its query but for its constants: part by part the same.
    shared = own if text.parametrised is None else _needed_by(text.parametrised.template.select)
    return frozenset(
        Need(of_template, pattern, may_be_asked)
        for (of_template, _), (pattern, may_be_asked) in zip(shared, own, strict=True)
        if not (may_be_asked and pattern in asked)
    )


def _needed_by(select: Select) -> list[tuple[HeldPattern, bool]]:
    return [(pattern, isinstance(node, PatternScan)) for node in nodes_of(select) for pattern in _of(node)]


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
        case PatternScan(window=None):
            yield from patterns_of_scan(node)
        case PathSource(window=None):
            if not (node.merged and node.graph == NOWHERE):
                for place in graphs_of(node.graph):
                    yield from _of_path(node, place)
        case GraphNames(graph, window=None) | PerGraph(graph, window=None):
            for place in graphs_of(graph):
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
