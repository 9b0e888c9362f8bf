"""Saved content: what a window that holds all ([ALL]) has got of its stream up to a snapshot, in few rows.

The elements themselves can then be deleted. What is kept of them depends on what can be told apart in the window:

    latest     a window that is a set: each triple once, with its latest occurrence
    counted    a window that is a bag: each triple, and how often it came
    each       a bag whose arrivals are ordered (GROUP_CONCAT, SAMPLE): every arrival

    (a :p 1) at 5, (a :p 2) at 6, (a :p 1) at 9    latest: (a :p 2) at 6, (a :p 1) at 9    counted: (a :p 1) twice, ...

Elements that no evaluation has reached, whose time is later than that of the last evaluation, are kept one by one: the
window does not contain them yet."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import concatenate
from hbase_store.layout.columns import from_signed, pack_column, to_signed, unpack_column
from stream_ext.windows.arrivals import Arrival, Ids, Mask, Times, numbers_of

#: Whether there is a least time, and the least time.
_HEADER = struct.Struct("<?q")
_NO_IDS = np.empty(0, np.uint64)
_NO_TIMES = np.empty(0, np.int64)

Picks = npt.NDArray[np.intp]


class Keeping(StrEnum):
    """What is kept of elements that are in the window."""

    LATEST = "latest"
    COUNTED = "counted"
    EACH = "each"


@dataclass(frozen=True, slots=True)
class SavedContent:
    """A row is a triple with its graph, the time, the number of the arrival and the place in its document of an
    occurrence, and how often it came. `least`: the least time of an element, whether or not its triples are here."""

    s: Ids
    p: Ids
    o: Ids
    g: Ids
    times: Times
    numbers: Ids
    places: Ids
    counts: Times
    least: int | None = None

    @classmethod
    def of(cls, arrival: Arrival) -> SavedContent:
        least = int(arrival.element_times.min()) if len(arrival.element_times) else None
        counts = np.ones(len(arrival.s), np.int64)
        places = arrival.document_places
        triples = (arrival.s, arrival.p, arrival.o, arrival.g)
        return cls(*triples, arrival.times, numbers_of(arrival), places, counts, least)

    @classmethod
    def joined(cls, parts: Sequence[SavedContent]) -> SavedContent:
        ids = [concatenate([_NO_IDS, *(part._ids[i] for part in parts)]) for i in range(6)]
        times = np.concatenate([_NO_TIMES, *(part.times for part in parts)])
        counts = np.concatenate([_NO_TIMES, *(part.counts for part in parts)])
        leasts = [part.least for part in parts if part.least is not None]
        return cls._of(ids, times, counts, min(leasts, default=None))

    @classmethod
    def _of(cls, ids: Sequence[Ids], times: Times, counts: Times, least: int | None) -> SavedContent:
        s, p, o, g, numbers, places = ids
        return cls(s, p, o, g, times, numbers, places, counts, least)

    def __len__(self) -> int:
        return len(self.s)

    @property
    def _ids(self) -> tuple[Ids, ...]:
        return (self.s, self.p, self.o, self.g, self.numbers, self.places)

    def where(self, which: Mask | Picks) -> SavedContent:
        ids = [column[which] for column in self._ids]
        return self._of(ids, self.times[which], self.counts[which], self.least)

    def without(self, places: Sequence[int], term: np.uint64) -> SavedContent:
        """With this term at some places (0 subject, 1 predicate, 2 object) of each triple."""
        ids = [np.full(len(self), term) if i in places else column for i, column in enumerate(self._ids)]
        return self._of(ids, self.times, self.counts, self.least) if places else self

    # ---- fewer rows

    def folded(self, keeping: Keeping, time: int) -> SavedContent:
        """The same content of the window at each evaluation at `time` or later."""
        due = self.times <= time
        if keeping is Keeping.EACH or not due.any():
            return self
        now = self.where(due)
        order = np.lexsort((now.places, now.numbers, now.times, now.g, now.o, now.p, now.s))
        now = now.where(order)
        ends = np.ones(len(now), np.bool_)
        ends[:-1] = np.any([column[1:] != column[:-1] for column in (now.s, now.p, now.o, now.g)], axis=0)
        last = np.flatnonzero(ends)
        found = now.where(last)
        if keeping is Keeping.COUNTED:
            found = replace(found, counts=np.diff(np.cumsum(now.counts)[last], prepend=0))
        return SavedContent.joined([found, self.where(~due)])

    # ---- as arrivals

    def arrivals(self, stream: int, sn: int, keeping: Keeping, time: int) -> list[Arrival]:
        """As if they were the first push of the snapshot `sn`, up to which they came. What an evaluation at `time` has
        reached of a bag has the number of its copies."""
        if keeping is not Keeping.COUNTED:
            return [self._arrival(stream, sn)]
        due = self.times <= time
        counted, waiting = self.where(due), replace(self.where(~due), least=None)
        return [replace(counted._arrival(stream, sn), copies=counted.counts), waiting._arrival(stream, sn)]

    def _arrival(self, stream: int, sn: int) -> Arrival:
        """Each row is an element; one more, without triples, has the least time."""
        first = [] if self.least is None else [self.least]
        element = np.arange(len(first), len(first) + len(self), dtype=np.int32)
        element_times = np.concatenate([np.array(first, np.int64), self.times])
        return Arrival(
            sn, 0, stream, element_times, self.s, self.p, self.o, self.g, self.times, element, None, None, False,
            self.places, self.numbers, is_saved=True,
        )  # fmt: skip

    # ---- as bytes

    def pack(self) -> bytes:
        header = _HEADER.pack(self.least is not None, self.least or 0)
        return header + b"".join(map(pack_column, (*self._ids, from_signed(self.times), from_signed(self.counts))))

    @classmethod
    def unpack(cls, data: bytes) -> SavedContent:
        """A ValueError if it cannot be one."""
        view, at = memoryview(data), _HEADER.size
        has_least, least = _HEADER.unpack_from(view)
        columns: list[Ids] = []
        for _ in range(8):
            column, at = unpack_column(view, at)
            columns.append(column)
        *ids, times, counts = columns
        return cls._of(ids, to_signed(times), to_signed(counts), least if has_least else None)
