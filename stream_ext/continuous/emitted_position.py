"""The position of what is emitted, for a query whose result time alone may change (NOW(), chance, SERVICE).

evaluations   1 2 3 4 5      3 to 5 are over empty windows, and wait to be emitted together
emitted       1 2            the position is the one after 2: if 6 has no answer, 3 to 5 are evaluated again"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stream_ext.windows.query_state import QueryState, Within

if TYPE_CHECKING:
    from stream_ext.continuous.cohort import Cohort


class EmittedPosition:
    """`emitted`: the position after all that is emitted by now."""

    emitted: QueryState
    _evaluated: QueryState  # the position after the last evaluation, emitted or not

    def begin(self, cohort: Cohort, sn: int) -> None:
        """The query begins snapshot `sn`, or continues in it."""
        self._evaluated = cohort.behind or cohort.state_of(cohort.only, sn).behind(sn - 1)

    def begin_turn(self, cohort: Cohort) -> None:
        self.emitted = cohort.behind or self._evaluated

    def follow(self, cohort: Cohort, sn: int, at: Within) -> None:
        """An evaluation was made, and perhaps emitted."""
        before, self._evaluated = self._evaluated, cohort.position(sn, at)
        steps = cohort.steps
        if steps.is_complete:
            self.emitted = self._evaluated
        elif (0 if before.within is None else before.within.k) == steps.emitted_up_to:
            # What was evaluated by then has been emitted since.
            gap = cohort.has_gap(cohort.only)
            self.emitted = msgspec.structs.replace(before, evaluated=cohort.evaluated, gap=gap)
