"""Path join: solutions extended by a path, over the store or over a window.

The path is a relation of pairs (start, end). Only the pairs are computed whose start is in a solution on the left; then
the solutions are joined with the pairs. If both ends are open, every node is a start."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from hbase_store.arrays import NO_IDS, Ids, distinct_values
from stream_ext.language.algebra.terms import Constant
from stream_ext.network.operators.answers.distinct import Distinct
from stream_ext.network.operators.core.moment import Moment, StoreChanges
from stream_ext.network.operators.core.pattern import IdGraph
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.store_edges import StoreEdges
from stream_ext.network.operators.joins.store_join import without_tag
from stream_ext.network.operators.paths.id_path import IdPath, may_be_empty, predicates_of, reversed_path
from stream_ext.network.operators.paths.path_edges import WindowEdges, all_nodes, are_nodes
from stream_ext.network.operators.paths.path_pairs import NO_CHANGE, EdgeChange, PathPairs
from stream_ext.network.operators.paths.source_edges import NO_EDGES, FetchedEdges, SourceEdges
from stream_ext.network.operators.paths.walking import Edges, all_sources
from stream_ext.network.operators.remote.remote_question import ServiceCall
from stream_ext.network.operators.remote.service import backoff_of
from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.rows.zset import ZSet, concat, consolidate, empty, sum_equal_rows

_STORE_GRAPH = IdGraph()
#: Where a walk begins that is to find out which graphs the source has edges in.
NO_GRAPH = 0


End = str | Constant


class PathJoin:
    """An end is a variable or a constant. `step` takes a window's edges (s, p, o, and g where graphs are told
    apart) where it is over one."""

    def __init__(
        self,
        left: tuple[str, ...],
        subject: End,
        path: IdPath,
        object: End,
        graph: IdGraph = _STORE_GRAPH,
        maybe: Names = NO_NAMES,
        source: ServiceCall | None = None,
        by_keys: bool = False,
    ) -> None:
        """`maybe`: variables that a solution on the left may leave unbound. `source`: asks the source main for ?s ?p
        ?o, and the graph where graphs are told apart, as its edges are some of the path, too. `by_keys`: the walk
        begins at values of the left side, also if the other end is a constant."""
        self.source = source
        certain = frozenset(left) - maybe
        turned = _eagerness(object, certain, by_keys) > _eagerness(subject, certain, by_keys)
        ends = (object, subject) if turned else (subject, object)
        self._make = partial(Search, left, ends, reversed_path(path) if turned else path, graph, certain, source)
        # From a constant a path of no step leads to itself in each graph that there is.
        needs_graphs = graph.each is not None and may_be_empty(path) and isinstance(ends[1], Constant)
        #: Whether it begins at values of the left side, and asks for nothing but what belongs to them.
        self.has_keys = isinstance(ends[0], str) and ends[0] in certain and not needs_graphs
        self._search: Search | None = None
        self._join = JoinOperator(left, self._make().added, maybe)
        self.variables = self._join.variables

    def step(self, moment: Moment, left: ZSet, window: ZSet | None = None) -> ZSet:
        search = self._search
        if search is None:
            search = self._make()
            if not moment.last:  # what is asked once leaves nothing behind
                self._search = search
        return self._join.step(moment, left, search.step(moment, left, window))

    @property
    def starts_known(self) -> int:
        return 0 if self._search is None else self._search.starts_known


class Search:
    """The pairs of the path that the left side needs, under the names of its ends."""

    def __init__(
        self,
        left: tuple[str, ...],
        ends: tuple[End, End],
        path: IdPath,
        graph: IdGraph,
        certain: Names,
        source: ServiceCall | None = None,
    ) -> None:
        self._start, self._end = ends
        self._path = path
        self._graph, self._source = graph, source
        self.added = tuple(dict.fromkeys(name for name in (*ends, graph.each) if isinstance(name, str)))
        # Nothing is to be compared or left out of a pair then.
        self._names_all = self.added == ends
        self._starts = PathStarts(left, self._start, certain)
        self._pairs: dict[int, PathPairs] = {}  # by graph, where they are told apart
        self._windows: dict[int, WindowEdges] = {}  # by graph, where they are told apart
        self._last_request: tuple[int, bytes] | None = None  # to a source: its turn, and the starts
        self._found = empty(len(self.added))  # then

    def step(self, moment: Moment, left: ZSet, window: ZSet | None) -> ZSet:
        """How the pairs changed."""
        starts = self._starts.step(moment, left)
        end = None
        if isinstance(self._end, Constant):
            end = moment.vocabulary.encode([self._end.text])
        if window is None and self._source is not None and not moment.last:
            return self._over_source_again(moment, starts, end)
        if window is None:
            return self._over_store(moment, starts, end)
        return self._over_window(moment, window, starts, end)

    @property
    def starts_known(self) -> int:
        return sum(len(pairs.starts) for pairs in self._pairs.values())

    # ---- over windows

    def _over_window(self, moment: Moment, window: ZSet, starts: Ids | None, end: Ids | None) -> ZSet:
        parts = []
        for graph, change in self._by_graph(window):
            edges = self._windows.setdefault(graph, WindowEdges())
            changed = edges.step(moment, change)
            pairs = self._pairs_of(graph, edges.edges, changed, starts, moment, bool(graph or self._graph.one))
            parts.append(self._rows(pairs, graph, end))
        return concat(parts, len(self.added))

    def _by_graph(self, window: ZSet) -> Iterator[tuple[int, ZSet]]:
        """The changes by graph; also for graphs without changes, because their triples may run out."""
        if self._graph.each is None:
            yield 0, window
            return
        *triple, graphs = window.columns
        triples = window.with_columns(tuple(triple))
        for graph in sorted({*np.unique(graphs).tolist(), *self._windows}):
            yield graph, triples.take(graphs == np.uint64(graph))

    # ---- over the store

    def _over_store(self, moment: Moment, starts: Ids | None, end: Ids | None) -> ZSet:
        outward, inward = moment.vocabulary.outward, moment.vocabulary.inward
        starts = None if starts is None else distinct_values(outward(starts))
        end = None if end is None else outward(end)
        graphs = self._with_source(moment, starts) if self._source is not None else self._without_source(moment)
        parts = []
        for graph, edges, change in graphs:
            named = bool(self._graph.one if graph is None else graph)
            pairs = self._pairs_of(graph or 0, edges, change, starts, moment, named, end)
            parts.append(self._rows(pairs, graph or 0, end))
        found = concat(parts, len(self.added))
        return found.with_columns(tuple(inward(column) for column in found.columns))

    def _without_source(self, moment: Moment) -> Iterator[tuple[int | None, Edges, EdgeChange]]:
        for graph in self._graphs(moment):
            own = self._own_edges(moment, graph)
            yield graph, own, NO_CHANGE if moment.changes is None else self._change(moment.changes, own)

    def _own_edges(self, moment: Moment, graph: int | None) -> StoreEdges:
        scope = self._graph if graph is None else IdGraph(graph, held=self._graph.held)
        return StoreEdges(moment.snapshot, scope, moment.control)

    # ---- over the store and a source

    def _with_source(self, moment: Moment, starts: Ids | None) -> Iterator[tuple[int | None, Edges, EdgeChange]]:
        """Graphs of the source are found by their edges: those of the starts, or all."""
        assert self._source is not None
        fetched = FetchedEdges(self._source, moment, self._graph.each)
        if self._graph.each is None:
            yield None, SourceEdges(self._own_edges(moment, None), fetched, 0), NO_CHANGE
            return
        if starts is None or (isinstance(self._start, Constant) and may_be_empty(self._path)):
            is_any = may_be_empty(self._path) or predicates_of(self._path) is None
            for predicate in [None] if is_any else predicates_of(self._path) or ():
                fetched.fetch_all(predicate)
        else:
            yield NO_GRAPH, SourceEdges(NO_EDGES, fetched, NO_GRAPH), NO_CHANGE
        done = {NO_GRAPH}
        own = StoreEdges(moment.snapshot, self._graph).graphs().tolist()
        while left := sorted({*own, *fetched.graphs().tolist()} - done):
            done.update(left)
            for graph in left:
                yield graph, SourceEdges(self._own_edges(moment, graph), fetched, graph), NO_CHANGE

    def _over_source_again(self, moment: Moment, starts: Ids | None, end: Ids | None) -> ZSet:
        """For a registered query the path is walked anew, with the answers that are remembered; what comes out is the
        difference."""
        backoff = backoff_of(moment)
        if moment.requests_again:
            backoff.of_main.look(backoff)
        request = backoff.of_main.turn, b"" if starts is None else starts.tobytes()
        own = self._own_edges(moment, None)
        if request == self._last_request and moment.changes is not None and not len(self._change(moment.changes, own)):
            return empty(len(self.added))
        self._pairs = {}
        found, before = self._over_store(moment, starts, end), self._found
        self._last_request, self._found, self._pairs = request, found, {}
        return consolidate(concat([found, before.negated()], len(self.added)))

    def _graphs(self, moment: Moment) -> list[int | None]:
        """Each graph that exists or existed; None: one scope, in which graphs are not distinguished."""
        if self._graph.each is None:
            return [None]
        return sorted({*StoreEdges(moment.snapshot, self._graph).graphs().tolist(), *self._pairs})

    def _change(self, changes_of_store: StoreChanges, edges: StoreEdges) -> EdgeChange:
        every_node = self._starts.everything and may_be_empty(self._path)
        wanted = None if every_node else predicates_of(self._path)
        changes = [c for c in changes_of_store.of(wanted, self._graph.held) if len(c.s)]
        if not changes:
            return NO_CHANGE
        columns = tuple(
            np.concatenate([column[i] for column in ((c.s, without_tag(c.p), c.o, c.g) for c in changes)])
            for i in range(4)
        )
        # An edge that came and went between two steps is none that leads anywhere.
        (s, p, o, g), sign = sum_equal_rows(columns, np.concatenate([c.sign for c in changes]).astype(np.int64))
        there = edges.in_scope(g)
        return EdgeChange(s[there], p[there], o[there], sign[there])

    # ---- the pairs

    def _pairs_of(
        self,
        graph: int,
        edges: Edges,
        change: EdgeChange,
        starts: Ids | None,
        moment: Moment,
        named: bool = False,
        end: Ids | None = None,
    ) -> ZSet:
        """How the pairs of nodes that the path connects in one graph have changed, when its edges changed. `starts`:
        only pairs that begin there."""
        pairs = self._pairs.get(graph)
        if pairs is None:
            pairs = self._pairs[graph] = PathPairs(self._path)
        zero = may_be_empty(self._path)
        allowed: Ids | None = None
        if named and zero and isinstance(self._start, Constant) and not edges.exists():
            # A named graph without edges is none: not even a path of length zero is in it.
            starts = allowed = NO_IDS
        elif starts is None:
            starts = pairs.starts
            if moment.changes is None or len(change):
                starts = all_nodes(edges) if zero else all_sources(self._path, edges)
            allowed = starts
        elif zero and isinstance(self._start, str):
            # The value of a variable is a node, or it is in no solution of the path; a constant need not be one.
            allowed = np.union1d(pairs.starts, starts)
            is_end = np.zeros(len(allowed), np.bool_) if end is None else allowed == end[0]
            if is_end.any() and named and not edges.exists():
                is_end[:] = False
            allowed = allowed[is_end | are_nodes(edges, allowed, moment.control)]
            starts = starts[np.isin(starts, allowed)]
        if moment.last and end is not None and not len(pairs.starts):
            return pairs.between(edges, starts, end, moment.control)
        return pairs.step(edges, change, starts, moment.control, allowed)

    def _rows(self, pairs: ZSet, graph: int, end: Ids | None) -> ZSet:
        """Pairs under the names of the ends; of ends that are the same, or given, those that fit."""
        if self._names_all and end is None:
            return pairs
        fits = np.ones(pairs.count, np.bool_)
        named: dict[str, Ids] = {}
        columns = (*pairs.columns, np.full(pairs.count, graph, np.uint64))
        for name, column in zip((self._start, self._end, self._graph.each), columns, strict=True):
            if isinstance(name, str):
                fits &= column == named.setdefault(name, column)
        if end is not None:
            fits &= pairs.columns[1] == end[0]
        return pairs.with_columns(tuple(named[name] for name in self.added)).take(fits)


class PathStarts:
    """The nodes from which a path starts: the values of the left solutions, as long as one of them has the value."""

    def __init__(self, left: tuple[str, ...], start: End, certain: Names) -> None:
        self._start = start
        self.everything = isinstance(start, str) and start not in certain
        self._place = left.index(start) if isinstance(start, str) and not self.everything else None
        self._distinct: Distinct | None = None
        self._rows = empty(1)

    def step(self, moment: Moment, left: ZSet) -> Ids | None:
        """From which nodes paths are followed, after a change of the left side; None: from all nodes."""
        if moment.last and not left.count:
            return NO_IDS
        if self.everything:
            return None
        if isinstance(self._start, Constant):
            return moment.vocabulary.encode([self._start.text])
        assert self._place is not None  # it is a variable of the left side
        starts = ZSet((left.column(self._place),), left.count, left.weights, left.untils)
        if self._distinct is None:
            if moment.last and starts.weights is None and starts.untils is None:
                return distinct_values(starts.column(0))
            self._distinct = Distinct(("start",))
        change = self._distinct.step(moment, starts)
        rows = concat([self._rows, change], 1)
        if rows.untils is not None:
            rows = rows.take(rows.untils >= moment.time)
        self._rows = consolidate(rows)
        return distinct_values(self._rows.columns[0])


def _eagerness(end: End, certain: Names, by_keys: bool) -> int:
    """A constant is one start, a variable of the left side some, any other one every node."""
    return (1 if by_keys else 3) if isinstance(end, Constant) else 2 * (end in certain)
