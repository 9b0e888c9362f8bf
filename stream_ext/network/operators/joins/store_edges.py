"""The edges of the store as a pattern sees them: those of one graph, of each in turn, or of several merged.

With held edges (`IdGraph.held`) a predicate has two: ours, and the copies of another store's. An edge in both is one.
Mostly one of them is empty; then the other is read as it would be alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from hbase_store import NAMED, Snapshot
from hbase_store.layout import terms
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.core.pattern import IdGraph, Ids, Mask

Picks = npt.NDArray[np.int64] | npt.NDArray[np.intp]

#: (the place of the key, the neighbour, the graph); no places: each key has just one. No graphs: they do not matter.
Found = tuple[Picks | None, Ids, Ids | None]


class StoreEdges:
    def __init__(self, snapshot: Snapshot, graph: IdGraph, control: Control = Control.FREE) -> None:
        """`control` is charged before edges are read."""
        self.snapshot, self.graph, self._room = snapshot, graph, control.gather
        self.has_held = graph.held and snapshot.has_held

    # ---- one predicate ------------------------------------------------------------------------------------------

    def stored(self, predicate: int) -> tuple[int, ...]:
        """Under which predicates the edges of a predicate are stored: under itself, the one for held edges, or both."""
        if not self.has_held:
            return (predicate,)
        held = terms.held(predicate)
        if not self._has_any(held):
            return (predicate,)
        return (predicate, held) if self._has_any(predicate) else (held,)

    def _has_any(self, predicate: int) -> bool:
        """Whether there may be edges: in a named graph, if any named graph has some."""
        if self.graph.one != 0 and self.snapshot.count(predicate, NAMED):
            return True
        return (self.graph.one == 0 or self._has_default()) and self.snapshot.count(predicate) > 0

    def neighbours(self, predicate: int, keys: Ids, inverse: bool) -> Found:
        """The objects of each subject, or (`inverse`) the subjects of each object."""
        parts = [self._neighbours(stored, keys, inverse) for stored in self.stored(predicate)]
        return parts[0] if len(parts) == 1 else _once(parts, len(keys))

    def _neighbours(self, predicate: int, keys: Ids, inverse: bool) -> Found:
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
        parts = [self._pairs(stored) for stored in self.stored(predicate)]
        if len(parts) == 1:
            return parts[0]
        s, o = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        graphs = [part[2] for part in parts if part[2] is not None]
        if not graphs:
            new = _order_of_distinct(s, o)
            return s[new], o[new], None
        g = np.concatenate(graphs)
        new = _order_of_distinct(s, o, g)
        return s[new], o[new], g[new]

    def _pairs(self, predicate: int) -> tuple[Ids, Ids, Ids | None]:
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
        new = _order_of_distinct(s, o)
        return s[new], o[new], None

    def count(self, predicate: int) -> int:
        """At most: those of graphs that do not matter are counted, too."""
        return sum(map(self._count, self.stored(predicate)))

    def _count(self, predicate: int) -> int:
        if self.graph.one is not None:
            return self.snapshot.count(predicate, self.graph.one)
        named = self.snapshot.count(predicate, NAMED)
        return named + self.snapshot.count(predicate) if self._has_default() else named

    def degrees(self, predicate: int, keys: Ids, inverse: bool) -> npt.NDArray[np.int64]:
        """How many neighbours each key has in the one graph."""
        assert self.graph.one is not None
        stored = self.stored(predicate)
        if len(stored) == 1:
            return self.snapshot.degrees(stored[0], keys, inverse, self.graph.one)
        i, _, _ = self.neighbours(predicate, keys, inverse)
        return np.ones(len(keys), np.int64) if i is None else np.bincount(i, minlength=len(keys))

    def contains(self, s: Ids, predicate: int, o: Ids, g: Ids | None = None) -> Mask:
        """Which triples are in the graph, or in one of those that are merged; of graphs that are distinguished, in the
        graph `g` of each."""
        found = np.zeros(len(s), np.bool_)
        for stored in self.stored(predicate):
            found |= self._contains(s, stored, o, g)
        return found

    def _contains(self, s: Ids, predicate: int, o: Ids, g: Ids | None) -> Mask:
        p = np.full(len(s), predicate, np.uint64)
        if g is not None:
            return self.snapshot.contains(s, p, o, g)
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
        return self._of_both(self._predicates)

    def _predicates(self, held: bool) -> Ids:
        if self.graph.one is not None:
            return self.snapshot.predicates(self.graph.one, held)
        named = self.snapshot.predicates(NAMED, held)
        return np.union1d(named, self.snapshot.predicates(held=held)) if self._has_default() else named

    def predicates_of(self, keys: Ids, inverse: bool) -> tuple[Picks, Ids]:
        """(place of the key, predicate) of the edges that begin (`inverse`: end) there."""
        found = self._predicates_of(keys, inverse, False)
        if not self.has_held:
            return found
        held = self._predicates_of(keys, inverse, True)
        return _distinct(np.concatenate([found[0], held[0]]), np.concatenate([found[1], held[1]]))

    def _predicates_of(self, keys: Ids, inverse: bool, held: bool) -> tuple[Picks, Ids]:
        graph = NAMED if self.graph.one is None else self.graph.one
        offsets, predicates = self.snapshot.predicates_of(keys, inverse, graph, held)
        i = _each(offsets)
        if not self._has_default():
            return i, predicates
        offsets, more = self.snapshot.predicates_of(keys, inverse, held=held)
        i, predicates = np.concatenate([i, _each(offsets)]), np.concatenate([predicates, more])
        return _distinct(i, predicates)

    # ---- the graphs ---------------------------------------------------------------------------------------------

    def graphs(self) -> Ids:
        """The existing graphs that `each` ranges over."""
        found = self._of_both(self.snapshot.graphs)
        there = self._among(found)
        return found if there is None else found[there]

    def exists(self) -> bool:
        """Whether the one graph exists: the default graph always does."""
        return self.graph.one == 0 or bool(len(self.predicates()))

    def may_read_all(self, predicates: Iterable[int] | None) -> bool:
        return True

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

    def _of_both(self, listed: Callable[[bool], Ids]) -> Ids:
        """What is listed of our own edges, or of held ones."""
        ours = listed(False)
        return np.union1d(ours, listed(True)) if self.has_held else ours

    def _among(self, graphs: Ids) -> Mask | None:
        return None if self.graph.among is None else np.isin(graphs, self.graph.among)

    def _has_default(self) -> bool:
        if not self.graph.merged:
            return False
        return self.graph.among is None or (len(self.graph.among) > 0 and int(self.graph.among[0]) == 0)


def edges_around(snapshot: Snapshot, key: Ids, inverse: bool) -> tuple[Ids, Ids]:
    """The predicate and the other end of each edge of one vertex."""
    if snapshot.layers.is_remote:
        snapshot.read(lambda layers: layers.fetch_around(key, int(inverse)))
    predicates = snapshot.predicates_listed(key, inverse)
    listed, one = predicates.tolist(), int(key[0])
    snapshot.fetch(listed, one, inverse)
    found = [snapshot.values(p, one, inverse) for p in listed]
    if not found:
        return predicates, np.empty(0, np.uint64)
    counts = [len(values) for values in found]
    return predicates if counts.count(1) == len(counts) else predicates.repeat(counts), np.concatenate(found)


def _each(offsets: npt.NDArray[np.int64]) -> Picks:
    return np.repeat(np.arange(len(offsets) - 1), offsets[1:] - offsets[:-1])


def _joined(parts: list[tuple[Picks, Ids, Ids]]) -> tuple[Picks, Ids]:
    if len(parts) == 1:
        return parts[0][:2]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _once(parts: list[Found], keys: int) -> Found:
    """The neighbours of our own edges and of held ones, those of both once."""
    i = np.concatenate([np.arange(keys) if places is None else places for places, _, _ in parts])
    values = np.concatenate([found for _, found, _ in parts])
    graphs = [graphs for _, _, graphs in parts if graphs is not None]
    if not graphs:
        return *_distinct(i, values), None
    g = np.concatenate(graphs)
    new = _order_of_distinct(i, values, g)
    return i[new], values[new], g[new]


def _distinct(i: Picks, values: Ids) -> tuple[Picks, Ids]:
    new = _order_of_distinct(i, values)
    return i[new], values[new]


def _order_of_distinct(*columns: Picks | Ids) -> npt.NDArray[np.intp]:
    """The places of the rows in order, each row once."""
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return order[new]
