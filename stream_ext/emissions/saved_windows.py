"""Saved windows: where the emission log has the content of windows that hold all ([ALL]) of a registered query.

The rows of the content are written as records of a number of their own, like the emissions of a query. They count when
a later commit names them, in a `SavedWindows` record among the states; so whatever dies in between leaves the save
before.

    point at 40    a whole save: all up to snapshot 40
    point at 55    what came after 40, up to 55
    point at 71    what came after 55, up to 71

A query that continues after an evaluation in snapshot 60 has the points at 40 and 55, and reads the elements of its
stream from 56 on."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Protocol

import msgspec

from hbase_store import EmissionRow
from hbase_store.errors import Corrupt, SnapshotGone
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.saved_content import Keeping, SavedContent

#: How the record begins among the states of the log; a state, or a record of another kind, begins otherwise.
SAVED = b"W"


class SavedPoint(msgspec.Struct, frozen=True, array_like=True):
    """What came in a stream after the point before, up to the snapshot `sn`. The content is that of any evaluation at
    `time` or later; `numbers` are those of the rows of the log that have it, `rows` the number of its own rows."""

    stream: int
    sn: int
    time: int
    keeping: Keeping
    rows: int
    numbers: list[int]


class SavedWindows(msgspec.Struct, frozen=True, array_like=True):
    """`number`: that of its records. The points of a stream ascend."""

    number: int
    query: int
    points: list[SavedPoint] = []

    def of(self, stream: int, began: int, before: int | None = None) -> list[SavedPoint]:
        """The points of a stream that a query can use that runs since snapshot `began`, and was last evaluated in
        `before` (None: whenever)."""
        return [
            point
            for point in self.points
            if point.stream == stream and point.sn > began and (before is None or point.sn < before)
        ]

    def up_to(self, began: int, before: int) -> dict[int, int]:
        """Of each stream the snapshot up to which elements are saved, for such a query."""
        return {point.stream: point.sn for point in self.points if began < point.sn < before}

    @property
    def first_number(self) -> int | None:
        """That of the oldest row of the log that is needed."""
        return min((number for point in self.points for number in point.numbers), default=None)


class SavedRows(Protocol):
    """What is needed of the emission log."""

    def states(self) -> dict[int, bytes]: ...
    def read(self, query: int, after: int = 0, limit: int | None = None) -> Iterator[EmissionRow]: ...


class Saves:
    """Of each query what is saved of it, and what of that differs from the records that are stored."""

    def __init__(self) -> None:
        self.of: dict[int, SavedWindows] = {}
        self._dirty: set[int] = set()
        self._gone: set[int] = set()  # numbers of records

    def read(self, number: int, body: bytes, queries: Container[int]) -> None:
        saved = _decoded(body)
        if saved.query in queries:
            self.of[saved.query] = saved
        else:
            self._gone.add(number)

    def put(self, query: int, saved: SavedWindows | None) -> None:
        """None: nothing of the query is saved any more."""
        before = self.of.pop(query, None)
        if saved is not None:
            self.of[query] = saved
            self._dirty.add(query)
        elif before is not None:
            self._gone.add(before.number)

    def unstored(self) -> dict[int, bytes | None]:
        """The records that differ from the stored ones; None: to be deleted."""
        dirty = (self.of[query] for query in self._dirty if query in self.of)
        return {
            **{saved.number: SAVED + msgspec.msgpack.encode(saved) for saved in dirty},
            **dict.fromkeys(self._gone),
        }

    def stored(self) -> None:
        """The records of `unstored` are stored now."""
        self._dirty.clear()
        self._gone.clear()


def _decoded(body: bytes) -> SavedWindows:
    return msgspec.msgpack.decode(body[len(SAVED) :], type=SavedWindows)


def saved_windows(log: SavedRows, query: int) -> SavedWindows | None:
    """What a process finds that does not write."""
    found = (_decoded(body) for body in log.states().values() if body[:1] == SAVED)
    return next((saved for saved in found if saved.query == query), None)


def content_of(log: SavedRows, saved: SavedWindows, point: SavedPoint) -> SavedContent:
    parts = []
    for number in point.numbers:
        row = next(log.read(saved.number, number - 1, 1), None)
        if row is None or row.number != number:
            raise SnapshotGone(
                f"the saved content of query {saved.query} up to snapshot {point.sn} was replaced while it was read"
            )
        try:
            parts.append(SavedContent.unpack(row.body))
        except ValueError as error:
            raise Corrupt(f"the saved content of query {saved.query} up to snapshot {point.sn}: {error}") from error
    return SavedContent.joined(parts)


def saved_arrivals(log: SavedRows, query: int, began: int, before: int, time: int | None = None) -> list[Arrival]:
    """The saved content for a query that runs since snapshot `began`, and was last evaluated in `before`; only what its
    evaluation at `time` has reached, if one is given."""
    found: list[Arrival] = []
    if (saved := saved_windows(log, query)) is None:
        return found
    for stream in dict.fromkeys(point.stream for point in saved.points):
        points = [point for point in saved.of(stream, began, before) if time is None or point.time <= time]
        if not points and time is None and saved.of(stream, began):
            raise SnapshotGone(
                f"the content of query {saved.query} up to snapshot {before} was replaced by that of a later one"
            )
        if points:
            content = SavedContent.joined([content_of(log, saved, point) for point in points])
            last = points[-1]
            found += content.arrivals(stream, last.sn, last.keeping, last.time)
    return found
