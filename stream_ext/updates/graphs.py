"""Graphs as wholes: CLEAR, DROP, CREATE, COPY, MOVE and ADD.

A graph is there while it holds a triple. So CLEAR and DROP do the same, and are content where there is no graph (as
SPARQL 1.1 Update has it for stores that keep no empty graphs); and CREATE changes nothing, but fails where there is
one. COPY, MOVE and ADD fail if their source is not there: a misspelt name would otherwise empty their target."""

from __future__ import annotations

import numpy as np

from hbase_store import Snapshot
from stream_ext.evaluate import Graph
from stream_ext.plan.algebra import Manage, Transfer, Whole
from stream_ext.plan.terms import Constant
from stream_ext.updates.working import DEFAULT_GRAPH, CannotUpdate, Working
from stream_ext.vocabulary import Vocabulary


def manage(operation: Manage, working: Working) -> None:
    if operation.verb != "CREATE":
        _clear(operation.target, working)
        return
    assert isinstance(operation.target, Constant)
    graph = working.known_graph(operation.target)
    if graph is not None and _is_there(working.snapshot, graph) and not operation.silent:
        raise CannotUpdate(f"the graph {_name(operation.target)} is there already (CREATE SILENT does not mind)")


def _clear(target: Constant | Whole, working: Working) -> None:
    if isinstance(target, Constant) or target is Whole.DEFAULT:
        graph = working.known_graph(None if target is Whole.DEFAULT else target)
        if graph is not None:
            _delete(graph, working)
        return
    s, p, o, g = working.snapshot.quads()
    meant = np.ones(len(g), np.bool_) if target is Whole.ALL else g != np.uint64(DEFAULT_GRAPH)
    if meant.any():
        working.batch.delete(s[meant], p[meant], o[meant], g[meant])


def transfer(operation: Transfer, working: Working) -> None:
    given = working.derived.named(operation.source.text) if operation.source is not None else None
    if given is not None:
        _copy(given, operation, working)
        return
    source = working.known_graph(operation.source)
    if source is None or (source != DEFAULT_GRAPH and not _is_there(working.snapshot, source)):
        if operation.silent:
            return
        raise CannotUpdate(f"there is no graph {_name(operation.source)}: it holds no triple")
    if operation.source == operation.target:
        return
    triples = working.snapshot.graph_quads(source)
    target = working.graph(operation.target)
    if operation.verb != "ADD":
        _delete(target, working)
    if len(triples[0]):
        working.batch.insert(*triples, target)
        if operation.verb == "MOVE":
            working.batch.delete(*triples, source)


def _copy(given: Graph, operation: Transfer, working: Working) -> None:
    """Of a graph that is not in the store."""
    target = working.graph(operation.target)
    if operation.verb != "ADD":
        _delete(target, working)
    working.batch.insert(*given.columns(Vocabulary(working.batch.encode, working.preview.terms)), target)


def _delete(graph: int, working: Working) -> None:
    s, p, o = working.snapshot.graph_quads(graph)
    if len(s):
        working.batch.delete(s, p, o, graph)


def _is_there(snapshot: Snapshot, graph: int) -> bool:
    return bool(len(snapshot.predicates(graph)))


def _name(graph: Constant | None) -> str:
    return "DEFAULT" if graph is None else graph.text.decode()
