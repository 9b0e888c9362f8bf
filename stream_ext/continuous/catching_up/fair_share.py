"""Fair share: which queries take so much of the evaluation time that pushes wait for them.

    pushes wait, one run took 80 % of the time          it is slowed: evaluated beside the others, by turns
    pushes do not wait any more                         after a while it is stepped with the others again
    pushes wait, ten runs took 10 % each                nobody is slowed; pushes are rejected at --max-lag

Queries that share a network are one. A network of most of the queries may take most of the time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

#: What was spent counts half as much after this time.
_HALF_MS = 5_000
#: Less than this tells nothing.
_SPENT_MS_MIN = 50.0
#: A run may take so many times the share that its queries have of all queries.
_OF_ITS_QUERIES = 1.5
#: How long a run is slowed at first, and at most; each time twice as long as before.
_SLOWED_MS, _SLOWED_MS_MAX = 30_000, 600_000


@dataclass(frozen=True, slots=True)
class ShareLimit:
    """`share`: the part of the evaluation time that one network may take while pushes wait for longer than `wait_ms`;
    1: any."""

    share: float = 0.25
    wait_ms: int = 2_500


@dataclass(slots=True)
class _Slowed:
    until_ms: int
    for_ms: int


@dataclass(slots=True)
class FairShare:
    """Runs are known by their first query."""

    limit: ShareLimit
    _spent_ms: dict[int, float] = field(default_factory=dict)
    _slowed: dict[int, _Slowed] = field(default_factory=dict)
    _halved_ms: int | None = None

    def spent(self, query_ms: Mapping[int, float], now_ms: int) -> None:
        """CPU milliseconds by first query; 0: of none alone."""
        if self._halved_ms is None:
            self._halved_ms = now_ms
        if now_ms - self._halved_ms >= _HALF_MS:
            self._halved_ms = now_ms
            self._spent_ms = {number: ms / 2 for number, ms in self._spent_ms.items() if ms > 1}
        for number, ms in query_ms.items():
            self._spent_ms[number] = self._spent_ms.get(number, 0.0) + ms

    def exceeding(self, lag_ms: int, queries: Mapping[int, int], now_ms: int) -> tuple[int, float] | None:
        """The run that is to be slowed now, and what part of the time it took. `queries`: how many each run has, of
        those that are not slowed."""
        total_ms, total = sum(self._spent_ms.values()), sum(queries.values())
        if self.limit.share >= 1 or lag_ms <= self.limit.wait_ms or total_ms < _SPENT_MS_MIN or len(queries) < 2:
            return None
        number = max(queries, key=lambda number: self._spent_ms.get(number, 0.0))
        part = self._spent_ms.get(number, 0.0) / total_ms
        if part <= max(self.limit.share, _OF_ITS_QUERIES * queries[number] / total):
            return None
        before = self._slowed.get(number)
        for_ms = _SLOWED_MS if before is None else min(2 * before.for_ms, _SLOWED_MS_MAX)
        self._slowed[number] = _Slowed(now_ms + for_ms, for_ms)
        self._spent_ms.clear()  # the next one is judged by what is spent without it
        return number, part

    def may_return(self, numbers: Collection[int], lag_ms: int, now_ms: int) -> bool:
        """Whether a run of these queries that was slowed may be stepped with the others again. Which of them was the
        first when it was slowed does not matter."""
        untils = [slowed.until_ms for number in numbers if (slowed := self._slowed.get(number)) is not None]
        return not untils or (now_ms >= max(untils) and lag_ms <= self.limit.wait_ms)

    def forget_all_but(self, numbers: Mapping[int, object]) -> None:
        """Runs that do not exist any more are forgotten."""
        self._slowed = {number: slowed for number, slowed in self._slowed.items() if number in numbers}
