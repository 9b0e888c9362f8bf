"""Coexisting: which pairs of rows are in their windows at the same time, at some of many evaluations in one step.

    windows        [RANGE 5] and [RANGE 60]
    one step       a at 10, b at 12, c at 40
    pairs          a with b: both are there when b comes         a with c: a is gone when c comes

Rows have hidden columns with the evaluations that they came with (`numbered_scan`). A pair that never is would be left
out at the end; it is left out here, before other rows are joined with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store.arrays import frozen
from stream_ext.network.operators.scans.numbered_scan import CAME
from stream_ext.rows.row_index import KeyedRows, RowIndex, Slots
from stream_ext.windows.numbered_evaluations import NumberedEvaluations


class CoexistingPairs:
    def __init__(self) -> None:
        self.compared = 0  # pairs that were looked at in the present step, also those that are left out

    def of(
        self,
        found: tuple[Slots, Slots],
        rows: KeyedRows,
        names: Sequence[str],
        index: RowIndex,
        others: Sequence[str],
        evaluations: NumberedEvaluations | None,
    ) -> tuple[Slots, Slots]:
        """Those of `found` (the places of rows, and of cells of the index) that do. `names` and `others`: the variables
        of the rows, and of those in the index. `evaluations` is None where each step is one evaluation."""
        if evaluations is None:
            return found
        self.compared += len(found[0])
        places, other_places = _came(names), _came(others)
        if not len(places) or not len(other_places):
            return found
        return index.coexisting(found, rows, places, other_places, evaluations.first, frozen(evaluations.times))


def _came(names: Sequence[str]) -> Slots:
    """The places of the columns with the evaluations that rows came with."""
    found: Slots = frozen(np.array([place for place, name in enumerate(names) if name.startswith(CAME)], np.int64))
    return found
