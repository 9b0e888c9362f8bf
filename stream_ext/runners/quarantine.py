"""Quarantine: queries that may have killed a worker are suspended, while a separate process tries to step them.

    a worker dies stepping q  ->  another worker repeats the step         (most deaths are not caused by a query)
    it dies, too, or hangs    ->  q is suspended: the runners leave it out, and it keeps its position
                              ->  a trial: a fresh process steps only q, from that position
                                      it survives  ->  q is released, and catches up
                                      it dies      ->  at its third death q is parked

The server's own process never steps a query that may have killed a worker, before a trial. If it is not known which
query was being stepped, all queries are suspended, and tried together, then by halves; if a trial without any query
dies, too, no query is at fault."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from hbase_store.errors import StoreError
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.errors import DeadlineExceeded, RilletError

log = logging.getLogger("rillet.spark")

#: A query is parked after so many deaths in a row, or when it is suspended so often, each time soon after the last.
DEATHS_MAX = 3
_AGAIN_S = 60.0
#: Trials for one death; all queries that are still suspect after so many trials are parked.
TRIALS_MAX = 64
_PAUSE_S_MIN, _PAUSE_S_MAX = 1.0, 30.0
#: How often in a row a trial may fail for a reason other than its queries and a store that does not answer.
_FAILURES_MAX = 5


@dataclass(frozen=True, slots=True)
class Death:
    """A worker died, or was killed, in this snapshot, while it stepped these queries (None: it is not known which). It
    was the `count`th death in a row; 0: the worker may have ended because its driver ended. `among`: if it is not known
    which, the queries of its shard; None: all that run on Spark."""

    sn: int
    numbers: tuple[int, ...] | None
    count: int
    why: str
    among: tuple[int, ...] | None = None

    @property
    def suspects(self) -> tuple[int, ...] | None:
        """The queries that may be at fault; None: all that run on Spark."""
        return self.among if self.numbers is None else self.numbers


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial. `numbers`: the queries that it was stepping when it died, if that is known; `away`: the
    store does not answer."""

    end: Literal["survived", "died", "failed", "away"]
    why: str = ""
    numbers: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Count:
    """Of a suspended query: the deaths that it may have caused, how often it was suspended, and when the last time
    was."""

    deaths: int
    times: int
    suspended_s: float


class Trial(Protocol):
    """`run` steps these queries alone, up to a snapshot, in a fresh process, for which `prepare` makes ready what takes
    long. `close` ends it from another thread."""

    def prepare(self) -> None: ...
    def run(self, states: Mapping[int, Any], position: int, until: int) -> Outcome: ...
    def close(self) -> None: ...


class Quarantine:
    def __init__(
        self,
        merge: Merge,
        trial: Trial,
        *,
        all_queries: Callable[[], Collection[int]],
        park: Callable[[int, str, int], bool],
        publish: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        """`all_queries`: the queries that run on Spark now. `park` (a query, the reason, and the snapshot that was
        stepped) returns whether it parked the query. `publish` publishes an empty snapshot, so that released queries
        catch up. `on_change` is called when other queries are suspended than before."""
        self._merge, self._trial = merge, trial
        self._all_queries, self._park, self._publish, self._on_change = all_queries, park, publish, on_change
        self._changed = threading.Condition()
        self._suspended: frozenset[int] = frozenset()
        self._undecided: set[int] = set()
        # Suspended, too: a runner that builds its state at a snapshot before the parking would step them there.
        self._parked: set[int] = set()
        self._deaths: list[Death] = []
        self._counts: dict[int, _Count] = {}  # by query
        self._busy = self._closed = False
        self._emptied_at = 0  # the snapshot in which the last one was released or parked
        self._thread: threading.Thread | None = None

    @property
    def suspended(self) -> frozenset[int]:
        return self._suspended

    def hold(self, death: Death) -> None:
        """Suspends the queries of this death, before it returns. Any thread may call; it does not wait."""
        with self._changed:
            if self._closed:
                return
            numbers = death.suspects
            if numbers is None:
                numbers = tuple(self._all_queries())
            self._forget_old()
            now, known = time.monotonic(), death.numbers is not None and death.count > 0
            for number in numbers:
                before = self._counts.get(number)
                times = 0 if before is None or now - before.suspended_s > _AGAIN_S else before.times
                self._counts[number] = _Count(death.count * known, times + known, now)
            self._undecided.update(numbers)
            self._suspended |= self._undecided
            self._deaths.append(replace(death, among=numbers))
            self._start()
            self._changed.notify_all()
        log.warning(
            "queries are in quarantine: they may have killed a worker",
            extra={"fields": {"queries": len(numbers), "first": min(numbers, default=0), "snapshot": death.sn}},
        )
        self._on_change()

    def prepare(self) -> None:
        """Workers of Spark step queries from now on: makes ready for a trial. It does not wait."""
        with self._changed:
            if not self._closed:
                self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rillet-quarantine", daemon=True)
            self._thread.start()

    def _forget_old(self) -> None:
        now = time.monotonic()
        for number in [each for each, count in self._counts.items() if now - count.suspended_s > _AGAIN_S]:
            if number not in self._undecided:
                del self._counts[number]

    def wait_until_empty(self, deadline_s: float) -> int:
        """Waits until no query is being tried; returns the snapshot in which the last one was released."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or not (self._undecided or self._busy), deadline_s):
                raise DeadlineExceeded(
                    f"{len(self._undecided)} queries are being tried in a separate process, because they may have "
                    f"killed a worker; this was not over within {deadline_s:g} s"
                )
            return self._emptied_at

    def forget(self, number: int) -> None:
        """A query that was parked is resumed, or dropped."""
        with self._changed:
            self._parked.discard(number)
            self._suspended = frozenset(self._undecided | self._parked)
        self._on_change()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        self._trial.close()
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)

    # ---- the thread that tries ---------------------------------------------------------------------------------

    def _run(self) -> None:
        self._trial.prepare()
        while True:
            with self._changed:
                self._busy = bool(self._deaths)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closed or self._deaths)
                if self._closed:
                    return
                self._busy, death = True, self._deaths.pop(0)
            try:
                self._decide(death)
            except (RilletError, StoreError) as error:  # of merge or writer: nothing is stepped any more
                log.error("the quarantine has failed", extra={"fields": {"error": f"{type(error).__name__}: {error}"}})
                return

    def _decide(self, death: Death) -> None:
        """Releases or parks every query that this death has suspended."""
        numbers = death.numbers if death.numbers is not None else tuple(self._undecided.intersection(death.among or ()))
        groups = self._without_repeated(numbers, death)
        trials = 0
        while groups:
            group = groups.pop()
            trials += 1
            if trials > TRIALS_MAX:
                self._park_all(group, death, "too many queries failed together to be tried one by one")
                continue
            outcome = self._tried(group, death.sn)
            if self._closed:
                return
            if outcome.end == "survived":
                self._release(group)
            elif death.numbers is None and trials == 1 and self._tried((), death.sn).end != "survived":
                log.warning(
                    "a worker died independently of the queries that it stepped", extra={"fields": {"why": death.why}}
                )
                self._release(group)
            elif outcome.end == "failed":
                self._park_all(group, death, f"it could not be tried in a separate process: {outcome.why}")
            else:
                groups += self._after_death(group, death, outcome)

    def _without_repeated(self, numbers: Sequence[int], death: Death) -> list[tuple[int, ...]]:
        """The queries to be tried: those that were released before and died again are parked instead."""
        again = tuple(number for number in numbers if self._counts[number].times >= DEATHS_MAX)
        if again:
            self._park_all(again, death, "in separate processes it did not, but again among all other queries")
            numbers = tuple(number for number in numbers if number not in again)
        return [tuple(numbers)] if numbers else []

    def _after_death(self, group: Sequence[int], death: Death, outcome: Outcome) -> list[tuple[int, ...]]:
        """The groups of these queries that are tried next."""
        named = tuple(number for number in group if number in (outcome.numbers or ()))
        if named and len(named) < len(group):
            self._count(named)
            rest = tuple(number for number in group if number not in named)
            return [*self._unless_parked(named, death, outcome), rest]
        self._count(group)
        if len(group) == 1:
            return self._unless_parked(group, death, outcome)
        middle = len(group) // 2
        return [tuple(group[:middle]), tuple(group[middle:])]

    def _count(self, group: Sequence[int]) -> None:
        for number in group:
            self._counts[number].deaths += 1

    def _unless_parked(self, group: Sequence[int], death: Death, outcome: Outcome) -> list[tuple[int, ...]]:
        if len(group) == 1 and self._counts[group[0]].deaths >= DEATHS_MAX:
            self._park_all(group, death, f"in a separate process: {outcome.why}")
            return []
        return [tuple(group)]

    def _tried(self, group: Sequence[int], sn: int) -> Outcome:
        """The outcome of a trial, which is repeated while the store does not answer."""
        pause_s, failures = _PAUSE_S_MIN, 0
        while True:
            _, position, states = self._merge.attempt(Runner.TRIAL)
            there = {number: states[number] for number in group if number in states}
            if group and not there:
                return Outcome("survived")  # they were dropped meanwhile
            outcome = self._trial.run(there, position, max(sn, position))
            failures += outcome.end == "failed"
            if outcome.end in ("survived", "died") or failures >= _FAILURES_MAX:
                return outcome
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, pause_s):
                    return outcome
            pause_s = min(pause_s * 2, _PAUSE_S_MAX)

    def _release(self, group: Sequence[int]) -> None:
        log.warning("queries left quarantine: their trial survived", extra={"fields": {"queries": len(group)}})
        self._no_more(group)
        self._emptied_at = max(self._emptied_at, self._publish())

    def _park_all(self, group: Sequence[int], death: Death, how: str) -> None:
        with self._changed:
            self._parked.update(group)  # first, because a query may be resumed as soon as it is parked
        others: set[int] = set()
        for number in group:
            message = f"its step killed one worker process after another in snapshot {death.sn} ({death.why}; {how})"
            log.error("a query is parked", extra={"fields": {"query": number, "why": message}})
            if not self._park(number, message, death.sn):
                others.add(number)
        if others:  # they were dropped, paused or resumed meanwhile: they are others than those that were tried
            with self._changed:
                self._parked -= others
        self._no_more(group)
        if others:
            self._emptied_at = max(self._emptied_at, self._publish())

    def _no_more(self, group: Sequence[int]) -> None:
        with self._changed:
            self._undecided.difference_update(group)
            self._suspended = frozenset(self._undecided | self._parked)
        self._on_change()
