"""Lives: from which instant on a row of numbered evaluations counts, and up to which.

An evaluation n has two instants. At 2n-1 what has run out is gone, and what comes with the evaluation is not there yet;
at 2n it is. What CQELS-QL emits at an evaluation is what the second has more than the first.

    evaluations            1 at 10        2 at 14        3 at 20
    instants               1   2          3   4          5   6
    came with 1, until 15      |--------------------|          from instant 2 on, gone at 5
    came with 2, displaced                    |-----|          by what comes with 3: gone at 5, too

A row's hidden columns say with which evaluations its parts came, and which displace them (`numbered_scan`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_ext.network.operators.scans.numbered_scan import CAME, GONE
from stream_ext.rows.expiry_log import ExpiryLog, Logged
from stream_ext.rows.key_table import Signed, Slots
from stream_ext.rows.zset import FOREVER, Ids, ZSet
from stream_ext.windows.numbered_evaluations import NEVER_GONE, OLD, NumberedEvaluations
from stream_ext.windows.scheduled_window import Times


class Lives(NamedTuple):
    """The rows that count at some instant of these evaluations or later: the first instant at which each counts, and
    the first at which it does no more (NEVER_GONE: in a later step, if ever)."""

    rows: ZSet
    starts: Times
    ends: Times


def is_hidden(variable: str) -> bool:
    return variable.startswith((CAME, GONE))


def shown(variables: Sequence[str]) -> tuple[str, ...]:
    """Without hidden columns."""
    return tuple(v for v in variables if not is_hidden(v))


def hidden(variables: Sequence[str]) -> tuple[str, ...]:
    return tuple(v for v in variables if is_hidden(v))


class HiddenColumns:
    """Where they stand among these variables."""

    def __init__(self, variables: Sequence[str]) -> None:
        self._came = [place for place, name in enumerate(variables) if name.startswith(CAME)]
        self._gone = [place for place, name in enumerate(variables) if name.startswith(GONE)]
        self.shown = [place for place, name in enumerate(variables) if not is_hidden(name)]

    def lives(self, change: ZSet, evaluations: NumberedEvaluations) -> Lives:
        first = 2 * evaluations.first - 1
        starts = np.full(change.count, max(first, OLD), np.int64)
        for place in self._came:
            starts = np.maximum(starts, change.column(place).view(np.int64))
        ends = np.full(change.count, NEVER_GONE, np.int64)
        for place in self._gone:
            gone = change.column(place).view(np.int64)
            gone = np.where(gone == 0, NEVER_GONE, gone)  # 0: the row has nothing of that window
            ends = np.minimum(ends, gone - 1 + (gone & 1))  # what an arrival displaces goes before the arrival comes
        if change.untils is not None:
            ends = np.minimum(ends, run_out(change.untils, evaluations))
        counts = ends > starts
        if counts.all():
            return Lives(change, starts, ends)
        return Lives(change.take(counts), starts[counts], ends[counts])


def run_out(untils: Times, evaluations: NumberedEvaluations) -> Times:
    """The instants at which rows of these validities are gone."""
    places = np.searchsorted(evaluations.times, untils, "right")
    instants = 2 * (evaluations.first + places) - 1
    return np.where(places < len(evaluations.times), instants, NEVER_GONE)


class Events(NamedTuple):
    """Rows of groups (`slots`) come (sign 1) and go (-1) at instants; in the order of groups, then of instants."""

    slots: Slots
    instants: Times
    signs: Signed
    columns: tuple[Ids, ...]

    def take(self, which: np.typing.NDArray[np.intp]) -> Events:
        columns = tuple(column[which] for column in self.columns)
        return Events(self.slots[which], self.instants[which], self.signs[which], columns)


class LifeLog:
    """Which rows of groups come and go in a step, also of those that came in steps before."""

    def __init__(self) -> None:
        self._log = ExpiryLog()

    def events(self, lives: Lives, slots: Slots, columns: tuple[Ids, ...], evaluations: NumberedEvaluations) -> Events:
        """When rows of this step, and of steps before, begin and cease to count. `columns`: the columns of the rows,
        which each event has."""
        rows, untils = Logged(slots, None, columns), lives.rows.until_array()
        gone = lives.ends != NEVER_GONE
        ended = rows.take(gone)
        parts = [(rows, lives.starts, 1), (ended, lives.ends[gone], -1)]
        for logged in self._log.due(int(evaluations.times[-1])):
            *of_rows, until = logged.arguments
            due = Logged(logged.slots, None, tuple(of_rows))
            parts.append((due, run_out(until.view(np.int64), evaluations), -1))
        stays = ~gone & (untils != FOREVER)
        if stays.any():
            remaining = rows.take(stays)
            kept = (*remaining.arguments, untils[stays].view(np.uint64))
            self._log.add(untils[stays], Logged(remaining.slots, None, kept))
        return _in_order(parts, len(columns))

    def mark(self, slots: np.typing.NDArray[np.bool_]) -> None:
        self._log.mark(slots)

    def renumber(self, renumbered: Slots) -> None:
        self._log.renumber(renumbered)


def _in_order(parts: Sequence[tuple[Logged, Times, int]], width: int) -> Events:
    slots = np.concatenate([rows.slots for rows, _, _ in parts])
    instants = np.concatenate([instants for _, instants, _ in parts])
    signs = np.concatenate([np.full(len(rows.slots), sign, np.int64) for rows, _, sign in parts])
    columns = tuple(np.concatenate([rows.arguments[i] for rows, _, _ in parts]) for i in range(width))
    found = Events(slots, instants, signs, columns)
    return found.take(np.lexsort((instants, slots)))


def begins_of(*columns: np.typing.NDArray[np.generic]) -> np.typing.NDArray[np.intp]:
    """The places at which any of these columns differs from the place before; the first place is one."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)
