"""Store join: solutions extended by a triple pattern over the store.

The store's sorted arrays are the index of its side, so nothing of it is copied: new solutions l are looked up in the
store S + d as it now is, and what was remembered of the left side meets the store's own change d:
(L + l)(S + d) - LS = l (S + d) + L d."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbase_store import NAMED, Snapshot
from stream_ext.operators.join import paired
from stream_ext.operators.moment import Moment, StoreChanges
from stream_ext.operators.pattern import IdPattern, Ids
from stream_ext.operators.row_index import RowIndex
from stream_ext.zset import ZSet, concat, empty

S, P, O, G = range(4)  # noqa: E741  (positions of a quad, in the order that everyone writes them)
Picks = npt.NDArray[np.int64]


class StoreJoin:
    def __init__(self, left: tuple[str, ...], pattern: IdPattern) -> None:
        self.pattern = pattern
        self._left = left
        self._added = tuple(v for v in pattern.variables if v not in left)
        self.variables = left + self._added
        shared = [v for v in left if v in pattern.variables]
        self._memory = RowIndex(len(left), [left.index(v) for v in shared])
        self._change_key = [pattern.variables.index(v) for v in shared]
        self._change_rest = [pattern.variables.index(v) for v in self._added]

    def step(self, moment: Moment, left: ZSet) -> ZSet:
        parts = [self._look_up(left, moment.snapshot)]
        if moment.changes is not None:
            parts.append(self._meet(self._store_change(moment.changes), moment.time))
        if not moment.last:
            self._memory.insert(left, moment.time)
        return concat(parts, len(self.variables))

    # -- the store's change against what is remembered ---------------------------------------------------------

    def _store_change(self, changes: StoreChanges) -> ZSet:
        predicate = self.pattern.fixed.get(P)
        parts = []
        for change in changes.of(None if predicate is None else (predicate,)):
            fits, columns = self.pattern.match((change.s, change.p, change.o, change.g))
            fits &= (change.g != 0) if G in self.pattern.binding else fits
            parts.append(ZSet(columns(fits), int(fits.sum()), change.sign[fits].astype(np.int64)))
        return concat(parts, len(self.pattern.variables)) if parts else empty(len(self.pattern.variables))

    def _meet(self, change: ZSet, time: int) -> ZSet:
        i, slot = self._memory.probe(tuple(change.columns[c] for c in self._change_key), len(change), time)
        return paired(self._memory.at(slot), change.take(i), self._change_rest)

    # -- new solutions against the store ------------------------------------------------------------------------

    def _look_up(self, left: ZSet, snapshot: Snapshot) -> ZSet:
        if not len(left):
            return empty(len(self.variables))
        parts = [self._look_up_predicate(left, p, pick, snapshot) for p, pick in self._predicates(left, snapshot)]
        return concat(parts, len(self.variables))

    def _predicates(self, left: ZSet, snapshot: Snapshot) -> list[tuple[int, Picks | None]]:
        """The predicates to look under, each with the left rows that it concerns (None: all)."""
        if P in self.pattern.fixed:
            return [(self.pattern.fixed[P], None)]
        name = self.pattern.binding[P]
        if name in self._left:
            column = left.columns[self._left.index(name)]
            return [(int(p), np.flatnonzero(column == p)) for p in np.unique(column)]
        return [(int(p), None) for p in snapshot.predicates(self._graph())]

    def _graph(self) -> int:
        return self.pattern.fixed.get(G, NAMED)

    def _look_up_predicate(self, left: ZSet, predicate: int, pick: Picks | None, snapshot: Snapshot) -> ZSet:
        if pick is not None:
            left = left.take(pick)
        i, s, o, g = self._quads(left, predicate, snapshot)
        columns = (s, np.full(len(s), predicate, np.uint64), o, g)
        keep = np.ones(len(i), np.bool_)
        first_at: dict[str, int] = {}
        for position, name in self.pattern.binding.items():
            if name in self._left:
                keep &= columns[position] == left.columns[self._left.index(name)][i]
            elif name in first_at:
                keep &= columns[position] == columns[first_at[name]]
            else:
                first_at[name] = position
        i = i[keep]
        added = (columns[first_at[name]][keep] for name in self._added)
        kept = left.take(i)
        return kept.with_columns((*kept.columns, *added))

    def _quads(self, left: ZSet, predicate: int, snapshot: Snapshot) -> tuple[Picks, Ids, Ids, Ids]:
        """For each left row the quads under `predicate` that its bound subject or object leaves: (row, s, o, g)."""
        graph = self._graph()
        subject, object_ = self._bound(S, left), self._bound(O, left)
        if subject is None and object_ is None:
            return _all_pairs(len(left), snapshot, predicate, graph)
        if subject is not None and object_ is not None:
            return self._both_bound(subject, object_, predicate, snapshot)
        inverse = subject is None
        known = object_ if inverse else subject
        assert known is not None
        i, values, graphs = _neighbours(snapshot, predicate, known, inverse, graph)
        return (i, values, known[i], graphs) if inverse else (i, known[i], values, graphs)

    def _both_bound(self, s: Ids, o: Ids, predicate: int, snapshot: Snapshot) -> tuple[Picks, Ids, Ids, Ids]:
        if G in self.pattern.fixed:
            g = np.full(len(s), self.pattern.fixed[G], np.uint64)
            there = snapshot.contains(s, np.full(len(s), predicate, np.uint64), o, g)
            i = np.flatnonzero(there)
            return i, s[i], o[i], g[i]
        i, values, graphs = _neighbours(snapshot, predicate, s, False, NAMED)
        same = values == o[i]
        return i[same], s[i[same]], values[same], graphs[same]

    def _bound(self, position: int, left: ZSet) -> Ids | None:
        if position in self.pattern.fixed:
            return np.full(len(left), self.pattern.fixed[position], np.uint64)
        name = self.pattern.binding[position]
        return left.columns[self._left.index(name)] if name in self._left else None


def _neighbours(snapshot: Snapshot, p: int, keys: Ids, inverse: bool, graph: int) -> tuple[Picks, Ids, Ids]:
    """(index into keys, value, graph) of every neighbour."""
    offsets, *columns = snapshot.neighbours(p, keys, inverse=inverse, graph=graph)
    values = columns[0]
    i = np.repeat(np.arange(len(keys)), np.diff(offsets))
    graphs = columns[1] if graph == NAMED else np.full(len(values), graph, np.uint64)
    return i, values, graphs


def _all_pairs(n: int, snapshot: Snapshot, p: int, graph: int) -> tuple[Picks, Ids, Ids, Ids]:
    """Every left row with every pair of the predicate."""
    found = snapshot.pairs(p, graph=graph)
    s, o = found[0], found[1]
    g = found[2] if graph == NAMED else np.full(len(s), graph, np.uint64)
    i = np.repeat(np.arange(n), len(s))
    return i, np.tile(s, n), np.tile(o, n), np.tile(g, n)
