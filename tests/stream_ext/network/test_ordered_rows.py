"""An answer in order: it has the rows of a bag that are valid, whatever came, was taken back, or ran out."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from stream_ext.network.measuring import bytes_of
from stream_ext.network.operators.answers import ordered_rows
from stream_ext.network.operators.answers.ordered_rows import OrderedRows
from stream_ext.rows.zset import Columns, Weights, ZSet, empty

#: A value, until when it is valid, and how often it counts.
Row = tuple[int, int, int]


def change_of(rows: list[Row]) -> ZSet:
    if not rows:
        return empty(1)
    values, untils, weights = (np.array(line, np.int64) for line in zip(*rows, strict=True))
    is_once = bool((weights == 1).all())
    return ZSet((values.view(np.uint64),), len(rows), None if is_once else weights, untils)


def counted(columns: Columns, weights: Weights) -> dict[int, int]:
    found = Counter[int]()
    for value, weight in zip(columns[0].tolist(), weights.tolist(), strict=True):
        found[value] += weight
    return {value: weight for value, weight in found.items() if weight}


def test_rows_come_once_each_after_a_row_and_its_retraction_ran_out() -> None:
    """OPTIONAL takes a row back in the step in which it comes; later nothing is in the window, then many rows that are
    not taken back."""
    rows = OrderedRows(1)
    rows.step(change_of([(5, 10, 1), (5, 10, -1)]), 1)
    rows.step(empty(1), 20)
    many: list[Row] = [(value, 100, 1) for value in range(1, 2001)]
    rows.step(change_of(many), 21)
    assert counted(*rows.bag()) == counted(*rows.summed()) == dict.fromkeys(range(1, 2001), 1)


def test_an_answer_that_has_shrunk_does_not_retain_what_ran_out() -> None:
    rows = OrderedRows(1)
    rows.step(change_of([(value, 10 + value % 2, 1) for value in range(20_000)]), 1)
    rows.step(change_of([(1, 20, 1)]), 15)
    assert bytes_of([rows]) < 10_000


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_any_weights_that_come_and_run_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_rows, "_SUM_LEAST", 4)
    chance, rows, all_rows = random.Random(seed), OrderedRows(1), list[Row]()
    for time in range(80):
        coming: list[Row] = []
        for _ in range(chance.choice((0, 0, 1, 3, 60))):
            value = chance.choice((1, 2, 3, 1 << 62))
            coming.append((value, time + chance.randint(0, 4), 1))
            if chance.random() < 0.2:
                coming.append((value, coming[-1][1], -1))
        if chance.random() < 0.5:
            coming = [row for row in coming if row[2] == 1]
        all_rows += coming
        rows.step(change_of(coming), time)
        expected = Counter[int]()
        for value, until, weight in all_rows:
            expected[value] += weight * (until >= time)
        valid = {value: weight for value, weight in expected.items() if weight}
        assert counted(*rows.bag()) == counted(*rows.summed()) == valid
