"""Queries of Spark that are far behind come to the server for what they have missed, and go back: nothing is lost."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from stream_ext.clock import SystemClock
from stream_ext.runners.replays import replays
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service import engine
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import opened, push, registration, triple
from tests.stream_ext.runners.replays.stories import JobsHere
from tests.stream_ext.runners.spark.doubles import PATIENCE_S
from tests.stream_ext.runners.spark.pieces import FACTORY, TasksWithoutSpark

WINDOW = "RANGE PT0.3S STEP PT0.005S"
TEXTS = {
    "whole": registration("whole", window=WINDOW),
    "new": registration("new", window=WINDOW, r2s="ISTREAM", pattern="?x :p ?y . ?z :p ?y", select="SELECT ?x ?z"),
}
_PUSHES = 6
#: Moves are snapshots, too, and come sooner or later.
_SNAPSHOT = re.compile(rb'"snapshot":\d+,')


def fill(service: Service) -> None:
    chance = random.Random(3)
    service.create_stream("s", {"retention": "1h"})
    for text in TEXTS.values():
        service.register(text)
    for step in range(1, _PUSHES):
        at = step * 1000 + chance.randrange(500)
        push(service, "s", at, triple(f"a{step % 3}", step), triple("b", step), wait="published")


def emitted(service: Service) -> dict[str, list[bytes]]:
    push(service, "s", _PUSHES * 1000, triple("a", 1))
    service._engine.await_evaluated(service.head(), PATIENCE_S)
    return {name: [_SNAPSHOT.sub(b"", each.json) for each in service.emissions(name, 0, None)] for name in TEXTS}


def spark_of(service: Service) -> Any:
    assert service._engine.spark is not None
    return service._engine.spark


def moved(service: Service, name: str) -> list[str]:
    return [str(event["why"]) for event in service.query_past(name) if event["what"] == "moved"]


@pytest.mark.timeout(240)
def test_they_are_evaluated_by_tasks_and_go_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "inline") as service:
        fill(service)
        expected = emitted(service)
    monkeypatch.setattr("stream_ext.runners.spark.runner.DriverProcess", TasksWithoutSpark)
    monkeypatch.setattr("stream_ext.runners.spark.runner.find_java", lambda environ: None)
    monkeypatch.setattr("stream_ext.runners.spark.runner._RETRY_S_MIN", 0.05)
    monkeypatch.setattr(replays, "LEAST_S", 0.0)
    jobs = JobsHere(random.Random(1))
    monkeypatch.setattr(engine, "ReplaysOnSpark", lambda tasks: jobs)
    settings = SparkSettings(epoch_s=0.2, warmup_epochs=0, grace_s=0.05, shard_factory=FACTORY)
    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=settings) as service:
        jobs.store = service._opened.store
        assert spark_of(service).wait_for("up", PATIENCE_S)
        fill(service)
        until(lambda: moved(service, "whole"), "that it is taken")
        os.kill(spark_of(service).status()["driver_pid"], signal.SIGKILL)
    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=settings) as service:
        jobs.store = service._opened.store
        assert emitted(service) == expected
        assert spark_of(service).wait_for("up", PATIENCE_S)
        for name in expected:
            until(lambda: service.query_definition(name).home is None, "that it is back")  # noqa: B023  waited for here
        *_, first = moved(service, "whole")  # the latest comes first
        assert first == "to the server's process, until tasks have evaluated what it has missed"
        assert jobs.stretches > 2
