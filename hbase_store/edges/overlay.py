"""The overlay: the changes since the last run, in memory, for every snapshot that may still be read.

For each predicate, separately for the default graph and the named graphs, there is a log of changes. Sorted views of
its net changes up to a snapshot, by subject, by object and by graph, are built on demand. A newer view is an older one
with the changes between laid over it; a view older than those in memory is built from the log. Views and
log entries never change, so any number of readers share them; a lock guards only their making."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Columns, Ids, Item, Mask, distinct_values, last_of_each
from hbase_store.layout.rows import Sn
from hbase_store.layout.terms import HELD_BASE
from hbase_store.memory_only import ShortLock, check_may_wait
from hbase_store.sorted.view import (
    BY_GRAPH,
    FORWARD,
    View,
    in_order,
    lay_over,
    nothing,
    rows_of,
    view_of,
    without_deletions,
)

# Of each order: that of the head, and those of the two snapshots that a reader behind the head compares.
VIEWS_MAX = 3
#: The rows of so few keys are searched for among so many changes; else all of these are sorted.
_FEW, _SEARCHED = 4, 4096
#: So many changes are sorted even for who must not wait: it takes less than a millisecond.
_QUICK = 4096


class _Log:
    """Changes in order of snapshots, in arrays that grow at the end: what was once written there stays."""

    def __init__(self, width: int) -> None:
        self._sns: list[int] = []
        self._ends: list[int] = []
        self._columns: list[Ids] = [np.empty(0, np.uint64) for _ in range(width)]
        self._inserted: Mask = np.empty(0, np.bool_)

    def append(self, sn: Sn, columns: Columns, inserted: Mask) -> None:
        start = self._ends[-1] if self._ends else 0
        end = start + len(inserted)
        if end > len(self._inserted):
            size = max(end, 2 * start)
            self._columns = [_grown(column, start, size) for column in self._columns]
            self._inserted = _grown(self._inserted, start, size)
        for mine, new in zip(self._columns, columns, strict=True):
            mine[start:end] = new
        self._inserted[start:end] = inserted
        if self._sns and self._sns[-1] == sn:
            self._ends[-1] = end
        else:
            self._ends.append(end)  # before the number: readers look there first
            self._sns.append(sn)

    def end(self, sn: Sn) -> int:
        """How many changes there were up to and with `sn`."""
        at = bisect_right(self._sns, sn)
        return self._ends[at - 1] if at else 0

    def changed(self, sn: Sn) -> bool:
        at = bisect_left(self._sns, sn)
        return at < len(self._sns) and self._sns[at] == sn

    def entries(self, after: Sn) -> Iterator[tuple[Sn, Columns, Mask]]:
        """The changes of each snapshot above `after`, as they came."""
        for i in range(bisect_right(self._sns, after), len(self._sns)):
            place = slice(self._ends[i - 1] if i else 0, self._ends[i])
            yield Sn(self._sns[i]), tuple(column[place] for column in self._columns), self._inserted[place]

    def net(self, start: int, end: int, order: int, keys: Ids | None = None) -> tuple[Columns, Mask]:
        """The last change of each row between `start` and `end`; of all rows, or of those of these keys."""
        columns = in_order(tuple(column[start:end] for column in self._columns), order)
        inserted = self._inserted[start:end]
        if keys is not None:
            there = columns[0] == keys[0]
            for key in keys[1:]:
                there |= columns[0] == key
            columns, inserted = tuple(column[there] for column in columns), inserted[there]
        return last_of_each(columns, inserted)


def _grown(array: npt.NDArray[Item], used: int, size: int) -> npt.NDArray[Item]:
    grown = np.empty(size, array.dtype)
    grown[:used] = array[:used]
    return grown


class Column:
    """The changes of one predicate, of the default graph or of the named graphs.

    `keep`: there are rows below, so that deletions are to be remembered."""

    def __init__(self, named: bool, keep: bool) -> None:
        self._nothing = nothing(named)
        self._keep = keep
        self._log = _Log(3 if named else 2)
        # Per order, the last used one at the end: (changes that are in it, view).
        self._views: list[list[tuple[int, View]]] = [[] for _ in range(BY_GRAPH + 1)]
        self._lock = ShortLock()

    def append(self, sn: Sn, columns: Columns, inserted: Mask) -> None:
        with self._lock:
            self._log.append(sn, columns, inserted)

    def end(self, sn: Sn) -> int:
        """How many changes there were up to `sn`: snapshots of one number look alike."""
        with self._lock:
            return self._log.end(sn)

    def changed(self, sn: Sn) -> bool:
        return self._log.changed(sn)

    def changes(self, sn: Sn) -> tuple[Columns, Mask]:
        """The net changes that the slab of `sn` has, also those that changed nothing."""
        with self._lock:
            return self._log.net(self._log.end(Sn(sn - 1)), self._log.end(sn), FORWARD)

    def entries(self, after: Sn) -> list[tuple[Sn, Columns, Mask]]:
        with self._lock:
            return list(self._log.entries(after))

    def view(self, order: int, sn: Sn) -> View:
        """The net changes up to `sn`."""
        with self._lock:
            end = self._log.end(sn)
            if end == 0:
                return self._nothing
            views = self._views[order]
            start, nearest = self._nearest(order, end)
            if start < end:
                nearest = self._laid_over(nearest, start, end, order)
            others = [each for each in views if each[0] != end]
            self._views[order] = [*others[1 - VIEWS_MAX :], (end, nearest)]
            return nearest

    def reach(self, order: int, sn: Sn, keys: Ids) -> View:
        """As `view`, with at least the rows of these keys. Of few keys without a view of this very snapshot: each
        update asks about a snapshot of its own, and eight clients about eight of them in any order."""
        if not 0 < len(keys) <= _FEW:
            return self.view(order, sn)
        with self._lock:
            end = self._log.end(sn)
            start, nearest = self._nearest(order, end)
            if start < end and end - start <= _SEARCHED:
                keys = distinct_values(keys)
                return self._laid_over(rows_of(nearest, keys), start, end, order, keys)
        return self.view(order, sn)

    def _nearest(self, order: int, end: int) -> tuple[int, View]:
        """The newest view that is not too new, and how many changes are in it."""
        start, nearest = 0, self._nothing
        for covered, view in self._views[order]:
            if start < covered <= end:
                start, nearest = covered, view
        return start, nearest

    def _laid_over(self, view: View, start: int, end: int, order: int, keys: Ids | None = None) -> View:
        if end - start > _QUICK:
            check_may_wait()
        changes = view_of(*self._log.net(start, end, order, keys))
        if len(view) == 0:
            return changes if self._keep else without_deletions(changes)
        return lay_over(view, changes, self._keep)


class Overlay:
    """The changes of the snapshots above `start`. One thread at a time appends, in order; any number read.

    `below`: whether there are rows below the changes of a column."""

    def __init__(self, start: Sn, below: Callable[[bool, int], bool]) -> None:
        self.start = start
        self._below = below
        self.has_held = False  # whether there ever were changes of held edges
        self._columns: dict[tuple[bool, int], Column] = {}

    def append(self, sn: Sn, named: bool, predicate: int, columns: Columns, inserted: Mask) -> None:
        column = self._columns.get((named, predicate))
        if column is None:
            column = self._columns[named, predicate] = Column(named, self._below(named, predicate))
            self.has_held |= predicate >= HELD_BASE
        column.append(sn, columns, inserted)

    def column(self, named: bool, predicate: int) -> Column | None:
        return self._columns.get((named, predicate))

    def predicates(self, named: bool) -> list[int]:
        """The predicates that have changes."""
        return sorted(predicate for is_named, predicate in self._columns.copy() if is_named == named)

    def view(self, named: bool, predicate: int, order: int, sn: Sn) -> View:
        column = self._columns.get((named, predicate))
        if column is None:
            return nothing(named)
        return column.view(order, sn)

    def reach(self, named: bool, predicate: int, order: int, sn: Sn, keys: Ids) -> View:
        """As `view`, with at least the rows of these keys."""
        column = self._columns.get((named, predicate))
        return nothing(named) if column is None else column.reach(order, sn, keys)

    def since(self, start: Sn, below: Callable[[bool, int], bool]) -> Overlay:
        """A new overlay with the changes above `start` only, over another `below`."""
        later = Overlay(start, below)
        for (named, predicate), column in self._columns.items():
            for sn, columns, inserted in column.entries(start):
                later.append(sn, named, predicate, columns, inserted)
        return later
