"""An expiry log: rows with a validity, to be retracted when it has ended.

The rows of a step are one chunk, in order of validity. A heap has the next validity of each chunk, so that a step reads
only the chunks in which rows have expired, however many chunks there are."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hbase_store.arrays import Ids, Mask
from stream_ext.rows.key_table import Slots
from stream_ext.rows.zset import FOREVER, Untils, Weights, are_shared, latest


@dataclass(slots=True)
class Logged:
    """Rows as an operator has counted them: of which group, how often (None: once), with which arguments."""

    slots: Slots
    weights: Weights | None
    arguments: tuple[Ids, ...]

    def take(self, which: slice | Mask | np.typing.NDArray[np.intp]) -> Logged:
        weights = None if self.weights is None else self.weights[which]
        return Logged(self.slots[which], weights, tuple(column[which] for column in self.arguments))


@dataclass(slots=True)
class _Chunk:
    untils: Untils  # ascending
    rows: Logged
    at: int = 0


class ExpiryLog:
    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._queue: list[tuple[int, int]] = []  # a heap of (next validity, chunk)
        self._serial = 0

    def add(self, untils: Untils, rows: Logged) -> None:
        if latest(untils) == FOREVER:
            ends = untils != FOREVER
            untils, rows = untils[ends], rows.take(ends)
        if not len(untils):
            return
        if not are_shared(untils) and (untils[1:] < untils[:-1]).any():
            order = np.argsort(untils, kind="stable")
            untils, rows = untils[order], rows.take(order)
        self._serial += 1
        self._chunks[self._serial] = _Chunk(untils, rows)
        heapq.heappush(self._queue, (int(untils[0]), self._serial))

    def due(self, time: int) -> list[Logged]:
        """The rows whose validity ended before `time`; they are not in the log any more."""
        found = []
        while self._queue and self._queue[0][0] < time:
            _, serial = heapq.heappop(self._queue)
            chunk = self._chunks[serial]
            stop = len(chunk.untils)
            if chunk.untils[-1] >= time:
                stop = int(np.searchsorted(chunk.untils, time))
            found.append(chunk.rows.take(slice(chunk.at, stop)))
            chunk.at = stop
            if stop == len(chunk.untils):
                del self._chunks[serial]
            else:
                heapq.heappush(self._queue, (int(chunk.untils[stop]), serial))
        return joined(found)

    def mark(self, slots: Mask) -> None:
        """Sets the flag of each group that has rows in the log."""
        for chunk in self._chunks.values():
            slots[chunk.rows.slots[chunk.at :]] = True

    def renumber(self, renumbered: Slots) -> None:
        for chunk in self._chunks.values():
            chunk.rows = chunk.rows.take(slice(chunk.at, None))
            chunk.rows.slots = renumbered[chunk.rows.slots]
            chunk.untils, chunk.at = chunk.untils[chunk.at :], 0


def joined(parts: Sequence[Logged]) -> list[Logged]:
    """The same rows in two parts at most: those with weights, and those without."""
    return [
        _concatenated(alike)
        for alike in ([p for p in parts if p.weights is None], [p for p in parts if p.weights is not None])
        if alike
    ]


def _concatenated(parts: Sequence[Logged]) -> Logged:
    if len(parts) == 1:
        return parts[0]
    weights = [part.weights for part in parts if part.weights is not None]
    return Logged(
        np.concatenate([part.slots for part in parts]),
        np.concatenate(weights) if weights else None,
        tuple(np.concatenate(columns) for columns in zip(*(part.arguments for part in parts), strict=True)),
    )
