"""Elements that wait for the first evaluation that sees them: their times, and perhaps a row for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream_ext.windows.scheduled_window import Times, least_and_greatest

Columns = tuple[npt.NDArray[np.uint64], ...]


class ArrivedTogether(NamedTuple):
    """Some elements: their times, with the least and the greatest of them, and the columns of their rows."""

    times: Times
    first: int
    last: int
    columns: Columns


class WaitingElements:
    """In the order in which they arrived."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[ArrivedTogether] = []

    def add(self, times: Times, columns: Columns = (), span: tuple[int, int] | None = None) -> None:
        """`span`: the least and the greatest of the times, if they are known."""
        self._waiting.append(ArrivedTogether(times, *(span or least_and_greatest(times)), columns))

    def copy(self) -> WaitingElements:
        other = WaitingElements()
        other._waiting = list(self._waiting)
        return other

    def take(self, others: WaitingElements) -> None:
        """Those of `others` wait here from now on."""
        self._waiting += others._waiting
        others._waiting = []

    def up_to(self, time: int) -> list[ArrivedTogether]:
        """Removes and returns the elements of this time and before."""
        waiting, self._waiting = self._waiting, []
        found = []
        for each in waiting:
            if each.last <= time:
                found.append(each)
            elif each.first > time:
                self._waiting.append(each)
            else:
                came = each.times <= time
                self.add(each.times[~came], rows_where(each.columns, ~came))
                times = each.times[came]
                found.append(ArrivedTogether(times, each.first, int(times.max()), rows_where(each.columns, came)))
        return found

    def first(self) -> int | None:
        """The least time."""
        return min([each.first for each in self._waiting]) if self._waiting else None


def rows_where(columns: Columns, which: npt.NDArray[np.bool_]) -> Columns:
    return tuple(column[which] for column in columns)
