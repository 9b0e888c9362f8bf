"""Arrivals: the elements of a snapshot, push by push, in the order of acknowledgement."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hbase_store import PushMark, SnRow, Store, StreamColumns, StreamMove
from hbase_store.errors import SnapshotGone

Ids = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One push (or heartbeat, or mark of idleness) of one stream: its elements' times, its triples, and where the
    stream stands after it."""

    sn: int
    push: int
    stream: int
    element_times: Times
    s: Ids
    p: Ids
    o: Ids
    g: Ids  # the graph of each triple
    times: Times  # of each triple's element
    latest: int | None
    heartbeat: int | None
    idle: bool

    @property
    def nbytes(self) -> int:
        columns = (self.element_times, self.s, self.p, self.o, self.g, self.times)
        return sum(column.nbytes for column in columns)

    def at_time(self, time: int) -> Arrival:
        """Only its elements of this timestamp."""
        return self._of(self.element_times == time, self.times == time)

    def up_to(self, time: int) -> Arrival:
        """Only its elements of this timestamp and of those before."""
        return self._of(self.element_times <= time, self.times <= time)

    def between(self, after: int | None, up_to: int | None) -> Arrival:
        """Only its elements later than `after`, and of `up_to` or before; None: whenever they are."""
        elements, triples = np.ones(len(self.element_times), np.bool_), np.ones(len(self.times), np.bool_)
        for time, is_low in ((after, True), (up_to, False)):
            if time is not None:
                elements &= (self.element_times > time) == is_low
                triples &= (self.times > time) == is_low
        return self._of(elements, triples)

    def _of(self, elements: Mask, which: Mask) -> Arrival:
        return replace(
            self,
            element_times=self.element_times[elements],
            s=self.s[which],
            p=self.p[which],
            o=self.o[which],
            g=self.g[which],
            times=self.times[which],
        )


# So many snapshots' columns are read together.
_AT_ONCE = 64

_NO_IDS = np.empty(0, np.uint64)
_NO_TIMES = np.empty(0, np.int64)


def arrivals(store: Store, sn: int, streams: Collection[int] | None = None) -> list[Arrival]:
    """All pushes of a snapshot in order; of these streams only, if any are named."""
    found = []
    for move in store.row(sn).moves:
        if streams is None or move.stream in streams:
            found += _of_move(sn, move, store.stream(sn, move.stream))
    return sorted(found, key=lambda arrival: arrival.push)


def _of_move(sn: int, move: StreamMove, columns: StreamColumns | None) -> list[Arrival]:
    return [_arrival(sn, move.stream, mark, columns) for mark in move.pushes]


def _arrival(sn: int, stream: int, mark: PushMark, columns: StreamColumns | None) -> Arrival:
    position = mark.latest, mark.heartbeat, mark.idle
    if columns is None:
        nothing = (_NO_IDS, _NO_IDS, _NO_IDS, _NO_IDS, _NO_TIMES)
        return Arrival(sn, mark.ordinal, stream, _NO_TIMES, *nothing, *position)
    # Document order: elements of a push stand together, and so do the triples of an element.
    start, stop = np.searchsorted(columns.push, [mark.ordinal, mark.ordinal + 1])
    low, high = np.searchsorted(columns.element, [start, stop])
    part = slice(int(low), int(high))
    elements = columns.element[part]
    return Arrival(
        sn, mark.ordinal, stream, columns.time[start:stop],
        columns.s[part], columns.p[part], columns.o[part], columns.graphs(part), columns.time[elements],
        *position,
    )  # fmt: skip


def history(store: Store, stream: int, sn: int, oldest: int | None, whole: bool = False) -> Iterator[Arrival]:
    """The arrivals with elements of a stream, oldest first, from the first that left its time at `oldest` or later, up
    to `sn`, as far as they are retained; `whole`: SnapshotGone if some are not.

    The time of a stream never goes back, and no element is ahead of the time after its push by more than the lateness
    of the stream: the caller has subtracted that from `oldest`."""
    rows = list(_rows(store, stream, sn, oldest, whole))[::-1]
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        for row, columns in zip(some, store.streams(stream, some), strict=True):
            move = next(move for move in row.moves if move.stream == stream)
            yield from sorted(_of_move(row.sn, move, columns), key=lambda arrival: arrival.push)


def _rows(store: Store, stream: int, sn: int, oldest: int | None, whole: bool) -> Iterator[SnRow]:
    """The rows of snapshots that brought elements, newest first."""
    for row, number, time in store.brought(stream, sn):
        if oldest is not None and time is not None and time < oldest:
            return
        if row is not None:
            yield row
        elif whole:
            raise SnapshotGone(
                f"elements that this window needs are no longer retained: those of snapshot {number} and "
                "before are gone; use a later time, or give the stream a longer `retention`"
            )
