"""History: which rows stay in memory."""

from __future__ import annotations

from collections.abc import Sequence

from hbase_store.layout.rows import SnRow
from hbase_store.log.history import ROWS_MAX, History, Whole

ROWS = {sn: SnRow(sn, 1, sn, [], [], 0, 0, []) for sn in range(1, 2 * ROWS_MAX + 2)}


def test_the_newest_row_stays_in_memory_while_old_ones_are_read() -> None:
    asked = list[int]()

    def read(sns: Sequence[int]) -> list[SnRow]:
        asked.extend(sns)
        return [ROWS[sn] for sn in sns]

    history = History(read, read, lambda row: Whole([], []))
    for row in ROWS.values():
        history.take_in(row)
    for sn in range(1, 2 * ROWS_MAX + 1):
        assert history.row(sn) is ROWS[sn]
        assert history.row(history.sn) is ROWS[len(ROWS)]
    assert set(asked) == set(range(1, 2 * ROWS_MAX + 1))
