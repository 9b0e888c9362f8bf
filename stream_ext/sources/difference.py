"""The difference between what is held and what a source has now, predicate by predicate, by sorted ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hbase_store import NAMED, Batch, Snapshot
from hbase_store.arrays import NO_IDS, Columns, Ids, Mask, group_rows, sort_distinct
from hbase_store.layout.terms import HELD_BASE, held
from hbase_store.sorted.view import View, contains
from stream_ext.catalog.sources import EVERY_GRAPH, HeldPattern
from stream_ext.sources.fetched import FetchedQuads, is_unknown


@dataclass(slots=True)
class Difference:
    """Quads to hold, whose terms may be unknown yet, and held ones to release."""

    come: list[FetchedQuads] = field(default_factory=list)
    go: list[tuple[int, Columns]] = field(default_factory=list)  # predicate, (s, o, g)

    @property
    def is_empty(self) -> bool:
        return not any(map(len, self.come)) and not self.go

    def write(self, batch: Batch) -> None:
        for predicate, (s, o, g) in self.go:
            batch.delete(s, held(predicate), o, g)
        for quads in filter(len, self.come):
            s, p, o, g = quads.encoded(batch.encode)
            batch.insert(s, p | np.uint64(HELD_BASE), o, g)


def together(parts: Sequence[Difference]) -> Difference:
    """Differences of different quads, as one."""
    return Difference([quads for part in parts for quads in part.come], [each for part in parts for each in part.go])


def difference(snapshot: Snapshot, now: FetchedQuads, subjects: Ids | None = None) -> Difference:
    """`subjects`: all that is fetched are quads of these, ascending, and only their held quads are compared."""
    unknown = _with_unknown(now)
    come = [tuple(column[unknown] for column in now.columns)]
    go: list[tuple[int, Columns]] = []
    fetched = dict(of_predicates(now))
    for predicate in sorted(fetched.keys() | set(held_predicates(snapshot))):
        for named in (False, True):
            rows = _of_kind(fetched.get(predicate), named)
            there = snapshot.contains_rows(named, held(predicate), rows)
            come.append(_quads(predicate, tuple(column[~there] for column in rows), named))
            gone = _gone(snapshot, predicate, named, rows, int(np.count_nonzero(there)), subjects)
            if gone is not None:
                go.append((predicate, gone))
    columns = tuple(np.concatenate([part[i] for part in come]) for i in range(4))
    return Difference([FetchedQuads((columns[0], columns[1], columns[2], columns[3]), now.unknown)], go)


def difference_of(snapshot: Snapshot, requested: FetchedQuads, now: FetchedQuads) -> Difference:
    """Of some quads that were `requested` by name: those of them that are there `now`, and those that are not."""
    whole = difference(snapshot, now, NO_IDS)
    fetched = dict(of_predicates(now))
    for predicate, rows in of_predicates(requested):
        for named in (False, True):
            some, fresh = _of_kind(rows, named), _of_kind(fetched.get(predicate), named)
            gone = snapshot.contains_rows(named, held(predicate), some) & ~contains(View(fresh), some)
            if gone.any():
                whole.go.append((predicate, _with_graph(tuple(column[gone] for column in some), named)))
    return whole


def of_predicates(quads: FetchedQuads) -> Iterator[tuple[int, Columns]]:
    """The quads by predicate, without those of terms that the store does not have: these are not held."""
    known = ~_with_unknown(quads)
    s, p, o, g = (column[known] for column in quads.columns)
    yield from _by_predicate(s, p, o, g)


def _with_unknown(quads: FetchedQuads) -> Mask:
    unknown = np.zeros(len(quads), np.bool_)
    for column in quads.columns:
        unknown |= is_unknown(column)
    return unknown


def held_predicates(snapshot: Snapshot) -> list[int]:
    found = (snapshot.predicates(place, held=True).tolist() for place in (0, NAMED))
    return sorted({predicate for part in found for predicate in part})


def held_count(snapshot: Snapshot) -> int:
    """How many quads are held."""
    found = ((place, p) for place in (0, NAMED) for p in snapshot.predicates(place, held=True).tolist())
    return sum(snapshot.count(held(p), place) for place, p in found)


def count_of_held(snapshot: Snapshot, pattern: HeldPattern, ids: Callable[[Sequence[bytes]], Ids]) -> int:
    """How many of the held quads match a pattern."""
    terms = (*pattern.terms, b"" if pattern.graph == EVERY_GRAPH else pattern.graph)
    s, p, o, g = (int(id) for id in ids(terms))
    if any(term and not id for term, id in zip(terms, (s, p, o, g), strict=True)):
        return 0
    place = NAMED if pattern.graph == EVERY_GRAPH else g
    predicates = [p] if p else snapshot.predicates(place, held=True).tolist()
    return sum(_count(snapshot, held(predicate), place, s, o) for predicate in predicates)


def _count(snapshot: Snapshot, predicate: int, place: int, s: int, o: int) -> int:
    if not s and not o:
        return snapshot.count(predicate, place)
    _, *found = snapshot.neighbours(predicate, np.array([s or o], np.uint64), not s, place)
    values = found[0]
    return int(np.count_nonzero(values == o)) if s and o else len(values)


def _by_predicate(s: Ids, p: Ids, o: Ids, g: Ids) -> Iterator[tuple[int, Columns]]:
    for predicate, rows in group_rows(p):
        yield predicate, (s[rows], o[rows], g[rows])


def _of_kind(rows: Columns | None, named: bool) -> Columns:
    """Those of the default graph, or of named ones, in order and each once."""
    if rows is None:
        return tuple(np.empty(0, np.uint64) for _ in range(2 + named))
    s, o, g = rows
    there = (g != 0) == named
    return sort_distinct((s[there], o[there], g[there]) if named else (s[there], o[there]))


def _gone(
    snapshot: Snapshot, predicate: int, named: bool, rows: Columns, there: int, subjects: Ids | None
) -> Columns | None:
    """The held quads of a predicate that were not fetched; None: there is none."""
    place = NAMED if named else 0
    if subjects is None and snapshot.count(held(predicate), place) == there:
        return None
    if subjects is None:
        now: Columns = snapshot.pairs(held(predicate), graph=place)
    else:
        offsets, *found = snapshot.neighbours(held(predicate), subjects, False, place)
        now = (np.repeat(subjects, np.diff(offsets)), *found)
    gone: Mask = ~contains(View(rows), now)
    return _with_graph(tuple(column[gone] for column in now), named) if gone.any() else None


def _with_graph(columns: Columns, named: bool) -> Columns:
    return columns if named else (*columns, np.zeros(len(columns[0]), np.uint64))


def _quads(predicate: int, columns: Columns, named: bool) -> Columns:
    s, o, g = _with_graph(columns, named)
    return s, np.full(len(s), predicate, np.uint64), o, g
