"""Queries that fall behind say the same whoever steps them: inline, tasks of Spark, or now this and now that one."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from stream_ext.clock import SystemClock
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.merged_progress import Runner
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.engine import Engine
from stream_ext.service.service import Service
from tests.stream_ext.opened import EX, opened, push, registration, triple
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.pieces import FACTORY, SMALL, TasksWithoutSpark

WINDOW = "RANGE PT0.3S STEP PT0.02S"
TEXTS = {
    "whole": registration("whole", window=WINDOW),
    "new": registration("new", window=WINDOW, r2s="ISTREAM"),
    "count": registration("count", window=WINDOW, select="SELECT (COUNT(*) AS ?n)"),
    "chance": registration("chance", window="RANGE PT0.04S STEP PT0.02S", select="SELECT (RAND() AS ?r)"),
    **{f"of{n}": registration(f"of{n}", window=WINDOW, pattern=f":a{n} :p ?y", select="SELECT ?y") for n in range(3)},
    "past": registration("past", window="START 0 END 5000 STEP PT0.02S"),
}


#: After a step: each is a snapshot.
MOVES = {
    3: [("whole", "inline"), ("of1", "inline")],
    4: [("whole", "spark")],
    9: [("whole", "inline")],
    11: [("whole", "spark")],
}


def say(service: Service, chance: random.Random, steps: range) -> None:
    for step in steps:
        at = step * 1000 + chance.randrange(500)
        push(service, "s", at, triple(f"a{step % 3}", step), triple("b", at), wait="published")


def emitted(service: Service) -> dict[str, list[bytes]]:
    return {name: [e.json for e in service.emissions(name, 0, None)] for name in TEXTS}


def play(service: Service, seed: int, between: object = lambda step: None) -> dict[str, list[bytes]]:
    chance = random.Random(seed)
    assert callable(between)
    service.create_stream("s", {"retention": "1h"})
    for name, text in TEXTS.items():
        if name != "past":
            service.register(text)
    for step in range(1, 13):
        say(service, chance, range(step, step + 1))
        if step == 6:
            service.register(TEXTS["past"])
        between(step)
    push(service, "s", 14_000, triple("a", 1))
    return emitted(service)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("epoch_s", [0.0, 0.2])
def test_what_is_behind_says_the_same_on_tasks_that_die_and_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch_s: float
) -> None:
    with opened(tmp_path / "at once") as service:

        def as_many(step: int) -> None:
            for name, runner in MOVES.get(step, ()):
                service.update(f"INSERT DATA {{ <{EX}{name}> <{EX}{runner}> {step} }}")

        expected = play(service, 1, as_many)
    assert all(len(each) > 20 for each in expected.values())

    monkeypatch.setattr("stream_ext.runners.spark.runner.DriverProcess", TasksWithoutSpark)
    monkeypatch.setattr("stream_ext.runners.spark.runner.find_java", lambda environ: None)
    monkeypatch.setattr("stream_ext.runners.spark.runner._RETRY_S_MIN", 0.05)
    # What is tried apart after a death makes snapshots of its own, and numbers would differ: another test is about it.
    monkeypatch.setattr("stream_ext.runners.quarantine.Quarantine.hold", lambda self, death: None)

    def small(engine: Engine, role: Runner) -> Shard:
        shard = shard_of(engine, role)
        shard.pace = SMALL
        return shard

    shard_of = Engine._shard
    monkeypatch.setattr(Engine, "_shard", small)
    settings = SparkSettings(epoch_s=epoch_s, warmup_epochs=0, grace_s=0.05, shard_factory=FACTORY)
    owners: list[str] = []

    with opened(tmp_path / "pieces", SystemClock(), engine="spark", spark=settings) as service:
        spark = service._engine.spark
        assert spark is not None

        def between(step: int) -> None:
            if step in (2, 8):
                assert spark.wait_for("up", PATIENCE_S), spark.why
            owners.append(service._engine.merge.owner)
            for name, runner in MOVES.get(step, ()):
                service.move_query(name, runner)
            if step == 5:
                os.kill(spark.status()["driver_pid"], signal.SIGKILL)
            time.sleep(0.02 * (step % 3))  # whatever of it is made up for meanwhile: what is said is the same

        found = play(service, 1, between)
    assert {"inline", "spark"} <= set(owners), "it was not told by both"
    for name in TEXTS:
        assert found[name] == expected[name], name
