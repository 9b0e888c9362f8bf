"""Homes: of which snapshots the merge needs the parts of two runners.

A query that was moved stays inline while all others are on Spark. From its move on a snapshot counts when both have
sent their parts of it; once none stays inline any more, Spark's are all."""

from __future__ import annotations

from bisect import bisect_right


class Homes:
    """Told of snapshots in their order; asked of any that comes after what is merged."""

    def __init__(self) -> None:
        # From which snapshot on, in ascending order, and whether two are needed.
        self._from: list[int] = [0]
        self._two: list[bool] = [False]

    def published(self, sn: int, some: bool) -> None:
        """Whether `some` query stays inline after this snapshot."""
        if some and not self._two[-1]:
            self._turns(sn, True)  # what begins there may say something in this very snapshot
        elif self._two[-1] and not some:
            self._turns(sn + 1, False)

    def _turns(self, sn: int, two: bool) -> None:
        self._from.append(sn)
        self._two.append(two)

    def are_two(self, sn: int) -> bool:
        return self._two[bisect_right(self._from, sn) - 1]

    def any_after(self, position: int) -> bool:
        """Whether two are needed for a snapshot after `position`, as far as is known."""
        return any(self._two[bisect_right(self._from, position + 1) - 1 :])

    def forget(self, position: int) -> None:
        """Nobody asks of what is merged."""
        first = bisect_right(self._from, position) - 1
        del self._from[:first], self._two[:first]
