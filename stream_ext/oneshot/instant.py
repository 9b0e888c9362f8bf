"""Instants: the time at which a one-shot query evaluates windows, and what had arrived by then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hbase_store import Store
from stream_ext.emissions.saved_windows import saved_arrivals
from stream_ext.network.network import Network
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.retained import retained_arrivals
from stream_ext.windows.scheduled_window import ScheduledWindow
from stream_ext.windows.timing import arrives_by_element


@dataclass(frozen=True, slots=True)
class NewAfter:
    """An evaluation at `time` (None: the registration), after the push `push` of snapshot `sn`; of this push, after the
    elements of `arrived_at`. What came after it is new, and what came since `began` but waited for a later close."""

    sn: int
    push: int
    arrived_at: int | None = None
    time: int | None = None
    began: int = 0

    @property
    def place(self) -> tuple[int, int]:
        return self.sn, self.push


@dataclass(frozen=True, slots=True)
class Instant:
    """The time at which windows are evaluated: `time`, with all arrivals up to the push `push` of snapshot `sn` (of
    this push, up to the elements of `arrived_at`); None: with all arrivals of the snapshot that is read. All of them
    must be retained, unless `as_retained`: then the retained ones are known to be all that count.

    `new_after`: what is new since then is left out. `of_query`: the number of the registered query whose evaluation it
    is, running since snapshot `began`; what is saved of its windows that hold all need not be retained."""

    time: int
    sn: int | None = None
    push: int | None = None
    arrived_at: int | None = None
    as_retained: bool = False
    new_after: NewAfter | None = None
    of_query: int | None = None
    began: int = 0


def fill(network: Network, store: Store, sn: int, windows: Sequence[ScheduledWindow], at: Instant) -> None:
    """Adds what the windows contain then, and what waits for later."""
    new, after, has_begun = list[Arrival](), at.new_after, False
    for arrival, by_element in _arrivals(store, sn, windows, at):
        place = arrival.sn, arrival.push
        if after is not None and not has_begun and (has_begun := arrival.sn > after.began):
            network.settle()  # none of what came before the query began is new
        if after is None or place < after.place:
            network.arrive(arrival)
        elif place > after.place:
            new.append(arrival)
        else:
            network.arrive(arrival.between(None, after.arrived_at, by_element))
            if after.arrived_at is not None:
                new.append(arrival.between(after.arrived_at, None, by_element))
    network.settle(after.time if has_begun and after is not None else None)
    for arrival in new:
        network.arrive(arrival)


def _arrivals(store: Store, sn: int, windows: Sequence[ScheduledWindow], at: Instant) -> Iterator[tuple[Arrival, bool]]:
    """What had arrived then; and whether it arrived element by element."""
    before = None if at.sn is None or at.push is None else (at.sn, at.push)
    last, saved = sn if at.sn is None else at.sn, _saved(store, windows, at)
    for arrival in retained_arrivals(store, windows, at.time, last, before, saved, whole=not at.as_retained):
        by_element = arrives_by_element(windows, arrival.stream)
        if before is None or (arrival.sn, arrival.push) < before:
            yield arrival, by_element
        elif (arrival.sn, arrival.push) == before:
            yield arrival.between(None, at.arrived_at, by_element), by_element


def _saved(store: Store, windows: Sequence[ScheduledWindow], at: Instant) -> list[Arrival]:
    """The saved content of windows that hold all, none of which is new, and all of which the evaluation has reached."""
    if at.of_query is None or at.sn is None or not any(window.holds_all for window in windows):
        return []
    if at.as_retained:
        return saved_arrivals(store.emissions, at.of_query, at.began, at.sn)
    sn, time = at.sn, at.time
    if (after := at.new_after) is not None:
        sn, time = min(sn, after.sn), min(time, time if after.time is None else after.time)
    return saved_arrivals(store.emissions, at.of_query, at.began, sn, time)
