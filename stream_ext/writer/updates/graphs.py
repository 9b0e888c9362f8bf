"""Graphs as wholes: CLEAR, DROP, CREATE, COPY, MOVE and ADD.

A graph is there while it holds a triple. So CLEAR and DROP do the same, and are content where there is no graph (as
SPARQL 1.1 Update has it for stores that keep no empty graphs); and CREATE changes nothing, but fails where there is
one. COPY, MOVE and ADD fail if their source is not there: a misspelt name would otherwise empty their target."""

from __future__ import annotations

from itertools import chain

from hbase_store import NAMED, Snapshot
from stream_ext.language.algebra.statements import Manage, Transfer, Whole
from stream_ext.language.algebra.terms import Constant
from stream_ext.oneshot.derived_graph import DerivedGraph
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.writer.updates.working import DEFAULT_GRAPH, CannotUpdate, Working


def manage(operation: Manage, working: Working) -> None:
    if operation.verb != "CREATE":
        _clear(operation.target, working)
        return
    assert isinstance(operation.target, Constant)
    graph = working.known_graph(operation.target)
    if graph is not None and _is_there(working.snapshot, graph) and not operation.silent:
        raise CannotUpdate(f"the graph {_name(operation.target)} already exists (CREATE SILENT ignores that)")


def _clear(target: Constant | Whole, working: Working) -> None:
    _check_aside(target, working)
    if isinstance(target, Constant) or target is Whole.DEFAULT:
        graph = working.known_graph(None if target is Whole.DEFAULT else target)
        if graph is not None:
            _delete(graph, working)
        return
    named = working.edges(NAMED)
    if target is Whole.ALL:
        _delete(DEFAULT_GRAPH, working)
    for p, (s, o, g) in named:
        working.batch.delete(s, p, o, g)


def _check_aside(target: Constant | Whole, working: Working) -> None:
    """What the source holds of the graphs stays there, so they cannot be emptied."""
    if (aside := working.aside) is None:
        return
    if isinstance(target, Constant):
        aside.check_graph(target)
    if target in (Whole.DEFAULT, Whole.ALL):
        aside.check_graph(None)
    if target in (Whole.NAMED, Whole.ALL):
        aside.check_named_graphs()


def transfer(operation: Transfer, working: Working) -> None:
    if (aside := working.aside) is not None:
        for graph in dict.fromkeys((operation.source, operation.target)):
            if graph == operation.source or operation.verb != "ADD":
                aside.check_graph(graph)
    given = working.derived.named(operation.source.text) if operation.source is not None else None
    if given is not None:
        _copy(given, operation, working)
        return
    source = working.known_graph(operation.source)
    edges = working.edges(source) if source is not None else iter(())  # as they are before the target is emptied
    first = next(edges, None)
    if source is None or (source != DEFAULT_GRAPH and first is None):
        if operation.silent:
            return
        raise CannotUpdate(f"there is no graph {_name(operation.source)}: it has no triples")
    if operation.source == operation.target:
        return
    target = working.graph(operation.target)
    if operation.verb != "ADD":
        _delete(target, working)
    for p, (s, o) in chain([] if first is None else [first], edges):
        working.batch.insert(s, p, o, target)
        if operation.verb == "MOVE":
            working.batch.delete(s, p, o, source)


def _copy(given: DerivedGraph, operation: Transfer, working: Working) -> None:
    """Copies a graph that is not in the store."""
    target = working.graph(operation.target)
    if operation.verb != "ADD":
        _delete(target, working)
    working.batch.insert(*given.columns(Vocabulary(working.batch.encode, working.preview.terms)), target)


def _delete(graph: int, working: Working) -> None:
    for p, (s, o) in working.edges(graph):
        working.batch.delete(s, p, o, graph)


def _is_there(snapshot: Snapshot, graph: int) -> bool:
    return bool(len(snapshot.predicates(graph)))


def _name(graph: Constant | None) -> str:
    return "DEFAULT" if graph is None else graph.text.decode()
