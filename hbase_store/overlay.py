"""The overlay: all edges in memory, for every snapshot that somebody may still ask for.

For each predicate, of the default graph and of the named graphs apart, there is a log of changes and, made when
they are asked for, sorted views of it as of some snapshot: by subject, and by object. A newer view is an older one
with the changes between merged in; an older one than those at hand is made from the log. Views and log entries
never change, so any number of readers share them; a lock guards only their making."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import NO_IDS, Columns, Ids, Item, Mask, frozen, last_of_each
from hbase_store.rows import Sn

# Of each direction: of the head, and of the two snapshots that somebody who follows behind it compares.
VIEWS_KEPT = 3


@dataclass(frozen=True, slots=True)
class View:
    """Edges at one snapshot as sorted, distinct rows (key, value[, graph])."""

    columns: Columns

    def __len__(self) -> int:
        return len(self.columns[0])


NOTHING = View((NO_IDS, NO_IDS))
NOTHING_NAMED = View((NO_IDS, NO_IDS, NO_IDS))


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

    def net(self, start: int, end: int, inverse: bool) -> tuple[Columns, Mask]:
        """What became of each row between, in order of the direction."""
        columns = [column[start:end] for column in self._columns]
        if inverse:
            columns[0], columns[1] = columns[1], columns[0]
        return last_of_each(tuple(columns), self._inserted[start:end])


def _grown(array: npt.NDArray[Item], used: int, size: int) -> npt.NDArray[Item]:
    grown = np.empty(size, array.dtype)
    grown[:used] = array[:used]
    return grown


class Column:
    """The edges of one predicate, of the default graph or of the named graphs."""

    def __init__(self, named: bool) -> None:
        self._nothing = NOTHING_NAMED if named else NOTHING
        self._log = _Log(3 if named else 2)
        # Per direction, the last used one at the end: (changes that are in it, view).
        self._views: list[list[tuple[int, View]]] = [[], []]
        self._lock = threading.Lock()

    def append(self, sn: Sn, columns: Columns, inserted: Mask) -> None:
        with self._lock:
            self._log.append(sn, columns, inserted)

    def changed(self, sn: Sn) -> bool:
        return self._log.changed(sn)

    def changes(self, sn: Sn) -> tuple[Columns, Mask]:
        """What the slab of `sn` says, net, whether or not it changed anything."""
        with self._lock:
            return self._log.net(self._log.end(Sn(sn - 1)), self._log.end(sn), False)

    def view(self, inverse: bool, sn: Sn) -> View:
        with self._lock:
            end = self._log.end(sn)
            if end == 0:
                return self._nothing
            views = self._views[inverse]
            start, nearest = 0, self._nothing
            for made, view in views:
                if start < made <= end:
                    start, nearest = made, view
            if start < end:
                nearest = self._merged(nearest, start, end, inverse)
            others = [kept for kept in views if kept[0] != end]
            self._views[inverse] = [*others[1 - VIEWS_KEPT :], (end, nearest)]
            return nearest

    def _merged(self, view: View, start: int, end: int, inverse: bool) -> View:
        changes, inserted = self._log.net(start, end, inverse)
        if len(view) == 0:
            columns = changes if inserted.all() else tuple(column[inserted] for column in changes)
        else:
            from hbase_store.kernels import merge  # numba takes a third of a second to import

            columns = merge(view.columns, changes, inserted)
        return View(tuple(frozen(column) for column in columns))


class Overlay:
    """One thread at a time appends, snapshot by snapshot; any number read."""

    def __init__(self) -> None:
        self._columns: dict[tuple[bool, int], Column] = {}

    def append(self, sn: Sn, named: bool, predicate: int, columns: Columns, inserted: Mask) -> None:
        column = self._columns.get((named, predicate))
        if column is None:
            column = self._columns[named, predicate] = Column(named)
        column.append(sn, columns, inserted)

    def column(self, named: bool, predicate: int) -> Column | None:
        return self._columns.get((named, predicate))

    def predicates(self, named: bool) -> list[int]:
        """All that there ever were."""
        return sorted(predicate for is_named, predicate in self._columns.copy() if is_named == named)

    def view(self, named: bool, predicate: int, inverse: bool, sn: Sn) -> View:
        column = self._columns.get((named, predicate))
        if column is None:
            return NOTHING_NAMED if named else NOTHING
        return column.view(inverse, sn)
