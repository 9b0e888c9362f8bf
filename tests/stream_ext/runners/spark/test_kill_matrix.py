"""The matrix of kills: whatever of Spark is killed or stopped, with 2 and 4 shards, each emission comes once.

Most rounds have processes that stand for Spark's (`seats.py`), which start in no time; one is on a real Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stream_ext.runners.quarantine import Death
from stream_ext.runners.spark.settings import SparkSettings
from tests.stream_ext.opened import emissions_of, opened, push, registration, triple
from tests.stream_ext.runners.spark.kills import OF_DRIVERS, OF_JVMS, OF_WORKERS, play
from tests.stream_ext.runners.spark.seats import SeatsWithoutSpark


def settings(shards: int, epoch_s: float = 0.3) -> SparkSettings:
    """Under load a worker that is alive may be silent for a second or two."""
    return SparkSettings(epoch_s=epoch_s, warmup_epochs=1, shards=shards, step_timeout_s=4)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_ext.runners.spark.runner.DriverProcess", SeatsWithoutSpark)
    monkeypatch.setattr("stream_ext.runners.spark.runner.find_java", lambda environ: None)
    monkeypatch.setattr("stream_ext.runners.spark.runner._RETRY_S_MIN", 0.05)


def test_what_is_tried_apart_makes_a_snapshot_of_its_own_and_changes_nothing_else(tmp_path: Path) -> None:
    """Why a service in which something died is compared with a replay of its own snapshots."""

    def said(folder: Path, tried: bool) -> list[dict[str, Any]]:
        with opened(folder) as service:
            service.create_stream("s", {})
            service.register(registration())
            for time in range(1, 20):
                push(service, "s", time * 250, triple(f"a{time % 7}", time % 3))
                if tried and time == 8:
                    (query,) = service.queries()
                    service._engine.quarantine.hold(Death(service.head(), (query.number,), 2, "a test says so"))
                    service._engine.await_evaluated(service.head(), 60)
            return emissions_of(service)

    never, once = said(tmp_path / "never", False), said(tmp_path / "once", True)
    assert [each.pop("snapshot") for each in never] != [each.pop("snapshot") for each in once]
    assert never == once


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.usefixtures("without_spark")
def test_kills_change_nothing(shards: int, tmp_path: Path) -> None:
    did = play(shards, tmp_path, settings(shards), OF_WORKERS | OF_DRIVERS, pushes=24, rest=8)
    assert did["emissions"] > 50, did


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_kills_change_nothing_on_a_real_spark(tmp_path: Path) -> None:
    did = play(1, tmp_path, settings(4, 0.5), OF_WORKERS, pushes=40, rest=12)
    assert did["emissions"] > 100 and did["kill a worker"] and did["divided"], did


@pytest.mark.soak
@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("seed", range(100, 150))
@pytest.mark.usefixtures("without_spark")
def test_kills_change_nothing_in_a_hundred_rounds(seed: int, shards: int, tmp_path: Path) -> None:
    play(seed, tmp_path, settings(shards), OF_WORKERS | OF_DRIVERS, pushes=120, rest=10)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("kill", sorted(OF_WORKERS | OF_DRIVERS | OF_JVMS))
def test_each_kind_of_kill_changes_nothing_on_a_real_spark(kill: str, shards: int, tmp_path: Path) -> None:
    did = Counter[str]()
    for seed in range(200, 204):
        kills = {kill: (OF_WORKERS | OF_DRIVERS | OF_JVMS)[kill]}
        did += play(seed, tmp_path / str(seed), settings(shards, 0.5), kills, pushes=100, rest=25)
    assert did[kill] >= 8 and did["divided"], did
