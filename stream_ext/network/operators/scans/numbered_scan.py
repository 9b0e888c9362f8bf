"""Numbered scans: one triple pattern over the content of one window, for many evaluations in one step.

Each row has a hidden column with the evaluation that it came with; of a counted window it has another one with the
evaluation at which it is gone (`numbered_evaluations`). Joins carry these columns on like any others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store.arrays import Ids, concatenate
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.pattern import IdPattern
from stream_ext.network.operators.scans.watched_scan import WatchedScan
from stream_ext.network.operators.scans.window_scan import WindowScan
from stream_ext.rows.zset import Columns, ZSet, concat
from stream_ext.windows.displacing import Displaced, Displacing
from stream_ext.windows.numbered_evaluations import NEVER_GONE, NumberedEvaluations
from stream_ext.windows.scheduled_window import ScheduledWindow, Times
from stream_ext.windows.waiting_elements import WaitingElements

#: How the names of hidden columns begin: no variable of a text does.
CAME, GONE = ".came", ".gone"

_NONE: Ids = np.empty(0, np.uint64)
_NO_TIMES: Times = np.empty(0, np.int64)


def evaluations_of(moment: Moment) -> NumberedEvaluations:
    assert moment.evaluations is not None, "a numbered scan is stepped for numbered evaluations"
    return moment.evaluations


def _entering(waiting: WaitingElements, window: ScheduledWindow, moment: Moment, width: int) -> tuple[Columns, Times]:
    """The rows that enter the window at one of the evaluations; the last column has the one that each came with."""
    evaluations, parts = evaluations_of(moment), []
    for rows in waiting.up_to(int(evaluations.times[-1]) - window.lead_ms):
        untils, froms = window.valid_until(rows.times), window.valid_from(rows.times)
        came, _ = evaluations.entered(rows.columns[-1].view(np.int64), froms)
        columns = (*map(moment.vocabulary.inward, rows.columns[:-1]), came.view(np.uint64))
        inside = untils >= np.maximum(froms, evaluations.times[0])
        if inside.all():
            parts.append((columns, untils))
        else:
            parts.append((tuple(column[inside] for column in columns), untils[inside]))
    if len(parts) == 1:
        return parts[0]
    untils = np.concatenate([_NO_TIMES, *(untils for _, untils in parts)])
    return tuple(concatenate([_NONE, *(columns[i] for columns, _ in parts)]) for i in range(width)), untils


class NumberedScan(WindowScan):
    """`came`: the name of the hidden column."""

    def __init__(self, window: ScheduledWindow, pattern: IdPattern, came: str) -> None:
        super().__init__(window, pattern, as_bag=True)
        self.variables = (*pattern.variables, came)

    def step(self, moment: Moment) -> ZSet:
        self.settle()
        columns, untils = _entering(self._waiting, self.window, moment, len(self.variables))
        return self._with_saved(ZSet(columns, len(untils), None, untils), moment)


class NumberedWatchedScan(WatchedScan):
    """As a watched scan."""

    def __init__(
        self, window: ScheduledWindow, pattern: IdPattern, parameters: tuple[str, ...], name: str, came: str
    ) -> None:
        super().__init__(window, pattern, parameters, name)
        self.variables = (*pattern.variables, came)
        self._width = len(self.variables)

    def _entering(self, moment: Moment) -> tuple[Columns, Times]:
        self.settle()
        return _entering(self._waiting, self.window, moment, len(self.variables))


class NumberedCountedScan:
    """What is displaced later than in the step in which it came is retracted, and comes again with its end."""

    has_occurrences = False

    def __init__(
        self, window: ScheduledWindow, pattern: IdPattern, displacing: Displacing, came: str, gone: str
    ) -> None:
        self.window, self.pattern = window, pattern
        self.variables = (*pattern.variables, came, gone)
        self._displacing = displacing
        self._width = len(pattern.variables)
        self._coming: list[tuple[Columns, Times]] = []  # bindings and numbers of what has come
        # Of the rows in the window: bindings, the evaluation that each came with; and numbers.
        self._content: tuple[Columns, Times] = tuple(_NONE for _ in range(self._width + 1)), _NO_TIMES

    def arrive(self, triples: Sequence[Ids], times: Times, numbers: Times, extra: Columns = ()) -> None:
        """Triples of the window's stream (s, p, o, g), with the numbers that `Displacing` has given them."""
        fits, columns = self.pattern.match_in_window(triples)
        if fits.any():
            self._coming.append((columns(fits), numbers[fits]))

    def settle(self, time: int | None = None) -> None:
        """The evaluation that each row came with is given by its number."""

    def step(self, moment: Moment) -> ZSet:
        evaluations = evaluations_of(moment)
        displaced = self._displacing.displaced
        assert displaced is not None, "what is counted is displaced before it is scanned"
        parts = [self._left(displaced, evaluations), self._came(displaced, evaluations, moment)]
        return concat(parts, len(self.variables))

    def _left(self, displaced: Displaced, evaluations: NumberedEvaluations) -> ZSet:
        columns, numbers = self._content
        gone, is_gone = _looked_up(displaced.left, displaced.left_gone, numbers)
        self._content = tuple(column[~is_gone] for column in columns), numbers[~is_gone]
        count, left = int(is_gone.sum()), tuple(column[is_gone] for column in columns)
        was = ZSet((*left, np.full(count, NEVER_GONE).view(np.uint64)), count, np.full(count, -1, np.int64))
        return concat([was, _until(left, gone[is_gone], evaluations)], len(self.variables))

    def _came(self, displaced: Displaced, evaluations: NumberedEvaluations, moment: Moment) -> ZSet:
        if not self._coming:
            return ZSet(tuple(_NONE for _ in self.variables), 0)
        columns = tuple(concatenate([part[0][i] for part in self._coming]) for i in range(self._width))
        numbers = np.concatenate([numbers for _, numbers in self._coming])
        came, is_in = _looked_up(displaced.came, displaced.came_with, numbers)
        gone, _ = _looked_up(displaced.came, displaced.came_gone, numbers)
        self._coming = [] if is_in.all() else [(tuple(column[~is_in] for column in columns), numbers[~is_in])]
        stays, seen = is_in & (gone == NEVER_GONE), is_in & (gone > came) & (gone != NEVER_GONE)
        inward = tuple(map(moment.vocabulary.inward, columns))
        rows = (*inward, came.view(np.uint64))
        new = tuple(column[stays] for column in rows)
        content, content_numbers = self._content
        self._content = (
            tuple(np.concatenate(pair) for pair in zip(content, new, strict=True)),
            np.concatenate([content_numbers, numbers[stays]]),
        )
        count = int(stays.sum())
        remaining = ZSet((*new, np.full(count, NEVER_GONE).view(np.uint64)), count)
        passing = _until(tuple(column[seen] for column in rows), gone[seen], evaluations)
        return concat([remaining, passing], len(self.variables))


def _until(columns: Columns, gone: Times, evaluations: NumberedEvaluations) -> ZSet:
    """Rows that are gone at these evaluations."""
    places = np.clip(evaluations.place_of(gone + 1), 0, len(evaluations.times) - 1)
    return ZSet((*columns, gone.view(np.uint64)), len(gone), None, evaluations.times[places])


def _looked_up(known: Times, values: Times, numbers: Times) -> tuple[Times, np.typing.NDArray[np.bool_]]:
    """The values of these numbers, and which of them are known."""
    if not len(known):
        return np.full(len(numbers), NEVER_GONE, np.int64), np.zeros(len(numbers), np.bool_)
    places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    there = known[places] == numbers
    return np.where(there, values[places], NEVER_GONE), there
