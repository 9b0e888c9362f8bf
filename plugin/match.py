"""The quads of a snapshot that match a pattern: ids in, columns of ids out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store import NAMED, Snapshot

Ids = npt.NDArray[np.uint64]
DEFAULT_GRAPH = 0


@dataclass(frozen=True, slots=True)
class Quads:
    s: Ids
    p: Ids
    o: Ids
    g: Ids

    def __len__(self) -> int:
        return len(self.s)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A quad pattern of ids. None is a wildcard; as `g` it means every graph, the default graph included."""

    s: int | None
    p: int | None
    o: int | None
    g: int | None


def match(snapshot: Snapshot, pattern: Pattern) -> Iterator[Quads]:
    """The matching quads, a block for each predicate and kind of graph (default, named); none twice."""
    for graph in (DEFAULT_GRAPH, NAMED) if pattern.g is None else (pattern.g,):
        for predicate in _predicates(snapshot, pattern, graph):
            found = _of_predicate(snapshot, pattern, predicate, graph)
            if len(found):
                yield found


def _predicates(snapshot: Snapshot, pattern: Pattern, graph: int) -> list[int]:
    """The predicates that can occur: those of one vertex are few, even if the store has many."""
    if pattern.p is not None:
        return [pattern.p]
    key = pattern.o if pattern.s is None else pattern.s
    if key is None:
        found = snapshot.predicates(graph)
    else:
        found = snapshot.predicates_of(np.array([key], np.uint64), inverse=pattern.s is None, graph=graph)[1]
    return list(map(int, found.tolist()))


def _of_predicate(snapshot: Snapshot, pattern: Pattern, predicate: int, graph: int) -> Quads:
    if pattern.s is not None:
        o, g = _neighbours(snapshot, predicate, pattern.s, False, graph)
        s = np.full(len(o), pattern.s, np.uint64)
    elif pattern.o is not None:
        s, g = _neighbours(snapshot, predicate, pattern.o, True, graph)
        o = np.full(len(s), pattern.o, np.uint64)
    else:
        columns = list(snapshot.pairs(predicate, graph=graph))
        s, o = columns[:2]
        g = _graphs(columns[2:], len(s), graph)
    quads = Quads(s, np.full(len(s), predicate, np.uint64), o, g)
    return quads if pattern.o is None else _keep(quads, o == np.uint64(pattern.o))


def _neighbours(snapshot: Snapshot, predicate: int, key: int, inverse: bool, graph: int) -> tuple[Ids, Ids]:
    _, *columns = snapshot.neighbours(predicate, np.array([key], np.uint64), inverse, graph)
    return columns[0], _graphs(columns[1:], len(columns[0]), graph)


def _graphs(graphs: list[Ids], count: int, graph: int) -> Ids:
    return graphs[0] if graphs else np.full(count, graph, np.uint64)


def _keep(quads: Quads, mask: npt.NDArray[np.bool_]) -> Quads:
    return Quads(quads.s[mask], quads.p[mask], quads.o[mask], quads.g[mask])
