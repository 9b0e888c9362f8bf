"""Watched scan: a window scan that passes on only rows with a value that is a parameter of some query.

Its rows are joined with the parameters of these queries, so any other row would have no partner. Most rows of a stream
are only stored, for queries that may be registered while the rows are in the window."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import concatenate
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.rows.window_content import WindowContent
from stream_ext.rows.zset import Columns, Ids, Untils, ZSet
from stream_ext.windows.scheduled_window import ScheduledWindow

Mask = npt.NDArray[np.bool_]

_MIXER = np.uint64(0x9E3779B97F4A7C15)
_BITS_LEAST = 12
#: Of so many marks one is set, so that few rows are taken for what they are not.
_SPARE = 16
_NONE = np.empty(0, np.int64)


class Marks:
    """A set of ids with a fast test, which has false positives."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._mark(_BITS_LEAST)

    def _mark(self, bits: int) -> None:
        self._shift, self._marks = np.uint64(64 - bits), np.zeros(1 << bits, np.bool_)
        known = np.fromiter(self._counts, np.uint64, len(self._counts))
        self._marks[self._places(known)] = True
        self._marked = len(known)  # those that are counted no more among them

    def _places(self, ids: Ids) -> npt.NDArray[np.int64]:
        return ((ids * _MIXER) >> self._shift).view(np.int64)

    def contains(self, ids: Ids) -> Mask:
        found: Mask = self._marks[self._places(ids)]
        return found

    def add(self, ids: Ids) -> Ids:
        """Adds ids; returns those that were not in the set."""
        new = [id for id in dict.fromkeys(ids.tolist()) if not self._counts[id]]
        self._counts.update(ids.tolist())
        self._marked += len(new)
        if self._marked * _SPARE > len(self._marks):
            self._mark(max(_BITS_LEAST, (len(self._counts) * 2 * _SPARE).bit_length()))
        found = np.array(new, np.uint64)
        self._marks[self._places(found)] = True
        return found

    def remove(self, ids: Ids) -> None:
        """Removes ids; `contains` may be true for them for some more time."""
        for id in ids.tolist():
            self._counts[id] -= 1
            if not self._counts[id]:
                del self._counts[id]


class WatchedScan(WindowScan):
    """`parameters`: the columns of the relation; `name`: one of them, which the pattern binds."""

    def __init__(self, window: ScheduledWindow, pattern: IdPattern, parameters: tuple[str, ...], name: str) -> None:
        super().__init__(window, pattern, as_bag=True)
        self._rows = None if window.bag else WindowContent(self._width)
        self._place, self._column = self.variables.index(name), parameters.index(name)
        self._watched = Marks()
        # All rows of the window as they came, with the greatest validity, and which of them were passed on.
        self._came: deque[tuple[Columns, Untils, int, Mask]] = deque()

    def step(self, moment: Moment, change: ZSet) -> ZSet:  # type: ignore[override]  # it has an input
        while self._came and self._came[0][2] < moment.time:
            self._came.popleft()
        new = self._new_parameters(change) if change.count else None
        parts = [] if new is None else [self._matching(new, *came) for came in self._came]
        columns, untils = self._entering(moment)
        if len(untils):
            self._came.append((columns, untils, int(untils.max()), np.zeros(len(untils), np.bool_)))
            parts.append(self._matching(self._watched, *self._came[-1]))
        if new is None and parts:  # what enters is there; of what came before some may be over
            return self._shown(*parts[0], moment.time)
        untils = np.concatenate([_NONE, *(untils for _, untils in parts)])
        columns = tuple(concatenate([part[0][i] for part in parts]) for i in range(self._width))
        there = untils >= moment.time
        return self._shown(tuple(column[there] for column in columns), untils[there], moment.time)

    def _shown(self, columns: Columns, untils: Untils, time: int) -> ZSet:
        return (
            ZSet(columns, len(untils), None, untils) if self._rows is None else self._rows.step(columns, untils, time)
        )

    def _new_parameters(self, change: ZSet) -> Marks:
        values, weights = change.column(self._column), change.weight_array()
        new = Marks()
        new.add(self._watched.add(values[weights > 0]))
        self._watched.remove(values[weights < 0])
        return new

    def _matching(
        self, marks: Marks, columns: Columns, untils: Untils, last: int, passed: Mask
    ) -> tuple[Columns, Untils]:
        """Those that may have one of these values, and were not passed on before; from now on they were."""
        which = marks.contains(columns[self._place])
        which &= ~passed
        passed |= which
        return tuple(column[which] for column in columns), untils[which]
