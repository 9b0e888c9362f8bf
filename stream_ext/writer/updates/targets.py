"""Targets: the graphs that an operation writes to by their names. What its solutions name, its templates say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stream_ext.language.algebra.algebra import QuadPattern
from stream_ext.language.algebra.statements import (
    DeleteData,
    DeleteWhere,
    InsertData,
    Load,
    Manage,
    Modify,
    Operation,
    Quad,
    Transfer,
)
from stream_ext.language.algebra.terms import Constant


def targets_of(operation: Operation) -> Iterator[Constant]:
    match operation:
        case InsertData(quads) | DeleteData(quads) | DeleteWhere(quads):
            yield from _graphs(quads, None)
        case Modify(graph, deletes, inserts):
            yield from _graphs((*(deletes or ()), *(inserts or ())), graph)
        case Load(into=Constant() as graph) | Manage(target=Constant() as graph):
            yield graph
        case Transfer(verb, source, target):
            moved = (source,) if verb == "MOVE" else ()
            yield from (graph for graph in (target, *moved) if graph is not None)


def _graphs(quads: Iterable[Quad | QuadPattern], default: Constant | None) -> Iterator[Constant]:
    graphs = dict.fromkeys(quad.graph or default for quad in quads)
    return (graph for graph in graphs if isinstance(graph, Constant))
