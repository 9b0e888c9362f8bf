"""Edges for paths that are not in the store: those of a window, as sorted arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hbase_store.arrays import NO_IDS, Ids, Mask, distinct_values, gather_ranges
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.paths.id_path import AnyLinkBut
from stream_ext.network.operators.paths.path_pairs import EdgeChange
from stream_ext.network.operators.paths.walking import Edges, Places, walk
from stream_ext.rows.zset import ZSet, concat, consolidate, empty

#: The place of its key, its own place, and the neighbour.
_EDGE = 3


class SortedEdges:
    """A set of triples, sorted in each direction when that is first needed."""

    def __init__(self, s: Ids, p: Ids, o: Ids, control: Control = Control.FREE) -> None:
        self.triples, self._control = (s, p, o), control
        self._sorted: dict[bool, tuple[Ids, Ids, Ids]] = {}

    def _by(self, inverse: bool) -> tuple[Ids, Ids, Ids]:
        """(predicates, keys, neighbours), in this order."""
        if inverse not in self._sorted:
            s, p, o = self.triples
            keys, values = (o, s) if inverse else (s, o)
            order = np.lexsort((values, keys, p))
            self._sorted[inverse] = p[order], keys[order], values[order]
        return self._sorted[inverse]

    def _under(self, predicate: int, inverse: bool) -> tuple[Ids, Ids]:
        predicates, keys, values = self._by(inverse)
        low, high = (int(predicates.searchsorted(np.uint64(predicate), side)) for side in ("left", "right"))
        return keys[low:high], values[low:high]

    def neighbours(self, predicate: int, keys: Ids, inverse: bool) -> tuple[Places | None, Ids, None]:
        known, values = self._under(predicate, inverse)
        starts, ends = known.searchsorted(keys), known.searchsorted(keys, "right")
        self._control.room(int((ends - starts).sum()), _EDGE)
        offsets, places = gather_ranges(starts, ends)
        return np.repeat(np.arange(len(keys)), np.diff(offsets)), values[places], None

    def predicates_of(self, keys: Ids, inverse: bool) -> tuple[Places, Ids]:
        found = [(self.neighbours(p, keys, inverse)[0], p) for p in self.predicates().tolist()]
        places = [np.unique(at) for at, _ in found if at is not None]
        ids = [np.full(len(at), p, np.uint64) for at, (_, p) in zip(places, found, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *places]), np.concatenate([NO_IDS, *ids])

    def pairs(self, predicate: int) -> tuple[Ids, Ids, None]:
        return *self._under(predicate, False), None

    def count(self, predicate: int) -> int:
        return len(self._under(predicate, False)[0])

    def predicates(self) -> Ids:
        return distinct_values(self.triples[1])

    def exists(self) -> bool:
        return bool(len(self.triples[0]))

    def may_read_all(self, predicates: Iterable[int] | None) -> bool:
        return True


class WindowEdges:
    """The edges of a window, from evaluation to evaluation: a triple is an edge while one of its copies is there."""

    def __init__(self) -> None:
        self._rows = empty(3)
        self.edges = SortedEdges(NO_IDS, NO_IDS, NO_IDS)

    def step(self, moment: Moment, change: ZSet) -> EdgeChange:
        """Applies the window's change; returns how its edges differ from those of the last evaluation."""
        rows = concat([self._rows, change], 3)
        if rows.untils is not None:
            counts = rows.untils >= moment.time
            if not change.count and counts.all():
                return _change(empty(3))
            rows = rows.take(counts)
        elif not change.count:
            return _change(empty(3))
        self._rows = consolidate(rows)
        there = consolidate(ZSet(self._rows.columns, self._rows.count, self._rows.weights))
        now = ZSet(there.columns, there.count)
        before = ZSet(self.edges.triples, len(self.edges.triples[0]))
        s, p, o = now.columns
        self.edges = SortedEdges(s, p, o, moment.control)
        return _change(consolidate(concat([now, before.negated()], 3)))


def _change(difference: ZSet) -> EdgeChange:
    s, p, o = difference.columns
    return EdgeChange(s, p, o, difference.weight_array())


def all_nodes(edges: Edges) -> Ids:
    """Whatever is a subject or an object."""
    ends = [ids for predicate in edges.predicates().tolist() for ids in edges.pairs(predicate)[:2]]
    return distinct_values(np.concatenate([distinct_values(ids) for ids in ends])) if ends else NO_IDS


def are_nodes(edges: Edges, ids: Ids, control: Control) -> Mask:
    """Which are a subject or an object."""
    found = np.zeros(len(ids), np.bool_)
    for inverse in (False, True):
        others = np.flatnonzero(~found)
        found[walk(AnyLinkBut(frozenset(), inverse), edges, others, ids[others], control)[0]] = True
    return found
