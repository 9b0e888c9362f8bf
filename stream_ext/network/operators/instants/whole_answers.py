"""Whole answers: of a query that emits all of its answer at each arrival (RSTREAM), for many evaluations in one step.

    evaluations            1 at 10        2 at 14        3 at 20
    came with 1, until 15      a              a
    came with 2                               b              b
    emitted                    a              a b            b

A row that stays is remembered with its validity until that is over. What is taken back later is remembered with the
same validity and the opposite weight, and the two cancel each other out."""

from __future__ import annotations

import numpy as np

from hbase_store.arrays import lexicographic
from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.instants.lives import HiddenColumns, begins_of, run_out
from stream_ext.rows.zset import Columns, Weights, ZSet, concat, consolidate, empty
from stream_ext.windows.numbered_evaluations import NEVER_GONE, NumberedEvaluations
from stream_ext.windows.scheduled_window import Times

#: Rows that the evaluations of a step emit together, at most, where each row of the step meets each evaluation.
_ROWS_MAX = 1 << 20


class WholeAnswers:
    def __init__(self, hidden: HiddenColumns) -> None:
        self._hidden = hidden
        self._remaining = empty(len(hidden.shown))  # rows of the last answer, by validity, each with its weight
        self._most = 0  # of rows that an evaluation of the last step has emitted
        self._count = 0  # of evaluations of the last step

    def step_from(self, triples: Times, start: int, stop: int) -> int:
        """Where a step ends that begins with the evaluation at `start`, and not later than `stop`. `triples`: as for
        the step of the network."""
        # How many rows a triple makes is known after a step: a join makes many, and windows are full after a restart.
        stop = min(stop, start + 2 * self._count + 1)
        ahead = np.arange(1, stop - start + 1)
        rows = max(self._most, self._remaining.count) + triples[start + 1 : stop + 1] - triples[start]
        return start + max(1, int(np.searchsorted(rows * ahead, _ROWS_MAX, "right")))

    def of_step(self, change: ZSet, evaluations: NumberedEvaluations, control: Control) -> tuple[Columns, Weights]:
        """The rows of each evaluation, in order; the first column has its place."""
        self._count = count = len(evaluations.times)
        before = self._remaining
        lives = self._hidden.lives(change, evaluations)
        new = lives.rows.with_columns(tuple(lives.rows.stored[place] for place in self._hidden.shown))
        rows = concat([before, new], before.width)
        starts = np.concatenate([np.zeros(before.count, np.int64), (lives.starts + 1) // 2 - evaluations.first])
        ends = np.concatenate([run_out(before.until_array(), evaluations), lives.ends])
        stops = np.minimum((ends - 1) // 2 - evaluations.first + 1, count)
        remaining = rows.take(ends == NEVER_GONE)
        self._remaining = remaining if remaining.weights is None else _once_each(consolidate(remaining))
        order = lexicographic(rows.columns) if rows.width else np.arange(rows.count)
        return self._spread(rows.take(order), starts[order], stops[order], control)

    def _spread(self, rows: ZSet, starts: Times, stops: Times, control: Control) -> tuple[Columns, Weights]:
        """Each row at each evaluation from its start on and before its stop; `rows` are in order."""
        counts = np.maximum(stops - starts, 0)
        total = int(counts.sum())
        control.room(total, rows.width + 3)
        of_rows = np.repeat(np.arange(rows.count), counts)
        places = np.arange(total) - np.repeat(np.cumsum(counts) - counts - starts, counts)
        by_place = np.argsort(places.astype(np.uint16), kind="stable")  # a step has no more evaluations than that
        of_rows, places = of_rows[by_place], places[by_place]
        weights = rows.weight_array()[of_rows]
        if rows.weights is not None and total:
            # Equal rows stand together: those of a place are one, with the sum of their weights.
            begins = begins_of(places, _numbered(rows)[of_rows])
            weights = np.add.reduceat(weights, begins)
            there = weights > 0
            begins, weights = begins[there], weights[there]
            of_rows, places = of_rows[begins], places[begins]
        self._most = int(np.bincount(places).max(initial=0))
        return (places.view(np.uint64), *rows.take(of_rows).columns), weights


def _numbered(rows: ZSet) -> Times:
    """Equal rows have equal numbers; they are in order."""
    is_other = np.zeros(rows.count, np.int64)
    if rows.width:
        is_other[begins_of(*rows.columns)] = 1
    return np.cumsum(is_other)


def _once_each(rows: ZSet) -> ZSet:
    """Without weights, if each row counts once."""
    is_once = bool((rows.weight_array() == 1).all())
    return ZSet(rows.stored, rows.count, None, rows.untils) if is_once else rows
