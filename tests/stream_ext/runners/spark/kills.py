"""Rounds of kills: a service whose queries are in several shards, while processes of Spark are killed and stopped.

What kills workers is tried apart, and what has survived that is released in an empty snapshot. So emissions after it
have greater numbers of snapshots than those of a service where nothing died, and the two do not compare.
Instead, one shard in this process steps the snapshots of the same store again, one after the other. The emissions of
the service must be the same, byte for byte: whatever died, each result was stored once, in the same order.

python -m tests.stream_ext.runners.spark.kills SEED SHARDS"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import hbase_store
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.clock import ManualClock, SystemClock
from stream_ext.continuous.assignment import may_divide
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.subscriptions import Emissions
from stream_ext.errors import DeadlineExceeded
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.service import Retain, Service
from tests.parts.waiting import until
from tests.stream_ext.continuous.test_shards import LogOfGroups
from tests.stream_ext.opened import EX, opened, push, registration, triple
from tests.stream_ext.runners.spark.processes import family

#: A % is a constant, so that each is a template of several queries.
PATTERNS = (
    ("SELECT ?x ?y", "WINDOW :w { ?x :p ?y }"),
    ("SELECT ?y", "WINDOW :w { % :p ?y }"),
    ("SELECT ?x ?z", "WINDOW :w { ?x :p ?y . ?x :q ?z }"),
    ("SELECT ?x ?k", "WINDOW :w { ?x :p ?y } ?x :k ?k"),
    ("SELECT ?y (COUNT(?x) AS ?n)", "WINDOW :w { ?x :p ?y } } GROUP BY ?y #"),
    ("SELECT (SUM(?y) AS ?n)", "WINDOW :w { ?x :p ?y } ?x :k %"),
    ("ASK", "WINDOW :w { % :q ?y }"),
    ("SELECT ?x ?y", "WINDOW :w { ?x :p ?y } } ORDER BY DESC(?y) ?x LIMIT 3 #"),
)
WINDOWS = ("RANGE PT2S STEP PT1S", "RANGE PT3S STEP PT0.5S", "RANGE PT1S STEP PT1S")
#: A JVM that dies again is started later each time.
_STARTS_S = 600
_RETAINED_MS = 86_400_000
Kill = Callable[["Round"], None]


def divide_all(service: Service) -> None:
    """From the end of each epoch on all queries are divided that can be, though none is heavy."""
    merge = service._engine.merge

    def balanced() -> ShardPlan:
        plan, catalog = merge.plan, service._engine._injector.catalog
        able = frozenset(each.placement or each.number for each in service.queries() if may_divide(each, catalog))
        return plan if able == plan.divided else ShardPlan(plan.number + 1, plan.weights, able)

    merge.balanced = balanced  # type: ignore[method-assign]


class Round:
    """`chance` decides what happens, not when the processes of Spark do what."""

    def __init__(self, seed: int, service: Service, kills: dict[str, Kill], rest: int) -> None:
        """`rest`: the number of pushes after each kill before the next may come."""
        self.seed, self.service, self.chance = seed, service, random.Random(seed)
        self.kills, self.rest = kills, rest
        self.did: Counter[str] = Counter()
        self.numbers, self.names = count(), list[str]()
        self.paused: set[str] = set()
        self.time = 0

    def run(self, pushes: int) -> None:
        merge = self.service._engine.merge
        merge._divided = lambda *_: merge.plan.divided  # type: ignore[method-assign]  # though none is heavy
        self.service.create_stream("s", {})
        # With this window no element is deleted, so that all snapshots can be stepped again.
        self.service.register(registration("long", window="RANGE PT1H STEP PT1H"))
        for _ in range(10):
            self._register()
        until(self.all_on_spark, "all shards are on Spark", _STARTS_S)
        waits = 3
        for _ in range(pushes):
            self._push()
            waits -= 1
            if waits <= 0 and self.kills:
                self._kill()
                waits = self.rest
            if self.chance.random() < 0.3:
                self._change()
        self._wait()

    def _wait(self) -> None:
        """A kill with a silence, the start of a new JVM and trials may come one after the other."""
        for _ in range(4):
            with contextlib.suppress(DeadlineExceeded):
                self.service._engine.await_evaluated(self.service.head(), 60)
                return
        raise AssertionError(f"seed {self.seed}: it waits for ever")

    def _push(self) -> None:
        self.time += self.chance.choice((100, 250, 250, 700))
        triples = [triple(f"n{self.chance.randrange(1, 6)}", self.chance.randrange(4)) for _ in range(3)]
        triples += [triple(f"n{self.chance.randrange(1, 6)}", self.chance.randrange(4), "q") for _ in range(2)]
        push(self.service, "s", self.time, *triples, wait="published")
        merge = self.service._engine.merge
        self.did["divided"] += bool(merge.plan.divided and merge.owner == Runner.SPARK)
        if self.chance.random() < 0.5 or self.service.head() > merge.position + 40:
            self._wait()

    # ---- what is changed

    def _change(self) -> None:
        weights = {"register": 3, "drop": 1, "pause": 1, "resume": 2, "move": 2, "store": 3, "plan": 2}
        (action,) = self.chance.choices(list(weights), list(weights.values()))
        self.did[action] += 1
        getattr(self, f"_{action}")()

    def _register(self) -> None:
        name = f"q{next(self.numbers)}"
        select, pattern = self.chance.choice(PATTERNS)
        while "%" in pattern:
            pattern = pattern.replace("%", f":n{self.chance.randrange(1, 6)}", 1)
        kind = "RSTREAM" if "LIMIT" in pattern else self.chance.choice(("RSTREAM", "ISTREAM", "DSTREAM"))
        self.service.register(
            f"PREFIX : <{EX}> REGISTER {kind} {name} AS {select} FROM NAMED WINDOW :w ON s "
            f"[{self.chance.choice(WINDOWS)}] WHERE {{ {pattern} }}"
        )
        self.names.append(name)

    def _one(self, paused: bool = False) -> str | None:
        there = [name for name in self.names if (name in self.paused) == paused]
        there = [name for name in there if self.service.query_definition(name).failure is None]
        return self.chance.choice(there) if there else None

    def _drop(self) -> None:
        if len(self.names) > 6 and (name := self._one()) is not None:
            self._wait()  # a dropped query has no emissions any more, so this one could not be compared
            self.service.drop_query(name)
            self.names.remove(name)

    def _pause(self) -> None:
        if (name := self._one()) is not None:
            self._wait()  # a paused query skips what it has not evaluated
            self.service.pause_query(name)
            self.paused.add(name)

    def _resume(self) -> None:
        if (name := self._one(paused=True)) is not None:
            self.service.resume_query(name)
            self.paused.discard(name)

    def _move(self) -> None:
        if (name := self._one()) is not None:
            self.service.move_query(name, self.chance.choice(("inline", "spark")))

    def _store(self) -> None:
        self.service.update(f"INSERT DATA {{ <{EX}n{self.chance.randrange(1, 6)}> <{EX}k> <{EX}n1> }}")

    def _plan(self) -> None:
        """A plan with other weights, which divides other queries, begins with the next epoch."""
        bell, merge = self.service._engine.spark._bell, self.service._engine.merge  # type: ignore[union-attr]
        weights = tuple(self.chance.choice((0.5, 1.0, 3.0)) for _ in merge.plan.weights)
        catalog = self.service._engine._injector.catalog
        able = sorted({each.placement or each.number for each in self.service.queries() if may_divide(each, catalog)})
        divided = frozenset(each for each in able if merge.plan.shards > 1 and self.chance.random() < 0.7)
        for _ in range(5):  # an epoch that ends just then has another plan, of balanced loads
            with bell._lock:
                if bell.epochs.next_plan is None and not bell.epochs.is_over:
                    bell.epochs.next_plan = ShardPlan(merge.plan.number + 1, weights, divided)
                    bell.epochs.end_sn = bell.head
            until(lambda: bell.epochs.next_plan is None, "it is the plan, or what died has ended it")
            if merge.plan.divided or not divided:
                return

    # ---- what is killed

    @property
    def spark(self) -> dict[str, Any]:
        assert self.service._engine.spark is not None
        return self.service._engine.spark.status()

    def all_on_spark(self) -> bool:
        return all(shard["runner"] == "spark" for shard in self.spark["shards"])

    def _kill(self) -> None:
        if self.chance.random() < 0.8:
            until(self.all_on_spark, "all shards are on Spark again", _STARTS_S)
        kill = self.chance.choice(sorted(self.kills))
        self.did[kill] += 1
        self.kills[kill](self)

    def signal(self, pid: int | None, number: signal.Signals) -> None:
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                os.kill(pid, number)

    def a_worker(self) -> int | None:
        pids = [shard["pid"] for shard in self.spark["shards"] if shard["pid"]]
        return self.chance.choice(pids) if pids else None

    def the_driver(self) -> int | None:
        return self.spark["driver_pid"]  # type: ignore[no-any-return]

    def the_jvm(self) -> int | None:
        for pid in family(self.the_driver()):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/exe").resolve().name == "java":
                    return pid
        return None


def _of(find: Callable[[Round], int | None], number: signal.Signals) -> Kill:
    return lambda round: round.signal(find(round), number)


OF_WORKERS: dict[str, Kill] = {
    "kill a worker": _of(Round.a_worker, signal.SIGKILL),
    "stop a worker": _of(Round.a_worker, signal.SIGSTOP),
}
OF_DRIVERS: dict[str, Kill] = {
    "kill the driver": _of(Round.the_driver, signal.SIGKILL),
    "stop the driver": _of(Round.the_driver, signal.SIGSTOP),
}
OF_JVMS: dict[str, Kill] = {
    "kill the JVM": _of(Round.the_jvm, signal.SIGKILL),
    "stop the JVM": _of(Round.the_jvm, signal.SIGSTOP),
}


def play(
    seed: int, folder: Path, settings: SparkSettings, kills: dict[str, Kill], pushes: int, rest: int
) -> Counter[str]:
    """Returns what happened. Fails if the service has other emissions than one shard that steps its snapshots."""
    retain = Retain(_RETAINED_MS, _RETAINED_MS)  # all snapshots, however long the round takes
    with opened(folder, SystemClock(), engine="spark", spark=settings, retain=retain) as service:
        round = Round(seed, service, kills, rest)
        round.run(pushes)
        found = {query.number: [e.json for e in service.emissions(query.name, 0, None)] for query in service.queries()}
        queries = {query.number: query for query in service.queries()}
    expected = replayed(folder, queries)
    for number, query in queries.items():
        for one, other in zip(found[number], expected[number], strict=False):
            assert one == other, f"seed {seed}: {query.text}"
        # One that was hung three times in a minute is parked, and skips what it was still to evaluate.
        missing = len(expected[number]) - len(found[number])
        assert missing == 0 or (missing > 0 and query.failure is not None), f"seed {seed}: {query.text}"
    round.did["emissions"] = sum(map(len, found.values()))
    return round.did


def replayed(folder: Path, queries: dict[int, QueryDefinition]) -> dict[int, list[bytes]]:
    """What one shard makes of the snapshots of this store."""
    numbers = count(1_000_000)
    store = hbase_store.open(f"lmdb:{folder / 'store'}", read_only=True)
    try:
        assert store.oldest() == 0, "the store has its first snapshot"
        shard, log = Shard(store), LogOfGroups()
        shard.build({}, 0)
        merge = Merge(log, ManualClock(), lambda: shard.catalog.queries, store.terms, numbers.__next__)
        for sn in range(1, int(store.head()) + 1):
            before = shard.catalog.queries
            parts = shard.step(sn)
            for dropped in before.keys() - shard.catalog.queries.keys():
                merge.dropped(dropped)
            merge.take(Runner.INLINE, sn, parts)
        assert not shard.faults, shard.faults
        emissions = Emissions(log, merge.last, merge.memberships, queries.get)  # type: ignore[arg-type]
        return {number: [each.json for each in emissions.read(number, 0, None)] for number in queries}
    finally:
        store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        settings = SparkSettings(epoch_s=0.5, warmup_epochs=2, shards=int(sys.argv[2]), step_timeout_s=2)
        print(play(int(sys.argv[1]), Path(where), settings, OF_WORKERS | OF_DRIVERS | OF_JVMS, 150, 12))
