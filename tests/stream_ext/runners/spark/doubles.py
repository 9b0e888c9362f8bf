"""Doubles of what the Spark runner stands between: a store of numbers, a shard over it, and a merge.

The shard's state is a chain: each SN's value is folded into all before it. So a step that is lost, repeated or
out of order changes every number after it, and the expected chain is three lines of arithmetic."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.continuous.assignment import DividedQueries, divides_none
from stream_ext.continuous.query_budget import Budget
from stream_ext.emissions.accounts import Accounts
from stream_ext.emissions.placement import ShardPlan
from stream_ext.errors import DeadlineExceeded
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.runners.quarantine import Death

FACTORY = "tests.stream_ext.runners.spark.doubles:open_shard"
PATIENCE_S = 120.0
_MODULUS = (1 << 61) - 1

#: Values of an SN that make the shard misbehave there, in a worker process only.
DIES_ONCE, DIES_ALWAYS, RAISES, SPOILS_ONCE = (1 << 40) + 1, (1 << 40) + 2, (1 << 40) + 3, (1 << 40) + 4


class QueryState(msgspec.Struct):
    chain: int
    behind_at: int | None = None
    unanswered: bool = False


class Part(msgspec.Struct):
    query: int
    sn: int
    columns: list[npt.NDArray[np.uint64]]
    state: QueryState


def chain(values: Sequence[int]) -> list[int]:
    """What the query says at each SN."""
    found, last = [], 0
    for value in values:
        last = (last * 31 + value) % _MODULUS
        found.append(last)
    return found


class NumberStore:
    """A file of one number a line; line n is SN n."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "numbers"
        self.path.touch()

    @property
    def url(self) -> str:
        return f"numbers:{self.path}"

    def append(self, value: int) -> int:
        with self.path.open("a") as file:
            file.write(f"{value}\n")
        return len(self.values())

    def values(self) -> list[int]:
        return [int(line) for line in self.path.read_text().splitlines()]


class NoRuns:
    """Nothing whose time or memory is looked at."""

    all: tuple[object, ...] = ()
    runs: tuple[object, ...] = ()
    by_first_query: Mapping[int, object] = {}
    slowed: Mapping[int, object] = {}

    def own_ms(self, query_ms: Mapping[int, float]) -> dict[int, float]:
        return {}


class ChainShard:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: list[int] = []
        self._state = 0
        self.sn = 0
        self.faults: dict[int, str] = {}
        self.divided = DividedQueries(divides_none)
        self.behind: dict[int, int] = {}
        self.suspended: Collection[int] = frozenset()
        self.stepping: Callable[[int, Sequence[int]], None] = lambda sn, numbers: None
        self.runs = self.all_behind = NoRuns()

    has_more = False

    @property
    def own_faults(self) -> dict[int, str]:
        return self.faults

    def generation(self, number: int) -> int:
        return 7

    def finished(self, parts: list[Part], subscribed: Collection[int]) -> list[Part]:
        return parts

    def step_one_behind(self) -> list[Part]:
        return []

    def return_to(self, states: Mapping[int, QueryState]) -> None:
        pass

    def refresh(self) -> int:
        self._values = [int(line) for line in self._path.read_text().splitlines()]
        return len(self._values)

    def build(self, states: Mapping[int, QueryState], sn: int) -> None:
        self.sn = sn
        self._state = states[1].chain if 1 in states else 0

    def step(self, sn: int) -> list[Part]:
        assert sn == self.sn + 1, f"at {self.sn}, told to step {sn}"
        value = self._values[sn - 1]
        self.stepping(sn, [1])
        self._misbehave(value)
        self.stepping(sn, [])
        self._state = (self._state * 31 + value) % _MODULUS
        self.sn = sn
        if value == 0:
            self.faults = {2: "query 2 divides by the value"}
        ids = np.array([sn, self._state, os.getpid()], np.uint64)
        return [Part(1, sn, [ids], QueryState(self._state))]

    def _misbehave(self, value: int) -> None:
        if value == RAISES:
            raise ValueError("this SN cannot be stepped")
        once = self._path.with_name("died")
        if value == SPOILS_ONCE and not once.exists():
            once.touch()
            self._state += 1  # half of the step
            raise ValueError("this step ends in the middle")
        if value == DIES_ALWAYS or (value == DIES_ONCE and not once.exists()):
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        pass


def open_shard(
    store_url: str, base: str, allowed_urls: AllowedUrls, budget: Budget, only: Collection[int] | None = None
) -> ChainShard:
    return ChainShard(Path(store_url.removeprefix("numbers:")))


class Noticed:
    """Stands for the quarantine."""

    def __init__(self) -> None:
        self.suspended: frozenset[int] = frozenset()
        self.deaths: list[Death] = []

    def prepare(self) -> None:
        pass

    def hold(self, death: Death) -> None:
        self.deaths.append(death)
        self.suspended |= frozenset(death.numbers or ())


class ChainMerge:
    """The contract of the merge, with its inline runner inside: whenever it owns the queries it steps at once."""

    def __init__(self, store: NumberStore) -> None:
        self._store = store
        self._changed = threading.Condition(threading.RLock())
        self._attempt = 0
        self._pending: dict[int, list[Part]] = {}
        self._chain = 0
        self.accounts = Accounts(dict)
        self.position = 0
        self.owner = "inline"
        self.emitted: list[int] = []  # of SN 1, 2, ...
        self.by: list[str] = []  # who stepped it
        self.pids: list[int] = []
        self.repeats = 0

    # ---- the contract -----------------------------------------------------------------------------------------

    plan = ShardPlan()
    on_plan: Callable[[], None] = staticmethod(lambda: None)

    def is_on_spark(self, shard: int) -> bool:
        return self.owner == "spark"

    def attempt(
        self, runner: str = "spark", shard: int = 0, done: int | None = None
    ) -> tuple[int, int, dict[int, QueryState]]:
        with self._changed:
            self._attempt += 1
            self._pending.clear()
            return self._attempt, self.position, {1: QueryState(self._chain)}

    def take(self, runner: str, sn: int, parts: list[Part], shard: int = 0) -> None:
        with self._changed:
            if sn <= self.position:
                self.repeats += 1
            else:
                self._pending[sn] = parts
                self._merge_pending()

    def caught_up(self, runner: str, attempt: int, sn: int, behind: Mapping[int, int], shard: int = 0) -> None:
        with self._changed:
            if attempt == self._attempt and sn >= self.position:
                self.owner = runner
                self._merge_pending()
                self._changed.notify_all()

    def take_piece(self, runner: str, parts: list[Part], shard: int = 0) -> None:
        assert not parts, "none of these is ever behind"

    def catching_up(self) -> Mapping[int, QueryState]:
        return {}

    def states_behind(self, queries: Collection[int]) -> Mapping[int, QueryState]:
        return {}

    def lost(self, runner: str, attempt: int, shard: int = 0) -> None:
        with self._changed:
            self.owner = "inline"
            self._pending.clear()
            self._pump()
            self._changed.notify_all()

    def wait(self, sn: int, deadline_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self.position >= sn, deadline_s):
                raise DeadlineExceeded(f"SN {sn} is not merged after {deadline_s} s; the position is {self.position}")

    # ---- for tests --------------------------------------------------------------------------------------------

    def published(self) -> None:
        with self._changed:
            self._pump()

    def wait_owner(self, owner: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.owner == owner, PATIENCE_S), f"{owner} never owned the queries"

    def _merge_pending(self) -> None:
        while self.owner == "spark" and self.position + 1 in self._pending:
            (part,) = self._pending.pop(self.position + 1)
            self._say(part, "spark")

    def _pump(self) -> None:
        shard = ChainShard(self._store.path)
        shard.build({1: QueryState(self._chain)}, self.position)
        head = shard.refresh()
        while self.owner == "inline" and self.position < head:
            shard._misbehave = lambda value: None  # type: ignore[method-assign]  # only workers die
            (part,) = shard.step(self.position + 1)
            self._say(part, "inline")

    def _say(self, part: Part, who: str) -> None:
        sn, self._chain, pid = part.columns[0].tolist()
        assert sn == self.position + 1
        self.position = sn
        self.emitted.append(self._chain)
        self.by.append(who)
        self.pids.append(pid)
        self._changed.notify_all()
