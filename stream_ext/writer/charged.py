"""Charged batches: the memory of an update is charged to its budget before it is used.

All requests that write fill their batch through this class, so that no operation can forget to charge the quads and
terms of the batch, or to check whether the request was cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hbase_store import Batch
from hbase_store.sorted.view import Room
from stream_ext.evaluation_budget import Control
from stream_ext.rows.zset import Ids

_CELL = 8
#: Cells of a quad: in its columns, and in the batch, its order and its pages.
QUAD = 16
#: And once more, for operations that see those before them: in a log, and in the orders of a preview.
_SEEN = 12
#: Bytes of an edge that is gathered: two nodes, and a graph.
_EDGE = 3 * _CELL
#: What a new term takes besides its text, in the dictionaries and chunks of the batch.
_TERM = 200


class Writes(Protocol):
    """What operations write to: a batch, or a charged one."""

    def encode(self, texts: Sequence[bytes]) -> Ids: ...

    def blanks(self, count: int) -> Ids: ...

    def insert(self, s: npt.ArrayLike, p: npt.ArrayLike, o: npt.ArrayLike, g: npt.ArrayLike) -> None: ...

    def delete(self, s: npt.ArrayLike, p: npt.ArrayLike, o: npt.ArrayLike, g: npt.ArrayLike) -> None: ...


class ChargedBatch:
    def __init__(self, batch: Batch, control: Control) -> None:
        self._batch, self._control = batch, control
        self._unseen = 0  # quads that no operation has read yet

    @property
    def is_first(self) -> bool:
        """Whether no batch is committed together with it, and before it."""
        return not self._batch.earlier

    def encode(self, texts: Sequence[bytes]) -> Ids:
        self._control.check()
        before = len(self._batch.new_texts)
        ids = self._batch.encode(texts)
        for _, new in self._batch.new_texts[before:]:
            self._control.spend(sum(map(len, new)) + _TERM * len(new))
        return ids

    def blanks(self, count: int) -> Ids:
        self._control.room(count, 1)
        return self._batch.blanks(count)

    def insert(self, s: npt.ArrayLike, p: npt.ArrayLike, o: npt.ArrayLike, g: npt.ArrayLike) -> None:
        self._hold(s, p, o, g)
        self._batch.insert(s, p, o, g)

    def delete(self, s: npt.ArrayLike, p: npt.ArrayLike, o: npt.ArrayLike, g: npt.ArrayLike) -> None:
        self._hold(s, p, o, g)
        self._batch.delete(s, p, o, g)

    def _hold(self, *quad: npt.ArrayLike) -> None:
        count = max(np.size(column) for column in quad)
        self._control.check()
        self._control.spend(count * QUAD * _CELL)
        self._unseen += count

    def seen(self) -> None:
        """The next operation will read what was written up to now."""
        if self._unseen:
            self._control.check()
            self._control.spend(self._unseen * _SEEN * _CELL)
            self._unseen = 0

    def pack(self) -> None:
        """Builds the bytes that will be stored: after this only the disk takes long."""
        self._batch.pack(self._control.check)
        self._control.check()  # for the last time: then it is published


def room_of(control: Control) -> Room:
    """A check that is called with the number of edges before they are read from the store."""

    def room(edges: int) -> None:
        control.check()
        spent = control.spent
        control.spend(edges * _EDGE)
        control.return_to(spent)  # those that are kept are counted as they are written

    return room
