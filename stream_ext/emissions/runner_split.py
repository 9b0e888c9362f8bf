"""Homes: the snapshots for which the merge needs the parts of two runners.

A query that was moved stays inline while all others are on Spark. From its move on, a snapshot is complete when both
runners have sent their parts of it. When no query stays inline any more, the parts of Spark are all."""

from __future__ import annotations

from bisect import bisect_right


class Homes:
    """`published` is called for snapshots in their order; the other methods, for any snapshot that is not merged
    yet."""

    def __init__(self) -> None:
        # Snapshots in ascending order, and whether two runners are needed from each of them on.
        self._from: list[int] = [0]
        self._two: list[bool] = [False]

    def published(self, sn: int, some: bool) -> None:
        """Whether `some` query stays inline after this snapshot."""
        if some and not self._two[-1]:
            self._turns(sn, True)  # a query that begins there may emit in this very snapshot
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
        """Forgets the snapshots up to `position`: they are merged."""
        first = bisect_right(self._from, position) - 1
        del self._from[:first], self._two[:first]
