"""Layers: the runs that cover the snapshots up to some number, and the overlay of those above it.

A read goes through all layers that have the predicate, the oldest first. Mostly that is one, the base; then its
blocks are answered from as they are. Otherwise only the rows of the keys asked for are laid over one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple, Protocol

import numpy as np

from hbase_store.arrays import NO_IDS, Columns, Ids, Offsets, concatenate, distinct_of_ascending, distinct_values
from hbase_store.backends.keyvalue import KeyValue
from hbase_store.cache import Cache, Lent
from hbase_store.edges.overlay import Overlay
from hbase_store.layout.rows import Sn
from hbase_store.layout.run import Cached, Run, RunColumn, fetch, put_view
from hbase_store.layout.run_blocks import NAMED_EDGES, PLAIN, PREDICATES, ColumnKey, is_edges
from hbase_store.layout.terms import HELD_BASE, is_held
from hbase_store.memory_only import check_may_wait
from hbase_store.sorted.view import (
    BY_GRAPH,
    FORWARD,
    Room,
    View,
    contains,
    lay_over,
    nothing,
    places_of,
    rows_of,
    span_of,
    without_deletions,
)

_serial = count()

# Once one in so many keys of a column was looked up, its layers are merged into one.
_LOOKUP_SHARE = 8
_LOOKUPS_MAX = 256
# Few changes are above the lowest layer: at most one row in so many.
_LITTLE = 4
# Blocks around a vertex are brought before it is known which are needed, if they are no more than these.
_AROUND = 32


class Lookup(NamedTuple):
    """Rows of one predicate of the default graph in one order: those of some keys, or (None) all of them."""

    predicate: int
    order: int
    keys: Ids | None


class Reads(Protocol):
    """The reads that a snapshot consists of."""

    def view(self, named: bool, predicate: int, order: int, sn: Sn) -> View: ...

    def reach(self, named: bool, predicate: int, order: int, keys: Ids, sn: Sn) -> View: ...

    def between(self, named: bool, predicate: int, first: int, last: int, sn: Sn) -> View: ...

    def cuts(self, named: bool, predicate: int, rows: int, sn: Sn) -> Ids: ...

    @property
    def is_remote(self) -> bool: ...

    def fetch(self, lookups: Sequence[Lookup]) -> None: ...

    def fetch_around(self, key: Ids, order: int) -> None: ...

    def neighbours(
        self, named: bool, predicate: int, order: int, keys: Ids, sn: Sn, room: Room
    ) -> tuple[Offsets, *Columns] | None: ...

    def at_hand(self, named: bool, predicate: int, order: int, sn: Sn) -> tuple[View, Ids] | None: ...

    def count(self, named: bool, predicate: int, sn: Sn) -> int: ...

    def least(self, predicate: int, graph: np.uint64, sn: Sn) -> int: ...

    def has_deleted(self, named: bool, predicate: int, sn: Sn) -> bool: ...

    def fan(self, named: bool, predicate: int, order: int, sn: Sn) -> float: ...

    def lend(self) -> Lent: ...

    @property
    def has_held(self) -> bool: ...

    def predicates(self, named: bool) -> list[int]: ...

    def predicates_of(self, named: bool, order: int, keys: Ids, sn: Sn) -> Columns: ...

    def graphs(self, sn: Sn, held: bool) -> tuple[Ids, Ids]: ...


class Layers:
    """The edges at all snapshots from `start` on, which is the last snapshot that the runs cover."""

    def __init__(
        self, kv: KeyValue, runs: tuple[Run, ...], cache: Cache[Cached], overlay: Overlay | None = None
    ) -> None:
        self._kv, self.runs = kv, runs
        self.start = Sn(runs[-1].entry.last if runs else 0)
        self.overlay = Overlay(self.start, self._below) if overlay is None else overlay.since(self.start, self._below)
        self._cache = cache
        self._serial = next(_serial)
        self._lookups: dict[tuple[bool, int, int, int], int] = {}
        self._counts: dict[tuple[bool, int, int], int] = {}
        self._runs_have_held = any(is_edges(key) and key.predicate >= HELD_BASE for run in runs for key in run.columns)
        self._run_graphs: dict[bool, tuple[Ids, Ids]] = {}

    def _below(self, named: bool, predicate: int) -> bool:
        return bool(self._columns(named, predicate, FORWARD))

    def _columns(self, named: bool, predicate: int, order: int) -> list[RunColumn]:
        key = ColumnKey(NAMED_EDGES if named else PLAIN, predicate, order)
        return [run.columns[key] for run in self.runs if key in run.columns]

    def view(self, named: bool, predicate: int, order: int, sn: Sn) -> View:
        """All rows, in one order."""
        columns = self._columns(named, predicate, order)
        changes = self.overlay.view(named, predicate, order, sn)
        if not columns:
            return changes
        if len(columns) == 1 and len(changes) == 0:
            return without_deletions(columns[0].whole())
        name = (self._serial, named, predicate, order, self._end(named, predicate, sn))
        view = self._cached(name)
        if view is None:
            check_may_wait()
            view = _flattened([*(column.whole() for column in columns), changes])
            put_view(self._cache, name, view)
        return view

    def _cached(self, name: object) -> View | None:
        found = self._cache.get(name)
        return found if isinstance(found, View) else None

    def between(self, named: bool, predicate: int, first: int, last: int, sn: Sn) -> View:
        """The rows of the subjects from `first` to `last`, both included; nothing of them is put into the cache."""
        changes = self.overlay.view(named, predicate, FORWARD, sn)
        columns = self._columns(named, predicate, FORWARD)
        return _flattened([*(column.between(first, last) for column in columns), span_of(changes, first, last)])

    def cuts(self, named: bool, predicate: int, rows: int, sn: Sn) -> Ids:
        """Ascending subjects that divide the rows into spans of about so many, found without reading blocks."""
        columns = self._columns(named, predicate, FORWARD)
        if columns:
            return max(columns, key=lambda column: column.total).cuts(rows)
        return distinct_values(self.overlay.view(named, predicate, FORWARD, sn).columns[0][rows::rows])

    def reach(self, named: bool, predicate: int, order: int, keys: Ids, sn: Sn) -> View:
        """Rows in order, with at least all those of `keys`."""
        columns = self._columns(named, predicate, order)
        changes = self.overlay.reach(named, predicate, order, sn, keys)
        if not columns:
            return changes
        if len(keys) == 0:
            return nothing(named)
        known = self._known(columns, changes, named, predicate, order, sn)
        if known is not None:
            return known
        if self._is_read_often(columns, named, predicate, order, len(keys), sn):
            return self.view(named, predicate, order, sn)
        keys = keys if bool((keys[1:] > keys[:-1]).all()) else distinct_values(keys)
        if len(changes):
            changes = rows_of(changes, keys)
        if len(columns) == 1 and len(changes) == 0:
            return without_deletions(columns[0].reach(keys))
        return _flattened([*(rows_of(column.reach(keys), keys) for column in columns), changes])

    @property
    def is_remote(self) -> bool:
        """Whether what is not in memory has to be requested from another process."""
        return self._kv.is_remote

    def fetch(self, lookups: Sequence[Lookup]) -> None:
        """Brings what `reach` will read for these keys into memory, and columns that are small as a whole, with one
        request."""
        fetch(
            self._kv,
            ((column, keys) for predicate, order, keys in lookups for column in self._columns(False, predicate, order)),
        )

    def fetch_around(self, key: Ids, order: int) -> None:
        """Brings all edges of one vertex into memory, and which predicates they have, with one request. Nothing if it
        is known which: then few are needed; or if these are many blocks, as in a store of very many predicates."""
        listed = self._columns(False, PREDICATES, order)
        if any(column.missing(key) for column in listed):
            own = [p for p in self.predicates(False) if p < HELD_BASE]
            columns = [*listed, *(column for p in own for column in self._columns(False, p, order))]
            fetch(self._kv, ((column, key) for column in columns), _AROUND)

    def neighbours(
        self, named: bool, predicate: int, order: int, keys: Ids, sn: Sn, room: Room
    ) -> tuple[Offsets, *Columns] | None:
        """Neighbours of many keys, if the lowest layer is in memory and few changes are above it; None: use `reach`."""
        columns = self._columns(named, predicate, order)
        lowest = columns[0].known() if columns and columns[0].index.deletions == 0 else None
        if lowest is None or _LITTLE * sum(column.total for column in columns[1:]) > len(lowest):
            return None
        from hbase_store.sorted.hops import hop, hop_over  # numba takes a third of a second to import

        known = self._known(columns, self.overlay.view(named, predicate, order, sn), named, predicate, order, sn)
        if known is not None:
            return hop(known, keys, room)
        if self._is_read_often(columns, named, predicate, order, len(keys), sn):
            return hop(self.view(named, predicate, order, sn), keys, room)
        above = self._above(columns, named, predicate, order, sn)
        return hop_over(lowest, above, keys, room) if _LITTLE * len(above) <= len(lowest) else None

    def _above(self, columns: list[RunColumn], named: bool, predicate: int, order: int, sn: Sn) -> View:
        """What changed above the lowest layer."""
        changes = self.overlay.view(named, predicate, order, sn)
        if len(columns) == 1:
            return changes
        name = (self._serial, named, predicate, order, self._end(named, predicate, sn), "above")
        view = self._cached(name)
        if view is None:
            check_may_wait()
            view = nothing(named)
            for column in columns[1:]:
                view = lay_over(view, column.whole(), True)
            view = lay_over(view, changes, True)
            put_view(self._cache, name, view)
        return view

    def _is_read_often(
        self, columns: list[RunColumn], named: bool, predicate: int, order: int, keys: int, sn: Sn
    ) -> bool:
        """Whether so many keys were looked up in several layers that merging the layers once is cheaper."""
        width = 3 if named else 2
        if not self._cache.holds(8 * width * sum(column.total for column in columns)):
            return False  # what is merged would not be retained
        name = (named, predicate, order, self._end(named, predicate, sn))
        lookups = self._lookups.get(name, 0) + keys
        if len(self._lookups) > _LOOKUPS_MAX:
            self._lookups.clear()
        self._lookups[name] = lookups
        return lookups * _LOOKUP_SHARE > sum(column.total for column in columns)

    def at_hand(self, named: bool, predicate: int, order: int, sn: Sn) -> tuple[View, Ids] | None:
        """Rows in memory, and the keys, ascending, whose rows have changed since; None: nothing is in memory."""
        columns = self._columns(named, predicate, order)
        changes = self.overlay.view(named, predicate, order, sn)
        known = self._known(columns, changes, named, predicate, order, sn) if columns else changes
        if known is not None:
            return known, NO_IDS
        lowest = columns[0].known() if columns[0].index.deletions == 0 else None
        if lowest is None or _LITTLE * sum(column.total for column in columns[1:]) > len(lowest):
            return None
        return lowest, self._above(columns, named, predicate, order, sn).columns[0]

    def lend(self) -> Lent:
        """For what `at_hand` returned: it is empty again when some of that is no longer in the cache."""
        return self._cache.lend()

    def _known(
        self, columns: list[RunColumn], changes: View, named: bool, predicate: int, order: int, sn: Sn
    ) -> View | None:
        if len(columns) == 1 and len(changes) == 0 and columns[0].index.deletions == 0:
            return columns[0].known()
        return self._cached((self._serial, named, predicate, order, self._end(named, predicate, sn)))

    def count(self, named: bool, predicate: int, sn: Sn) -> int:
        """How many rows there are, without reading more of them than have changed above the lowest layer."""
        columns = self._columns(named, predicate, FORWARD)
        end = self._end(named, predicate, sn)
        if not columns:
            return len(self.overlay.view(named, predicate, FORWARD, sn))
        if len(columns) == 1 and end == 0 and columns[0].index.deletions == 0:
            return columns[0].total
        known = self._counts.get((named, predicate, end))
        if known is None:
            known = self._counts[named, predicate, end] = self._counted(named, predicate, sn, columns)
        return known

    def least(self, predicate: int, graph: np.uint64, sn: Sn) -> int:
        """A lower bound of the rows of one named graph, found without reading blocks."""
        changes = self.overlay.view(True, predicate, BY_GRAPH, sn).columns[0]
        above = int(changes.searchsorted(graph, "right") - changes.searchsorted(graph, "left"))
        return max([above, *(column.least(graph) for column in self._columns(True, predicate, BY_GRAPH))])

    def has_deleted(self, named: bool, predicate: int, sn: Sn) -> bool:
        """Whether a row of one layer may have been deleted by another: if not, all that are listed are there."""
        changes = self.overlay.view(named, predicate, FORWARD, sn)
        columns = self._columns(named, predicate, FORWARD)
        return changes.inserted is not None or any(column.index.deletions for column in columns)

    def fan(self, named: bool, predicate: int, order: int, sn: Sn) -> float:
        """How many rows a key has on average, by the index of the runs, or by the changes if there are no runs."""
        columns = self._columns(named, predicate, order)
        rows, keys = sum(column.total for column in columns), sum(column.index.keys for column in columns)
        if not rows:
            first = self.overlay.view(named, predicate, order, sn).columns[0]
            rows, keys = len(first), int(np.count_nonzero(first[1:] != first[:-1])) + 1
        return max(1.0, rows / max(1, keys))

    def _counted(self, named: bool, predicate: int, sn: Sn, columns: list[RunColumn]) -> int:
        check_may_wait()
        lowest = columns[0]
        if lowest.index.deletions or 4 * sum(column.total for column in columns[1:]) > lowest.total:
            return len(self.view(named, predicate, FORWARD, sn))
        upper = nothing(named)
        for column in columns[1:]:
            upper = lay_over(upper, column.whole(), True)
        upper = lay_over(upper, self.overlay.view(named, predicate, FORWARD, sn), True)
        if len(upper) == 0:
            return lowest.total
        there = contains(lowest.reach(distinct_values(upper.columns[0])), upper.columns)
        inserted = np.ones(len(upper), np.bool_) if upper.inserted is None else upper.inserted
        return lowest.total + int(np.count_nonzero(inserted & ~there)) - int(np.count_nonzero(~inserted & there))

    def _end(self, named: bool, predicate: int, sn: Sn) -> int:
        column = self.overlay.column(named, predicate)
        return 0 if column is None else column.end(sn)

    @property
    def has_held(self) -> bool:
        """Whether there may be held edges."""
        return self._runs_have_held or self.overlay.has_held

    def predicates(self, named: bool) -> list[int]:
        """All that may have rows, ascending."""
        kind = NAMED_EDGES if named else PLAIN
        found = {key.predicate for run in self.runs for key in run.columns if key.kind == kind and key.order == FORWARD}
        found.discard(PREDICATES)
        return sorted(found.union(self.overlay.predicates(named)))

    def predicates_of(self, named: bool, order: int, keys: Ids, sn: Sn) -> Columns:
        """(key, predicate) of ascending, distinct keys: each has rows, or had some before they were deleted."""
        parts: list[Columns] = []
        for column in self._columns(named, PREDICATES, order):
            vertices, predicates, *_ = column.reach(keys).columns
            places = places_of(vertices, keys)
            parts.append((vertices[places], predicates[places]))
        for predicate in self.overlay.predicates(named):
            rows = rows_of(self.overlay.view(named, predicate, order, sn), keys)
            found = distinct_values(rows.columns[0])
            parts.append((found, np.full(len(found), predicate, np.uint64)))
        if not parts:
            return nothing(False).columns
        return parts[0] if len(parts) == 1 else tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def graphs(self, sn: Sn, held: bool) -> tuple[Ids, Ids]:
        """The named graphs that had rows, ascending; and those of them of which some rows were deleted since: of our
        own edges, or of held ones."""
        if held not in self._run_graphs:
            listed = [_graphs_listed(column.whole(), held) for column in self._columns(True, PREDICATES, BY_GRAPH)]
            self._run_graphs[held] = united(listed), united([*self._deleted_in_runs(held)])
        listed_above, deleted_above = [], []
        for predicate in self.overlay.predicates(True):
            if (predicate >= HELD_BASE) != held:
                continue
            changes = self.overlay.view(True, predicate, BY_GRAPH, sn)
            listed_above.append(without_deletions(changes).columns[0])
            deleted_above.append(deleted_keys(changes))
        listed_below, deleted_below = self._run_graphs[held]
        return united([listed_below, *listed_above]), united([deleted_below, *deleted_above])

    def _deleted_in_runs(self, held: bool) -> Iterator[Ids]:
        for run in self.runs:
            for key, column in run.columns.items():
                of_graphs = key.kind == NAMED_EDGES and key.order == BY_GRAPH and (key.predicate >= HELD_BASE) == held
                if of_graphs and column.index.deletions:
                    yield deleted_keys(column.whole())


def _graphs_listed(listed: View, held: bool) -> Ids:
    """The graphs of rows (graph, predicate)."""
    graphs, predicates = listed.columns[:2]
    of_held = is_held(predicates)
    if not held and not of_held.any():
        return graphs
    chosen: Ids = graphs[of_held == held]
    return chosen


def deleted_keys(view: View) -> Ids:
    """The first column of the rows that a layer deletes."""
    return NO_IDS if view.inserted is None else view.columns[0][~view.inserted]


def united(columns: list[Ids]) -> Ids:
    """The values of ascending columns, each once."""
    distinct = [distinct_of_ascending(column) for column in columns if len(column)]
    return distinct[0] if len(distinct) == 1 else distinct_values(concatenate(distinct))


def _flattened(layers: list[View]) -> View:
    """The oldest layer first."""
    view = layers[0]
    for upper in layers[1:]:
        view = lay_over(view, upper, True)
    return without_deletions(view)
