"""A snapshot: the store as it was at one number, to be read by any number of threads.

Edges are asked for by predicate, in either direction, many keys at a time, and come as sorted, read-only columns
of ids. The default graph, one named graph, or all named graphs together (`NAMED`, with a column of their graphs)
are asked for by `graph`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from hbase_store.arrays import (
    NO_IDS,
    Columns,
    Ids,
    Mask,
    Offsets,
    as_ids,
    distinct_values,
    gather_ranges,
    group_rows,
    sort_distinct,
)
from hbase_store.errors import SnapshotGone
from hbase_store.layers import Layers
from hbase_store.rows import Sn
from hbase_store.terms import NO_TERM
from hbase_store.view import View, contains

Answer = TypeVar("Answer")

#: As a graph: all named graphs together.
NAMED = -1
DEFAULT = NO_TERM

# Below this many rows, looking each up in Python beats calling a kernel.
_FEW = 4
# From this many keys on, sorting them and calling a kernel beats looking each up.
_MANY = 256


@dataclass(frozen=True, slots=True)
class Rows:
    """Exact changes: each row was inserted (sign 1) or deleted (sign -1); g is 0 for the default graph."""

    s: Ids
    p: Ids
    o: Ids
    g: Ids
    sign: np.ndarray[tuple[int], np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.s)


class Snapshot:
    """Immutable: what is written later is in no view of it."""

    def __init__(self, layers: Layers, sn: Sn, renewed: Callable[[Sn], Layers]) -> None:
        """`renewed` finds the layers by which the snapshot is read now, when blocks of those before are gone."""
        self.sn = sn
        self.layers = layers
        self._renewed = renewed
        self._scalar: dict[tuple[int, bool], Columns] = {}

    def view(self, named: bool, predicate: int, inverse: bool) -> View:
        """All edges of a predicate, of the default graph or of the named ones, in order of one direction."""
        return self._read(lambda layers: layers.view(named, predicate, inverse, self.sn))

    def _reach(self, named: bool, predicate: int, inverse: bool, keys: Ids) -> View:
        return self._read(lambda layers: layers.reach(named, predicate, inverse, keys, self.sn))

    def _read(self, read: Callable[[Layers], Answer]) -> Answer:
        try:
            return read(self.layers)
        except SnapshotGone:
            # Runs were merged, and these are collected; the snapshot may well be retained.
            self.layers = self._renewed(self.sn)
            return read(self.layers)

    def values(self, p: int, key: int, inverse: bool = False) -> Ids:
        """The objects of one subject in the default graph, or the subjects of one object: one id, quickly."""
        columns = self._scalar.get((p, inverse))
        wanted = np.uint64(key)
        if columns is None:
            columns = self._reach(False, p, inverse, np.array([wanted])).columns
            whole = self.layers.known(False, p, inverse, self.sn)
            if whole is not None:
                # Held for as long as the snapshot is: the cache may forget it meanwhile, and costs more to ask.
                columns = self._scalar[p, inverse] = whole.columns
        start = columns[0].searchsorted(wanted)
        return columns[1][start : columns[0].searchsorted(wanted, "right")]

    def neighbours(self, p: int, keys: Ids, inverse: bool = False, graph: int = DEFAULT) -> tuple[Offsets, *Columns]:
        """(offsets, values[, graphs]): values[offsets[i]:offsets[i + 1]] are the objects of subject keys[i].

        `inverse` asks for the subjects of objects. The graphs come only with `graph` = NAMED."""
        keys = as_ids(keys)
        columns = self._reach(graph != DEFAULT, p, inverse, keys).columns
        if len(keys) < _MANY:
            starts, ends = columns[0].searchsorted(keys, "left"), columns[0].searchsorted(keys, "right")
        else:
            from hbase_store.kernels import ranges  # numba takes a third of a second to import

            starts, ends = ranges(columns[0], keys)
        if len(keys) == 1:
            start, end = int(starts[0]), int(ends[0])
            offsets = np.array((0, end - start), np.int64)
            found = tuple(column[start:end] for column in columns[1:])
        else:
            offsets, places = gather_ranges(starts, ends)
            found = tuple(column[places] for column in columns[1:])
        if graph in (DEFAULT, NAMED):
            return offsets, *found
        there = found[1] == np.uint64(graph)
        before = np.zeros(len(there) + 1, np.int64)
        np.cumsum(there, out=before[1:])
        return before[offsets], found[0][there]

    def pairs(self, p: int, inverse: bool = False, graph: int = DEFAULT) -> Columns:
        """(keys, values[, graphs]) of all edges, sorted by these columns; graphs only with `graph` = NAMED."""
        columns = self.view(graph != DEFAULT, p, inverse).columns
        if graph in (DEFAULT, NAMED):
            return columns
        there = columns[2] == np.uint64(graph)
        return columns[0][there], columns[1][there]

    def contains(self, s: Ids, p: Ids, o: Ids, g: Ids) -> Mask:
        """Which quads are there; g is 0 for the default graph."""
        s, p, o, g = as_ids(s), as_ids(p), as_ids(o), as_ids(g)
        if len(s) <= _FEW:
            return np.array(
                [self._has(s[i : i + 1], p[i : i + 1], o[i : i + 1], g[i : i + 1]) for i in range(len(s))], bool
            )
        found = np.empty(len(s), bool)
        for predicate, rows in group_rows(p):
            found[rows] = self._contains(predicate, s[rows], o[rows], g[rows])
        return found

    def _contains(self, predicate: int, s: Ids, o: Ids, g: Ids) -> Mask:
        named = g != 0
        if not named.any():
            return self.contains_rows(False, predicate, (s, o))
        if named.all():
            return self.contains_rows(True, predicate, (s, o, g))
        found = np.empty(len(s), bool)
        found[~named] = self.contains_rows(False, predicate, (s[~named], o[~named]))
        found[named] = self.contains_rows(True, predicate, (s[named], o[named], g[named]))
        return found

    def contains_rows(self, named: bool, predicate: int, rows: Columns) -> Mask:
        """Which rows (s, o[, g]) of one predicate are there."""
        return contains(self._reach(named, predicate, False, rows[0]), rows)

    def _has(self, s: Ids, p: Ids, o: Ids, g: Ids) -> bool:
        """One quad. Keys stay arrays: searching for a Python number would make numpy convert the column."""
        graph = int(g[0])
        columns: Columns = self._reach(graph != DEFAULT, int(p[0]), False, s).columns
        for key in (s, o) if graph == DEFAULT else (s, o, g):
            start, end = int(columns[0].searchsorted(key)[0]), int(columns[0].searchsorted(key, "right")[0])
            if start == end:
                return False
            columns = tuple(column[start:end] for column in columns[1:])
        return True

    def predicates(self, graph: int = DEFAULT) -> Ids:
        """Those of at least one edge, ascending."""
        candidates = self.layers.predicates(graph != DEFAULT)
        return np.array([p for p in candidates if self.count(p, graph)], np.uint64)

    def predicates_of(self, keys: Ids, inverse: bool = False, graph: int = DEFAULT) -> tuple[Offsets, Ids]:
        """(offsets, predicates): those of the edges that begin at each key (`inverse`: that end there), ascending."""
        keys = as_ids(keys)
        distinct = distinct_values(keys)
        vertices, predicates = sort_distinct(
            self._read(lambda layers: layers.predicates_of(graph != DEFAULT, inverse, distinct, self.sn))
        )
        there = np.zeros(len(vertices), bool)
        for predicate, rows in group_rows(predicates):
            # What is listed may have been deleted since, or stand in another graph.
            offsets = self.neighbours(predicate, vertices[rows], inverse, graph)[0]
            there[rows] = np.diff(offsets) > 0
        vertices, predicates = vertices[there], predicates[there]
        starts, ends = vertices.searchsorted(keys, "left"), vertices.searchsorted(keys, "right")
        offsets, places = gather_ranges(starts, ends)
        return offsets, predicates[places]

    def graphs(self) -> Ids:
        """The named graphs that hold at least one edge, ascending."""
        columns = [self.view(True, p, False).columns[2] for p in self.layers.predicates(True)]
        return distinct_values(np.concatenate([distinct_values(column) for column in columns])) if columns else NO_IDS

    def count(self, p: int, graph: int = DEFAULT) -> int:
        """How many edges the predicate has."""
        if graph in (DEFAULT, NAMED):
            return self._read(lambda layers: layers.count(graph == NAMED, p, self.sn))
        return int(np.count_nonzero(self.view(True, p, False).columns[2] == np.uint64(graph)))

    def count_all(self, graph: int = DEFAULT) -> int:
        return sum(self.count(p, graph) for p in self.layers.predicates(graph != DEFAULT))
