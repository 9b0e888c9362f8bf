"""A snapshot: the store as it was at one number, to be read by any number of threads.

Edges are asked for by predicate, in either direction, many keys at a time, and come as sorted, read-only columns
of ids. The default graph, one named graph, or all named graphs together (`NAMED`, with a column of their graphs)
are asked for by `graph`.

Held edges (copies of edges of another store) have predicates of their own, `terms.held(p)`, so that nobody reads them
by chance. What lists predicates or graphs lists those of our own edges, or with `held` those of held edges alone; there
predicates stand without the tag."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from hbase_store.arrays import (
    Columns,
    Ids,
    Mask,
    Offsets,
    as_ids,
    concatenate,
    distinct_values,
    gather_ranges,
    group_rows,
    sort_distinct,
)
from hbase_store.edges.layers import Lookup, Reads
from hbase_store.errors import SnapshotGone
from hbase_store.layout.rows import Sn
from hbase_store.layout.terms import HELD_BASE, NO_TERM, is_held
from hbase_store.sorted.view import BY_GRAPH, FORWARD, INVERSE, Room, View, anything, contains, in_order, rows_of

Answer = TypeVar("Answer")

#: As a graph: all named graphs together.
NAMED = -1
DEFAULT = NO_TERM

# Below this many rows, looking each up in Python beats calling a kernel.
_FEW = 4
# From this many keys on, sorting them and calling a kernel beats looking each up.
_MANY = 256
_COUNTED = np.arange(_MANY)
_ZERO, _HELD = np.zeros(1, np.int64), np.uint64(HELD_BASE)
# From so many edges in all named graphs on, those of one graph are found by way of the graph.
_WIDE = 8192


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
    """The store at one number. Immutable: what is written later does not appear in it."""

    def __init__(self, layers: Reads, sn: Sn, renewed: Callable[[Sn], Reads]) -> None:
        """`renewed` finds the layers by which the snapshot is read now, when blocks of those before are gone."""
        self.sn = sn
        self.layers = layers
        self._renewed = renewed
        self._at_hand: dict[tuple[int, bool], tuple[Columns, Ids]] = layers.lend()

    def view(self, named: bool, predicate: int, order: int) -> View:
        """All edges of a predicate, of the default graph or of the named ones, in one order."""
        return self.read(lambda layers: layers.view(named, predicate, order, self.sn))

    def _reach(self, named: bool, predicate: int, order: int, keys: Ids) -> View:
        return self.read(lambda layers: layers.reach(named, predicate, order, keys, self.sn))

    def read(self, read: Callable[[Reads], Answer]) -> Answer:
        """The result of `read` on the layers, or on newer ones if blocks of these were collected."""
        try:
            return read(self.layers)
        except SnapshotGone:
            # Runs were merged, and these are collected; the snapshot may well be retained.
            self.layers = self._renewed(self.sn)
            return read(self.layers)

    @property
    def has_held(self) -> bool:
        """Whether there may be held edges: where not, nobody has to look for them."""
        return self.layers.has_held

    def values(self, p: int, key: int | np.uint64, inverse: bool = False) -> Ids:
        """The objects of one subject in the default graph, or the subjects of one object: one id, quickly."""
        wanted = np.uint64(key)
        at_hand = self._at_hand.get((p, inverse))
        if at_hand is None or (len(at_hand[1]) and _is_in(at_hand[1], wanted)):
            columns = self._of_few(p, np.array([wanted]), inverse)
        else:
            columns = at_hand[0]
        start = columns[0].searchsorted(wanted)
        return columns[1][start : columns[0].searchsorted(wanted, "right")]

    def fetch(self, predicates: Sequence[int], key: int | np.uint64, inverse: bool = False) -> None:
        """Brings what `values` will read for these predicates into memory, with one request for all of them."""
        far = [p for p in predicates if (p, inverse) not in self._at_hand]
        if len(far) > 1:
            self.read(lambda layers: layers.fetch([Lookup(p, int(inverse), np.array([key], np.uint64)) for p in far]))

    def hop(self, p: int, keys: Ids, inverse: bool = False, room: Room = anything) -> tuple[Offsets | None, Ids]:
        """(place of the key, neighbour) for each edge of the keys in the default graph; no places: each has just one.

        Of few keys quickly: numpy takes longer to sum up a few numbers than Python to look at them."""
        if len(keys) >= _MANY:
            return _placed(*self._many(p, keys, inverse, DEFAULT, room))
        columns = self._of_few(p, keys, inverse)
        starts, ends = columns[0].searchsorted(keys), columns[0].searchsorted(keys, "right")
        counts = ends - starts
        listed = counts.tolist()
        room(sum(listed))
        if listed.count(1) == len(listed):
            return None, columns[1][starts]
        if len(listed) == 1:
            return _ZERO.repeat(counts), columns[1][starts[0] : ends[0]]
        places = _COUNTED[: len(listed)].repeat(counts)
        return places, columns[1][(ends - counts.cumsum())[places] + np.arange(len(places))]

    def _of_few(self, p: int, keys: Ids, inverse: bool) -> Columns:
        """Columns with at least all rows of the keys; where they are all rows, they are at hand from now on."""
        at_hand = self._at_hand.get((p, inverse))
        if at_hand is not None and not (len(at_hand[1]) and any(_is_in(at_hand[1], key) for key in keys)):
            return at_hand[0]
        columns: Columns = self._reach(False, p, inverse, keys).columns
        if at_hand is None:
            found = self.layers.at_hand(False, p, inverse, self.sn)
            if found is not None:
                # Until the cache has to let something go: it costs more to ask.
                self._at_hand[p, inverse] = found[0].columns, found[1]
        return columns

    def neighbours(
        self, p: int, keys: Ids, inverse: bool = False, graph: int = DEFAULT, room: Room = anything
    ) -> tuple[Offsets, *Columns]:
        """(offsets, values[, graphs]): values[offsets[i]:offsets[i + 1]] are the objects of subject keys[i].

        `inverse` asks for the subjects of objects. The graphs come only with `graph` = NAMED. `room` is asked before
        any are gathered."""
        keys = as_ids(keys)
        if len(keys) == 1 and graph == DEFAULT:
            values = self.values(p, int(keys[0]), inverse)
            return np.array((0, len(values)), np.int64), values
        offsets, *found = (
            self._few(p, keys, inverse, graph, room) if len(keys) < _MANY else self._many(p, keys, inverse, graph, room)
        )
        if graph in (DEFAULT, NAMED):
            return offsets, *found
        if len(found[0]) > _WIDE:
            return self._neighbours_within(p, keys, inverse, graph)
        there = found[1] == np.uint64(graph)
        before = np.zeros(len(there) + 1, np.int64)
        np.cumsum(there, out=before[1:])
        return before[offsets], found[0][there]

    def _few(self, p: int, keys: Ids, inverse: bool, graph: int, room: Room) -> tuple[Offsets, *Columns]:
        columns = self._reach(graph != DEFAULT, p, inverse, keys).columns
        starts, ends = columns[0].searchsorted(keys, "left"), columns[0].searchsorted(keys, "right")
        if len(keys) == 1:
            start, end = int(starts[0]), int(ends[0])
            return np.array((0, end - start), np.int64), *(column[start:end] for column in columns[1:])
        room(int((ends - starts).sum()))
        offsets, places = gather_ranges(starts, ends)
        return offsets, *(column[places] for column in columns[1:])

    def _many(self, p: int, keys: Ids, inverse: bool, graph: int, room: Room) -> tuple[Offsets, *Columns]:
        named = graph != DEFAULT
        found = self.read(lambda layers: layers.neighbours(named, p, inverse, keys, self.sn, room))
        if found is not None:
            return found
        from hbase_store.sorted.hops import hop  # numba takes a third of a second to import

        return hop(self._reach(named, p, inverse, keys), keys, room)

    def _neighbours_within(self, p: int, keys: Ids, inverse: bool, graph: int) -> tuple[Offsets, Ids]:
        """The neighbours in one named graph, read from the edges of this graph: keys with very many edges in all graphs
        together may have few in this one."""
        keyed, values = self.pairs(p, inverse, graph)
        starts, ends = keyed.searchsorted(keys, "left"), keyed.searchsorted(keys, "right")
        offsets, places = gather_ranges(starts, ends)
        return offsets, values[places]

    def degrees(self, p: int, keys: Ids, inverse: bool = False, graph: int = DEFAULT) -> Offsets:
        """How many neighbours each key has."""
        if graph != DEFAULT:
            return np.diff(self.neighbours(p, keys, inverse, graph)[0])
        keys = as_ids(keys)
        if len(keys) >= _MANY:
            from hbase_store.sorted.hops import degrees  # numba takes a third of a second to import

            return degrees(self._reach(False, p, inverse, keys), keys)
        column = self._of_few(p, keys, inverse)[0]
        return column.searchsorted(keys, "right") - column.searchsorted(keys, "left")

    def pairs(self, p: int, inverse: bool = False, graph: int = DEFAULT, room: Room = anything) -> Columns:
        """(keys, values[, graphs]) of all edges, sorted by these columns; graphs only with `graph` = NAMED."""
        if graph in (DEFAULT, NAMED):
            if room is not anything:
                room(self.count(p, graph))
            return self.view(graph == NAMED, p, inverse).columns
        if room is not anything:
            room(self.read(lambda layers: layers.least(p, np.uint64(graph), self.sn)))
        found = self._of_graph(p, graph)
        return sort_distinct(in_order(found, INVERSE)) if inverse else found

    def between(self, p: int, first: int, last: int, graph: int = DEFAULT) -> Columns:
        """(s, o[, graphs]) of the subjects from `first` to `last`, of DEFAULT or NAMED. Nothing is put into a cache."""
        return self.read(lambda layers: layers.between(graph == NAMED, p, first, last, self.sn)).columns

    def cuts(self, p: int, rows: int, graph: int = DEFAULT) -> Ids:
        """Ascending subjects that divide the edges of DEFAULT or NAMED into spans of about so many."""
        return self.read(lambda layers: layers.cuts(graph == NAMED, p, rows, self.sn))

    def _of_graph(self, p: int, graph: int) -> Columns:
        """(s, o) of one predicate in one named graph, in order."""
        key = np.array([graph], np.uint64)
        return rows_of(self._reach(True, p, BY_GRAPH, key), key).columns[1:]

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
        return contains(self._reach(named, predicate, FORWARD, rows[0]), rows)

    def _has(self, s: Ids, p: Ids, o: Ids, g: Ids) -> bool:
        """One quad. Keys stay arrays: searching for a Python number would make numpy convert the column."""
        graph = int(g[0])
        columns: Columns = self._reach(graph != DEFAULT, int(p[0]), FORWARD, s).columns
        for key in (s, o) if graph == DEFAULT else (s, o, g):
            start, end = int(columns[0].searchsorted(key)[0]), int(columns[0].searchsorted(key, "right")[0])
            if start == end:
                return False
            columns = tuple(column[start:end] for column in columns[1:])
        return True

    def predicates(self, graph: int = DEFAULT, held: bool = False) -> Ids:
        """Those of at least one edge, ascending."""
        if graph in (DEFAULT, NAMED):
            found = np.array([p for p in self._candidates(graph == NAMED, held) if self.count(p, graph)], np.uint64)
            return _untagged(found) if held else found
        return self._listed(True, BY_GRAPH, np.array([graph], np.uint64), NAMED, held)[1]

    def _candidates(self, named: bool, held: bool) -> list[int]:
        """All predicates that may have edges, ascending; those of held edges with their tag, which come last."""
        listed = self.layers.predicates(named)
        if not held and (not listed or listed[-1] < HELD_BASE):
            return listed
        first = bisect_left(listed, HELD_BASE)
        return listed[first:] if held else listed[:first]

    def predicates_of(
        self, keys: Ids, inverse: bool = False, graph: int = DEFAULT, held: bool = False
    ) -> tuple[Offsets, Ids]:
        """(offsets, predicates): those of the edges that begin at each key (`inverse`: that end there), ascending."""
        keys = as_ids(keys)
        vertices, predicates = self._listed(graph != DEFAULT, inverse, distinct_values(keys), graph, held)
        starts, ends = vertices.searchsorted(keys, "left"), vertices.searchsorted(keys, "right")
        offsets, places = gather_ranges(starts, ends)
        return offsets, predicates[places]

    def predicates_listed(self, key: Ids, inverse: bool = False) -> Ids:
        """The predicates that one vertex of the default graph may have edges of, and at least all that it has."""
        listed = self.read(lambda layers: layers.predicates_of(False, int(inverse), key, self.sn))
        return _of_our_own(distinct_values(listed[1]))

    def _listed(self, named: bool, order: int, keys: Ids, graph: int, held: bool) -> Columns:
        """(key, predicate) of ascending, distinct keys, for each predicate of which a key has edges, in order."""
        listed = self.read(lambda layers: layers.predicates_of(named, order, keys, self.sn))
        of_held = is_held(listed[1])
        if held or of_held.any():
            listed = tuple(column[of_held == held] for column in listed)
        vertices, predicates = sort_distinct(listed)
        there = np.zeros(len(vertices), bool)
        for predicate, rows in group_rows(predicates):
            # What is listed may have been deleted since, or stand in another graph.
            there[rows] = self._has_edges(named, predicate, order, vertices[rows], graph)
        predicates = predicates[there]
        return vertices[there], _untagged(predicates) if held else predicates

    def _has_edges(self, named: bool, predicate: int, order: int, keys: Ids, graph: int) -> Mask:
        if order != BY_GRAPH:
            return np.diff(self.neighbours(predicate, keys, order == INVERSE, graph)[0]) > 0
        if not self.read(lambda layers: layers.has_deleted(named, predicate, self.sn)):
            return np.ones(len(keys), bool)  # a graph may be much to read, only to know that it is there
        found = self._reach(named, predicate, order, keys).columns[0]
        return found.searchsorted(keys, "left") < found.searchsorted(keys, "right")

    # ---- graphs

    def graphs(self, held: bool = False) -> Ids:
        """The named graphs that hold at least one edge, ascending."""
        listed, doubtful = self.read(lambda layers: layers.graphs(self.sn, held))
        if len(doubtful) == 0:
            return listed
        emptied = np.setdiff1d(doubtful, self._listed(True, BY_GRAPH, doubtful, NAMED, held)[0])
        return np.setdiff1d(listed, emptied, assume_unique=True)

    def by_predicate(self, g: int, room: Room = anything) -> Iterator[tuple[int, Columns]]:
        """Each predicate with (s, o) of its edges in one graph, 0 for the default graph; (s, o, g) of NAMED."""
        if g in (DEFAULT, NAMED):
            listed = self.predicates(g)
        else:  # whether one is still there shows when its edges are read
            key = np.array([g], np.uint64)
            listed = distinct_values(self.read(lambda layers: layers.predicates_of(True, BY_GRAPH, key, self.sn))[1])
            listed = _of_our_own(listed)
        for p in listed.tolist():
            columns = self.pairs(p, graph=g, room=room)
            if len(columns[0]):
                yield p, columns

    def graph_quads(self, g: int, room: Room = anything) -> tuple[Ids, Ids, Ids]:
        """(s, p, o) of all edges of one graph, 0 for the default graph, predicate by predicate."""
        found = list(self.by_predicate(g, room))
        predicates, parts = [p for p, _ in found], [part for _, part in found]
        p = np.repeat(np.array(predicates, np.uint64), [len(part[0]) for part in parts])
        return concatenate([part[0] for part in parts]), p, concatenate([part[1] for part in parts])

    def quads(self, room: Room = anything) -> tuple[Ids, Ids, Ids, Ids]:
        """(s, p, o, g) of everything; g is 0 for the default graph."""
        plain = self.graph_quads(DEFAULT, room)
        predicates = self.predicates(NAMED).tolist()
        parts = [self.pairs(p, graph=NAMED, room=room) for p in predicates]
        p = np.repeat(np.array(predicates, np.uint64), [len(part[0]) for part in parts])
        s, o, g = (concatenate([part[i] for part in parts]) for i in range(3))
        named = (s, p, o, g)
        default = (*plain, np.full(len(plain[0]), DEFAULT, np.uint64))
        s, p, o, g = (np.concatenate(pair) for pair in zip(default, named, strict=True))
        return s, p, o, g

    def count(self, p: int, graph: int = DEFAULT) -> int:
        """How many edges the predicate has."""
        if graph in (DEFAULT, NAMED):
            return self.read(lambda layers: layers.count(graph == NAMED, p, self.sn))
        return len(self._of_graph(p, graph)[0])

    def fan(self, p: int, inverse: bool = False, named: bool = False) -> float:
        """How many objects a subject has, about, or (`inverse`) how many subjects an object; no edge is read for it."""
        return self.read(lambda layers: layers.fan(named, p, int(inverse), self.sn))

    def count_all(self, graph: int = DEFAULT) -> int:
        if graph in (DEFAULT, NAMED):
            return sum(self.count(p, graph) for p in self._candidates(graph == NAMED, False))
        return sum(self.count(p, graph) for p in self.predicates(graph).tolist())


def _of_our_own(predicates: Ids) -> Ids:
    """Ascending predicates without those of held edges, which come last."""
    return predicates[: predicates.searchsorted(_HELD)]


def _untagged(predicates: Ids) -> Ids:
    return predicates - np.uint64(HELD_BASE)


def _is_in(ascending: Ids, key: np.uint64) -> bool:
    at = ascending.searchsorted(key)
    return bool(at < len(ascending) and ascending[at] == key)


def _placed(offsets: Offsets, values: Ids) -> tuple[Offsets | None, Ids]:
    counts = offsets[1:] - offsets[:-1]  # np.diff takes five times as long for a few keys
    if int(offsets[-1]) == len(counts) and (counts == 1).all():
        return None, values
    return np.repeat(np.arange(len(counts)), counts), values
