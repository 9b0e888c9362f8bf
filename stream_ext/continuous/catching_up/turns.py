"""Turns: how much of one query is evaluated before it is the turn of the others.

One wrong timestamp makes a billion closes fall due. They are evaluated in pieces: a run stops between two evaluations
when its turn is over, emits what it has so far, and continues at its next turn. The emissions do not depend on where
the pieces are cut."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from stream_ext.continuous.catching_up.fair_share import ShareLimit

#: An answer of so many cells (rows times columns) costs as much as one more evaluation.
_CELLS = 256
#: In relation to the time that snapshots take: a quarter of the whole time.
_SHARE = 1 / 3
#: So many times as long may a range of a divided query take for a snapshot. If it is cut off, the query is whole again,
#: and all shards build their states anew: that takes longer, and all other queries wait for it.
_OF_RANGE = 4
#: Unused time is not saved beyond this.
_DUE_MS_MAX = 100.0


class Turn:
    def __init__(
        self, evaluations: int, seconds: float | None = None, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        """`seconds` None: however long it takes."""
        self._left, self.made = evaluations, 0  # evaluations that are left, and were made
        self._until = None if seconds is None else time.monotonic() + seconds
        self._interrupted = interrupted

    @property
    def left(self) -> int:
        """The number of evaluations that are left."""
        return max(1, self._left)

    def spend(self, cells: int = 0, evaluations: int = 1) -> None:
        """One evaluation, or one snapshot, whose answer has so many cells; or several evaluations together."""
        self.made += evaluations
        self._left -= evaluations + cells // _CELLS

    @property
    def is_over(self) -> bool:
        late = self._until is not None and time.monotonic() >= self._until
        return self._left <= 0 or late or self._interrupted()


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """A run that does not get through a snapshot in `evaluations`, or in `seconds`, falls behind the others. It then
    goes on in turns of `evaluations_behind` or `seconds_behind`. `share`: what a run may take of the time of all."""

    evaluations: int = 10_000
    seconds: float | None = 1.0
    evaluations_behind: int = 500
    seconds_behind: float | None = 0.1
    share: ShareLimit = ShareLimit()  # noqa: RUF009  it never changes

    def with_all(self, interrupted: Callable[[], bool] = lambda: False) -> Turn:
        return Turn(self.evaluations, self.seconds, interrupted)

    @property
    def of_range(self) -> TurnLimits:
        """Those of a range of a divided query."""
        seconds = None if self.seconds is None else _OF_RANGE * self.seconds
        return replace(self, evaluations=_OF_RANGE * self.evaluations, seconds=seconds)

    def behind(self, interrupted: Callable[[], bool] = lambda: False) -> Turn:
        return Turn(self.evaluations_behind, self.seconds_behind, interrupted)


class Share:
    """The share of time for queries that are behind, while snapshots wait to be stepped: enough that they make
    progress, and too little to make other queries fall behind. When no snapshot waits, all of the time is theirs."""

    def __init__(self) -> None:
        self._due_ms = 0.0

    def stepped(self, took_ms: float) -> None:
        """A snapshot was stepped."""
        self._due_ms = min(self._due_ms + took_ms * _SHARE, _DUE_MS_MAX)

    def stepped_behind(self, took_ms: float) -> None:
        """A query that is behind was evaluated while a snapshot waited."""
        self._due_ms -= took_ms

    @property
    def is_due(self) -> bool:
        """Whether it is the turn of a query that is behind although a snapshot waits."""
        return self._due_ms > 0


#: Without limits on time.
UNHURRIED = TurnLimits(seconds=None, seconds_behind=None)
