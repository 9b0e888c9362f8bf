"""Numbered evaluations: consecutive evaluations at arrivals that are made in one step.

Each has a number that only grows. A row has the number of the evaluation at which it came, times two:

    evaluations   1     2     3         at times 10, 10, 14
    a row         2                     came with the first one: in the windows from evaluation 1 on, and new at it
    another             3               came before, and enters the window before evaluation 2: it is new at none
    an old row    0                     was there before all of them

A combination of rows has the greatest of their numbers: it is new at that evaluation, if it is one and they are all
still in their windows at its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_ext.windows.scheduled_window import ALWAYS, Mask, Times

#: The number of rows that are new at no evaluation.
OLD = 0
#: Of a row that nothing has displaced.
NEVER_GONE = ALWAYS


@dataclass(frozen=True, slots=True)
class NumberedEvaluations:
    """The evaluations from number `first` on, and their times, which ascend."""

    first: int
    times: Times

    def entered(self, numbers: Times, froms: Times) -> tuple[Times, Mask | None]:
        """The numbers of rows that enter a window at these times or later; and which of them wait for a later
        evaluation than these (None: none)."""
        at = self.times[np.maximum(numbers // 2 - self.first, 0)]
        later = froms > at
        if not later.any():
            return numbers, None
        places = np.searchsorted(self.times, froms)
        waits = later & (places == len(self.times))
        return np.where(later, 2 * (self.first + places) - 1, numbers), waits if waits.any() else None

    def place_of(self, numbers: Times) -> Times:
        """The places of the evaluations with these (doubled) numbers."""
        found: Times = numbers // 2 - self.first
        return found
