"""From evaluations to parts: those of one snapshot, of one query or of several that are evaluated together.

A run of more than 1,000 evaluations over empty windows becomes one part, if each has no result or, under RSTREAM, the
same one: a stream may be silent for a year, or leap from small abstract times to the clock's, and every close in
between falls due. Consecutive evaluations without an emission become one part, however many they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from stream_ext.continuous.results import ManyResults, Result, is_empty
from stream_ext.windows.grids import Grid, RepeatedTimes
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import LastEvaluation
from stream_ext.windows.schedule import Due
from stream_ext.windows.scheduled_window import Times

RUN_EMITTED_SINGLY_MAX = 1000

#: The number `k` of a part that comes after all evaluations of a snapshot.
AFTER_ALL = 1 << 62


class ManyDue(NamedTuple):
    """Evaluations at arrivals, made in one step: the time and the push of each, and what had arrived by it."""

    times: Times
    pushes: Times
    arrived: Times

    def at(self, place: int, sn: int, first: int) -> LastEvaluation:
        """`first`: the number of the first of them in the snapshot."""
        time, push, arrived = (int(column[place]) for column in self)
        return LastEvaluation(sn, push, first + place, time, True, arrived)


class MakesParts(Protocol):
    """Builds the parts of a query, or of queries. `repeats`: each result is the whole answer (RSTREAM)."""

    repeats: bool

    def part(self, evaluated: LastEvaluation, result: Result) -> Part:
        """The part of the next evaluation."""
        ...

    def passed(self, evaluated: LastEvaluation) -> None:
        """The next evaluations, up to this one, emit nothing, and have no part of their own."""
        ...


class MakesPartsOfMany(Protocol):
    def part_of_many(self, evaluated: LastEvaluation, first: int, due: ManyDue, results: ManyResults) -> Part:
        """One part of all evaluations that emit; `evaluated` is the last of them, `first` the number of the first in
        the snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class _Pending:
    """Consecutive evaluations that are not emitted yet; the first is number `k` in the snapshot."""

    run: RepeatedTimes
    push: int
    k: int
    arrived_at: int | None = None

    def at(self, sn: int, k: int, time: int) -> LastEvaluation:
        return LastEvaluation(sn, self.push, k, time, self.arrived_at is not None, self.arrived_at)


class Steps:
    def __init__(self, query: MakesParts, sn: int, count: int = 0) -> None:
        """`count`: the number of evaluations of this snapshot that were emitted before."""
        self._query = query
        self._sn = sn
        self.count = count  # of evaluations so far
        self._parts: list[Part] = []
        self._pending: list[_Pending] = []  # all have `_pending_result`; of a long run only the first and the last
        self._pending_count = 0
        self._pending_result: Result = [], None, False

    @property
    def emitted_up_to(self) -> int:
        """The number of evaluations that are emitted: those after it may have the same result as the next ones."""
        return self._pending[0].k if self._pending else self.count

    @property
    def is_complete(self) -> bool:
        """Whether all evaluations are emitted, so that the next one can begin a part."""
        return not self._pending

    def add(self, due: Due, push: int, over_nothing: bool, result: Result) -> None:
        """`over_nothing`: all windows are empty."""
        *_, emits = result
        evaluation = _Pending(one(due.time), push, self._next_k(1), due.arrived)
        if not emits or (over_nothing and (self._query.repeats or is_empty(result))):
            self._add_pending(evaluation, 1, result)
            return
        silent = self._pass_silent_ones()
        self._emit()
        part = self._query.part(evaluation.at(self._sn, evaluation.k, due.time), result)
        part.silent_before = silent
        self._parts.append(part)

    def add_run(self, run: RepeatedTimes, push: int, result: Result) -> None:
        """A run over empty windows; each evaluation has this result."""
        count = run.count()
        self._add_pending(_Pending(run, push, self._next_k(count)), count, result)

    def add_many(self, due: ManyDue, results: ManyResults, query: MakesPartsOfMany) -> None:
        """Evaluations of one step, up to the last of those that emit."""
        places, silent = results.places, self._pass_silent_ones()
        self._emit()
        last, before = int(places[-1]), int(places[0]) - 1
        first = self._next_k(last + 1)
        if before >= 0:
            self._query.passed(due.at(before, self._sn, first))
        part = query.part_of_many(due.at(last, self._sn, first), first, due, results)
        part.silent_before = silent + last + 1 - len(places)
        self._parts.append(part)

    def add_silent(self, first: tuple[Due, int], last: tuple[Due, int], count: int, result: Result) -> None:
        """So many consecutive evaluations that emit nothing: the first and the last of them, each with its push."""
        for (due, push), more in ((first, 1), (last, count - 1)):
            if more:
                k = self._next_k(more) + more - 1
                self._add_pending(_Pending(one(due.time), push, k, due.arrived), more, result)

    def parts(self) -> list[Part]:
        """All parts that are left; there are no more evaluations."""
        self._emit()
        return self.take_parts()

    def take_parts(self) -> list[Part]:
        """The parts that are complete by now; each is returned once."""
        parts, self._parts = self._parts, []
        return parts

    def _next_k(self, count: int) -> int:
        first = self.count
        self.count += count
        return first

    def _add_pending(self, pending: _Pending, count: int, result: Result) -> None:
        if self._pending and not _is_same(self._pending_result, result):
            self._emit()
        self._pending_result = result
        self._pending_count += count
        if self._pending_count > RUN_EMITTED_SINGLY_MAX:
            del self._pending[1:]
        self._pending.append(pending)

    def _pass_silent_ones(self) -> int:
        """An emission comes: how many evaluations right before it emit nothing. They need no part of their own."""
        *_, emits = self._pending_result
        if emits or not self._pending:
            return 0
        last, count = self._pending[-1], self._pending_count
        self._pending, self._pending_count = [], 0
        self._query.passed(last.at(self._sn, last.k + last.run.count() - 1, last.run.last))
        return count

    def _emit(self) -> None:
        if not self._pending:
            return
        pending, result, count = self._pending, self._pending_result, self._pending_count
        self._pending, self._pending_count = [], 0
        *_, emits = result
        if count > RUN_EMITTED_SINGLY_MAX or (count > 1 and not emits):
            first, last = pending[0], pending[-1]
            part = self._query.part(last.at(self._sn, first.k + count - 1, last.run.last), result)
            part.repeated, part.first = count, first.run.first
            self._parts.append(part)
            return
        for entry in pending:
            for k, time in enumerate(entry.run.times(), entry.k):
                self._parts.append(self._query.part(entry.at(self._sn, k, time), result))


def _is_same(result: Result, other: Result) -> bool:
    (columns, *rest), (others, *others_rest) = result, other
    return rest == others_rest and len(columns) == len(others) and all(map(np.array_equal, columns, others))


def one(time: int) -> RepeatedTimes:
    return RepeatedTimes((Grid(time, 1, 1),))
