"""Arrivals: the elements of a snapshot, push by push, in the order of acknowledgement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hbase_store import PushMark, SnRow, Store, StreamColumns, StreamMove
from hbase_store.errors import SnapshotGone
from stream_ext.windows.last_times import LastTimes
from stream_ext.windows.of_elements import Item, OfElements
from stream_ext.windows.scheduled_window import Count, ScheduledWindow

Ids = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]
Indexes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


#: Lines that are there, or are made when they are read.
OfTriples = npt.NDArray[Item] | OfElements[Item]


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
    graphs: OfTriples[np.uint64]  # the graph of each triple
    of_times: OfTriples[np.int64]  # the time of each triple's element
    element: Indexes  # of each triple
    latest: int | None
    heartbeat: int | None
    idle: bool
    #: The place of each triple in the document, from 1 on; None: these are all its triples.
    places: Ids | None = None
    #: The number of the arrival of each triple; None: it is that of this one.
    numbers: Ids | None = None
    #: Saved content of windows that hold all, for these only; `copies`: how often each triple came, None: once.
    is_saved: bool = False
    copies: Times | None = None
    #: It is part of saved content: windows that hold all have it from there.
    was_saved: bool = False

    def reaches(self, window: ScheduledWindow) -> bool:
        """Whether the window may contain something of it."""
        if window.stream != self.stream:
            return False
        return not (self.was_saved if window.holds_all else self.is_saved)

    @property
    def g(self) -> Ids:
        return self.graphs[:]

    @property
    def times(self) -> Times:
        return self.of_times[:]

    @property
    def document_places(self) -> Ids:
        return np.arange(1, len(self.s) + 1, dtype=np.uint64) if self.places is None else self.places

    @property
    def nbytes(self) -> int:
        columns = (self.element_times, self.s, self.p, self.o, self.element)
        return sum(column.nbytes for column in columns) + 2 * self.s.nbytes

    @property
    def element_sizes(self) -> Times:
        """The number of triples of each element."""
        return np.bincount(self.element, minlength=len(self.element_times)).astype(np.int64)

    def between(self, after: int | None, up_to: int | None, by_element: bool = False) -> Arrival:
        """Only its elements later than `after`, and of `up_to` or before; None: whenever they are. `by_element`: these
        are no times, but say how many elements there were, in the order of the document."""
        marks = np.arange(1, len(self.element_times) + 1) if by_element else self.element_times
        elements = np.ones(len(marks), np.bool_)
        for mark, is_low in ((after, True), (up_to, False)):
            if mark is not None:
                elements &= (marks > mark) == is_low
        return self.of_elements(elements)

    def of_elements(self, elements: Mask) -> Arrival:
        """Only these elements."""
        if elements.all():
            return self
        which = elements[self.element]
        return replace(
            self,
            element_times=self.element_times[elements],
            s=self.s[which],
            p=self.p[which],
            o=self.o[which],
            graphs=self.graphs[which],
            of_times=self.of_times[which],
            places=self.document_places[which],
            numbers=None if self.numbers is None else self.numbers[which],
            copies=None if self.copies is None else self.copies[which],
            element=(np.cumsum(elements, dtype=np.int32) - np.int32(1))[self.element[which]],
        )


#: Of the number of an arrival: so many pushes may be in one snapshot.
_PUSH_BITS = 24


def numbers_of(arrival: Arrival) -> Ids:
    """The number of the arrival of each triple, which grows from push to push."""
    if arrival.numbers is not None:
        return arrival.numbers
    return np.full(len(arrival.s), (arrival.sn << _PUSH_BITS) + arrival.push, np.uint64)


# So many snapshots' columns are read together.
_AT_ONCE = 64

_ALL = slice(None)
_NO_IDS = np.empty(0, np.uint64)
_NO_TIMES = np.empty(0, np.int64)
_NO_ELEMENTS = np.empty(0, np.int32)


def arrivals(store: Store, sn: int, streams: Collection[int] | None = None) -> list[Arrival]:
    """All pushes of a snapshot in order; of these streams only, if any are named."""
    found = []
    for move in store.row(sn).moves:
        if streams is None or move.stream in streams:
            found += _of_move(sn, move, store.stream(sn, move.stream))
    return sorted(found, key=lambda arrival: arrival.push)


def whole_stream(store: Store, sn: int, stream: int) -> tuple[Arrival, Indexes] | None:
    """All elements that a stream got in a snapshot, as if they were one push; and the push of each. None: it got
    none."""
    columns = store.stream(sn, stream) if any(move.stream == stream for move in store.row(sn).moves) else None
    if columns is None or not len(columns.time):
        return None
    found = Arrival(
        sn, 0, stream, columns.time, columns.s, columns.p, columns.o, columns.graphs(),
        OfElements(columns.time, columns.element), columns.element, None, None, False,
    )  # fmt: skip
    return found, columns.push


def _of_move(sn: int, move: StreamMove, columns: StreamColumns | None) -> list[Arrival]:
    is_only = len(move.pushes) == 1
    return [_arrival(sn, move.stream, mark, columns, is_only) for mark in move.pushes]


def _arrival(sn: int, stream: int, mark: PushMark, columns: StreamColumns | None, is_only: bool) -> Arrival:
    position = mark.latest, mark.heartbeat, mark.idle
    if columns is None:
        nothing = (_NO_IDS, _NO_IDS, _NO_IDS, _NO_IDS, _NO_TIMES, _NO_ELEMENTS)
        return Arrival(sn, mark.ordinal, stream, _NO_TIMES, *nothing, *position)
    # Document order: elements of a push stand together, and so do the triples of an element.
    start, stop, part = 0, len(columns.time), _ALL
    if not is_only:
        start, stop = np.searchsorted(columns.push, [mark.ordinal, mark.ordinal + 1]).tolist()
        part = slice(*np.searchsorted(columns.element, [start, stop]).tolist())
    elements = columns.element[part]
    return Arrival(
        sn, mark.ordinal, stream, columns.time[start:stop],
        columns.s[part], columns.p[part], columns.o[part],
        OfElements(columns.graph, elements) if columns.g is None else columns.g[part],
        OfElements(columns.time, elements),
        elements - np.int32(start) if start else elements, *position,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reach:
    """What of a stream is needed: elements from `oldest` on (None: all), and, however old they are, the last ones of
    counted windows, of those up to `time` (None: it is not known, and `oldest` is None, too). These are the last ones
    when all `before` a push (snapshot, ordinal) had come; None: all that is read. And what came `after` a snapshot,
    however old it is, if one is given."""

    oldest: int | None
    counts: tuple[Count, ...] = ()
    time: int | None = None
    before: tuple[int, int] | None = None
    after: int | None = None


def history(store: Store, stream: int, sn: int, reach: Reach, whole: bool = False) -> Iterator[Arrival]:
    """The arrivals with elements of a stream, oldest first, from the first that left its time at `reach.oldest` or
    later, up to `sn`, as far as they are retained; `whole`: SnapshotGone if some are not.

    The time of a stream never goes back, and no element is ahead of the time after its push by more than the lateness
    of the stream: the caller has subtracted that from `oldest`."""
    rows = list(_rows(store, stream, sn, reach, whole))[::-1]
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        for row, columns in zip(some, store.streams(stream, some), strict=True):
            yield from sorted(_of_move(row.sn, _move_of(row, stream), columns), key=lambda arrival: arrival.push)


def first_needed(store: Store, stream: int, sn: int, reach: Reach) -> int | None:
    """The oldest snapshot that `history` reads; None: it reads none."""
    return min((row.sn for row in _rows(store, stream, sn, reach, False)), default=None)


def last_times(store: Store, sn: int, window: ScheduledWindow, time: int | None) -> LastTimes:
    """The last times of a counted window after snapshot `sn`, if its query was last evaluated at `time`."""
    assert window.count is not None, "it counts nothing"
    found = LastTimes(window.count, time)
    needed = Reach(None if time is None else time - window.ahead_ms, (window.count,), time)
    for arrival in history(store, window.stream, sn, needed):
        found.add_all(arrival.element_times.tolist(), arrival.element_sizes.tolist())
    return found


def _rows(store: Store, stream: int, sn: int, reach: Reach, whole: bool) -> Iterator[SnRow]:
    """The rows of snapshots that brought elements, newest first."""
    lasts = [LastTimes(count, reach.time) for count in reach.counts if reach.oldest is not None]
    for row, number, time in store.snapshots_with_elements(stream, sn):
        is_old = reach.oldest is not None and time is not None and time < reach.oldest
        is_old = is_old and (reach.after is None or number <= reach.after)
        if is_old and (not lasts or (row is not None and _are_before(lasts, _move_of(row, stream).latest))):
            return
        if row is not None:
            if lasts:
                (columns,) = store.streams(stream, [row])
                for arrival in _of_move(row.sn, _move_of(row, stream), columns):
                    if reach.before is None or (arrival.sn, arrival.push) < reach.before:
                        for last in lasts:
                            last.add_all(arrival.element_times.tolist(), arrival.element_sizes.tolist())
            yield row
        elif whole or (reach.after is not None and number > reach.after):
            raise SnapshotGone(
                f"elements that this window needs are no longer retained: those of snapshot {number} and "
                "before are gone; use a later time, or give the stream a longer `retention`"
            )


def _are_before(lasts: Iterable[LastTimes], latest: int | None) -> bool:
    """Whether elements up to `latest`, which came before all that were counted, are none of the last."""
    return latest is not None and all(last.least is not None and last.least >= latest for last in lasts)


def _move_of(row: SnRow, stream: int) -> StreamMove:
    return next(move for move in row.moves if move.stream == stream)
