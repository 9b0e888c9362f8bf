"""Views: sorted rows of edges, and how a newer layer of them lies over an older one.

Rows are kept in several orders, each of which begins with what is asked for: the subject, the object or, of edges in
named graphs, the graph. The rows of the lowest layer are simply there. A row of a layer above says that it was inserted
or deleted since; of two layers the upper wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hbase_store.arrays import NO_IDS, Columns, Ids, Mask, Offsets, frozen, gather_ranges
from hbase_store.memory_only import check_may_wait

#: Called with the number of edges before they are gathered; raises if these are too many.
Room = Callable[[int], object]
#: The orders of the rows of an edge (s, o[, g]): (s, o[, g]), (o, s[, g]) and, of named graphs alone, (g, s, o).
#: From so many rows on, finding the rows of their keys first pays.
_MANY = 4096
FORWARD, INVERSE, BY_GRAPH = 0, 1, 2


def anything(count: int) -> None:
    """There is room for any number of edges."""


def orders(named: bool) -> tuple[int, ...]:
    return (FORWARD, INVERSE, BY_GRAPH) if named else (FORWARD, INVERSE)


def in_order(columns: Columns, order: int) -> Columns:
    """The columns (s, o[, g]) as they stand in that order; the rows stay where they are."""
    if order == FORWARD:
        return columns
    if order == INVERSE:
        return columns[1], columns[0], *columns[2:]
    return columns[2], columns[0], columns[1]


@dataclass(slots=True)
class Use:
    """How many keys were looked up in a view, and the directory or table that was built to find them: see `hops`.

    `grew` is called with the bytes of it, when it is built."""

    lookups: int = 0
    way: object = None
    grew: Callable[[int], object] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Sorted, distinct rows in one order; `inserted` tells insertions from deletions (None: all inserted)."""

    columns: Columns
    inserted: Mask | None = None
    use: Use = field(default_factory=Use, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns) + (0 if self.inserted is None else self.inserted.nbytes)


NOTHING = View((NO_IDS, NO_IDS))
NOTHING_NAMED = View((NO_IDS, NO_IDS, NO_IDS))


def nothing(named: bool) -> View:
    return NOTHING_NAMED if named else NOTHING


def view_of(columns: Columns, inserted: Mask | None) -> View:
    """Read-only, and without flags that say nothing."""
    if inserted is not None and bool(inserted.all()):
        inserted = None
    return View(tuple(frozen(column) for column in columns), None if inserted is None else frozen(inserted))


def lay_over(lower: View, upper: View, keep: bool) -> View:
    """Two layers as one. `keep` the deletions if there is a layer below, to which they apply."""
    if len(upper) == 0:
        return lower if keep else without_deletions(lower)
    if len(lower) == 0:
        return upper if keep else without_deletions(upper)
    check_may_wait()  # the loop may have to be loaded first, even for few rows
    from hbase_store.sorted.kernels import merge  # numba takes a third of a second to import

    return view_of(*merge(lower.columns, lower.inserted, upper.columns, upper.inserted, keep))


def without_deletions(view: View) -> View:
    """A view without its deletions, for the lowest layer."""
    if view.inserted is None:
        return view
    return view_of(tuple(column[view.inserted] for column in view.columns), None)


def rows_of(view: View, keys: Ids) -> View:
    """The rows of ascending, distinct keys."""
    place = places_of(view.columns[0], keys)
    inserted = None if view.inserted is None else view.inserted[place]
    return View(tuple([column[place] for column in view.columns]), inserted)


def places_of(column: Ids, keys: Ids) -> slice | Offsets:
    """Where ascending, distinct keys are in an ascending column."""
    if len(keys) == 1:
        key = keys[0]
        return slice(int(column.searchsorted(key)), int(column.searchsorted(key, "right")))
    _, places = gather_ranges(column.searchsorted(keys, "left"), column.searchsorted(keys, "right"))
    return places


def span_of(view: View, first: int, last: int) -> View:
    """The rows of the keys from `first` to `last`, both included."""
    keys = view.columns[0]
    place = slice(int(keys.searchsorted(np.uint64(first), "left")), int(keys.searchsorted(np.uint64(last), "right")))
    inserted = None if view.inserted is None else view.inserted[place]
    return View(tuple(column[place] for column in view.columns), inserted)


def contains(view: View, sought: Columns) -> Mask:
    """Which of the rows sought are there, in a view without deletions."""
    if len(view) == 0:
        return np.zeros(len(sought[0]), bool)
    if len(sought[0]) >= _MANY:
        from hbase_store.sorted.hops import has

        return has(view, sought)
    from hbase_store.sorted.kernels import contains as kernel  # numba takes a third of a second to import

    return kernel(view.columns, sought)
