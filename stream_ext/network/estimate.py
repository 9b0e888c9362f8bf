"""Estimates: how many rows a part is expected to have, from counts of the store.

They order joins; a wrong one costs time, but never changes an answer. The edges of a predicate, and those of a constant
under it, are counted exactly; for a bound variable the number of edges is guessed from the number of its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from hbase_store import NAMED, Snapshot
from hbase_store.edges.snapshot import DEFAULT
from hbase_store.layout import terms
from stream_ext.language.algebra.terms import Variable
from stream_ext.network.operators.core.pattern import IdPattern, O, P, S
from stream_ext.network.operators.joins.store_edges import StoreEdges
from stream_ext.plan.logic import (
    Alternatives,
    Assign,
    Conjunction,
    GraphNames,
    Logic,
    Names,
    Optional,
    PathSource,
    PatternScan,
    PerGraph,
    Remote,
    Select,
    SourceEvaluated,
    Table,
    Without,
)
from stream_ext.plan.passes.join_order import Rank, ranked

#: What is not counted: rows of a window, of a remote service, of a path from one end.
GUESSED = 1000.0
#: The share of rows that a condition is expected to keep.
_MATCH_SHARE = 0.3


class Estimates:
    def __init__(
        self,
        snapshot: Snapshot,
        pattern_of: Callable[[PatternScan], IdPattern],
        in_window: Callable[[PatternScan], float] = lambda scan: GUESSED,
    ) -> None:
        """`in_window`: how many rows a pattern has in its window."""
        self._snapshot, self._pattern_of, self._in_window = snapshot, pattern_of, in_window
        # Counted once: ordering needs each source again and again.
        self._counts: dict[PatternScan, float] = {}
        self._rows: dict[tuple[Logic, Names], float] = {}
        self._fans: dict[tuple[int, bool, bool], float] = {}

    def rows(self, node: Logic, bound: Names) -> float:
        """The expected rows for one value of each variable in `bound`."""
        if isinstance(node, PatternScan):
            return self._source(node, bound)
        # Ordering the parts around a node needs its estimate, and those inside of it, again and again.
        key = node, node.variables & bound
        if key not in self._rows:
            self._rows[key] = self._estimated(node, key[1])
        return self._rows[key]

    def _estimated(self, node: Logic, bound: Names) -> float:
        match node:
            case PathSource():
                return self._path(node, bound)
            case GraphNames():
                return 1.0 if node.variables <= bound else GUESSED
            case Table(_, rows):
                return float(len(rows)) if not node.variables & bound else 0.5
            case Conjunction(items, tests):
                return self._conjunction(items, bound) * math.pow(_MATCH_SHARE, min(len(tests), 3))
            case Optional(left, _) | Without(left, _):
                return self.rows(left, bound)
            case Alternatives(parts):
                return sum(self.rows(part, bound) for part in parts)
            case Assign(inner) | PerGraph(_, _, inner):
                return self.rows(inner, bound)
            case Select():
                return self._select(node, bound)
            case PatternScan():
                return self._source(node, bound)
            case SourceEvaluated():
                return GUESSED
            case Remote():
                return GUESSED if node.group is None else 1.0 if node.variables & bound else node.group.guess

    def peak(self, node: Logic, bound: Names) -> float:
        """The greatest expected number of rows at any stage."""
        if not isinstance(node, Conjunction):
            return self.rows(node, bound)
        rows, most = 1.0, 1.0
        for factor in self._factors(node.items, bound):
            rows *= factor
            most = max(most, rows)
        return most

    def _conjunction(self, items: tuple[Logic, ...], bound: Names) -> float:
        return math.prod(self._factors(items, bound))

    def _factors(self, items: tuple[Logic, ...], bound: Names) -> Iterator[float]:
        """By how much each part multiplies the rows, in the order in which they are joined."""

        def rank(item: Logic, bound: Names) -> Rank:
            return not item.variables & bound, self.rows(item, bound)

        for item, before in ranked(items, bound, rank):
            yield self.rows(item, before)

    def _select(self, node: Select, bound: Names) -> float:
        rows = self.rows(node.inner, bound & node.variables)
        if node.grouping is not None:
            rows = math.pow(rows, 0.75) if node.grouping.keys else 1.0
        return rows if node.limit is None else min(rows, float(node.limit))

    def _path(self, node: PathSource, bound: Names) -> float:
        ends = (node.subject, node.object)
        fixed = sum(not isinstance(end, Variable) or end.name in bound for end in ends)
        return (GUESSED**2, 30.0, 0.7)[fixed]

    # ---- triple patterns ----------------------------------------------------------------------------------------

    def _source(self, node: PatternScan, bound: Names) -> float:
        if node.window is not None:
            return math.pow(self._in_window(node), 0.5 if node.variables & bound else 1)
        pattern = self._pattern_of(node)
        if node not in self._counts:
            self._counts[node] = self.count(pattern)
        rows = self._counts[node]
        bound_ends = [position for position in (S, O) if pattern.binding.get(position) in bound]
        if P not in pattern.fixed:
            return math.pow(rows, 1 / (1 + len(bound_ends)))
        for position in bound_ends:
            other = O if position == S else S
            if other in pattern.fixed or len(bound_ends) == 2:
                # Both ends are given: it is there or not. So many vertices there are, and so many of them fit.
                total = self._total(pattern)
                vertices = total / max(1.0, self._fan(pattern, position == O, total))
                return min(1.0, (rows if other in pattern.fixed else 1.0) / max(1.0, vertices))
            rows = self._fan(pattern, position == O, rows)
        return rows

    def count(self, pattern: IdPattern) -> float:
        """Of the matches in the store. Exact, whatever is fixed of a pattern whose predicate is."""
        if P not in pattern.fixed:
            total = float(self._snapshot.count_all(self._graph(pattern)))
            if pattern.graph.held and self._snapshot.has_held:
                total += self._held_total(pattern)
            return math.pow(total, 0.25) if S in pattern.fixed or O in pattern.fixed else total
        for position, inverse in ((S, False), (O, True)):
            if position in pattern.fixed:
                graph, key_id = self._graph(pattern), pattern.fixed[position]
                if graph == DEFAULT:
                    stored = self._stored(pattern)
                    return float(sum(len(self._snapshot.values(p, key_id, inverse)) for p in stored))
                key = np.array([key_id], np.uint64)
                offsets = [self._snapshot.neighbours(p, key, inverse, graph)[0] for p in self._stored(pattern)]
                return float(sum(int(each[-1]) for each in offsets))
        return self._total(pattern)

    def _total(self, pattern: IdPattern) -> float:
        return float(sum(self._snapshot.count(p, self._graph(pattern)) for p in self._stored(pattern)))

    def _stored(self, pattern: IdPattern) -> tuple[int, ...]:
        return StoreEdges(self._snapshot, pattern.graph).stored(pattern.fixed[P])

    def _held_total(self, pattern: IdPattern) -> float:
        graph = self._graph(pattern)
        predicates = self._snapshot.predicates(graph, held=True).tolist()
        return float(sum(self._snapshot.count(terms.held(p), graph) for p in predicates))

    def _graph(self, pattern: IdPattern) -> int:
        return NAMED if pattern.graph.one is None else pattern.graph.one

    def _fan(self, pattern: IdPattern, inverse: bool, rows: float) -> float:
        """How many edges of the predicate a vertex has, one way."""
        predicate, named = self._stored(pattern)[-1], pattern.graph.one != 0
        key = (predicate, inverse, named)
        if key not in self._fans:
            self._fans[key] = self._snapshot.fan(predicate, inverse, named) if rows >= 1 else 0.5
        return self._fans[key]
