"""The results of sums: SUM and AVG of groups, as ids; and what a range of a divided query has of them."""

from __future__ import annotations

import numpy as np

from hbase_store.arrays import Ids
from hbase_store.layout.terms import INTEGER, TAG_SHIFT
from stream_ext.language.algebra.algebra import ArithmeticOp
from stream_ext.network.operators.groups.tallies import Counts, Sums
from stream_ext.network.operators.groups.terms_of_groups import TermsOfGroups
from stream_ext.rows.kernels.group import LOW_BITS
from stream_ext.rows.key_table import KeyTable, Slots
from stream_ext.values.values import Value, arithmetic

#: The id of the integer 0.
ZERO_ID = (INTEGER << TAG_SHIFT) + (1 << (TAG_SHIFT - 1))
#: Sums whose high part is below this are inline integers for certain.
_HIGH_MAX = 1 << (TAG_SHIFT - 2 - LOW_BITS)
_LOW_MAX = 1 << (TAG_SHIFT - 2)


class SumResults:
    """Each method writes the values for groups (their slots), 0 for an error."""

    def __init__(self, terms: TermsOfGroups) -> None:
        self._terms = terms

    def sum(self, sums: Sums, average: bool, slots: Slots, rows: Counts, ids: Ids) -> None:
        counts, low, high = sums.integers[slots].T
        exact = sums.others.concern(slots)
        small = bool((np.abs(high) < _HIGH_MAX).all() and (np.abs(low) < _LOW_MAX).all())
        if small and not average and not exact.any():
            ids[:] = ((high << LOW_BITS) + low).view(np.uint64) + np.uint64(ZERO_ID)
            return
        plain = np.flatnonzero(~exact)
        ids[plain] = self._plain_sums(counts[plain], low[plain], high[plain], average)
        others = slots[exact]
        ids[exact] = self._terms.ids_of_numbers(sums.others.sums(others, sums.integers_of(others), average))

    def part(self, sums: Sums, slots: Slots, rows: Counts, ids: Ids) -> None:
        """Of a range; it is to be added to those of others."""
        exact = sums.others.concern(slots)
        plain, others = np.flatnonzero(~exact), slots[exact]
        found = np.empty(len(plain), np.uint64)
        self.sum(sums, False, slots[plain], rows, found)
        ids[plain] = found
        ids[exact] = self._terms.ids_of_sums(sums.others.texts(others, sums.integers_of(others)))

    def average_of_ranges(self, sums: Sums, counts: Sums, slots: Slots, rows: Counts, ids: Ids) -> None:
        """`counts`: how many numbers there are in each range."""
        _, low, high = sums.integers[slots].T
        numbers, exact = counts.plain(slots), sums.others.concern(slots)
        plain, others = np.flatnonzero(~exact), slots[exact]
        ids[plain] = self._plain_sums(numbers[plain], low[plain], high[plain], True)
        averages = sums.others.averages(others, sums.integers_of(others), numbers[exact].tolist())
        ids[exact] = self._terms.ids_of_numbers(averages)

    def _plain_sums(self, counts: Counts, low: Counts, high: Counts, average: bool) -> Ids:
        """Each distinct sum is worked out once: averages of small numbers are often the same."""
        table = KeyTable(3)
        places = table.number(np.stack([counts, low, high]).view(np.uint64))
        values: list[Value] = []
        for n, low_part, high_part in table.cells[: table.used].tolist():
            value: Value | None = (high_part << LOW_BITS) + low_part
            if average and n:
                value = arithmetic(ArithmeticOp.DIVIDE, value, n)
            assert value is not None  # integers have a sum, and n is not 0
            values.append(value)
        return self._terms.ids_of_numbers(values)[places]
