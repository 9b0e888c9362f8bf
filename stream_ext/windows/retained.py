"""Retained arrivals: what windows can contain of what is stored, in order of acknowledgement.

stored      of stream 1 the elements since snapshot 40, and the saved content of [ALL] up to 55; of 2 the elements
[ALL]       the content up to 55, then the elements since 56
[RANGE 1m]  the elements of the last minute, also those before 56"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hbase_store import Store
from stream_ext.evaluation_budget import Control
from stream_ext.windows.arrivals import Arrival, Reach, history
from stream_ext.windows.occupancy import reach
from stream_ext.windows.scheduled_window import ScheduledWindow


def retained_arrivals(
    store: Store,
    windows: Sequence[ScheduledWindow],
    time: int | None,
    sn: int,
    before: tuple[int, int] | None,
    saved: Sequence[Arrival] = (),
    whole: bool = False,
    until: int | None = None,
) -> Iterator[Arrival]:
    """The arrivals up to snapshot `sn` that the windows at this time, or later, can contain (None: at any time).
    `before`: the push before which the windows are needed first. `saved`: the saved content of windows that hold all.
    `whole`: SnapshotGone if some are not retained. `until`: without elements of later times."""
    up_to = {arrival.stream: arrival.sn for arrival in saved}

    def of_stream(stream: int, needed: Reach) -> Iterator[Arrival]:
        for arrival in history(store, stream, sn, needed, whole):
            yield replace(arrival, was_saved=True) if arrival.sn <= up_to.get(stream, -1) else arrival

    streams = (of_stream(*each) for each in reach(windows, time, before, up_to).items())
    found = heapq.merge(sorted(saved, key=_place), *streams, key=_place)
    return found if until is None else (each.of_elements(each.element_times <= until) for each in found)


def within_budget(arrivals: Iterable[Arrival], control: Control) -> list[Arrival]:
    """In order of acknowledgement; what they take is charged."""
    found, size = list[Arrival](), 0
    for arrival in arrivals:
        found.append(arrival)
        size += arrival.nbytes
        control.alive(size)
        control.check()
    return found


def _place(arrival: Arrival) -> tuple[int, int]:
    return arrival.sn, arrival.push
