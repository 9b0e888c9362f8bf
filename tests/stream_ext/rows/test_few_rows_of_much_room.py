"""Few rows that are found in much room do not retain the room: an answer remembers them for as long as a window."""

from __future__ import annotations

import numpy as np

from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S
from stream_ext.network.measuring import bytes_of
from stream_ext.network.operators.answers.gains import Gains
from stream_ext.rows.row_index import JoinedRings, RowIndex
from stream_ext.rows.window_content import WindowContent
from stream_ext.rows.zset import ZSet, empty

_STEPS, _END = 200, 10_000


def test_of_many_copies_only_the_new_row_is_retained() -> None:
    """A thousand rows come again and again, in no order, and one new row with them."""
    content, answer = WindowContent(2), Gains(2, R2S.ISTREAM)
    copies = np.arange(1_000, 0, -1, dtype=np.uint64)
    for time in range(_STEPS):
        new = np.append(copies, np.uint64(5_000 - time))
        change = content.step((new, new), np.full(len(new), _END), time)
        columns, _ = answer.step(time, change)
        assert len(columns[0]) == (1 if time else 1_001)
    assert bytes_of([answer]) < _STEPS * 2_000


def test_few_pairs_do_not_retain_the_room_that_many_had() -> None:
    """Each twentieth step finds 700 pairs, the others one."""
    rings, answer = JoinedRings(RowIndex(2, [0]), RowIndex(2, [0]), [1]), Gains(3, R2S.ISTREAM)
    many, one = np.arange(1, 701, dtype=np.uint64), np.ones(1, np.uint64)
    rings.step(empty(2), ZSet((np.append(np.ones_like(many), 2), np.append(many, 1)), 701), 0, Control.FREE, 8)
    for time in range(1, _STEPS):
        row = ZSet((one if time % 20 == 0 else np.uint64(2) * one, one), 1, None, np.full(1, _END))
        found = rings.step(row, empty(2), time, Control.FREE, 8)
        assert found.count == (1 if time % 20 else 700)
        if found.count == 1:
            answer.step(time, ZSet(found.columns, 1, None, found.untils, frozenset((0,))))
    assert bytes_of([answer]) < _STEPS * 2_000
