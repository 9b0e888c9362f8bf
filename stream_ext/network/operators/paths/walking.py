"""Walking property paths over ids.

A walk begins at many nodes at once, each with a tag that names its start, and continues as two arrays (tag, node). A
repeated path is a set of pairs of nodes, also if its inside reaches a node several times; all other paths count how
often a node is reached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import NO_IDS, Ids, Mask, distinct_values, frozen, gather_ranges, group_rows
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.paths.id_path import (
    Alternative,
    AnyLinkBut,
    IdPath,
    Link,
    Repeated,
    Sequence,
    is_one_step,
    links,
    predicates_of,
    reversed_path,
)
from stream_ext.rows.key_table import KeyTable
from stream_ext.rows.zset import ZSet, empty, of_columns

Tags = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64] | npt.NDArray[np.intp]
Walked = tuple[Tags, Ids]

#: The number of rounds in which a repeated path reads only the edges of new nodes; then it reads all edges at once.
ROUNDS = 12
#: Edges that are looked at between two looks at the deadline.
_EDGES = 1 << 20
_SMALL = 4096
#: Cells that a pair takes where it is found, and in a table that has room for as many again.
_PAIR, _TABLE_PAIR = 4, 16


class Edges(Protocol):
    """The edges of one graph, or of several merged."""

    def neighbours(self, predicate: int, keys: Ids, inverse: bool) -> tuple[Places | None, Ids, Ids | None]:
        """(for each neighbour the place of its key; None: each key has just one, the neighbour, whatever)."""

    def predicates_of(self, keys: Ids, inverse: bool) -> tuple[Places, Ids]:
        """(place of the key, predicate)."""

    def pairs(self, predicate: int) -> tuple[Ids, Ids, Ids | None]:
        """All (subject, object, whatever) of a predicate."""

    def count(self, predicate: int) -> int:
        """How many edges a predicate has, at most."""

    def predicates(self) -> Ids: ...

    def exists(self) -> bool:
        """Whether there is such a graph: the default graph always is."""

    def may_read_all(self, predicates: Iterable[int] | None) -> bool:
        """Whether all edges of these predicates (None: of all) may be read at once."""


# ---- walking ---------------------------------------------------------------------------------------------------


def walk(path: IdPath, edges: Edges, tags: Tags, nodes: Ids, control: Control) -> Walked:
    """Where the path leads to from each node, with the tag of its start."""
    control.check()
    match path:
        case Link(predicate, inverse):
            places, found, _ = edges.neighbours(predicate, nodes, inverse)
            return (tags if places is None else tags[places]), found
        case AnyLinkBut():
            return _walk_but(path, edges, tags, nodes, control)
        case Sequence(parts):
            for part in parts:
                tags, nodes = walk(part, edges, tags, nodes, control)
            return tags, nodes
        case Alternative(parts):
            return _together([walk(part, edges, tags, nodes, control) for part in parts])
        case Repeated():
            return _walk_repeated(path, edges, tags, nodes, control)


def _walk_but(path: AnyLinkBut, edges: Edges, tags: Tags, nodes: Ids, control: Control) -> Walked:
    places, predicates = edges.predicates_of(nodes, path.inverse)
    found = []
    for predicate, rows in group_rows(predicates):
        if predicate not in path.predicates:
            at = places[rows]
            found.append(walk(Link(predicate, path.inverse), edges, tags[at], nodes[at], control))
    return _together(found)


def _walk_repeated(path: Repeated, edges: Edges, tags: Tags, nodes: Ids, control: Control) -> Walked:
    """Computes the set of pairs once for each distinct node, and joins it with all tags at this node."""
    starts, start_of = np.unique(nodes, return_inverse=True)
    pairs = ReachedPairs(path, starts)
    pairs.grow(edges, control)
    order = np.argsort(pairs.tags, kind="stable")
    lows, highs = pairs.tags[order].searchsorted(start_of), pairs.tags[order].searchsorted(start_of, "right")
    control.room(int((highs - lows).sum()), _PAIR)
    offsets, places = gather_ranges(lows, highs)
    return np.repeat(tags, np.diff(offsets)), pairs.nodes[order[places]]


def _together(parts: list[Walked]) -> Walked:
    if not parts:
        return np.empty(0, np.int64), NO_IDS
    return np.concatenate([tags for tags, _ in parts]), np.concatenate([nodes for _, nodes in parts])


class ReachedPairs:
    """The pairs (tag, node) of a repeated path, each once, where tag i stands for the start `starts[i]`."""

    def __init__(self, path: Repeated, starts: Ids) -> None:
        self.path = path
        self.starts = NO_IDS
        self._table = KeyTable(2)
        self._fresh = np.empty(0, np.int64)  # tags of starts that nothing was done for yet
        self.begin(starts)

    @property
    def count(self) -> int:
        return self._table.used

    @property
    def tags(self) -> Tags:
        return self._table.cells[: self._table.used, 0]

    @property
    def nodes(self) -> Ids:
        return self._table.cells.view(np.uint64)[: self._table.used, 1]

    def pairs(self, which: slice | Mask) -> ZSet:
        """(start, node) of some of the pairs."""
        return of_columns((self.starts[self.tags[which]], self.nodes[which].copy()))

    def begin(self, starts: Ids) -> None:
        """Adds starts; their tags follow the present ones."""
        tags = np.arange(len(self.starts), len(self.starts) + len(starts), dtype=np.int64)
        self.starts = np.concatenate([self.starts, starts])
        self._fresh = np.concatenate([self._fresh, tags])

    def grow(self, edges: Edges, control: Control) -> None:
        """Finds all nodes that the new starts reach."""
        tags, self._fresh = self._fresh, np.empty(0, np.int64)
        if not len(tags):
            return
        nodes = self.starts[tags]
        if self.path.zero:
            self._found(tags, nodes, control)
        before = self._found(*walk(self.path.inner, edges, tags, nodes, control), control)
        if self.path.many and is_one_step(self.path.inner) and self._is_small(edges):
            self._reach(before, edges, control)
        elif self.path.many:
            self._follow(before, edges, control)

    # ---- as edges and starts come and go

    def tags_at(self, sources: Ids) -> Tags:
        """The starts that pass one of these nodes on their way."""
        if not len(sources):
            return np.empty(0, np.int64)
        passing = [np.flatnonzero(np.isin(self.starts, sources))]
        if self.path.many:
            passing.append(self.tags[np.isin(self.nodes, sources)])
        return np.unique(np.concatenate(passing))

    def lead_on(self, sources: Ids, targets: Ids, edges: Edges, control: Control) -> None:
        """Follows new edges from reached nodes to others."""
        if not len(sources):
            return
        order = np.argsort(sources, kind="stable")
        sources, targets = sources[order], targets[order]
        tags, nodes = np.arange(len(self.starts), dtype=np.int64), self.starts
        if self.path.many:
            tags, nodes = np.concatenate([tags, self.tags]), np.concatenate([nodes, self.nodes])
        starts, ends = sources.searchsorted(nodes), sources.searchsorted(nodes, "right")
        control.room(int((ends - starts).sum()), _PAIR)
        offsets, places = gather_ranges(starts, ends)
        before = self._found(np.repeat(tags, np.diff(offsets)), targets[places], control)
        if self.path.many:
            self._follow(before, edges, control)

    def forget(self, tags: Tags) -> ZSet:
        """Removes the pairs of these starts, which begin anew; returns these pairs."""
        if not len(tags):
            return empty(2)
        theirs = np.isin(self.tags, tags)
        left = self.pairs(theirs)
        self._table.keep(~theirs)
        self._fresh = np.concatenate([self._fresh, tags])
        return left

    def drop(self, starts: Ids) -> ZSet:
        """Removes starts; returns their pairs."""
        if not len(starts):
            return empty(2)
        remaining = ~np.isin(self.starts, starts)
        theirs = ~remaining[self.tags]
        left = self.pairs(theirs)
        cells = self._table.cells[: self._table.used][~theirs]
        cells[:, 0] = (np.cumsum(remaining) - 1)[cells[:, 0]]
        self._table.renew(cells)
        self.starts = self.starts[remaining]
        return left

    # ---- rounds

    def _found(self, tags: Tags, nodes: Ids, control: Control) -> int:
        """Adds pairs; returns the place of the first new one."""
        before = self._table.used
        control.room(len(tags), _TABLE_PAIR)
        self._table.number(np.stack([tags.view(np.uint64), nodes]))
        return before

    def _follow(self, at: int, edges: Edges, control: Control) -> None:
        """Expands the pairs from `at` on, as long as there are new ones."""
        plain, rounds = is_one_step(self.path.inner), 0
        while at < self._table.used:
            control.room(self._table.used, _TABLE_PAIR)
            rounds += 1
            if plain and rounds > ROUNDS and edges.may_read_all(predicates_of(self.path.inner)):
                self._reach(at, edges, control)
                return
            cells = self._table.cells[at : self._table.used]
            nodes = np.ascontiguousarray(cells[:, 1]).view(np.uint64)
            tags = np.ascontiguousarray(cells[:, 0])
            at = self._found(*walk(self.path.inner, edges, tags, nodes, control), control)

    def _is_small(self, edges: Edges) -> bool:
        """Whether all edges are so few that to look at them once is less than the first rounds are."""
        predicates = predicates_of(self.path.inner)
        return predicates is not None and sum(map(edges.count, predicates)) <= _SMALL

    def _reach(self, at: int, edges: Edges, control: Control) -> None:
        sources, targets = all_steps(self.path.inner, edges)
        table = self._table
        while at < table.used:
            control.room(table.used, _TABLE_PAIR)
            at = table.reach(sources, targets, at, _EDGES)


def connected(path: Repeated, edges: Edges, start: Ids, target: Ids, control: Control) -> bool | None:
    """Whether one repeated step leads from one node to another: searched from both ends, each time at the smaller
    front. None: not decided in a few rounds."""
    if path.zero and start[0] == target[0]:
        return True
    ways = (path.inner, reversed_path(path.inner))
    seen, front = [start, target], [start, target]
    for _ in range(ROUNDS):
        side = int(len(front[1]) < len(front[0]))
        _, found = walk(ways[side], edges, np.zeros(len(front[side]), np.int64), front[side], control)
        control.room(len(found), 2)
        found = distinct_values(found)
        if np.isin(found, seen[1 - side], assume_unique=True).any():
            return True
        front[side] = found[~np.isin(found, seen[side], assume_unique=True)]
        if not len(front[side]):
            return False
        seen[side] = np.union1d(seen[side], front[side])
    return None


def all_sources(path: IdPath, edges: Edges) -> Ids:
    """All nodes from which some link of the path leads away."""
    return distinct_values(np.concatenate([all_steps(link, edges)[0] for link in links(path)]))


def all_steps(path: IdPath, edges: Edges) -> tuple[Ids, Ids]:
    """All edges of a path that is one step, by ascending source."""
    parts = []
    for link in links(path):
        if isinstance(link, Link):
            predicates = [link.predicate]
        else:
            predicates = [p for p in edges.predicates().tolist() if p not in link.predicates]
        for predicate in predicates:
            subjects, objects, _ = edges.pairs(predicate)
            parts.append((objects, subjects) if link.inverse else (subjects, objects))
    if len(parts) == 1 and not (parts[0][0][1:] < parts[0][0][:-1]).any():
        return frozen(parts[0][0]), frozen(parts[0][1])
    sources = np.concatenate([NO_IDS, *(part[0] for part in parts)])
    order = np.argsort(sources, kind="stable")
    return frozen(sources[order]), frozen(np.concatenate([NO_IDS, *(part[1] for part in parts)])[order])
