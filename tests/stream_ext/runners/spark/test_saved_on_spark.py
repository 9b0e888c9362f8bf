"""Windows that hold all on Spark: workers read what is saved, whoever dies, and wherever a query moves."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_ext.clock import SystemClock
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.service import Service
from stream_ext.upkeep.retention import Retain
from tests.parts.waiting import until
from tests.stream_ext.opened import emissions_of, opened, push, triple, values
from tests.stream_ext.runners.spark.test_shards_on_spark import all_on_spark, kill, living, with_seats
from tests.stream_ext.upkeep.test_saving import QUERIES

NAMES = ("rows", "number", "joined", "listed", "stepped")
PUSHES = 60


def play(service: Service, between: Callable[[int], None]) -> dict[str, object]:
    chance = random.Random(1)
    for stream in "st":
        service.create_stream(stream, {"retention": "0s"})
    for name in NAMES:
        service.register(QUERIES[name])
    for number in range(PUSHES):
        lines = [triple(chance.choice("abc"), chance.randrange(3)) for _ in range(3)]
        push(service, chance.choice("sst"), 10_000 + 200 * number, *lines)
        between(number)
    return {name: [(e["time"], e["windows"], values(e)) for e in emissions_of(service, name)] for name in NAMES}


@pytest.mark.timeout(300)
def test_what_is_saved_is_read_by_workers_and_changes_no_emission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "inline") as service:
        expected = play(service, lambda number: None)
    with_seats(monkeypatch)
    settings = SparkSettings(epoch_s=0.2, warmup_epochs=0, grace_s=0.05, shards=2)
    retain = Retain(snapshots_ms=1)
    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=settings, retain=retain) as service:

        def between(number: int) -> None:
            if number % 10 == 5:
                until(lambda: all_on_spark(service), "all shards are on Spark")
                service.collect()
                service.collect()
            if number in (26, 46):
                kill(living(service)[0])
            if number in (30, 40):
                service.move_query("number", "inline" if number == 30 else "spark")

        found = play(service, between)
        stream = service._engine._injector.catalog.find_stream("s")
        assert stream is not None
        assert service.store.horizon(stream.number) > PUSHES // 2, "the history has gone"
    for name in NAMES:
        assert found[name] == expected[name], name
