"""Store join: solutions extended by a triple pattern over the store.

The store's sorted arrays are the index of its side, so nothing of it is copied: new solutions l are looked up in the
store S + d as it is now, and the stored rows L of the left side are joined with the store's own change d:
(L + l)(S + d) - LS = l (S + d) + L d."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hbase_store.layout.terms import DATA_MASK, is_held
from stream_ext.network.operators.core.moment import Moment, QuadChange
from stream_ext.network.operators.core.pairing import Pairing
from stream_ext.network.operators.core.pattern import G, IdPattern, Ids, O, P, S
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.joins.counting import Counting
from stream_ext.network.operators.joins.store_edges import Picks, StoreEdges, edges_around
from stream_ext.plan.logic import NO_NAMES, Names
from stream_ext.rows.row_index import RowIndex
from stream_ext.rows.zset import ZSet, concat, empty


class StoreJoin(Shareable):
    """`maybe` names the variables that a left solution may leave unbound; the pattern binds them then.

    `unread` names those of the pattern that are not read: their values are counted, not listed."""

    is_monotone = True

    def __init__(
        self, left: tuple[str, ...], pattern: IdPattern, maybe: Names = NO_NAMES, unread: Names = NO_NAMES
    ) -> None:
        self.pattern, self._left = pattern, left
        self._maybe = [v for v in left if v in maybe and v in pattern.variables]
        self._look_ups: dict[tuple[str, ...], _LookUp] = {}
        self._counting = Counting(left, pattern) if unread else None
        self._read = [i for i, v in enumerate(pattern.variables) if v not in unread]
        self._pairing = Pairing(left, tuple(pattern.variables[i] for i in self._read), frozenset(self._maybe))
        self.variables = self._pairing.variables
        self._memory = RowIndex(len(left), self._pairing.left_key)

    @property
    def likeness(self) -> Likeness:
        maybe, read = tuple(map(self._left.index, self._maybe)), tuple(self._read)
        return StoreJoin, self.pattern.likeness(self._left), maybe, read, self._counting is None

    def shorten(self, by: int) -> None:
        self._memory.shorten(by)

    def with_pattern(self, pattern: IdPattern) -> StoreJoin:
        """The same join with other constants in its pattern, for a network that is stepped once."""
        other = StoreJoin.__new__(StoreJoin)
        other.__dict__.update(self.__dict__)
        other.pattern, other._look_ups = pattern, {}
        other._counting = other._counting and Counting(self._left, pattern)
        return other

    @property
    def is_only_its_pattern(self) -> bool:
        """Whether it has nothing to join with, and lists all variables."""
        return not self._left and not self._counting and self.variables == self.pattern.variables

    def without_pattern(self) -> list[object]:
        """All that it refers to, but for its pattern and what is made of it."""
        return [value for name, value in vars(self).items() if name not in ("pattern", "_counting")]

    @property
    def is_scan(self) -> bool:
        """Whether it lists edges of the default graph by their subjects, for a left side without columns."""
        return not self._left and self.pattern.graph.one == 0 and not {S, O} & self.pattern.fixed.keys()

    @property
    def has_maybe(self) -> bool:
        """Whether some of its left rows may leave variables of the pattern unbound."""
        return bool(self._maybe)

    def between(self, moment: Moment, predicate: int, first: int, last: int) -> ZSet:
        """The part of a scan under one predicate whose subjects are from `first` to `last`."""
        s, o = moment.snapshot.between(predicate, first, last)
        moment.control.room(len(s), 2)
        fits, columns = self.pattern.match((s, np.full(len(s), predicate, np.uint64), o))
        found, inward = columns(fits), moment.vocabulary.inward
        return ZSet(tuple(inward(found[i]) for i in self._read), int(np.count_nonzero(fits)))

    def step(self, moment: Moment, left: ZSet) -> ZSet:
        if moment.last:
            return self._look_up(left, moment)
        parts = [self._look_up(left, moment)]
        if moment.changes is not None:
            change = change_of(self.pattern, moment)
            if change.count:
                parts.append(self._met(change, moment))
        self._memory.insert(left, moment.time)
        return concat(parts, len(self.variables))

    def _met(self, change: ZSet, moment: Moment) -> ZSet:
        """The change of the store, joined with the stored rows of the left side."""
        change = change.with_columns(tuple(change.stored[i] for i in self._read))
        i, slot = self._memory.probe(self._pairing.right_keys(change), len(change), moment.time, moment.control)
        moment.control.room(len(i), len(self.variables))
        return self._pairing.joined(self._memory.at(slot), change.take(i))

    def pieces(self, moment: Moment, left: ZSet) -> Iterator[ZSet]:
        """The result of `step` for a one-shot query, in pieces; for a variable predicate, predicate by predicate."""
        if P in self.pattern.fixed or self._maybe or self._counting is not None:
            yield self.step(moment, left)
        else:
            yield from self._by(()).parts(left, moment)

    def _look_up(self, left: ZSet, moment: Moment) -> ZSet:
        if not left.count:
            return empty(len(self.variables))
        if self._counting is not None or not self._maybe:
            return (self._counting or self._by(())).find(left, moment)
        unbound = [left.column(self._left.index(v)) == 0 for v in self._maybe]
        kinds = sum((mask.astype(np.int64) << n for n, mask in enumerate(unbound)), np.zeros(left.count, np.int64))
        found = []
        for kind in np.unique(kinds).tolist():
            free = tuple(v for n, v in enumerate(self._maybe) if kind >> n & 1)
            found.append(self._by(free).find(left.take(kinds == kind), moment))
        return concat(found, len(self.variables))

    def _by(self, free: tuple[str, ...]) -> _LookUp:
        if free not in self._look_ups:
            self._look_ups[free] = _LookUp(self._left, self.pattern, frozenset(free), self._pairing.variables)
        return self._look_ups[free]


def change_of(pattern: IdPattern, moment: Moment) -> ZSet:
    """How the pattern's own matches in the store have changed."""
    assert moment.changes is not None
    width = len(pattern.variables)
    predicate = pattern.fixed.get(P)
    changes = moment.changes.of(None if predicate is None else (predicate,), pattern.graph.held)
    if not changes:
        return empty(width)
    edges = StoreEdges(moment.snapshot, pattern.graph, moment.control)
    before = StoreEdges(moment.changes.before(), pattern.graph)
    if pattern.graph.merged or not _are_of_one_kind(predicate, edges, before):
        return _merged_change(pattern, changes, moment, edges, before)
    parts = []
    for change in changes:
        fits, columns = pattern.match((change.s, without_tag(change.p), change.o, change.g))
        fits &= edges.in_scope(change.g)
        parts.append(ZSet(_inward(columns(fits), moment), int(fits.sum()), change.sign[fits].astype(np.int64)))
    return concat(parts, width)


def _are_of_one_kind(predicate: int | None, edges: StoreEdges, before: StoreEdges) -> bool:
    """Whether the edges of the predicate are all our own, or all held, before and after: then no edge is in both."""
    if not edges.has_held and not before.has_held:
        return True
    if predicate is None:
        return False
    return len({*edges.stored(predicate), *before.stored(predicate)}) == 1


def without_tag(predicates: Ids) -> Ids:
    """The predicates of changes; held edges have those of the edges that they copy."""
    held = is_held(predicates)
    return np.where(held, predicates & np.uint64(DATA_MASK), predicates) if held.any() else predicates


def _merged_change(
    pattern: IdPattern, changes: Sequence[QuadChange], moment: Moment, edges: StoreEdges, before: StoreEdges
) -> ZSet:
    """The change of merged graphs, or of our own edges with held ones. A triple is there as long as one of them has it,
    so touched triples are read again."""
    is_named = pattern.graph.each is not None
    columns_of = [(c.s, without_tag(c.p), c.o, *((c.g,) if is_named else ())) for c in changes]
    touched = [np.stack(columns, axis=1)[edges.in_scope(c.g)] for columns, c in zip(columns_of, changes, strict=True)]
    rows = np.unique(np.concatenate(touched), axis=0)
    parts = []
    for p in np.unique(rows[:, 1]).tolist():
        of_predicate = rows[rows[:, 1] == p]
        s, o, *graphs = (np.ascontiguousarray(of_predicate[:, i]) for i in (0, 2, 3)[: 2 + is_named])
        g = graphs[0] if graphs else None
        sign = edges.contains(s, p, o, g).astype(np.int64) - before.contains(s, p, o, g)
        fits, columns = pattern.match((s, np.full(len(s), p, np.uint64), o, *graphs))
        fits &= sign != 0
        parts.append(ZSet(_inward(columns(fits), moment), int(fits.sum()), sign[fits]))
    return concat(parts, len(pattern.variables))


def _inward(columns: tuple[Ids, ...], moment: Moment) -> tuple[Ids, ...]:
    return tuple(moment.vocabulary.inward(column) for column in columns)


#: s, p, o and the graphs of what was found; the predicate may be one for all, graphs may not matter.
_Quad = tuple[Ids, Ids | int, Ids, Ids | None]
#: The left rows (None: each once), and for each s, o, and the graph.
_Edges = tuple[Picks | None, Ids, Ids, Ids | None]


@dataclass(frozen=True, slots=True)
class _Hop:
    predicate: int
    inverse: bool
    at: int | None  # the column of the known end; None: it is `key`
    key: np.uint64


class _LookUp:
    """New solutions against the store, where it is known which of their variables are bound."""

    def __init__(self, left: tuple[str, ...], pattern: IdPattern, free: Names, variables: tuple[str, ...]) -> None:
        self._pattern = pattern
        self._at = {v: i for i, v in enumerate(left) if v in pattern.variables and v not in free}
        self._width = len(variables)
        # Where what is found goes: variables that the left side has without a value, and new ones behind.
        first = {name: position for position, name in reversed(pattern.binding.items())}
        self._put = [(variables.index(name), position) for name, position in first.items() if name not in self._at]
        self._same = [(first[name], position) for position, name in pattern.binding.items() if first[name] != position]
        self._hop = None if free or self._same else self._plain_hop()

    def find(self, left: ZSet, moment: Moment) -> ZSet:
        if self._hop is not None:
            return self._hopped(left, self._hop, moment)
        return concat(list(self.parts(left, moment)), self._width)

    # ---- from one end of a predicate to the other ---------------------------------------------------------------

    def _plain_hop(self) -> _Hop | None:
        """If that is all: the default graph, one end known, and the other new."""
        pattern = self._pattern
        inverse = not self._is_bound(S)
        if P not in pattern.fixed or pattern.graph.one != 0 or self._is_bound(O) != inverse:
            return None
        near = O if inverse else S
        at = None if near in pattern.fixed else self._at[pattern.binding[near]]
        return _Hop(pattern.fixed[P], inverse, at, np.uint64(pattern.fixed.get(near, 0)))

    def _hopped(self, left: ZSet, hop: _Hop, moment: Moment) -> ZSet:
        """The most frequent case, mostly for a few rows: so it does only what it must."""
        vocabulary = moment.vocabulary
        if hop.at is not None:
            keys = vocabulary.outward(left.column(hop.at))
            edges = StoreEdges(moment.snapshot, self._pattern.graph, moment.control)
            i, found, _ = edges.neighbours(hop.predicate, keys, hop.inverse)
            rows = left if i is None else left.take(i)
        else:
            found = self._values(hop, moment)
            moment.control.room(left.count * len(found), self._width)
            rows = left.crossed(len(found))
            found = found if left.count == 1 else np.tile(found, left.count)
        return rows.with_columns((*rows.stored, vocabulary.inward(found)))

    def _values(self, hop: _Hop, moment: Moment) -> Ids:
        stored = StoreEdges(moment.snapshot, self._pattern.graph).stored(hop.predicate)
        found = [moment.snapshot.values(predicate, hop.key, hop.inverse) for predicate in stored]
        return found[0] if len(found) == 1 else np.union1d(*found)

    def parts(self, left: ZSet, moment: Moment) -> Iterator[ZSet]:
        edges = StoreEdges(moment.snapshot, self._pattern.graph, moment.control)
        around = self._around_one(left, edges, moment)
        if around is not None:
            yield self._with_quad(left, np.zeros(len(around[0]), np.int64), (*around, None), moment)
            return
        for predicate, picked in self._predicates(left, edges, moment):
            moment.control.check()
            yield self._under(left if picked is None else left.take(picked), predicate, edges, moment)

    def _around_one(self, left: ZSet, edges: StoreEdges, moment: Moment) -> tuple[Ids, Ids, Ids] | None:
        """All edges (s, p, o) of one vertex in the default graph: a few look-ups, without arrays of one element."""
        if left.count != 1 or edges.graph.one != 0 or edges.has_held or P in self._pattern.fixed or self._is_bound(P):
            return None
        if self._is_bound(S) == self._is_bound(O):
            return None
        inverse = self._is_bound(O)
        key = self._bound(O if inverse else S, left, moment)
        p, far = edges_around(edges.snapshot, key, inverse)
        near = np.repeat(key, len(far))
        return (far, p, near) if inverse else (near, p, far)

    # ---- which predicates ---------------------------------------------------------------------------------------

    def _predicates(self, left: ZSet, edges: StoreEdges, moment: Moment) -> Iterator[tuple[int, Picks | None]]:
        """Each predicate to look under, with the left rows that it concerns (None: all)."""
        fixed = self._pattern.fixed.get(P)
        if fixed is not None:
            yield fixed, None
            return
        name = self._pattern.binding[P]
        if name in self._at:
            yield from _grouped(self._bound(P, left, moment), None)
            return
        for position, inverse in ((S, False), (O, True)):
            if self._is_bound(position):
                keys = self._bound(position, left, moment)
                yield from _grouped(*edges.predicates_of(keys, inverse)[::-1])
                return
        for predicate in edges.predicates().tolist():
            yield predicate, None

    def _is_bound(self, position: int) -> bool:
        return position in self._pattern.fixed or self._pattern.binding[position] in self._at

    def _bound(self, position: int, left: ZSet, moment: Moment) -> Ids:
        fixed = self._pattern.fixed.get(position)
        if fixed is not None:
            return np.full(left.count, fixed, np.uint64)
        return moment.vocabulary.outward(left.column(self._at[self._pattern.binding[position]]))

    # ---- one predicate ------------------------------------------------------------------------------------------

    def _under(self, left: ZSet, predicate: int, edges: StoreEdges, moment: Moment) -> ZSet:
        i, s, o, g = self._edges(left, predicate, edges, moment)
        return self._with_quad(left, i, (s, predicate, o, g), moment)

    def _with_quad(self, left: ZSet, i: Picks | None, quad: _Quad, moment: Moment) -> ZSet:
        """The left rows `i` with the quads that were found for each; i None: each left row once."""
        count, g = len(quad[0]), quad[G]
        same = [_column(quad, first, count) == _column(quad, again, count) for first, again in self._same]
        if g is not None and self._pattern.binding[G] in self._at:
            graph = self._bound(G, left, moment)
            same.append(g == (graph if i is None else graph[i]))
        keep = np.logical_and.reduce(same) if same else None
        if keep is not None:
            i = np.flatnonzero(keep) if i is None else i[keep]
        moment.control.room(count, self._width)
        rows = left if i is None else left.take(i)
        columns = [*rows.stored, *([None] * (self._width - left.width))]
        for place, position in self._put:
            column = _column(quad, position, count)
            columns[place] = moment.vocabulary.inward(column if keep is None else column[keep])
        return rows.with_columns(tuple(columns))  # type: ignore[arg-type]  # every new column is put

    def _edges(self, left: ZSet, predicate: int, edges: StoreEdges, moment: Moment) -> _Edges:
        """For each left row the edges that its bound subject or object leaves: (row, s, o, g)."""
        subject = self._bound(S, left, moment) if self._is_bound(S) else None
        target = self._bound(O, left, moment) if self._is_bound(O) else None
        if subject is not None and target is not None:
            return _both_bound(subject, target, predicate, edges)
        if subject is not None:
            i, values, graphs = edges.neighbours(predicate, subject, False)
            return i, subject if i is None else subject[i], values, graphs
        if target is not None:
            i, values, graphs = edges.neighbours(predicate, target, True)
            return i, values, target if i is None else target[i], graphs
        if G in self._pattern.binding and self._pattern.binding[G] in self._at:
            return _by_graph(self._bound(G, left, moment), predicate, edges, moment)
        return _all_pairs(left.count, predicate, edges, moment)


def _by_graph(graphs: Ids, predicate: int, edges: StoreEdges, moment: Moment) -> _Edges:
    """Every left row with the edges of its own graph."""
    s, o, g = edges.pairs(predicate)
    assert g is not None
    index = RowIndex(1, (0,), len(graphs))
    index.insert(ZSet((graphs,), len(graphs)), 0)
    j, i = index.probe((g,), len(g), 0, moment.control)
    moment.control.room(len(i), 3)
    return i, s[j], o[j], g[j]


def _both_bound(s: Ids, o: Ids, predicate: int, edges: StoreEdges) -> _Edges:
    if edges.graph.each is None:
        there = edges.contains(s, predicate, o)
        if there.all():
            return None, s, o, None
        i: Picks | None = np.flatnonzero(there)
        return i, s[there], o[there], None
    i, values, graphs = edges.neighbours(predicate, s, False)
    assert i is not None and graphs is not None
    same = values == o[i]
    i = i[same]
    return i, s[i], values[same], graphs[same]


def _all_pairs(n: int, predicate: int, edges: StoreEdges, moment: Moment) -> _Edges:
    """Every left row with every edge of the predicate."""
    s, o, g = edges.pairs(predicate)
    moment.control.room(n * len(s), 4)
    if n == 1:
        return np.zeros(len(s), np.int64), s, o, g
    i = np.repeat(np.arange(n), len(s))
    return i, np.tile(s, n), np.tile(o, n), None if g is None else np.tile(g, n)


def _column(quad: _Quad, position: int, count: int) -> Ids:
    column = quad[position]
    assert column is not None, "only a pattern with a graph variable looks at the graphs"
    return np.full(count, column, np.uint64) if isinstance(column, int) else column


def _grouped(predicates: Ids, rows: Picks | None) -> Iterator[tuple[int, Picks]]:
    """The rows of each predicate."""
    order = np.argsort(predicates, kind="stable")
    ordered = predicates[order]
    if not len(ordered):
        return
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))).tolist()
    for start, stop in zip(starts, [*starts[1:], len(ordered)], strict=True):
        picked = order[start:stop]
        yield int(ordered[start]), picked if rows is None else rows[picked]
