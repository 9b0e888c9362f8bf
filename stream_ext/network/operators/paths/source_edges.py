"""Source edges: the edges of our own store and of the source main, for a path that is followed over both.

    :a :p+ ?x      =>  the source is asked for :p of :a, then for :p of what both have led to, and so on

Each round of a walk is one question, or a few. What was answered is remembered while the path is evaluated, for all
graphs: in GRAPH ?g an edge is asked for with its graph. Where the first rounds have not reached the end, all edges of
the predicates are asked for, if they are few; else the walk goes on. Only a path that begins everywhere asks for all,
however many they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hbase_store.arrays import NO_IDS, Ids, distinct_values, sort_distinct
from stream_ext.language.algebra.algebra import Join, Values
from stream_ext.language.algebra.terms import Constant
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.paths.path_edges import SortedEdges
from stream_ext.network.operators.paths.walking import Edges, Places
from stream_ext.network.operators.remote.remote_question import ServiceCall
from stream_ext.network.operators.remote.source_join import WHOLE_ROWS, SourceJoin, time_of_source
from stream_ext.rows.zset import ZSet, of_columns

#: More than any store has: all edges are not asked for because they might be few.
_MANY = 1 << 60

NO_EDGES = SortedEdges(NO_IDS, NO_IDS, NO_IDS)


class FetchedEdges:
    """What the source has answered, in ids of the store. `call` asks for ?s ?p ?o, and for the graph where graphs are
    told apart: then by the name `graph`."""

    def __init__(self, call: ServiceCall, moment: Moment, graph: str | None) -> None:
        self._call, self._moment, self._graph = call, moment, graph
        #: For all rounds together: each of them may be slow.
        self._time_left = None if moment.last else time_of_source(moment)
        self._quads: tuple[Ids, ...] = (NO_IDS,) * 4
        self._of_graph: dict[int, SortedEdges] = {}
        self._known: dict[tuple[int | None, bool], Ids] = {}  # of these nodes all edges of a predicate (None: of all)
        self._whole: set[int | None] = set()  # all edges of these predicates are fetched
        self._too_many: set[int | None] = set()  # these predicates have more than can be fetched at once

    def of(self, graph: int) -> SortedEdges:
        """What is known of one graph; 0, where graphs are not told apart."""
        if graph not in self._of_graph:
            s, p, o, g = self._quads
            there = g == np.uint64(graph)
            self._of_graph[graph] = SortedEdges(s[there], p[there], o[there], self._moment.control)
        return self._of_graph[graph]

    def graphs(self) -> Ids:
        """Those that an edge was found in."""
        return distinct_values(self._quads[3])

    def has(self, predicate: int | None) -> bool:
        """Whether all its edges are known."""
        return predicate in self._whole or None in self._whole

    def fetch_of(self, predicate: int | None, keys: Ids, inverse: bool) -> None:
        """Asks the source for the edges of some nodes."""
        if self.has(predicate):
            return
        known = self._known.get((predicate, inverse), NO_IDS)
        new = distinct_values(keys)
        new = new[~np.isin(new, known)]
        if predicate is not None:
            new = new[~np.isin(new, self._known.get((None, inverse), NO_IDS))]
        if not inverse:
            new = new[self._are_resources(new)]
        if len(new):
            self._known[predicate, inverse] = np.union1d(known, new)
            self._take(self._fetched(self._call, predicate, {"o" if inverse else "s": new}))

    def fetch_all(self, predicate: int | None) -> None:
        if not self.has(predicate):
            self._take(self._fetched(self._call, predicate, {}))
            self._whole.add(predicate)

    def fetches_all(self, predicate: int | None) -> bool:
        """Whether all edges of a predicate are known now, as they were few enough to be asked for at once."""
        if self.has(predicate):
            return True
        if not self._moment.last or predicate in self._too_many:
            return False  # for a registered query few edges would be held
        columns = self._fetched(self._at_most(WHOLE_ROWS + 1, predicate), None, {})
        if len(columns[0]) > WHOLE_ROWS:
            self._too_many.add(predicate)
            return False
        self._take(columns)
        self._whole.add(predicate)
        return True

    def exists(self) -> bool:
        """Whether there is any edge."""
        return bool(len(self._quads[0]) or len(self._fetched(self._at_most(1, None), None, {})[0]))

    def _at_most(self, count: int, predicate: int | None) -> ServiceCall:
        """Asks for so many edges, however many there are."""
        inner = self._call.inner
        assert self._call.group is not None, "it asks a source"
        if predicate is not None:
            vocabulary = self._moment.vocabulary
            (text,) = vocabulary.decode(vocabulary.inward(np.array([predicate], np.uint64)))
            inner = Join(Values(("p",), ((Constant(text),),), self._call.position), inner)
        return replace(self._call, inner=inner, group=replace(self._call.group, enough=count))

    def _fetched(self, call: ServiceCall, predicate: int | None, keys: dict[str, Ids]) -> tuple[Ids, ...]:
        left = dict(keys)
        count = len(next(iter(keys.values()))) if keys else 1
        if predicate is not None:
            left["p"] = np.full(count, predicate, np.uint64)
        vocabulary = self._moment.vocabulary
        columns = tuple(vocabulary.inward(column) for column in left.values())
        join = SourceJoin(tuple(left), call, self._time_left)
        found = join.step(self._moment, of_columns(columns) if columns else ZSet((), 1))
        names = "spo" if self._graph is None else (*"spo", self._graph)
        rows = [vocabulary.outward(found.column(join.variables.index(name))) for name in names]
        return tuple(rows) if self._graph is not None else (*rows, np.zeros(found.count, np.uint64))

    def _take(self, columns: tuple[Ids, ...]) -> None:
        s, p, o, g = (np.concatenate(pair) for pair in zip(self._quads, columns, strict=True))
        self._quads = sort_distinct((s, p, o, g))
        self._of_graph.clear()

    def _are_resources(self, ids: Ids) -> np.typing.NDArray[np.bool_]:
        """A literal is no subject, so nobody is asked for its edges."""
        texts = self._moment.vocabulary.decode(self._moment.vocabulary.inward(ids))
        return np.array([not text.startswith(b'"') for text in texts], np.bool_)


class SourceEdges:
    """`Edges` of one graph, or of several merged (0)."""

    def __init__(self, own: Edges, fetched: FetchedEdges, graph: int) -> None:
        self._own, self._fetched, self._graph = own, fetched, graph

    @property
    def _theirs(self) -> SortedEdges:
        return self._fetched.of(self._graph)

    def neighbours(self, predicate: int, keys: Ids, inverse: bool) -> tuple[Places, Ids, None]:
        self._fetched.fetch_of(predicate, keys, inverse)
        own_places, own, _ = self._own.neighbours(predicate, keys, inverse)
        places, theirs, _ = self._theirs.neighbours(predicate, keys, inverse)
        assert places is not None, "SortedEdges says the place of each key"
        first = np.arange(len(own)) if own_places is None else own_places
        at, found = sort_distinct((np.concatenate([first, places]).astype(np.uint64), np.concatenate([own, theirs])))
        return at.astype(np.int64), found, None

    def predicates_of(self, keys: Ids, inverse: bool) -> tuple[Places, Ids]:
        self._fetched.fetch_of(None, keys, inverse)
        parts = [each.predicates_of(keys, inverse) for each in (self._own, self._theirs)]
        at, found = sort_distinct(
            (np.concatenate([places for places, _ in parts]).astype(np.uint64), np.concatenate([p for _, p in parts]))
        )
        return at.astype(np.int64), found

    def pairs(self, predicate: int) -> tuple[Ids, Ids, None]:
        self._fetched.fetch_all(predicate)
        parts = [each.pairs(predicate) for each in (self._own, self._theirs)]
        s, o = sort_distinct((np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])))
        return s, o, None

    def count(self, predicate: int) -> int:
        return self._own.count(predicate) + (self._theirs.count(predicate) if self._fetched.has(predicate) else _MANY)

    def predicates(self) -> Ids:
        self._fetched.fetch_all(None)
        return np.union1d(self._own.predicates(), self._theirs.predicates())

    def exists(self) -> bool:
        return self._own.exists() or self._fetched.exists()

    def may_read_all(self, predicates: Iterable[int] | None) -> bool:
        return all(map(self._fetched.fetches_all, [None] if predicates is None else predicates))
