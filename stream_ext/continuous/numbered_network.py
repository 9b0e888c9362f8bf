"""A numbered network: the network of a query that is evaluated at arrivals, many of them in one step.

    arrivals       a at 10, b at 10, c at 14      [RANGE 5]
    evaluations    1 at 10 (a), 2 at 10 (b), 3 at 14 (c)
    one step       a row of a and c, numbers 2 and 6: new at evaluation 3, if a is still in its window at 14

The rows of a step have hidden columns with the numbers of the evaluations that their parts came with
(`numbered_evaluations`): the greatest is the evaluation that emits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from stream_ext.network.numbered_rows import NumberedRowsNetwork
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.instants.lives import HiddenColumns
from stream_ext.network.operators.instants.whole_answers import WholeAnswers
from stream_ext.network.operators.joins.join import JoinOperator
from stream_ext.network.operators.joins.many_join import ManyJoin
from stream_ext.rows.zset import Columns, Weights, ZSet, in_order, sum_equal_rows
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.displacing import least_at
from stream_ext.windows.numbered_evaluations import OLD, NumberedEvaluations
from stream_ext.windows.scheduled_window import ScheduledWindow, Times

_NOTHING: Times = np.empty(0, np.int64)
#: So many evaluations are made in one step; and where rows are joined.
_TOGETHER_MAX, _JOINED_MAX = 1 << 16, 1 << 11
#: Pairs that a join may find in vain whatever comes.
_FEW_PAIRS = 1 << 14
#: A step that finds more pairs is followed by one over half the time.
_MANY_PAIRS = 1 << 16
#: Triples of a step that is longer than windows are. They make fewer pairs than memory is needed for.
_STRETCHED_TRIPLES = 1 << 13
_JOINS = (JoinOperator, ManyJoin)


class EmittedRows(NamedTuple):
    """What the evaluations of a step emit: the places of those that do, among all of the step; of each, where its rows
    end; and the rows, in order."""

    places: Times
    stops: Times
    columns: Columns
    weights: Weights


class Arrived(NamedTuple):
    """Elements, and for each the place of the evaluation of the step that it comes with."""

    arrival: Arrival
    places: Times


class NumberedNetwork:
    def __init__(self, network: NumberedRowsNetwork, windows: Sequence[ScheduledWindow], repeats: bool) -> None:
        """`repeats`: each evaluation emits its whole answer, else what is new at it."""
        self.network = network
        self.store_sn: int | None = None  # of the last evaluation
        self._windows = windows
        self._hidden = HiddenColumns(network.answer_variables)
        self._whole = WholeAnswers(self._hidden) if repeats else None
        self._joins = [stage.operator.coexisting for stage in network.stages if isinstance(stage.operator, _JOINS)]
        self._joined = len(network.scans) - 1  # how many parts are joined with the first
        lengths = [max(1, window.range_ms - window.until_ms) for window in windows if not window.is_endless]
        counts = [window.count.most for window in windows if window.count is not None]
        self._least_ms, self._least_count = min(lengths, default=None), min(counts, default=None)
        self._stretch = 1  # how many times as long as a part of the shortest window a step may be
        self._number = 0  # of the last evaluation
        self._waiting: list[Arrival] = []  # what has come since the last evaluation: new at the next one
        # Of each window that holds all: evaluations, and the least time from each of them on.
        self._least: dict[int, tuple[Times, Times]] = {
            place: (_NOTHING, _NOTHING) for place, window in enumerate(windows) if window.holds_all
        }

    @property
    def counts_triples(self) -> bool:
        """Whether the ends of steps depend on the number of triples."""
        return self._joined > 0 or self._whole is not None

    def step_from(self, times: Times, start: int, most: int, triples: Times | None) -> int:
        """Where the step ends that begins with the evaluation at `start`, of `most` evaluations at most. `triples`: for
        each evaluation, and the end, how many triples come before it; None, where they do not matter.

        In a join, a step also looks at pairs that are in no window together: those of a window that is shorter than the
        step. So the first steps of joined windows are a part of the shortest of them, or so few triples that they
        cannot make many pairs. Later ones are longer while they find few pairs (`_note_pairs`)."""
        stop = min(len(times), start + min(most, _TOGETHER_MAX))
        if triples is None:
            return stop
        if self._joined > 0:
            stop = self._stop_of_joins(times, start, most, triples)
        return stop if self._whole is None else self._whole.step_from(triples, start, stop)

    def _stop_of_joins(self, times: Times, start: int, most: int, triples: Times) -> int:
        few = int((self._joined + 1) * _FEW_PAIRS ** (1 / (self._joined + 1)))
        stop_of_few = _after(triples, start, few)
        stop = min(len(times), start + min(most, _JOINED_MAX))
        if self._least_count is not None:
            stop = min(stop, start + max(1, self._stretch * self._least_count // self._joined))
        if self._least_ms is not None:
            last = int(times[start]) + self._stretch * self._least_ms // self._joined
            stop = min(stop, int(np.searchsorted(times, last, "right")))
        if self._stretch > 1:
            stop = min(stop, _after(triples, start, _STRETCHED_TRIPLES))
        return max(stop, min(start + most, stop_of_few), start + 1)

    def _note_pairs(self, times: Times) -> None:
        """The next steps may be twice as long as this one, or half as long, by what it has found."""
        pairs, stretch = sum(join.compared for join in self._joins), 1
        for join in self._joins:
            join.compared = 0
        if self._least_count is not None:
            stretch = max(stretch, len(times) * self._joined // self._least_count)
        if self._least_ms is not None:
            stretch = max(stretch, int(times[-1] - times[0]) * self._joined // self._least_ms)
        if pairs < _FEW_PAIRS:
            self._stretch = max(self._stretch, 2 * stretch)
        elif pairs > _MANY_PAIRS:
            self._stretch = min(self._stretch, max(1, stretch // 2))

    def arrive(self, arrival: Arrival) -> None:
        """Elements that no evaluation has seen: they are new at the next one."""
        if len(arrival.element_times):
            self._waiting.append(arrival)

    def settle(self, time: int | None = None) -> None:
        """What has arrived is not new any more."""
        for arrival in self._waiting:
            self._enter(arrival, np.full(len(arrival.element_times), OLD, np.int64))
        self._waiting.clear()

    def evaluate(self, moment: Moment, times: Times, arrived: Sequence[Arrived]) -> EmittedRows:
        """Evaluations at these times, at each of which some elements come: what they emit."""
        first = self._number + 1
        for arrival in self._waiting:
            self._enter(arrival, np.full(len(arrival.element_times), 2 * first, np.int64))
        self._waiting.clear()
        for arrival, places in arrived:
            self._enter(arrival, 2 * (first + places))
        self._number += len(times)
        self.store_sn = int(moment.snapshot.sn)
        evaluations = NumberedEvaluations(first, times)
        change = self.network.changed(msgspec.structs.replace(moment, time=int(times[0]), evaluations=evaluations))
        self._note_pairs(times)
        if self._whole is None:
            columns, weights = self._new_ones(change, evaluations)
        else:
            columns, weights = self._whole.of_step(change, evaluations, moment.control)
        places = columns[0].view(np.int64)
        lasts = np.flatnonzero(np.diff(places, append=-1))
        return EmittedRows(places[lasts], lasts + 1, columns[1:], weights)

    def _enter(self, arrival: Arrival, came: Times) -> None:
        self.network.arrive_with(arrival, came)
        for place in self._least:
            if arrival.reaches(self._windows[place]):
                self._note_least(place, arrival.element_times, came)

    # ---- what is emitted ------------------------------------------------------------------------------------------

    def _new_ones(self, change: ZSet, evaluations: NumberedEvaluations) -> tuple[Columns, Weights]:
        """The rows that are new at an evaluation (or taken back by what arrives), in order: the place of that, and
        their own columns."""
        lives = self._hidden.lives(change, evaluations)
        places = evaluations.place_of(lives.starts)
        own = (lives.rows.stored[place] for place in self._hidden.shown)
        found = lives.rows.with_columns((places.view(np.uint64), *own))
        new = found.take((places >= 0) & (lives.starts & 1 == 0))
        if new.weights is None:
            return in_order(new.columns, new.weight_array())
        # What is taken back at an evaluation is not emitted by it.
        columns, weights = sum_equal_rows(new.columns, new.weights)
        return tuple(column[weights > 0] for column in columns), weights[weights > 0]

    # ---- the windows of an emission ----------------------------------------------------------------------------

    def oldest(self, window: int, places: Times, times: Times, of: int) -> Times:
        """The least times in a window that no length of time limits, at these evaluations of the `of` ones of the last
        step, which are at these times; its own time where the window is empty."""
        numbers = self._number - of + 1 + places
        if window in self._least:
            found = least_at(self._least[window], numbers, times)
            return np.where(found <= times, found, times)
        return self.network.displacing[self._windows[window].name].oldest_at(numbers, times)

    def _note_least(self, place: int, times: Times, came: Times) -> None:
        """Elements that are later than their evaluation make nothing older: an element of its time came with it."""
        evaluations, least = self._least[place]
        order = np.argsort(came, kind="stable")
        before = least[-1:] if len(least) else np.array([np.iinfo(np.int64).max])
        more = np.minimum.accumulate(np.concatenate([before, times[order]]))[1:]
        known = np.searchsorted(evaluations, 2 * self._number, "right")  # all but the last are of evaluations long gone
        start = max(0, int(known) - 1)
        self._least[place] = (
            np.concatenate([evaluations[start:], came[order]]), np.concatenate([least[start:], more])
        )  # fmt: skip


def _after(triples: Times, start: int, count: int) -> int:
    """The last evaluation before which no more than so many triples come, from the one at `start` on."""
    return int(np.searchsorted(triples, int(triples[start]) + count, "right")) - 1
