"""The pushes of one snapshot: one by one, or each stream as a whole.

Both are made when somebody asks for them, and then remembered: the queries of a shard share them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbase_store import Store
from stream_ext.windows.arrivals import Arrival, arrivals, whole_stream
from stream_ext.windows.scheduled_window import Times

Ordinals = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Merged:
    """The elements of some streams in the order in which they came: the time and the push of each.

    `streams`: for each stream, all its elements, and their places in that order."""

    times: Times
    pushes: Ordinals
    streams: tuple[tuple[Arrival, Times], ...]

    @property
    def is_in_order(self) -> bool:
        """Whether no element is older than one that came before it."""
        return bool((self.times[1:] >= self.times[:-1]).all())


class PushesOfSnapshot:
    def __init__(self, store: Store, sn: int, streams: Collection[int]) -> None:
        """`streams`: those that somebody reads. The others may have been collected already."""
        self._store, self._sn, self._streams = store, sn, streams
        if streams:
            for move in store.row(sn).moves:
                if move.stream in streams:
                    # Elements that are not retained are no fault of the query that asks for them first.
                    store.stream(sn, move.stream)
        self._single: list[Arrival] | None = None
        self._merged: dict[frozenset[int], Merged] = {}

    def __iter__(self) -> Iterator[Arrival]:
        """Push by push, in the order of acknowledgement."""
        if self._single is None:
            self._single = arrivals(self._store, self._sn, self._streams) if self._streams else []
        return iter(self._single)

    def merged(self, streams: frozenset[int]) -> Merged:
        if streams not in self._merged:
            self._merged[streams] = self._merge(sorted(streams & frozenset(self._streams)))
        return self._merged[streams]

    def _merge(self, streams: Collection[int]) -> Merged:
        found = [whole for stream in streams if (whole := whole_stream(self._store, self._sn, stream)) is not None]
        if not found:
            return Merged(np.empty(0, np.int64), np.empty(0, np.int32), ())
        if len(found) == 1:
            ((arrival, pushes),) = found
            return Merged(arrival.element_times, pushes, ((arrival, np.arange(len(pushes))),))
        times = np.concatenate([arrival.element_times for arrival, _ in found])
        pushes = np.concatenate([pushes for _, pushes in found])
        order = np.argsort(pushes, kind="stable")  # a push is of one stream
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        stops = np.cumsum([len(own) for _, own in found]).tolist()
        parts = [(arrival, places[at - len(own) : at]) for (arrival, own), at in zip(found, stops, strict=True)]
        return Merged(times[order], pushes[order], tuple(parts))
