"""Arrivals: what a snapshot brought of each stream, push by push, in the order of acknowledgement."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store import Store, StreamColumns
from hbase_store.errors import SnapshotGone

Ids = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One push (or heartbeat) of one stream: its elements' times, its triples, the stream's time after it."""

    sn: int
    push: int
    stream: int
    time_after: int | None
    element_times: Times
    s: Ids
    p: Ids
    o: Ids
    times: Times  # of each triple's element


_NO_IDS = np.empty(0, np.uint64)
_NO_TIMES = np.empty(0, np.int64)


def arrivals(store: Store, sn: int, streams: Collection[int] | None = None) -> list[Arrival]:
    """All pushes of a snapshot in order; of these streams only, if any are named."""
    found = []
    for move in store.row(sn).moves:
        if streams is not None and move.stream not in streams:
            continue
        columns = store.stream(sn, move.stream)
        for mark in move.pushes:
            found.append(_arrival(sn, move.stream, mark.ordinal, mark.time, columns))
    return sorted(found, key=lambda arrival: arrival.push)


def _arrival(sn: int, stream: int, push: int, time: int | None, columns: StreamColumns | None) -> Arrival:
    if columns is None:
        return Arrival(sn, push, stream, time, _NO_TIMES, _NO_IDS, _NO_IDS, _NO_IDS, _NO_TIMES)
    # Document order: elements of a push stand together, and so do the triples of an element.
    start, stop = np.searchsorted(columns.push, [push, push + 1])
    low, high = np.searchsorted(columns.element, [start, stop])
    part = slice(int(low), int(high))
    return Arrival(
        sn, push, stream, time, columns.time[start:stop],
        columns.s[part], columns.p[part], columns.o[part], columns.time[columns.element[part]],
    )  # fmt: skip


def history(store: Store, stream: int, sn: int, oldest: int | None, whole: bool = False) -> Iterator[Arrival]:
    """The arrivals with elements of a stream, oldest first, from the first that left its time at `oldest` or later, up
    to `sn`, as far as they are retained; `whole`: SnapshotGone if some are not.

    A stream's time never goes back, and no element is ahead of the time that its push left by more than the stream's
    lateness: whoever asks has taken that off."""
    for n in reversed(list(_batches(store, stream, sn, oldest, whole))):
        yield from arrivals(store, n, (stream,))


def _batches(store: Store, stream: int, sn: int, oldest: int | None, whole: bool) -> Iterator[int]:
    """The snapshots that brought elements, newest first: the row of each knows the one before."""
    position = store.vts(max(sn, store.oldest())).get(stream)
    if position is None:
        return
    n, time = position.last, position.time_last
    while n > 0 and (oldest is None or time is None or time >= oldest):
        if n < store.horizon(stream):
            if whole:
                raise SnapshotGone(
                    f"what this window needs of its stream is not retained any more: elements of snapshot {n} and "
                    f"before are gone; ask for a later time, or give the stream a longer `retention`"
                )
            return
        if n <= sn:
            yield n
        move = next(move for move in store.row(n).moves if move.stream == stream)
        n, time = move.before, move.time_before
