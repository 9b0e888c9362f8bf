"""Elsewhere: what whoever steps registered queries knows of the endpoints that SERVICE asks.

    endpoint does not answer   =>   left alone for 1 s, then 2 s, 4 s, ... 60 s, by all queries of the shard

What is said there is no function of the store; when it is asked for is. The only clock is the publication of the
snapshots that are stepped, and within one of them nothing is asked for twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from stream_ext.remote.allowed_urls import Outside
from stream_ext.remote.sparql_client import Solution

_PAUSE_MS_MIN, _PAUSE_MS_MAX = 1_000, 60_000
#: So many that did not answer are known; beyond it, those that may be asked again are forgotten.
_SILENT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class _Failed:
    why: str
    at_ms: int
    pause_ms: int


class Elsewhere:
    """For the runs of one shard, one after the other."""

    def __init__(self, outside: Outside, published_ms: Callable[[int], int]) -> None:
        """`published_ms` says when a snapshot was published."""
        self.outside = outside
        self._published_ms = published_ms
        self.sn = 0
        self._now_ms: int | None = None
        self._failed: dict[Hashable, _Failed] = {}

    def comes_to(self, sn: int) -> None:
        """The snapshot that is stepped. What is made up for in an older one is asked for now."""
        if sn > self.sn:
            self.sn, self._now_ms = sn, None

    @property
    def now_ms(self) -> int:
        if self._now_ms is None:
            self._now_ms = self._published_ms(self.sn)
        return self._now_ms

    def why_not(self, *what: Hashable) -> str | None:
        """Why none of them is asked yet."""
        for each in what:
            failed = self._failed.get(each)
            if failed is not None and self._rests(failed):
                return f"{failed.why}; it is asked again {failed.pause_ms / 1000:g} s after that"
        return None

    def failed(self, what: Hashable, why: str) -> None:
        before = self._failed.get(what)
        pause_ms = _PAUSE_MS_MIN if before is None else min(before.pause_ms * 2, _PAUSE_MS_MAX)
        if len(self._failed) >= _SILENT_MAX:
            self._failed = {key: failed for key, failed in self._failed.items() if self._rests(failed)}
        self._failed[what] = _Failed(why, self.now_ms, pause_ms)

    def forgive(self) -> None:
        """All may be asked at once: somebody has seen to it that they answer."""
        self._failed.clear()

    def answered(self, *what: Hashable) -> None:
        for each in what:
            self._failed.pop(each, None)

    def _rests(self, failed: _Failed) -> bool:
        return failed.at_ms <= self.now_ms < failed.at_ms + failed.pause_ms


class Heard:
    """When all that is in use was asked for last, by the networks of one query; each asks for it in its own time.

    Of a query that has several networks, what one of them was answered is so for the others, too, until all is asked
    for again: else its answer would go to and fro between what they were told."""

    def __init__(self, by_several: bool = False) -> None:
        self.turn = 0
        self._by_several = by_several
        self._began: tuple[int, int] | None = None  # in which snapshot, and when that was
        self._answers: dict[Hashable, dict[tuple[int, ...], Sequence[Solution]]] = {}

    def look(self, elsewhere: Elsewhere) -> None:
        """Goes on to the next turn if it is time for that."""
        if self._began is None:
            self._began = elsewhere.sn, elsewhere.now_ms
        sn, at_ms = self._began
        if sn != elsewhere.sn and not at_ms <= elsewhere.now_ms < at_ms + int(elsewhere.outside.refresh_s * 1000):
            self._began = elsewhere.sn, elsewhere.now_ms
            self.turn += 1
            self._answers.clear()

    def of(self, what: Hashable) -> Mapping[tuple[int, ...], Sequence[Solution]]:
        """What was answered in this turn, by key."""
        return self._answers.get(what, {})

    def keep(self, what: Hashable, found: Mapping[tuple[int, ...], Sequence[Solution]], most: int) -> None:
        """No more of it than about `most`: then some are asked for again."""
        if self._by_several and found:
            kept = self._answers.setdefault(what, {})
            if len(kept) > most:
                kept.clear()
            kept.update(found)
