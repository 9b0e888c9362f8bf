"""Quarantine: queries that may have killed a worker wait, while a process of its own tries what they did.

    a worker dies stepping q  ->  another worker steps all of it again       (most deaths are nobody's fault)
    it dies, too, or hung     ->  q is held: whoever steps the others leaves it out, and it stands where it was
                              ->  a trial: a fresh process steps q alone, from there
                                      it survives  ->  q is released, and what it missed is made up for
                                      it dies      ->  the query that it was stepping is parked at its third death

The server's own process never steps what has killed another, before it was tried. Where it is not known which query was
being stepped, all are held, and found by halves; if a trial without any query dies, too, it was none of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hbase_store.errors import StoreError
from stream_ext.errors import DeadlineExceeded, RilletError

log = logging.getLogger("rillet.spark")

#: At so many deaths in a row a query is parked; or when it is held so often, each time soon after the last.
DEATHS_MAX = 3
_AGAIN_S = 60.0
#: Trials for one death; whoever is not found by then is parked with the others.
TRIALS_MAX = 64
_PAUSE_S_MIN, _PAUSE_S_MAX = 1.0, 30.0
#: So often in a row may a trial fail for another reason than its queries, or a store that does not answer.
_FAILURES_MAX = 5


@dataclass(frozen=True, slots=True)
class Death:
    """A worker died, or was killed, in this snapshot, while it stepped these queries (None: it is not known which); it
    was the `count`th in a row; 0: it may have been ended by its driver's end."""

    sn: int
    numbers: tuple[int, ...] | None
    count: int
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a trial. `numbers`: what it was stepping when it died, if that is known; `away`: the store does not answer."""

    end: Literal["survived", "died", "failed", "away"]
    why: str = ""
    numbers: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Count:
    """Of a query that was held: the deaths that it may have caused since, how often that was, and when the last."""

    deaths: int
    times: int
    held_s: float


class Trial(Protocol):
    """Steps these queries alone, up to a snapshot, in a fresh process. `close` ends it from another thread."""

    def run(self, states: Mapping[int, Any], position: int, until: int) -> Outcome: ...
    def close(self) -> None: ...


class MergePosition(Protocol):
    @property
    def position(self) -> int: ...
    def attempt(self, runner: str) -> tuple[int, int, Mapping[int, Any]]: ...


class Quarantine:
    def __init__(
        self,
        merge: MergePosition,
        trial: Trial,
        *,
        all_queries: Callable[[], Collection[int]],
        park: Callable[[int, str, int], bool],
        publish: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        """`all_queries`: those that run on Spark now. `park` (for what was stepped in a snapshot; whether it is parked
        by that) and `publish` (a snapshot, in which what was missed is made up for) return when that is done;
        `on_change`: others are held than before."""
        self._merge, self._trial = merge, trial
        self._all_queries, self._park, self._publish, self._on_change = all_queries, park, publish, on_change
        self._changed = threading.Condition()
        self._held: frozenset[int] = frozenset()
        self._undecided: set[int] = set()
        # Who builds its state at a snapshot before the one that parked them would step them there: they are held, too.
        self._parked: set[int] = set()
        self._deaths: list[Death] = []
        self._counts: dict[int, _Count] = {}  # by query
        self._busy = self._closed = False
        self._settled = 0  # the snapshot in which the last one was released or parked
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> frozenset[int]:
        return self._held

    def hold(self, death: Death) -> None:
        """From when this returns, who asks finds them held. Any thread may call; it does not wait."""
        with self._changed:
            if self._closed:
                return
            numbers = tuple(self._all_queries()) if death.numbers is None else death.numbers
            self._forget_old()
            now, known = time.monotonic(), death.numbers is not None and death.count > 0
            for number in numbers:
                before = self._counts.get(number)
                times = 0 if before is None or now - before.held_s > _AGAIN_S else before.times
                self._counts[number] = _Count(death.count * known, times + known, now)
            self._undecided.update(numbers)
            self._held |= self._undecided
            self._deaths.append(Death(death.sn, death.numbers and numbers, death.count, death.why))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rillet-quarantine", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        log.warning(
            "queries are in quarantine: they may have killed a worker",
            extra={"fields": {"queries": len(numbers), "first": min(numbers, default=0), "snapshot": death.sn}},
        )
        self._on_change()

    def _forget_old(self) -> None:
        now = time.monotonic()
        for number in [each for each, count in self._counts.items() if now - count.held_s > _AGAIN_S]:
            if number not in self._undecided:
                del self._counts[number]

    def settle(self, deadline_s: float) -> int:
        """Waits until nothing is tried any more; the snapshot in which the last was released."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or not (self._undecided or self._busy), deadline_s):
                raise DeadlineExceeded(
                    f"{len(self._undecided)} queries are being tried in a separate process, because they may have "
                    f"killed a worker; this was not over within {deadline_s:g} s"
                )
            return self._settled

    def forget(self, number: int) -> None:
        """A query that was parked is resumed, or dropped."""
        with self._changed:
            self._parked.discard(number)
            self._held = frozenset(self._undecided | self._parked)
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
        """Every query that this death holds is released or parked."""
        numbers = tuple(self._undecided if death.numbers is None else death.numbers)
        groups = self._without_repeated(numbers, death)
        if death.numbers is None and groups and self._tried((), death.sn).end != "survived":
            log.warning(
                "a worker died independently of the queries that it stepped", extra={"fields": {"why": death.why}}
            )
            self._release(numbers)
            return
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
            elif outcome.end == "failed":
                self._park_all(group, death, f"it could not be tried in a separate process: {outcome.why}")
            else:
                groups += self._after_death(group, death, outcome)

    def _without_repeated(self, numbers: Sequence[int], death: Death) -> list[tuple[int, ...]]:
        """Those to be tried; without those that were released here before, and died again."""
        again = tuple(number for number in numbers if self._counts[number].times >= DEATHS_MAX)
        if again:
            self._park_all(again, death, "in separate processes it did not, but again among all other queries")
            numbers = tuple(number for number in numbers if number not in again)
        return [tuple(numbers)] if numbers else []

    def _after_death(self, group: Sequence[int], death: Death, outcome: Outcome) -> list[tuple[int, ...]]:
        """Who is tried next, of these."""
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
        """Again, while the store does not answer."""
        pause_s, failures = _PAUSE_S_MIN, 0
        while True:
            _, position, states = self._merge.attempt("trial")
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
        self._settled = max(self._settled, self._publish())

    def _park_all(self, group: Sequence[int], death: Death, how: str) -> None:
        with self._changed:
            self._parked.update(group)  # first: it may be resumed as soon as it is parked
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
            self._settled = max(self._settled, self._publish())

    def _no_more(self, group: Sequence[int]) -> None:
        with self._changed:
            self._undecided.difference_update(group)
            self._held = frozenset(self._undecided | self._parked)
        self._on_change()
