"""Backoff: which endpoints of SERVICE failed lately, and are not queried again yet by registered queries.

    endpoint does not answer   =>   not queried for 1 s, then 2 s, 4 s, ... 60 s, by all queries of the shard

What an endpoint answers does not depend on the store; when it is queried does. The only clock is the time at which the
evaluated snapshots were published, and within one snapshot nothing is requested twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any

from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.remote.sparql_client import Solution

_PAUSE_MS_MIN, _PAUSE_MS_MAX = 1_000, 60_000
#: So many that failed are remembered; beyond it, those whose pause is over are forgotten.
_SILENT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class _Failed:
    why: str
    at_ms: int
    pause_ms: int


class Backoff:
    """The endpoints and requests that failed lately, for the runs of one shard, which step one after the other."""

    def __init__(
        self,
        allowed_urls: AllowedUrls,
        published_ms: Callable[[int], int],
        sources: Sources = NO_SOURCES,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        """`published_ms`: from a snapshot to the time of its publication; `sources` may always be asked, and what they
        answered has a time, by `clock_ms`."""
        self.allowed_urls, self.sources = allowed_urls, sources
        self.clock_ms = clock_ms or (lambda: int(time() * 1000))
        self._published_ms = published_ms
        main = sources.main
        #: What the source main answered to the queries of the shard: what one of them asked the others need not ask.
        self.of_main = ServiceAnswers(True, None if main is None else main.settings.refresh_s)
        self.sn = 0
        self._now_ms: int | None = None
        self._failed: dict[Hashable, _Failed] = {}

    def advance_to(self, sn: int) -> None:
        """`sn` is evaluated from now on. An older one, which is evaluated late, does not turn back the clock."""
        if sn > self.sn:
            self.sn, self._now_ms = sn, None

    @property
    def now_ms(self) -> int:
        if self._now_ms is None:
            self._now_ms = self._published_ms(self.sn)
        return self._now_ms

    def why_not(self, *what: Hashable) -> str | None:
        """Why these are not requested yet: the failure of the first that is still in its pause. None: they may be."""
        for each in what:
            failed = self._failed.get(each)
            if failed is not None and self._is_pausing(failed):
                return f"{failed.why}; the next request is sent {failed.pause_ms / 1000:g} s after that"
        return None

    def failed(self, what: Hashable, why: str) -> None:
        before = self._failed.get(what)
        pause_ms = _PAUSE_MS_MIN if before is None else min(before.pause_ms * 2, _PAUSE_MS_MAX)
        if len(self._failed) >= _SILENT_MAX:
            self._failed = {key: failed for key, failed in self._failed.items() if self._is_pausing(failed)}
        self._failed[what] = _Failed(why, self.now_ms, pause_ms)

    def forgive(self) -> None:
        """Ends all pauses: an operator says that the endpoints answer again."""
        self._failed.clear()

    def answered(self, *what: Hashable) -> None:
        for each in what:
            self._failed.pop(each, None)

    def _is_pausing(self, failed: _Failed) -> bool:
        return failed.at_ms <= self.now_ms < failed.at_ms + failed.pause_ms


class ServiceAnswers:
    """What endpoints answered in the current turn, for the networks of one query.

    A new turn begins every `refresh_s`; each network then requests again all that it uses. If a query has several
    networks, an answer that one of them received counts for the others, too, until the turn ends: otherwise the result
    of the query would change to and fro between the answers that its networks received."""

    def __init__(self, by_several: bool = False, refresh_s: float | None = None) -> None:
        """`refresh_s`: after so long all is requested again; None: what the settings of SERVICE say."""
        self.turn = 0
        #: When the first request of this turn was sent, and when the last one was answered.
        self.as_of: tuple[int, int] | None = None
        self._by_several, self._refresh_s = by_several, refresh_s
        self._is_ended = False
        self._began: tuple[int, int] | None = None  # the snapshot in which the turn began, and its time
        self._answers: dict[Hashable, dict[Any, Sequence[Solution]]] = {}

    def look(self, backoff: Backoff) -> None:
        """Begins the next turn if it is time for that."""
        if self._began is None:
            self._began = backoff.sn, backoff.now_ms
        sn, at_ms = self._began
        refresh_s = backoff.allowed_urls.refresh_s if self._refresh_s is None else self._refresh_s
        is_over = self._is_ended or not at_ms <= backoff.now_ms < at_ms + int(refresh_s * 1000)
        if sn != backoff.sn and is_over:
            self._began, self._is_ended, self.as_of = (backoff.sn, backoff.now_ms), False, None
            self.turn += 1
            self._answers.clear()

    def end_turn(self) -> None:
        """The next snapshot begins a turn: what was answered has changed."""
        self._is_ended = True

    def answered(self, begun_ms: int, ended_ms: int) -> None:
        first, last = self.as_of or (begun_ms, ended_ms)
        self.as_of = min(first, begun_ms), max(last, ended_ms)

    def of(self, what: Hashable) -> Mapping[Any, Sequence[Solution]]:
        """The answers to `what` in this turn, by key."""
        return self._answers.get(what, {})

    def keep(self, what: Hashable, found: Mapping[Any, Sequence[Solution]], most: int) -> None:
        """Remembers answers, no more than about `most`: beyond it they are forgotten, and requested again."""
        if self._by_several and found:
            answers = self._answers.setdefault(what, {})
            if len(answers) > most:
                answers.clear()
            answers.update(found)
