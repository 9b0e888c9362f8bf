"""From evaluations of a cohort to parts: of a query alone, or of all queries that share a network.

An evaluation of queries that share a network is emitted once, as one part, whatever the number of queries. Two
kinds of queries have a part of their own: the only query of a cohort, and a query whose run of quiet evaluations
differs from that of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stream_ext.continuous.results import ManyResults, Result
from stream_ext.continuous.steps import RUN_EMITTED_SINGLY_MAX, ManyDue, Steps, one
from stream_ext.windows.grids import RepeatedTimes
from stream_ext.windows.part import NO_IDS, Ids, ManyEmissions, Part, WindowBounds
from stream_ext.windows.query_state import LastEvaluation
from stream_ext.windows.schedule import Due
from stream_ext.windows.scheduled_window import Times

if TYPE_CHECKING:
    from stream_ext.continuous.cohort import Cohort
    from stream_ext.continuous.run import Run


class SingleQuery:
    """One query of a cohort, emitted in parts of its own."""

    def __init__(self, cohort: Cohort, number: int) -> None:
        self._cohort, self._number = cohort, number
        self._queries = np.array([number], np.uint64)
        self.repeats = cohort.run.plan.repeats

    def part(self, evaluated: LastEvaluation, result: Result) -> Part:
        *_, emits = result
        bounds = _bounds_of(self._cohort.run, evaluated) if emits else []
        return self._part(evaluated, result, bounds)

    def _part(self, evaluated: LastEvaluation, result: Result, bounds: list[WindowBounds]) -> Part:
        columns, boolean, emits = result
        cohort, number, run = self._cohort, self._number, self._cohort.run
        gap, before = emits and cohort.take_gap(number), cohort.evaluated
        cohort.passed(evaluated)
        cohort.emitted_singly(number)
        state = cohort.state_of(number, evaluated.sn)
        columns, created = run.portable(columns) if any(map(len, columns)) else (columns, [])
        return Part(
            self._queries, evaluated.sn, evaluated.k, evaluated.time, bounds, NO_IDS, columns, boolean, emits, 0, None,
            state, {}, created, before, gap=gap,
        )  # fmt: skip

    def passed(self, evaluated: LastEvaluation) -> None:
        self._cohort.passed(evaluated)

    def part_of_many(self, evaluated: LastEvaluation, first: int, due: ManyDue, results: ManyResults) -> Part:
        """`evaluated`: the last that emits, of evaluations of which number `first` in the snapshot is the first."""
        run, places = self._cohort.run, results.places
        starts, ends = _extents(run, results, due.times)
        windows = zip(run.plan.timing.windows, run.plan.labels, starts, ends, strict=True)
        bounds = [WindowBounds(label, low[-1], high[-1], window.bounds.value) for window, label, low, high in windows]
        part = self._part(evaluated, (results.columns, run.plan.boolean, True), bounds)
        times, pushes, arrived = (column[places].tolist() for column in due)
        # Those before; of the first one, the part itself says it.
        times_before, pushes_before, arrived_before = (column[places - 1].tolist() for column in due)
        part.many = ManyEmissions(
            (first + places).tolist(), times, pushes, arrived, times_before, pushes_before, arrived_before,
            results.stops.tolist(), starts, ends,
        )  # fmt: skip
        return part


def note_bounds(run: Run, due: ManyDue, results: ManyResults) -> None:
    """The windows of those evaluations of a step that emit, for queries that share a network: what a counted window
    holds is known only now."""
    if not _is_counted(run):
        return
    starts, ends = _extents(run, results, due.times)
    windows = list(zip(run.plan.timing.windows, run.plan.labels, starts, ends, strict=True))
    for n, place in enumerate(results.places.tolist()):
        bounds = [WindowBounds(label, low[n], high[n], window.bounds.value) for window, label, low, high in windows]
        run.bounds_of_arrivals[int(due.pushes[place]), int(due.arrived[place])] = bounds


def _bounds_of(run: Run, at: LastEvaluation) -> list[WindowBounds]:
    """None of a counted window where nothing is emitted."""
    if at.arrived and run.evaluator.numbered is not None and _is_counted(run):
        return run.bounds_of_arrivals.get((at.push, at.arrived_at), [])
    return run.bounds_at(at.time, at.arrived)


def _is_counted(run: Run) -> bool:
    return any(window.count is not None for window in run.plan.timing.windows)


def _extents(run: Run, results: ManyResults, times: Times) -> tuple[list[list[int]], list[list[int]]]:
    """Of each window: the starts of its instances at these evaluations of a step, which is at these times; and their
    ends."""
    numbered, at = run.evaluator.numbered, times[results.places]
    assert numbered is not None, "its evaluations are numbered"
    starts, ends = list[list[int]](), list[list[int]]()
    for place, window in enumerate(run.cohorts[0].schedule.for_arrivals):
        if window.is_endless:
            starts.append(numbered.oldest(place, results.places, at, len(times)).tolist())
            ends.append(at.tolist())
        else:
            first, last = window.extents_at(at)
            starts.append(first.tolist())
            ends.append(last.tolist())
    return starts, ends


class ManyQueries:
    """Queries of a cohort that are emitted in one part. The first column of a result has the places of the rows'
    queries."""

    def __init__(self, cohort: Cohort, queries: Ids) -> None:
        self._cohort, self._queries = cohort, queries
        self.repeats = cohort.run.plan.repeats

    def part(self, evaluated: LastEvaluation, result: Result) -> Part:
        cohort, (columns, _, _), run = self._cohort, result, self._cohort.run
        whose, *own = columns
        own, created = run.portable(own) if len(whose) else (own, [])
        before, cohort.evaluated = cohort.evaluated, evaluated
        cohort.note_emitted(self._queries, whose)
        bounds = _bounds_of(run, evaluated)
        return Part(
            self._queries, evaluated.sn, evaluated.k, evaluated.time, bounds, whose, own,
            run.plan.boolean, run.plan.reports, 0, None, cohort.state(evaluated.sn), cohort.newly_joined(self._queries),
            created, before, is_shared=True,
        )  # fmt: skip

    def passed(self, evaluated: LastEvaluation) -> None:
        self._cohort.passed(evaluated)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """One evaluation, or a run of evaluations that all have the same result.

    `push`: the push after which it was due. `whose`: for each row of `columns`, the place of its query.
    `over_nothing`: all windows are empty, as they are in a run."""

    run: RepeatedTimes
    push: int
    whose: Ids = field(default_factory=lambda: NO_IDS)
    columns: Sequence[Ids] = ()
    over_nothing: bool = False
    is_run: bool = False
    arrived: int | None = None  # as in `Due`
    last: tuple[Due, int] | None = None  # the last of `count` evaluations without an emission, and its push
    count: int = 1


#: An evaluation, and its result.
_Emitted = tuple[_Evaluation, Result]


class SharedSteps:
    """As `Steps`, of a cohort whose network is shared: the rows of all queries are parted here."""

    def __init__(self, cohort: Cohort, sn: int, count: int) -> None:
        self._cohort, self._sn, self.count = cohort, sn, count
        self.emitted_up_to = count  # the number of evaluations that are emitted
        self._pending: list[_Evaluation] = []

    @property
    def is_complete(self) -> bool:
        """A run of evaluations over empty windows is emitted as a whole, and takes no time."""
        return not (self._pending and self._pending[-1].over_nothing)

    def add(self, due: Due, push: int, over_nothing: bool, result: Result) -> None:
        self._add(one(due.time), push, over_nothing, result, False, due.arrived)

    def add_silent(self, first: tuple[Due, int], last: tuple[Due, int], count: int, result: Result) -> None:
        """As in `Steps`."""
        self.count += count
        due, push = first
        self._pending.append(_Evaluation(one(due.time), push, arrived=due.arrived, last=last, count=count))

    def add_run(self, run: RepeatedTimes, push: int, result: Result) -> None:
        if self._cohort.run.plan.repeats:
            self._add(run, push, True, result, True)
        else:
            self.count += run.count()
            self._pending.append(_Evaluation(run, push, over_nothing=True, is_run=True))

    def _add(
        self,
        run: RepeatedTimes,
        push: int,
        over_nothing: bool,
        result: Result,
        is_run: bool,
        arrived: int | None = None,
    ) -> None:
        """The rows of `result` that are those of this cohort."""
        self.count += run.count()
        columns, *_ = result
        rows, others = columns[0].view(np.int64), columns[len(columns) - self._cohort.run.plan.width :]
        places = self._cohort.places(rows)
        chosen = np.flatnonzero(places >= 0)
        chosen = chosen[np.argsort(places[chosen], kind="stable")]
        own = [column[chosen] for column in others]
        self._pending.append(_Evaluation(run, push, places[chosen].view(np.uint64), own, over_nothing, is_run, arrived))

    def take_parts(self) -> list[Part]:
        return self.parts()

    def parts(self) -> list[Part]:
        """The parts of all evaluations that are not emitted yet."""
        pending, self._pending = self._pending, []
        found: list[Part] = []
        if pending:
            cohort, before = self._cohort, self._cohort.evaluated
            count = len(cohort.members)
            apart = range(count) if count == 1 else self._apart(pending)
            for place in apart:
                cohort.evaluated = before
                single = SingleQuery(cohort, int(cohort.queries[place]))
                steps = Steps(single, self._sn, self.emitted_up_to)
                found += _stepped(steps, [self._of_one(each, place) for each in pending])
            if len(apart) < count:
                cohort.evaluated = before
                many = ManyQueries(cohort, np.delete(cohort.queries, apart) if len(apart) else cohort.queries)
                together = Steps(many, self._sn, self.emitted_up_to)
                found += _stepped(together, [self._of_many(each, apart) for each in pending])
        self.emitted_up_to = self.count
        return found

    def _apart(self, pending: Sequence[_Evaluation]) -> list[int]:
        """The places of the queries that cannot share one emission with the others of their cohort, since their runs of
        empty evaluations have other lengths."""
        plan = self._cohort.run.plan
        quiet = [each for each in pending if each.over_nothing]
        # The result of RSTREAM over empty windows is the same all through a snapshot.
        if not plan.reports or plan.repeats or sum(each.run.count() for each in quiet) <= RUN_EMITTED_SINGLY_MAX:
            return []
        return [int(place) for place in np.unique(np.concatenate([each.whose for each in quiet]))]

    def _of_one(self, each: _Evaluation, place: int) -> _Emitted:
        plan = self._cohort.run.plan
        low, high = each.whose.searchsorted([place, place + 1]).tolist()
        if low == high:
            return each, plan.empty_result
        return each, ([column[low:high] for column in each.columns], plan.boolean, True)

    def _of_many(self, each: _Evaluation, apart: Sequence[int]) -> _Emitted:
        """The result without the rows of queries that have parts of their own."""
        columns, _, reports = self._cohort.run.plan.empty_result
        whose, columns = each.whose, list(each.columns) or columns
        if apart and len(whose):
            there = ~np.isin(whose, apart)
            remaining = np.delete(np.arange(len(self._cohort.queries)), apart)
            whose = remaining.searchsorted(whose[there].view(np.int64)).astype(np.uint64)
            columns = [column[there] for column in columns]
        return each, ([whose, *columns], None, reports or len(whose) > 0)


def _stepped(steps: Steps, emitted: Sequence[_Emitted]) -> Sequence[Part]:
    for each, result in emitted:
        due = Due(each.run.first, each.arrived)
        if each.is_run:
            steps.add_run(each.run, each.push, result)
        elif each.last is not None:
            steps.add_silent((due, each.push), each.last, each.count, result)
        else:
            steps.add(due, each.push, each.over_nothing, result)
    return steps.parts()
