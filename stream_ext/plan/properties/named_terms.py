"""The terms that a query names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_ext.language.algebra.algebra import PathAlternative, PathInverse, PathSequence
from stream_ext.language.algebra.formulas import Path, PathNegated, PathRepeat
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.walk import walk
from stream_ext.plan.logic import (
    DEFAULT_GRAPH,
    GraphNames,
    Logic,
    PathSource,
    PatternScan,
    PerGraph,
    Table,
    nodes_of,
    tests_of,
)

_LONG = 1_000


def constants_of(logic: Logic, rows_max: int | None = None) -> list[bytes]:
    """Each term of the patterns once; those of a table only if it has no more than so many rows."""
    found: dict[bytes, None] = {}
    for leaf in nodes_of(logic):
        if isinstance(leaf, Table) and rows_max is not None and len(leaf.rows) > rows_max:
            continue
        found.update(dict.fromkeys(_terms(leaf)))
    return list(found)


def constants_of_expressions(logic: Logic) -> list[bytes]:
    """Each IRI and plain string of the expressions once, but long ones, which are searched for. Numbers and times are
    compared by their values, and the query may have created them already."""
    tests = (test for node in nodes_of(logic) for test in tests_of(node))
    terms = (part.text for test in tests for part in walk(test.condition) if isinstance(part, Constant))
    return list(dict.fromkeys(filter(_is_short_and_plain, terms)))


def _is_short_and_plain(text: bytes) -> bool:
    return len(text) <= _LONG and (text[:1] == b"<" or text[-1:] == b'"')


def _terms(leaf: Logic) -> Iterable[bytes]:
    match leaf:
        case PatternScan(subject, predicate, target, graph):
            nodes: Sequence[object] = (subject, predicate, target, graph.node, *(graph.graphs or ()))
        case PathSource(subject, path, target, graph):
            nodes = (subject, *predicates_in(path), target, graph.node, *(graph.graphs or ()))
        case GraphNames(graph) | PerGraph(graph):
            nodes = (graph.node, *(graph.graphs or ()))
        case Table(_, rows):
            nodes = [cell for row in rows for cell in row]
        case _:
            nodes = ()
    return (node.text for node in nodes if isinstance(node, Constant) and node != DEFAULT_GRAPH)


def predicates_in(path: Path) -> list[Constant]:
    found: list[Constant] = []
    waiting = [path]
    while waiting:
        match waiting.pop():
            case Constant() as predicate:
                found.append(predicate)
            case PathInverse(inner) | PathRepeat(inner):
                waiting.append(inner)
            case PathSequence(parts) | PathAlternative(parts):
                waiting += parts
            case PathNegated(forward, backward):
                found += [*forward, *backward]
    return found
