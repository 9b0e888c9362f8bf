"""The edges of the store as a pattern sees them: those of one graph, of each in turn, or of several merged."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbase_store import NAMED, Snapshot
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.core.pattern import IdGraph, Ids, Mask

Picks = npt.NDArray[np.int64] | npt.NDArray[np.intp]

#: (the place of the key, the neighbour, the graph); no places: each key has just one. No graphs: they do not matter.
Found = tuple[Picks | None, Ids, Ids | None]


class StoreEdges:
    def __init__(self, snapshot: Snapshot, graph: IdGraph, control: Control = Control.FREE) -> None:
        """`control` is charged before edges are read."""
        self.snapshot, self.graph, self._room = snapshot, graph, control.gather

    # ---- one predicate ------------------------------------------------------------------------------------------

    def neighbours(self, predicate: int, keys: Ids, inverse: bool) -> Found:
        """The objects of each subject, or (`inverse`) the subjects of each object."""
        if self.graph.one == 0:
            return *self.snapshot.hop(predicate, keys, inverse, self._room), None
        if self.graph.one is not None:
            offsets, *found = self.snapshot.neighbours(predicate, keys, inverse, self.graph.one, self._room)
            return _each(offsets), found[0], None
        named = self._named(predicate, keys, inverse)
        if self.graph.each is not None:
            return named
        parts = [named, self._default(predicate, keys, inverse)] if self._has_default() else [named]
        i, values = _distinct(*_joined(parts))
        return i, values, None

    def _named(self, predicate: int, keys: Ids, inverse: bool) -> tuple[Picks, Ids, Ids]:
        offsets, *found = self.snapshot.neighbours(predicate, keys, inverse, NAMED, self._room)
        values, graphs = found
        i = _each(offsets)
        there = self._among(graphs)
        return (i, values, graphs) if there is None else (i[there], values[there], graphs[there])

    def _default(self, predicate: int, keys: Ids, inverse: bool) -> tuple[Picks, Ids, Ids]:
        offsets, *found = self.snapshot.neighbours(predicate, keys, inverse, room=self._room)
        return _each(offsets), found[0], found[0]

    def pairs(self, predicate: int) -> tuple[Ids, Ids, Ids | None]:
        """All (subject, object, graph) of a predicate."""
        if self.graph.one is not None:
            found = self.snapshot.pairs(predicate, graph=self.graph.one)
            return found[0], found[1], None
        s, o, g = self.snapshot.pairs(predicate, graph=NAMED)
        there = self._among(g)
        if there is not None:
            s, o, g = s[there], o[there], g[there]
        if self.graph.each is not None:
            return s, o, g
        if self._has_default():
            more = self.snapshot.pairs(predicate)
            s, o = np.concatenate([s, more[0]]), np.concatenate([o, more[1]])
        order = np.lexsort((o, s))
        s, o = s[order], o[order]
        new = np.ones(len(s), np.bool_)
        new[1:] = (s[1:] != s[:-1]) | (o[1:] != o[:-1])
        return s[new], o[new], None

    def count(self, predicate: int) -> int:
        """At most: those of graphs that do not matter are counted, too."""
        if self.graph.one is not None:
            return self.snapshot.count(predicate, self.graph.one)
        named = self.snapshot.count(predicate, NAMED)
        return named + self.snapshot.count(predicate) if self._has_default() else named

    def contains(self, s: Ids, predicate: int, o: Ids) -> Mask:
        """Which triples are in the graph, or in one of those that are merged."""
        p = np.full(len(s), predicate, np.uint64)
        if self.graph.one is not None:
            return self.snapshot.contains(s, p, o, np.full(len(s), self.graph.one, np.uint64))
        i, values, _ = self._named(predicate, s, False)
        found = np.zeros(len(s), np.bool_)
        found[i[values == o[i]]] = True
        if self._has_default():
            found |= self.snapshot.contains(s, p, o, np.zeros(len(s), np.uint64))
        return found

    # ---- any predicate ------------------------------------------------------------------------------------------

    def predicates(self) -> Ids:
        if self.graph.one is not None:
            return self.snapshot.predicates(self.graph.one)
        named = self.snapshot.predicates(NAMED)
        return np.union1d(named, self.snapshot.predicates()) if self._has_default() else named

    def predicates_of(self, keys: Ids, inverse: bool) -> tuple[Picks, Ids]:
        """(place of the key, predicate) of the edges that begin (`inverse`: end) there."""
        graph = NAMED if self.graph.one is None else self.graph.one
        offsets, predicates = self.snapshot.predicates_of(keys, inverse, graph)
        i = _each(offsets)
        if not self._has_default():
            return i, predicates
        offsets, more = self.snapshot.predicates_of(keys, inverse)
        i, predicates = np.concatenate([i, _each(offsets)]), np.concatenate([predicates, more])
        return _distinct(i, predicates)

    # ---- the graphs ---------------------------------------------------------------------------------------------

    def graphs(self) -> Ids:
        """The existing graphs that `each` ranges over."""
        found = self.snapshot.graphs()
        there = self._among(found)
        return found if there is None else found[there]

    def in_scope(self, graphs: Ids) -> Mask:
        """Which of these graphs are in this scope."""
        if self.graph.one is not None:
            same: Mask = graphs == np.uint64(self.graph.one)
            return same
        there = self._among(graphs)
        named = graphs != 0
        if there is None:
            return named if self.graph.each is not None else np.ones(len(graphs), np.bool_)
        if self.graph.each is not None:
            there &= named
        return there

    def _among(self, graphs: Ids) -> Mask | None:
        return None if self.graph.among is None else np.isin(graphs, self.graph.among)

    def _has_default(self) -> bool:
        if not self.graph.merged:
            return False
        return self.graph.among is None or (len(self.graph.among) > 0 and int(self.graph.among[0]) == 0)


def _each(offsets: npt.NDArray[np.int64]) -> Picks:
    return np.repeat(np.arange(len(offsets) - 1), offsets[1:] - offsets[:-1])


def _joined(parts: list[tuple[Picks, Ids, Ids]]) -> tuple[Picks, Ids]:
    if len(parts) == 1:
        return parts[0][:2]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _distinct(i: Picks, values: Ids) -> tuple[Picks, Ids]:
    order = np.lexsort((values, i))
    i, values = i[order], values[order]
    new = np.ones(len(i), np.bool_)
    new[1:] = (i[1:] != i[:-1]) | (values[1:] != values[:-1])
    return i[new], values[new]
